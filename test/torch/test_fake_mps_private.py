"""Private storage, as mps tensors had before torch 2.12: calls go through the device's copies."""

import pytest
import torch
import torch.distributed as dist

import device_jobs
import fake_mps
import ranks as rank_processes
import soak_hand_off


@pytest.mark.parametrize("mode", soak_hand_off.JOBS)
def test_training_and_bursts_are_exact(mode, monkeypatch):
    monkeypatch.setenv("MCCL_FAKE_MPS_MEMORY", "private")
    result = soak_hand_off.run_case("none", mode)
    assert not result.is_noticed, result


def use_tensors_twice(rank, rank_count):
    """Calls whose output is one of their inputs."""
    def make(value):
        return torch.full((2,), float(value), device="mps")

    fake_mps.set_delay_us(0)
    inputs = [make(rank + 1), make(10 * (rank + 1))]
    dist.reduce_scatter(inputs[rank], inputs)
    exchanged = [make(10 * rank + target) for target in range(rank_count)]
    dist.all_to_all(exchanged, exchanged)
    gathered = [make(50) for _ in range(rank_count)]
    dist.all_gather(gathered, gathered[rank].fill_(rank))
    scattered = make(5 + rank)
    dist.scatter(scattered, [scattered, make(1)] if rank == 0 else None, 0)
    found = [inputs[rank], *exchanged, *gathered, scattered]
    return [tensor[0].item() for tensor in found], fake_mps.violations()


def test_a_tensor_may_be_input_and_output_of_one_call():
    setting = {"MCCL_FAKE_MPS_MEMORY": "private"}
    with rank_processes.Ranks(2, environment=setting, initialises=False) as pool:
        pool.call(device_jobs.load_device)
        assert pool.call(use_tensors_twice) == [([3, 0, 10, 0, 1, 5], []),
                                                ([30, 1, 11, 0, 1, 1], [])]
