"""How long ranks on hosts of their own take to start: for scripts/fleet.sh start.

    .venv/bin/python bench/torch_start_bench.py --master 10.0.0.1:29519 NAMESPACE ...

One rank per network namespace, rank 0 in the first, at --master. Each process imports torch before
it is forked, so that the cores of this machine do not count as those of so many hosts: the clock
runs from just before init_process_group to the end of the first all_reduce, from the first rank's
begin to the last one's end. Prints one row of Markdown; exits 1 when a sum is wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import multiprocessing
import statistics
import sys
import time

import torch
import torch.distributed as dist

import mccl  # noqa: F401  (registers the back end)

NAMESPACE_FOLDER = "/run/netns"
NETWORK_NAMESPACE = 0x40000000  # CLONE_NEWNET of sched.h
TIMEOUT_S = 60.0


def enter(namespace: str) -> None:
    """This process joins the network namespace."""
    library = ctypes.CDLL(None, use_errno=True)
    with open(f"{NAMESPACE_FOLDER}/{namespace}") as file:
        if library.setns(file.fileno(), NETWORK_NAMESPACE) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")


def run_rank(rank: int, rank_count: int, namespace: str, master: tuple[str, int], gate,
             results) -> None:
    enter(namespace)
    torch.set_num_threads(1)
    gate.wait(TIMEOUT_S)
    began = time.monotonic()
    limit = datetime.timedelta(seconds=TIMEOUT_S)
    store = dist.TCPStore(*master, is_master=rank == 0, timeout=limit, wait_for_workers=False)
    dist.init_process_group("mccl", store=store, rank=rank, world_size=rank_count, timeout=limit)
    met = time.monotonic()
    total = torch.full((1000,), float(rank))
    dist.all_reduce(total)
    ended = time.monotonic()
    is_exact = total.unique().tolist() == [rank_count * (rank_count - 1) / 2]
    results.put((rank, began, met, ended, is_exact))
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", required=True, help="HOST:PORT in the first namespace")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("namespaces", nargs="+")
    arguments = parser.parse_args()
    host, _, port = arguments.master.rpartition(":")
    rank_count = len(arguments.namespaces)
    context = multiprocessing.get_context("fork")
    totals, meetings, firsts = [], [], []
    for round_index in range(arguments.rounds):
        gate = context.Barrier(rank_count)
        results = context.Queue()
        ranks = [context.Process(target=run_rank, args=(
            rank, rank_count, namespace, (host, int(port) + round_index), gate, results))
            for rank, namespace in enumerate(arguments.namespaces)]
        for process in ranks:
            process.start()
        rows = [results.get(timeout=TIMEOUT_S) for _ in ranks]
        for process in ranks:
            process.join()
        began = min(row[1] for row in rows)
        totals.append(max(row[3] for row in rows) - began)
        meetings.append(max(row[2] for row in rows) - began)
        firsts.append(max(row[3] - row[2] for row in rows))
        if not all(row[4] for row in rows) or any(process.exitcode for process in ranks):
            print("start: a sum was wrong, or a rank failed", file=sys.stderr)
            return 1
    print(f"| {rank_count} | {statistics.median(totals):.2f} | {max(totals):.2f} | "
          f"{statistics.median(meetings):.2f} | {statistics.median(firsts):.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
