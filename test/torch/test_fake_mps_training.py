"""Stock DDP and a hand-written loop on the fake device: the bits of the CPU, no rule broken."""

import pytest

import device_jobs

CLEAN = device_jobs.Report(wrong=0, drains=0, violations=[])
DELAYS_US = (0, 200)
DDP_OPTIONS = {
    "plain": {},
    "bucket views": {"gradient_as_bucket_view": True},
    "unused parameters": {"find_unused_parameters": True},
    "device ids": {"device_ids": [0]},
}


@pytest.mark.parametrize("delay_us", DELAYS_US)
@pytest.mark.parametrize("options", DDP_OPTIONS.values(), ids=DDP_OPTIONS)
def test_stock_ddp_equals_gradients_averaged_by_hand(device_pools, options, delay_us):
    assert device_pools.get(2).call(device_jobs.run_ddp, "sgd", options, delay_us) == [CLEAN] * 2


def test_stock_ddp_with_adamw(device_pools):
    assert device_pools.get(2).call(device_jobs.run_ddp, "adamw", {}, 200) == [CLEAN] * 2


@pytest.mark.parametrize("options", [{}, {"find_unused_parameters": True}],
                         ids=["plain", "unused parameters"])
def test_stock_ddp_of_four_ranks_equals_the_same_on_cpu_tensors(device_pools, options):
    assert device_pools.get(4).call(device_jobs.run_ddp, "sgd", options, 50) == [CLEAN] * 4


@pytest.mark.parametrize("delay_us", DELAYS_US)
@pytest.mark.parametrize("optimizer_name", device_jobs.OPTIMIZERS)
def test_a_loop_that_waits_for_works_never_waits_on_the_host(device_pools, optimizer_name,
                                                            delay_us):
    reports = device_pools.get(2).call(device_jobs.run_loop, optimizer_name, delay_us)
    assert reports == [CLEAN] * 2
