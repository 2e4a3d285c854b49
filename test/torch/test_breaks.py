"""What users do and should not, or may and nobody expects: each once hung, crashed or gave wrong
numbers."""

import datetime
import os
import signal
import threading

import pytest
import torch
import torch.distributed as dist

from ranks import Ranks, await_go, go


def wait_for_a_future_in_a_callback(rank, rank_count):
    tensor, inner = torch.ones(8), torch.ones(8)
    seen = []

    def callback(_):
        dist.all_reduce(inner, async_op=True).get_future().wait()
        seen.append(inner[0].item())

    dist.all_reduce(tensor, async_op=True).get_future().then(callback).wait()
    assert seen == [rank_count]


def test_a_callback_may_wait_for_another_future(few_ranks):
    few_ranks.call(wait_for_a_future_in_a_callback)


def wait_in_a_callback_for_the_next(rank, rank_count):
    for turn in range(50):
        first, second = torch.ones(4), torch.ones(4)
        if rank != 0:
            await_go(f"both posted {turn}")
        futures = [dist.all_reduce(tensor, async_op=True).get_future()
                   for tensor in (first, second)]
        waited = futures[0].then(lambda _, other=futures[1]: other.wait())
        if rank == 0:
            go(f"both posted {turn}")
        waited.wait()
        assert first[0].item() == second[0].item() == rank_count


def test_a_callback_may_wait_for_what_completes_right_after_it(two_ranks):
    two_ranks.call(wait_in_a_callback_for_the_next)


class Memory(bytearray):
    """Tells when it is dropped, and by which thread."""

    threads: list = []
    is_dropped = threading.Event()

    def __del__(self):
        Memory.threads.append(threading.get_native_id())
        Memory.is_dropped.set()


def end_a_wait_early(how):
    tensor = torch.frombuffer(Memory(16), dtype=torch.float32)
    options = dist.AllreduceOptions()
    options.asyncOp = False
    try:
        if how == "limit":
            work = dist.group.WORLD.allreduce([tensor], options)
            work.wait(datetime.timedelta(milliseconds=1))
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            dist.all_reduce(tensor)
    except (KeyboardInterrupt, dist.DistBackendError):
        return
    raise AssertionError("the wait returned")


def drop_what_is_in_flight(rank, rank_count, how):
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    Memory.threads.clear()
    Memory.is_dropped.clear()
    if rank == 1:
        await_go(f"callback set {how}")
    future = dist.all_reduce(torch.ones(4), async_op=True).get_future()
    completing = future.then(lambda _: threading.get_native_id())
    if rank == 0:
        go(f"callback set {how}")
    thread = completing.wait()
    if rank == 1:
        await_go(f"dropped {how}")
        dist.all_reduce(torch.ones(4))
        return
    if how == "nobody waits":
        dist.all_reduce(torch.frombuffer(Memory(16), dtype=torch.float32), async_op=True)
    else:
        end_a_wait_early(how)
    assert Memory.threads == []  # the operation needs it
    go(f"dropped {how}")
    assert Memory.is_dropped.wait(60)
    assert Memory.threads == [thread]


@pytest.mark.filterwarnings("ignore:The given buffer")
@pytest.mark.parametrize("how", ["nobody waits", "limit", "signal"])
def test_the_thread_that_moves_data_drops_no_tensors(how):
    with Ranks(2) as ranks:  # of their own: one thread that completes
        ranks.call(drop_what_is_in_flight, how)


def raise_in_a_batch(rank, rank_count):
    group, device = dist.group.WORLD, torch.device("cpu")
    tensors = [torch.ones(3 + index) for index in range(3)]
    with pytest.raises(ZeroDivisionError):
        with dist._coalescing_manager(group, device, async_ops=True):
            group.allreduce([tensors[0]], dist.AllreduceOptions())
            1 // 0
    with dist._coalescing_manager(group, device, async_ops=True) as manager:
        for tensor in tensors[1:]:
            group.allreduce([tensor], dist.AllreduceOptions())
    (work,) = manager.works
    work.wait()
    assert [output.numel() for output in work.result()] == [4, 5]
    assert [tensor[0].item() for tensor in tensors] == [rank_count] * 3


