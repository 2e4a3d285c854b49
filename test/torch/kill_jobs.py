"""What the ranks of soak_kills.py do: one of them is killed, the others find out and go on."""

from __future__ import annotations

import datetime
import os
import signal
import threading
import time

import torch
import torch.distributed as dist

import exit_jobs

LARGE_BYTES = 64 << 20


def kill_in(delay_s: float, await_point=lambda: None) -> None:
    """By a thread: at any point of what this one does meanwhile."""
    def kill():
        await_point()
        threading.Event().wait(delay_s)
        exit_jobs.report(at=time.monotonic())
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=kill, daemon=True).start()


def init(store: dist.Store, prefix: str, rank: int, rank_count: int, timeout_s: float) -> None:
    dist.init_process_group("mccl", store=dist.PrefixStore(prefix, store), rank=rank,
                            world_size=rank_count, timeout=datetime.timedelta(seconds=timeout_s))


def act_of(point: str):
    """What is repeated until it fails."""
    if point == "barrier":
        return dist.barrier
    count = {"large": LARGE_BYTES // 4, "small": 2}.get(point, 1000)
    tensor = torch.zeros(count)
    return lambda: dist.all_reduce(tensor)


def run(rank: int, rank_count: int, point: str, victim: int, delay_s: float, timeout_s: float,
        keeps_prefix: bool) -> None:
    """`point`: where the victim is killed, `delay_s` after it has got there."""
    store = exit_jobs.connect()
    world = f"world/{os.environ['TEST_WORLD']}"
    if rank == victim and point == "meeting":
        other_store = exit_jobs.connect()  # one connection serves one thread at a time
        kill_in(delay_s, lambda: exit_jobs.await_record(other_store, world, rank))
    if rank == victim and point == "absent":
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        init(store, world, rank, rank_count, timeout_s)
        act = act_of(point)
        if point not in ("first", "meeting"):
            act()
        if rank == victim and point != "meeting":
            kill_in(delay_s)
        if rank == victim and point == "between":
            threading.Event().wait(exit_jobs.GROUP_TIMEOUT_S)
        while True:
            act()
    except Exception as error:
        exit_jobs.report(type=type(error).__name__, text=str(error).splitlines()[0],
                         at=time.monotonic(), began=began)
    if dist.is_initialized():
        dist.destroy_process_group()
    survivors = [other for other in range(rank_count) if other != victim]
    init(store, world if keeps_prefix else f"{world}/again", survivors.index(rank),
         len(survivors), exit_jobs.GROUP_TIMEOUT_S)
    total = torch.full((1000,), float(rank))
    dist.all_reduce(total)
    exit_jobs.report(sums=total.unique().tolist())
    dist.destroy_process_group()
