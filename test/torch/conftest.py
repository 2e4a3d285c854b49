"""Pools of ranks that live for the whole run: forking and meeting once pays for many cases."""

import pytest

import ranks as rank_processes


class Pools:
    def __init__(self):
        self.pools = {}

    def get(self, rank_count):
        pool = self.pools.get(rank_count)
        if pool is None or pool.is_broken:
            if pool is not None:
                pool.close()
            pool = self.pools[rank_count] = rank_processes.Ranks(rank_count)
        return pool


@pytest.fixture(scope="session")
def pools():
    found = Pools()
    yield found
    for pool in found.pools.values():
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
