"""What wait() has left to the stream is kept when the group goes, and refused in a fork."""

import torch
import torch.distributed as dist

import device_jobs
import fake_mps
import ranks as rank_processes


def leave_after_wait(rank, rank_count):
    """The end of a script: a metric is reduced, the group goes, the metric is printed."""
    fake_mps.set_delay_us(2000)
    tensors = [torch.full((3000,), float(index + rank), device="mps") * 1 for index in range(8)]
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True).wait()
    dist.destroy_process_group()
    fake_mps.set_delay_us(0)
    return [tensor.cpu().unique().tolist() for tensor in tensors], fake_mps.violations()


def test_what_was_waited_for_is_reduced_when_the_group_goes():
    with rank_processes.Ranks(2, initialises=False) as pool:
        pool.call(device_jobs.load_device)
        expected = [[2.0 * index + 1] for index in range(8)]
        assert pool.call(leave_after_wait) == [(expected, [])] * 2


def wait_in_a_fork(rank, rank_count):
    """The child has neither the engine nor the device's thread: only an error can end its wait."""
    fake_mps.set_delay_us(2000)
    tensor = torch.ones(10, device="mps") * 1
    work = dist.all_reduce(tensor, async_op=True)
    _, text = rank_processes.call_in_fork(work.wait)
    work.wait()
    fake_mps.set_delay_us(0)
    return text, tensor.cpu().tolist()


def test_a_wait_in_a_forked_child_says_so():
    with rank_processes.Ranks(2, initialises=False) as pool:
        pool.call(device_jobs.load_device)
        text = ("ValueError: mccl: operation 0: this process was forked from the one that made the "
                "call")
        assert pool.call(wait_in_a_fork) == [(text, [2.0] * 10)] * 2
