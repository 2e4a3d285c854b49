"""Asynchronous operations: Work, Future, callbacks, many in flight, threads, signals."""

import gc
import os
import random
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions

import ranks as rank_processes


def wait_until(condition, limit_s=60.0):
    """Polls what no call can wait for; a failure is raised by the caller's assertion."""
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)  # what is_completed() says cannot be waited for
    return condition()


def complete_without_wait(rank, rank_count):
    tensor = torch.full((100000,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    assert wait_until(work.is_completed)
    assert tensor[99999].item() == rank_count * (rank_count - 1) / 2
    assert work.wait() is True and work.is_success()
    assert work.result()[0].data_ptr() == tensor.data_ptr()


def test_a_work_completes_without_anyone_waiting(ranks):
    ranks.call(complete_without_wait)


def chain_a_callback(rank, rank_count):
    tensor = torch.full((1000,), float(rank))
    future = dist.all_reduce(tensor, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert doubled.wait()[0].item() == rank_count * (rank_count - 1)
    value = future.wait()
    assert isinstance(value, list) and len(value) == 1
    assert value[0].data_ptr() == tensor.data_ptr()
    with pytest.raises(RuntimeError, match="no half"):
        def fail(_):
            raise ValueError("no half")
        future.then(fail).wait()
    late = []
    future.add_done_callback(lambda done: late.append(done.value()[0][0].item()))
    assert late == [rank_count * (rank_count - 1) / 2]


def test_a_future_holds_the_list_of_tensors_and_runs_callbacks(ranks):
    ranks.call(chain_a_callback)


def futures_of_every_collective(rank, rank_count):
    tensor = torch.ones(3)
    outputs = [torch.empty(3) for _ in range(rank_count)]
    joined = torch.empty(3 * rank_count)
    gathered = dist.all_gather(outputs, tensor, async_op=True).get_future().wait()
    assert [part.data_ptr() for part in gathered] == [part.data_ptr() for part in outputs]
    assert dist.all_gather_into_tensor(joined, tensor, async_op=True).get_future().wait()[0].sum() \
        == 3 * rank_count
    assert dist.broadcast(tensor, 0, async_op=True).get_future().wait()[0] is not None
    assert dist.barrier(async_op=True).get_future().wait() == []


def test_every_collective_has_a_future(few_ranks):
    few_ranks.call(futures_of_every_collective)


def callback_issues_a_collective(rank, rank_count):
    first = torch.ones(10)
    second = torch.ones(10)

    def go_on(_):
        return dist.all_reduce(second, async_op=True)

    dist.all_reduce(first, async_op=True).get_future().then(go_on).wait().wait()
    assert second[0].item() == rank_count


def test_a_callback_may_issue_a_collective(few_ranks):
    few_ranks.call(callback_issues_a_collective)


def views_complete_in_order(rank, rank_count):
    matrix = torch.full((300, 200), float(rank))
    work = dist.all_reduce(matrix.t(), async_op=True)
    assert wait_until(work.is_completed)
    assert matrix[299, 199].item() == rank_count * (rank_count - 1) / 2


def test_a_view_is_written_when_its_work_says_completed(few_ranks):
    few_ranks.call(views_complete_in_order)


def finish_in_any_order(rank, rank_count, seed):
    sizes = [1, 7, 1000, 20000]
    tensors = [torch.full((sizes[index % 4],), float(index + rank)) for index in range(200)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    order = list(range(200))
    random.Random(seed + rank).shuffle(order)  # another one on every rank
    for index in order:
        works[index].wait()
        expected = rank_count * index + rank_count * (rank_count - 1) // 2
        assert tensors[index][-1].item() == tensors[index][0].item() == expected, index


@pytest.mark.parametrize("seed", [0, 100])
def test_200_operations_in_flight_finish_in_any_order(ranks, seed):
    ranks.call(finish_in_any_order, seed)


def drop_works(rank, rank_count):
    tensors = [torch.full((30000,), float(index)) for index in range(20)]
    views = [torch.full((30, 20), float(index)) for index in range(20)]
    for tensor, view in zip(tensors, views):
        dist.all_reduce(tensor, async_op=True)
        dist.all_reduce(view.t(), async_op=True)
    for index in range(20):  # nobody but the operation holds these
        dist.all_reduce(torch.full((30000,), float(index)), async_op=True)
    gc.collect()
    dist.barrier()
    assert [tensor[-1].item() for tensor in tensors] == [float(i * rank_count) for i in range(20)]
    assert wait_until(lambda: views[19][29, 19].item() == 19 * rank_count)


def test_dropped_works_complete(few_ranks):
    few_ranks.call(drop_works)


def use_two_groups_from_two_threads(rank, rank_count):
    groups = [dist.new_group(), dist.new_group()]
    errors = []

    def reduce_often(which):
        try:
            for index in range(150):
                tensor = torch.full((1 + 997 * (index % 5),), float(index + which))
                dist.all_reduce(tensor, group=groups[which])
                assert tensor[-1].item() == rank_count * (index + which)
        except BaseException as error:  # noqa: B902
            errors.append(error)

    threads = [threading.Thread(target=reduce_often, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for index in range(20):  # alternately from one thread
        works = []
        tensors = [torch.ones(5000), torch.ones(5000)]
        for which in ((0, 1) if (index + rank) % 2 == 0 else (1, 0)):
            works.append(dist.all_reduce(tensors[which], group=groups[which], async_op=True))
        for work in works:
            work.wait()
        assert tensors[0][0].item() == tensors[1][0].item() == rank_count
    for group in groups:
        dist.destroy_process_group(group)


def test_two_groups_from_two_threads(few_ranks):
    few_ranks.call(use_two_groups_from_two_threads)


def wait_with_a_limit(rank, rank_count):
    if rank == 0:
        tensor = torch.ones(4)
        work = dist.all_reduce(tensor, async_op=True)
        import datetime
        with pytest.raises(dist.DistBackendError, match=r"(?i) (Timed out|closed|timeout)"):
            work.wait(datetime.timedelta(milliseconds=50))
        assert not work.is_completed()
        rank_processes.go("waited")
        work.wait()
        return tensor.tolist()
    rank_processes.await_go("waited")
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    return tensor.tolist()


def test_a_wait_that_times_out_leaves_the_operation_going(two_ranks):
    assert two_ranks.call(wait_with_a_limit) == [[2.0] * 4] * 2


def wait_for_a_signal(rank, rank_count, how):
    if rank == 1:
        rank_processes.await_go("interrupted")
        return ""
    tensor = torch.ones(4)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        if how == "work.wait":
            dist.all_reduce(tensor, async_op=True).wait()
        elif how == "monitored_barrier":
            dist.group.WORLD.monitored_barrier()
        else:
            dist.all_reduce(tensor)
    except BaseException as error:  # noqa: B902
        return type(error).__name__
    finally:
        rank_processes.go("interrupted")
    return "no error"


@pytest.mark.parametrize("how", ["work.wait", "all_reduce", "monitored_barrier"])
def test_ctrl_c_ends_a_wait(how):
    with rank_processes.Ranks(2) as ranks:
        assert ranks.call(wait_for_a_signal, how) == ["KeyboardInterrupt", ""]


class AlarmError(Exception):
    pass


def wait_for_an_alarm(rank, rank_count):
    if rank == 1:
        rank_processes.await_go("alarmed")
        return ""

    def ring(*_):
        raise AlarmError("the handler's own exception")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        dist.all_reduce(torch.ones(4), async_op=True).wait()
    except BaseException as error:  # noqa: B902
        return f"{type(error).__name__}: {error}"
    finally:
        rank_processes.go("alarmed")
    return "no error"


def test_what_a_signal_handler_raises_ends_a_wait():
    with rank_processes.Ranks(2) as ranks:
        assert ranks.call(wait_for_an_alarm) == ["AlarmError: the handler's own exception", ""]


def interrupt_a_batch(rank, rank_count):
    group = dist.group.WORLD
    tensors = [torch.ones(4), torch.ones(4)]
    if rank == 1:
        for tensor, name in zip(tensors, ["interrupting", "interrupted"]):
            rank_processes.await_go(name)
            dist.all_reduce(tensor)
        return
    with dist._coalescing_manager(group, torch.device("cpu"), async_ops=True) as manager:
        parts = [group.allreduce([tensor], dist.AllreduceOptions()) for tensor in tensors]
    (work,) = manager.works

    def ring(*_):
        rank_processes.go("interrupting")
        assert wait_until(parts[0].is_completed)
        raise AlarmError("the handler's own exception")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(AlarmError):
        work.wait()
    assert not parts[1].is_completed()
    rank_processes.go("interrupted")
    work.wait()
    assert [tensor[0].item() for tensor in tensors] == [2, 2]


def test_a_signal_ends_the_wait_for_a_batch_while_one_part_completes():
    with rank_processes.Ranks(2) as ranks:
        ranks.call(interrupt_a_batch)


def destroy_in_a_callback(rank, rank_count):
    rank_processes.init()
    tensor = torch.full((1000,), 1.0)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    if rank == 0:
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        future = future.then(lambda _: backend.shutdown())
    rank_processes.go(f"set {rank}")
    future.wait()
    for other in range(rank_count):
        rank_processes.await_go(f"set {other}")
    dist.destroy_process_group()
    rank_processes.init()  # with a completion thread of its own
    dist.all_reduce(tensor, async_op=True).get_future().wait()
    dist.destroy_process_group()
    return tensor[0].item()


def test_a_callback_may_destroy_its_process_group():
    with rank_processes.Ranks(2, initialises=False) as ranks:
        assert ranks.call(destroy_in_a_callback) == [4.0, 4.0]
        assert ranks.close() == [0, 0]


def profile_calls(rank, rank_count):
    with torch.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(torch.ones(3, 2))
        dist.broadcast(torch.ones(5), 0, async_op=True).wait()
        dist.all_gather([torch.empty(4) for _ in range(rank_count)], torch.ones(4))
        with dist._coalescing_manager():
            dist.all_reduce(torch.ones(7))
            dist.all_reduce(torch.ones(8))
    return sorted((event.name, event.input_shapes) for event in profile.events()
                  if event.name.startswith("mccl:"))


def test_the_profiler_shows_every_call_with_its_inputs(few_ranks):
    for events in few_ranks.call(profile_calls):
        assert events == [("mccl:all_gather", [[4]]), ("mccl:all_reduce", [[3, 2]]),
                          ("mccl:all_reduce", [[7]]), ("mccl:all_reduce", [[8]]),
                          ("mccl:broadcast", [[5]])]


def coalesce_by_hand(rank, rank_count):
    group = dist.group.WORLD
    tensors = [torch.full((100 * (index + 1),), float(rank)) for index in range(4)]
    copies = [torch.empty(rank_count * 3), torch.full((3,), float(rank))]
    with dist._coalescing_manager(group, torch.device("cpu"), async_ops=True) as manager:
        for tensor in tensors:
            group.allreduce([tensor], dist.AllreduceOptions())
        group._allgather_base(copies[0], copies[1], AllgatherOptions())
    (work,) = manager.works
    outputs = work.get_future().wait()
    assert [output.numel() for output in outputs] == [100, 200, 300, 400, 3 * rank_count]
    assert work.is_completed() and work.is_success() and work.exception() is None
    work.wait()
    total = rank_count * (rank_count - 1) / 2
    assert all(tensor[0].item() == tensor[-1].item() == total for tensor in tensors)
    assert copies[0].tolist() == [float(r) for r in range(rank_count) for _ in range(3)]
    backend = group._get_backend(torch.device("cpu"))
    with pytest.raises(ValueError, match="coalescing ends that has not begun"):
        backend._end_coalescing()


def test_one_work_stands_for_all_that_was_coalesced(ranks):
    ranks.call(coalesce_by_hand)


def see_the_error_in_every_place(rank, rank_count):
    rank_processes.init()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    dist.barrier()  # an abort reaches those that are connected
    work = dist.all_reduce(torch.ones(4), async_op=True) if rank == 0 else None
    if rank == 1:
        rank_processes.await_go("posted")
        backend.abort()
        return True
    rank_processes.go("posted")
    with pytest.raises(dist.DistBackendError, match="abort"):
        work.wait()
    future = work.get_future()
    with pytest.raises(RuntimeError, match="abort"):
        future.wait()
    assert wait_until(lambda: work.exception() is not None)
    return work.is_completed() and not work.is_success()


def test_an_error_is_in_the_work_and_in_the_future():
    with rank_processes.Ranks(2, initialises=False) as ranks:
        assert ranks.call(see_the_error_in_every_place) == [True, True]


def reduce_overlapping_views(rank, rank_count):
    for _ in range(20):
        matrix = torch.full((60, 50), 1.0)
        works = [dist.all_reduce(matrix.t(), async_op=True),
                 dist.all_reduce(matrix, async_op=True),
                 dist.all_reduce(matrix[::2, 1::2], async_op=True),
                 dist.broadcast(matrix.t(), 0, async_op=True)]
        for work in works:
            work.wait()
        assert (matrix[1::2] == rank_count ** 2).all()
        assert (matrix[::2, 1::2] == rank_count ** 3).all()


def test_calls_on_views_of_the_same_memory_keep_their_order(ranks):
    ranks.call(reduce_overlapping_views)
