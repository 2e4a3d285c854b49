"""What users do and should not, or may and nobody expects: each once hung, crashed or gave wrong
numbers."""

import os
import signal

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