def test_a_batch_that_an_error_ended_leaves_nothing_behind(few_ranks):
    few_ranks.call(raise_in_a_batch)


def set_no_limit(rank, rank_count):
    endless = datetime.timedelta.max
    group = dist.new_group(timeout=endless)
    tensor = torch.ones(4)
    dist.all_reduce(tensor, group=group)
    for limit in (endless, datetime.timedelta(days=106750 * 365)):
        options = dist.AllreduceOptions()
        options.timeout = limit
        group.allreduce([tensor], options).wait(limit)
    assert tensor[0].item() == rank_count ** 3
    dist.destroy_process_group(group)
    before = datetime.timedelta(seconds=-5)
    options.timeout = before
    world = dist.group.WORLD
    for call in (lambda: world.allreduce([tensor], options), lambda: dist.new_group(timeout=before),
                 lambda: world._get_backend(torch.device("cpu")).set_timeout(before),
                 lambda: dist.all_reduce(tensor, async_op=True).wait(before)):
        with pytest.raises(ValueError, match="mccl: a timeout of -5000 ms is negative"):
            call()
    dist.barrier()


def test_a_timeout_may_be_without_end_and_not_negative():
    with Ranks(2) as ranks:
        ranks.call(set_no_limit)


def swap_the_memory_of_a_tensor_in_flight(rank, rank_count):
    count = 1 << 16
    tensor = torch.full((count,), 1.0)
    if rank != 0:
        await_go("swapped")
    work = dist.all_reduce(tensor, async_op=True)
    tensor.data = torch.empty(0)
    bystanders = [torch.full((count,), 7.0) for _ in range(4)]
    if rank == 0:
        go("swapped")
    work.wait()
    assert all(torch.equal(one, torch.full((count,), 7.0)) for one in bystanders)


def test_memory_of_a_tensor_that_gets_other_memory_is_kept(few_ranks):
    few_ranks.call(swap_the_memory_of_a_tensor_in_flight)


def reduce_freed_memory(rank, rank_count):
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="4 elements and no memory: its storage was freed"):
        dist.all_reduce(tensor)
    dist.barrier()


def test_a_tensor_whose_memory_was_freed_is_refused(few_ranks):
    few_ranks.call(reduce_freed_memory)


def make_a_group_in_a_forked_child(rank, rank_count):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            dist.distributed_c10d._world = dist.distributed_c10d._World()
            dist.init_process_group("mccl", store=dist.HashStore(), rank=0, world_size=1)
            own = torch.ones(3)
            dist.all_reduce(own)
            status = 0 if torch.equal(own, torch.ones(3)) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    dist.all_reduce(tensor)
    assert tensor.tolist() == [rank_count**2] * 3


def test_a_forked_child_may_have_a_group_of_its_own():
    with Ranks(2) as ranks:
        ranks.call(make_a_group_in_a_forked_child)


def destroy_in_a_signal_handler(rank, rank_count):
    if rank != 0:
        await_go("destroyed")
        return ""

    def leave(*_):
        dist.destroy_process_group()

    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        dist.all_reduce(torch.ones(8))
    except dist.DistBackendError as error:
        return str(error)
    finally:
        go("destroyed")
    return "the wait returned"


def test_a_signal_handler_may_destroy_the_group_that_is_waited_for():
    with Ranks(2) as ranks:
        ended = ranks.call(destroy_in_a_signal_handler)
    assert "destroyed the communicator with operations in flight" in ended[0]


def call_in_a_signal_handler(rank, rank_count):
    group = dist.new_group([0, 1])
    tensor, other = torch.ones(8), torch.ones(8)

    def reduce_others(*_):
        for _ in range(5):
            dist.all_reduce(other, group=group)

    if rank == 0:
        signal.signal(signal.SIGALRM, reduce_others)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        dist.all_reduce(tensor)
    else:
        reduce_others()
        dist.all_reduce(tensor)
    assert tensor[0].item() == 2 and other[0].item() == 32


def test_a_signal_handler_may_make_calls_while_another_is_waited_for(two_ranks):
    two_ranks.call(call_in_a_signal_handler)
