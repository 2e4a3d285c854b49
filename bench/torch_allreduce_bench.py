"""all_reduce through torch.distributed: mccl beside gloo, at 2 and 4 ranks on this host.

Each side of each round is a group of fresh processes; the sides take turns (A B B A ...), so that
noise hits both alike, and the figure is the median over the rounds of gloo's time over mccl's. The
time of one all_reduce is that of its slowest rank; a round counts the median of its iterations.
Inputs are written anew before each iteration, and the ranks meet, both outside the timing. CPU
seconds are those of all ranks during the all_reduces alone. The floor is the time of the same call
on a process group that does nothing (torch's own "fake" back end in C++).

    .venv/bin/python bench/torch_allreduce_bench.py [--rounds 7] [--quick]
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

import mccl  # noqa: F401  (registers the back end)

KIB = 1024
MIB = 1024 * KIB
# Size in bytes, iterations, targets by number of ranks: at least so many times gloo's speed.
CASES = [
    (8, 200, {2: 3.0}),
    (64 * KIB, 200, {2: 5.0, 4: 5.0}),
    (1 * MIB, 40, {}),
    (64 * MIB, 4, {2: 1.5, 4: 1.5}),
]
WARM_UP = 3
SIDES = ("mccl", "gloo")


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run_rank(backend, rank, rank_count, store_path, cases, results):
    """Body of one rank: puts (rank, [(seconds per iteration, CPU seconds of all)])."""
    try:
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        os.environ["MCCL_SOCKET_IFNAME"] = "=lo"
        store = dist.FileStore(store_path, rank_count)
        dist.init_process_group(backend, store=store, rank=rank, world_size=rank_count)
        rows = []
        for size_bytes, iterations, _ in cases:
            source = torch.full((size_bytes // 4,), float(rank + 1))
            data = torch.empty_like(source)
            gate = torch.zeros(1)
            seconds = []
            cpu = 0.0
            for iteration in range(WARM_UP + iterations):
                data.copy_(source)
                dist.all_reduce(gate)
                cpu_begin = cpu_seconds()
                begin = time.perf_counter()
                dist.all_reduce(data)
                end = time.perf_counter()
                if iteration >= WARM_UP:
                    seconds.append(end - begin)
                    cpu += cpu_seconds() - cpu_begin
            total = rank_count * (rank_count + 1) / 2
            if not bool((data == total).all()):
                raise RuntimeError(f"{backend}: wrong sum at {size_bytes} bytes")
            rows.append((seconds, cpu))
        dist.all_reduce(gate)
        dist.destroy_process_group()
        results.put((rank, rows))
    except BaseException:
        results.put((rank, traceback.format_exc()))


def run_group(backend, rank_count, cases):
    """Median seconds and CPU seconds per GB of each case, over one group of fresh processes."""
    # Forked: torch is loaded once. Nothing in this process has started a thread.
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "store")
        ranks = [
            context.Process(target=run_rank,
                            args=(backend, rank, rank_count, path, cases, results))
            for rank in range(rank_count)
        ]
        for process in ranks:
            process.start()
        rows = {}
        for _ in ranks:
            rank, row = results.get(timeout=300)
            if isinstance(row, str):
                for process in ranks:
                    process.terminate()
                raise SystemExit(f"rank {rank} of {backend} failed:\n{row}")
            rows[rank] = row
        for process in ranks:
            process.join()
    figures = []
    for index, (size_bytes, iterations, _) in enumerate(cases):
        slowest = [max(times) for times in zip(*(rows[rank][index][0] for rank in rows))]
        cpu = sum(rows[rank][index][1] for rank in rows)
        figures.append((statistics.median(slowest), cpu / (size_bytes * iterations / 1e9)))
    return figures


def run_floor(connection):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    data = torch.ones(2)
    seconds = []
    for _ in range(2000):
        begin = time.perf_counter()
        dist.all_reduce(data)
        seconds.append(time.perf_counter() - begin)
    connection.send(statistics.median(seconds))


def measure_floor():
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=run_floor, args=(there,))
    process.start()
    if not here.poll(60):
        raise SystemExit("the floor was not measured")
    floor = here.recv()
    process.join()
    return floor


def size_text(size_bytes):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


def print_row(rank_count, case, mine, theirs):
    size_bytes, _, targets = case
    ratios = [other[0] / own[0] for own, other in zip(mine, theirs)]
    median = statistics.median(ratios)
    target = targets.get(rank_count)
    verdict = "" if target is None else f"{target:.1f} {'met' if median >= target else 'missed'}"
    own_us = 1e6 * statistics.median(own[0] for own in mine)
    other_us = 1e6 * statistics.median(other[0] for other in theirs)
    # Below, CPU time is a matter of calls, not of bytes.
    cpu = ["-" if size_bytes < 64 * KIB else f"{statistics.median(row[1] for row in side):.2f}"
           for side in (mine, theirs)]
    print(f"{rank_count:5d} {size_text(size_bytes):>7} {own_us:11.1f} {other_us:11.1f} "
          f"{median:8.2f} {min(ratios):6.2f} {max(ratios):6.2f}  {verdict:10} "
          f"{cpu[0]:>13} {cpu[1]:>5}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a tenth of the iterations")
    options = parser.parse_args()
    cases = CASES
    if options.quick:
        cases = [(size, max(2, count // 10), targets) for size, count, targets in CASES]

    floor_us = 1e6 * measure_floor()
    print(f"floor: {floor_us:.1f} us per dist.all_reduce on a back end that does nothing")
    print("ranks    size     mccl us     gloo us  gloo/mccl min    max  target     "
          "CPU s/GB mccl  gloo", flush=True)
    for rank_count in (2, 4):
        rounds = {side: [] for side in SIDES}
        for number in range(options.rounds):
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                rounds[side].append(run_group(side, rank_count, cases))
        for index, case in enumerate(cases):
            print_row(rank_count, case, [row[index] for row in rounds["mccl"]],
                      [row[index] for row in rounds["gloo"]])


if __name__ == "__main__":
    main()
