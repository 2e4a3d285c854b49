"""What goes wrong is said, by type, rank and value, on every rank."""

import datetime
import os
import re
import signal
import time

import pytest
import torch
import torch.distributed as dist

import ranks as rank_processes


def raised_by(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "no error"


def call_differently(rank, rank_count, what):
    own = rank == rank_count - 1
    if what == "count":
        call = lambda: dist.all_reduce(torch.ones(7 if own else 5))
    elif what == "large count":
        call = lambda: dist.all_reduce(torch.ones(700001 if own else 700000))
    elif what == "dtype":
        call = lambda: dist.all_reduce(torch.ones(4, dtype=torch.int64 if own else torch.float32))
    elif what == "op":
        op = dist.ReduceOp.MAX if own else dist.ReduceOp.MIN
        call = lambda: dist.all_reduce(torch.ones(4), op)
    elif what == "root":
        call = lambda: dist.broadcast(torch.ones(4), 1 if own else 0)
    else:
        call = lambda: dist.broadcast(torch.ones(4), 0) if own else dist.all_reduce(torch.ones(4))
    try:
        call()
        dist.barrier()  # a call that was complete already reports it here
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("what, values", [
    ("count", ["5", "7"]), ("large count", ["700000", "700001"]), ("dtype", ["float32", "int64"]),
    ("op", ["min", "max"]), ("root", ["0", "1"]), ("collective", ["all_reduce", "broadcast"])])
def test_calls_that_differ_are_reported_on_every_rank(what, values):
    with rank_processes.Ranks(2) as ranks:
        texts = ranks.call(call_differently, what)
        ranks.is_broken = True
    name = what.split()[-1]
    for text in texts:
        assert f"mccl: operation 0 differs between rank " in text, texts
        forms = [f"{name} {a} against {b}" for a, b in (values, values[::-1])]
        assert any(form in text for form in forms), texts
        assert "all ranks must make the same calls in the same order" in text


def gather_with_other_lengths(rank, rank_count):
    lengths = [2, 3] if rank == 0 else [2, 4]
    try:
        dist.all_gather([torch.empty(length) for length in lengths], torch.ones(lengths[rank]))
        dist.barrier()
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def test_lists_of_different_lengths_are_reported_on_both_ranks():
    with rank_processes.Ranks(2) as ranks:
        texts = ranks.call(gather_with_other_lengths)
        ranks.is_broken = True
    assert all("count 5 against 6" in text or "count 6 against 5" in text for text in texts), texts


def come_alone(rank, rank_count):
    began = time.monotonic()
    try:
        rank_processes.init(timeout_s=1.0)
    except dist.DistBackendError as error:
        return time.monotonic() - began, str(error)
    return 0, "no error"


def test_a_rank_that_never_comes_is_named_at_the_timeout():
    with rank_processes.Ranks(4, initialises=False) as ranks:
        ranks.start(come_alone, only=[0, 1, 3])
        outcomes = ranks.finish()
        ranks.is_broken = True
    for outcome in outcomes:
        elapsed, text = outcome.value
        assert re.search(r" (Timed out|closed|timeout) ", text), text
        assert 'waiting for rank 2 of 4 of group' in text
        assert elapsed >= 1.0


def wait_alone(rank, rank_count):
    rank_processes.init(timeout_s=2.0)
    dist.all_reduce(torch.ones(4))
    if rank == 1:
        rank_processes.await_go("over")
        # The first may still find all that it needs, sent before the other rank gave up.
        return raised_by(lambda: [dist.all_reduce(torch.ones(4)) for _ in range(2)])
    text = raised_by(lambda: dist.all_reduce(torch.ones(4)))
    again = raised_by(lambda: dist.barrier())
    rank_processes.go("over")
    return [text, again]


def test_an_operation_times_out_by_the_timeout_of_its_group():
    with rank_processes.Ranks(2, initialises=False) as ranks:
        (text, again), late = ranks.call(wait_alone)
        ranks.is_broken = True
    assert re.search(r" (Timed out|closed|timeout) ", text), text
    assert text.startswith("DistBackendError: mccl: ") and "rank 1" in text
    assert again == text  # the first error is what everything reports
    assert "DistBackendError" in late and text.removeprefix("DistBackendError: mccl: ") in late


def miss_a_monitored_barrier(rank, rank_count, waits_for_all):
    limit = datetime.timedelta(seconds=1)
    barrier = lambda: dist.group.WORLD.monitored_barrier(limit, wait_all_ranks=waits_for_all)
    if rank > 1:
        rank_processes.await_go("named")
        return ""
    if rank == 1:
        rank_processes.go("comes")
        return raised_by(barrier)
    rank_processes.await_go("comes")
    text = raised_by(barrier)
    rank_processes.go("named")
    return text


@pytest.mark.parametrize("waits_for_all, missing", [(False, "rank 2"), (True, "ranks 2, 3")])
def test_a_monitored_barrier_names_who_does_not_come(waits_for_all, missing):
    with rank_processes.Ranks(4) as ranks:
        text, came, _, _ = ranks.call(miss_a_monitored_barrier, waits_for_all)
        ranks.is_broken = True
    assert text.startswith("DistBackendError: mccl: Rank 0 timed out in monitoredBarrier: "
                           f"{missing} did not reach it within 1000 ms: "), text
    assert came.startswith("DistBackendError: mccl: "), came


def change_the_timeout(rank, rank_count):
    rank_processes.init(timeout_s=600.0)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend.set_timeout(datetime.timedelta(seconds=0.5))
    if rank == 1:
        rank_processes.await_go("over")
        return ""
    text = raised_by(lambda: dist.barrier())
    rank_processes.go("over")
    return text


def test_a_changed_timeout_counts_for_later_operations():
    with rank_processes.Ranks(2, initialises=False) as ranks:
        text = ranks.call(change_the_timeout)[0]
        ranks.is_broken = True
    assert re.search(r" (Timed out|closed|timeout) ", text), text


def lose_a_peer(rank, rank_count, victim):
    dist.all_reduce(torch.ones(4))
    if rank == victim:
        rank_processes.await_go("waiting")
        os.kill(os.getpid(), signal.SIGKILL)
    rank_processes.go("waiting")
    while True:  # all but the victim go on until somebody tells them
        began = time.monotonic()
        try:
            dist.all_reduce(torch.ones(100000))
        except dist.DistBackendError as error:
            return time.monotonic() - began, str(error), raised_by(dist.barrier)


@pytest.mark.parametrize("rank_count, victim", [(2, 1), (3, 1), (4, 2)])
def test_survivors_of_a_killed_rank_name_it_soon(rank_count, victim):
    with rank_processes.Ranks(rank_count) as ranks:
        outcomes = ranks.outcomes(lose_a_peer, victim)
        pid = ranks.pids[victim]
    assert (outcomes[victim].error_type, outcomes[victim].error) == ("Death", "SIGKILL")
    for outcome in outcomes:
        if outcome.rank == victim:
            continue
        assert outcome.error_type == "", outcome.trace
        elapsed, text, again = outcome.value
        assert f"lost rank {victim} (host " in text and f"pid {pid})" in text, text
        assert elapsed < 30  # the group's timeout is 60 s
        assert text.splitlines()[0] in again


def stop_and_go_on(rank, rank_count):
    dist.all_reduce(torch.ones(4))
    tensor = torch.full((100000,), float(rank))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(tensor)
    return tensor[0].item()


def test_a_stopped_rank_is_waited_for():
    with rank_processes.Ranks(2) as ranks:
        ranks.start(stop_and_go_on)
        while True:
            stat = open(f"/proc/{ranks.pids[1]}/stat").read().rsplit(")", 1)[1]
            if stat.split()[0] == "T":
                break
            time.sleep(0.01)  # nothing tells when a process has stopped
        time.sleep(0.5)  # long enough for rank 0 to have noticed nothing
        os.kill(ranks.pids[1], signal.SIGCONT)
        assert [outcome.value for outcome in ranks.finish()] == [1.0, 1.0]


def abort_a_wait(rank, rank_count):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    dist.all_reduce(torch.ones(4))
    if rank == 0:
        rank_processes.await_go("connected")
        work = dist.all_reduce(torch.ones(4), async_op=True)
        backend.abort()
        backend.abort()
        rank_processes.go("aborted")
        return raised_by(work.wait)
    rank_processes.go("connected")
    rank_processes.await_go("aborted")
    # Rank 0 had sent its share of the first one, so that it may succeed; the second one cannot.
    return raised_by(lambda: [dist.all_reduce(torch.ones(4)) for _ in range(2)])


def test_abort_ends_the_operation_on_every_rank():
    with rank_processes.Ranks(2) as ranks:
        texts = ranks.call(abort_a_wait)
        ranks.is_broken = True
    for text in texts:
        assert text.startswith("DistBackendError: mccl: ") and "rank 0 (host " in text
        assert "aborted: abort() was called" in text


def leave_early(rank, rank_count):
    dist.all_reduce(torch.ones(4))
    if rank == 1:
        dist.destroy_process_group()
        return ""
    return raised_by(lambda: dist.all_reduce(torch.ones(4)))


def test_a_rank_that_leaves_early_is_named():
    with rank_processes.Ranks(2) as ranks:
        text = ranks.call(leave_early)[0]
        ranks.is_broken = True
    assert text.startswith("DistBackendError: mccl: ") and "rank 1 (host " in text
    assert "destroyed the communicator" in text


def init_with_secret(rank, rank_count):
    os.environ["MCCL_SECRET"] = "right" if rank != 1 else "wrong"
    rank_processes.init()


def test_another_secret_is_found_when_the_ranks_meet():
    with rank_processes.Ranks(3, initialises=False) as ranks:
        outcomes = ranks.outcomes(init_with_secret)
        ranks.is_broken = True
    for outcome in outcomes:
        assert "the ranks have different values of MCCL_SECRET" in outcome.error, outcome
        assert "right" not in outcome.error and "wrong" not in outcome.error


def init_with_bad_ports(rank, rank_count, odd_rank):
    if rank == odd_rank:
        os.environ["MCCL_PORT_RANGE"] = "9-1"
    began = time.monotonic()
    try:
        rank_processes.init()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0], time.monotonic() - began
    return "no error", 0.0


@pytest.mark.parametrize("odd_rank", [0, 1])
def test_a_rank_without_an_endpoint_tells_the_others(odd_rank):
    with rank_processes.Ranks(3, initialises=False) as ranks:
        results = ranks.call(init_with_bad_ports, odd_rank)
        ranks.is_broken = True
    for rank, (text, seconds) in enumerate(results):
        assert "MCCL_PORT_RANGE=9-1" in text, results
        if rank != odd_rank:
            assert f"rank {odd_rank} (host " in text and "cannot take part" in text, results
        assert seconds < 30, results
