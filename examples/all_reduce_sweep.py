#!/usr/bin/env python3
"""Times all-reduce on mccl beside gloo, both living in the same ranks.

    torchrun --standalone --nproc-per-node 4 examples/all_reduce_sweep.py

For each size the two take turns in the order A B B A, so that a busy minute hits both. Before every
timed call all ranks rewrite their input and meet; a call counts as long as its slowest rank. Rank 0
writes a list of rows as JSON, to --results or else to standard output.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

import mccl

# Bytes and timed calls per turn; each backend has two turns.
CASES = [(8, 100), (4 << 10, 100), (64 << 10, 60), (1 << 20, 24), (16 << 20, 5), (64 << 20, 2)]
ORDER = ("mccl", "gloo", "gloo", "mccl")


def timed_calls(group, data: torch.Tensor, call_count: int) -> list[float]:
    """This rank's time of each call in us. The first call, which is not counted, warms up."""
    times_us = []
    for number in range(call_count + 1):
        # Another value each time: a call that does nothing would be seen.
        data.fill_(float(dist.get_rank() + number))
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(data, group=group)
        elapsed_us = 1e6 * (time.perf_counter() - start)
        world_size = dist.get_world_size()
        expected = world_size * (world_size - 1) / 2 + world_size * number
        if not bool((data == expected).all()):
            raise SystemExit(f"rank {dist.get_rank()}: a sum of {data.numel()} is wrong")
        if number > 0:
            times_us.append(elapsed_us)
    return times_us


def slowest_rank(times_us: list[float]) -> list[float]:
    own = torch.tensor(times_us, dtype=torch.float32)
    everyone = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, own)
    return torch.stack(everyone).max(dim=0).values.tolist()


def planned_program(byte_count: int) -> str:
    """The program that serves calls of the size: the one that the plan marks with a star."""
    for line in mccl.explain("all_reduce", byte_count).splitlines():
        if line.startswith("* "):
            return line[2:].removeprefix("all_reduce_")
    return "unknown"


def run_case(groups, byte_count: int, call_count: int) -> dict[str, object]:
    data = torch.empty(byte_count // 4, dtype=torch.float32)
    times_us: dict[str, list[float]] = {"mccl": [], "gloo": []}
    for backend in ORDER:
        times_us[backend] += slowest_rank(timed_calls(groups[backend], data, call_count))
    return {"bytes": byte_count, "program": planned_program(byte_count),
            "mccl_us": statistics.median(times_us["mccl"]),
            "gloo_us": statistics.median(times_us["gloo"])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", help="file of the JSON rows; default: standard output")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("mccl")
    groups = {"mccl": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    rows = [run_case(groups, *case) for case in CASES]
    if dist.get_rank() == 0:
        text = json.dumps(rows, indent=1)
        if arguments.results:
            with open(arguments.results, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        else:
            print(text)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
