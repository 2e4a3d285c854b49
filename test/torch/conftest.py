"""Pools of ranks that live for the whole run: forking and meeting once pays for many cases."""

import pytest

import device_jobs
import ranks as rank_processes


class Pools:
    def __init__(self):
        self.pools = {}

    def get(self, rank_count):
        pool = self.pools.get(rank_count)
        if pool is None or pool.is_broken:
            if pool is not None:
                pool.close()
            pool = self.pools[rank_count] = self.start(rank_count)
        return pool

    def start(self, rank_count):
        return rank_processes.Ranks(rank_count)


class DevicePools(Pools):
    """Of ranks that have a fake mps device."""

    def start(self, rank_count):
        pool = rank_processes.Ranks(rank_count, initialises=False)
        pool.call(device_jobs.load_device, {"jitter": 1.0})
        return pool


@pytest.fixture(scope="session")
def pools():
    yield from living(Pools())


@pytest.fixture(scope="session")
def device_pools():
    yield from living(DevicePools())


def living(pools):
    yield pools
    for pool in pools.pools.values():
        pool.close()


@pytest.fixture(params=[1, 2, 3, 4], ids=lambda count: f"{count}ranks")
def ranks(request, pools):
    return pools.get(request.param)


@pytest.fixture(params=[2, 3], ids=lambda count: f"{count}ranks")
def few_ranks(request, pools):
    return pools.get(request.param)


@pytest.fixture
def two_ranks(pools):
    return pools.get(2)
