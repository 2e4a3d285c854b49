"""What the ranks of test_rendezvous.py do."""

from __future__ import annotations

import datetime
import os
import signal

import torch
import torch.distributed as dist

import exit_jobs


def usage() -> tuple[int, int, int]:
    """Descriptors, threads, resident KiB of this process."""
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return (len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")),
            int(fields["VmRSS"].split()[0]))


def meet_again_and_again(rank: int, rank_count: int, meeting_count: int) -> None:
    """Always over one store with one prefix; after each meeting an exact sum."""
    store = exit_jobs.connect()
    usages = []
    for meeting in range(meeting_count):
        dist.init_process_group("mccl", store=store, rank=rank, world_size=rank_count,
                                timeout=datetime.timedelta(seconds=20))
        total = torch.full((1000,), float(rank + meeting))
        dist.all_reduce(total)
        assert total.unique().tolist() == [rank_count * meeting + sum(range(rank_count))]
        dist.destroy_process_group()
        usages.append(usage())
    exit_jobs.report(usages=usages)


class CountedStore(dist.Store):
    """Every request of the back end goes through here."""

    def __init__(self, store: dist.Store):
        super().__init__()
        self.store = store
        self.request_count = 0

    def _count(self) -> dist.Store:
        self.request_count += 1
        return self.store

    def set(self, key, value):
        self._count().set(key, value)

    def get(self, key):
        return self._count().get(key)

    def check(self, keys):
        return self._count().check(keys)

    def wait(self, keys, *timeout):
        self._count().wait(keys, *timeout)

    def add(self, key, value):
        return self._count().add(key, value)


def count_requests(rank: int, rank_count: int) -> None:
    store = CountedStore(exit_jobs.connect())
    dist.init_process_group("mccl", store=store, rank=rank, world_size=rank_count)
    met = store.request_count
    for _ in range(250):
        dist.all_reduce(torch.ones(10))
        dist.barrier()
        dist.broadcast(torch.ones(1000), 0)
        if rank == 0:
            dist.send(torch.ones(3), 1)
        if rank == 1:
            dist.recv(torch.ones(3), 0)
    exit_jobs.report(met=met, later=store.request_count - met)
    dist.destroy_process_group()


def sum_on(rank: int, rank_count: int, round_count: int) -> None:
    """Every result is checked; rank 1 is stopped by the test meanwhile, and goes on."""
    store = exit_jobs.init(rank, rank_count)
    for index in range(round_count):
        if rank == 1 and index == round_count // 2:
            exit_jobs.tell_event(store, "stops")
            os.kill(os.getpid(), signal.SIGSTOP)
        total = torch.full((1000,), float(rank + index))
        dist.all_reduce(total)
        assert total.unique().tolist() == [rank_count * index + sum(range(rank_count))]
    exit_jobs.report(rounds=round_count)
    dist.destroy_process_group()


def listen(rank: int, rank_count: int) -> None:
    exit_jobs.report_failure(lambda: exit_jobs.init(rank, rank_count))
