"""What the device hand-off hides: stock DDP on the fake mps device against averaging afterwards.

    .venv/bin/python bench/hand_off_bench.py            # 2 and 4 ranks
    .venv/bin/python bench/hand_off_bench.py --ranks 2 --steps 10

The device's compute is the time of its matrix products, in which a thread sleeps and the CPU is
free; it is set so that what the manual path spends on communication, measured here and now, is 0.57
of the compute of a step, as far as the machine keeps its pace. Three kinds of step take turns:

    compute   forward, backward, optimizer; gradients are not averaged
    manual    as a script does without a back end for the device: waits for backward to end, copies
              each bucket to the CPU, gloo's all_reduce, copies it back
    mccl      stock DistributedDataParallel with backend="mccl"

Ratios of medians within one run are evidence, single times are not. It prints the timeline of one
step: for each bucket when its kernels had finished, when it was so on all ranks (only then can the
all-reduce move anything), and when it was averaged. At last the time that a caller spends inside
all_reduce(async_op=True). Exits 1 when a target is missed or a rule of the hand-off is broken.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "test/torch"))

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import device_jobs
import fake_mps
import ranks as rank_processes

LAYERS = 18  # as many buckets as the paper: of equal ones 1/18 cannot be hidden
WIDTH = 1024  # 4 MiB of weights a layer, a bucket each
BUCKET_MB = 4
COMPUTE = "aten::mm"  # what takes time on the device
RATIO = 0.57
TARGET_SPEEDUP = 1.5
TARGET_CALL_US = 50
CALLS = 200
CALL_DELAY_US = 200
BAR_COLUMNS = 72
KINDS = ("compute", "manual", "mccl")


@dataclasses.dataclass
class Bucket:
    """Times of one rank's bucket, in nanoseconds of the host's clock."""

    posted: int
    finished: int  # its kernels, on the device
    averaged: int


@dataclasses.dataclass
class Measured:
    """What one rank has to tell."""

    step_ns: dict[str, list[int]]
    communication_ns: list[int]  # of manual steps, behind the end of compute
    compute_us: float  # of one matrix product
    began: int
    buckets: list[Bucket]
    returned: int  # backward, to its caller
    call_us: list[float]
    violations: list[str]


class Trainer:
    """The same model three times, so that each kind of step has its own."""

    def __init__(self, rank_count):
        self.rank_count = rank_count
        self.gloo = dist.new_group(backend="gloo")
        torch.manual_seed(0)
        self.plain = self.make_model()
        self.parallel = DistributedDataParallel(self.make_model(), bucket_cap_mb=BUCKET_MB,
                                                gradient_as_bucket_view=True)
        self.inputs = torch.randn(1, WIDTH).to("mps")
        self.room = torch.empty(WIDTH, WIDTH)
        self.communication_ns = []
        self.returned = 0

    @staticmethod
    def make_model():
        layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
        return nn.Sequential(*layers).to("mps")

    def step(self, kind):
        """One step from an idle device to an idle device; nanoseconds."""
        model = self.parallel if kind == "mccl" else self.plain
        dist.barrier(group=self.gloo)  # all ranks begin together
        began = fake_mps.now_ns()
        model(self.inputs).sum().backward()
        self.returned = fake_mps.now_ns()
        if kind == "manual":
            self.average_by_hand()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=1e-6)
                parameter.grad = None
        fake_mps.synchronize()
        return fake_mps.now_ns() - began

    def average_by_hand(self):
        fake_mps.synchronize()
        began = fake_mps.now_ns()
        for parameter in reversed(list(self.plain.parameters())):
            self.room.copy_(parameter.grad)
            dist.all_reduce(self.room, group=self.gloo)
            self.room.div_(self.rank_count)
            parameter.grad.copy_(self.room)
        fake_mps.synchronize()
        self.communication_ns.append(fake_mps.now_ns() - began)

    def median(self, kind, count):
        return statistics.median(self.step(kind) for _ in range(count))


def agree(value):
    """The mean of all ranks, so that all do the same."""
    tensor = torch.tensor([float(value)], dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    return tensor.item()


def calibrate(trainer, count):
    """Microseconds of a matrix product with which manual communication is RATIO of compute."""
    fake_mps.set_delay_us(0, COMPUTE)
    trainer.median("manual", 2)
    trainer.communication_ns.clear()
    trainer.median("manual", count)
    wanted = agree(statistics.median(trainer.communication_ns)) / RATIO
    delay_us = wanted / (3 * LAYERS - 1) / 1000
    for _ in range(3):  # kernels also take the CPU's own time for the product
        fake_mps.set_delay_us(delay_us, COMPUTE)
        trainer.communication_ns.clear()
        found = agree(trainer.median("compute", count))
        trainer.median("manual", count)
        wanted = agree(statistics.median(trainer.communication_ns)) / RATIO
        delay_us = max(0.0, delay_us + (wanted - found) / (3 * LAYERS - 1) / 1000)
    fake_mps.set_delay_us(delay_us, COMPUTE)
    trainer.communication_ns.clear()
    return delay_us


def buckets_of(hand_overs):
    rows = {}
    for row in hand_overs:
        rows.setdefault(row.ticket, {})[row.call] = row.end_ns
    return [Bucket(row["signal_producer"], row["await_producer"], row["raise_consumer"])
            for _, row in sorted(rows.items()) if len(row) >= 3]


def time_calls(rank_count):
    """All-reduces of one bucket each, started while the device computes; no wait in between."""
    fake_mps.set_delay_us(CALL_DELAY_US, COMPUTE)
    matrix = torch.zeros(8, 8, device="mps")
    buckets = [torch.zeros(WIDTH, WIDTH, device="mps") for _ in range(8)]
    times_us = []
    works = []
    for index in range(CALLS):
        if index % len(buckets) == 0:
            for work in works:
                work.wait()
            works.clear()
        torch.mm(matrix, matrix)
        began = fake_mps.now_ns()
        works.append(dist.all_reduce(buckets[index % len(buckets)], async_op=True))
        times_us.append((fake_mps.now_ns() - began) / 1000)
    for work in works:
        work.wait()
    fake_mps.synchronize()
    return times_us


def measure(rank, rank_count, step_count):
    fake_mps.set_delay_us(0, COMPUTE)
    trainer = Trainer(rank_count)
    for kind in KINDS:
        trainer.median(kind, 2)
    compute_us = calibrate(trainer, max(3, step_count // 4))
    step_ns = {kind: [] for kind in KINDS}
    timelines = []
    for _ in range(step_count):
        for kind in KINDS:
            fake_mps.take_hand_overs()
            began = fake_mps.now_ns()
            step_ns[kind].append(trainer.step(kind))
            if kind == "mccl":
                timelines.append((step_ns[kind][-1], began, fake_mps.take_hand_overs(),
                                  trainer.returned))
    # The step in the middle of rank 0's: every rank shows the same one.
    middle = sorted(range(step_count), key=lambda step: timelines[step][0])[step_count // 2]
    chosen = torch.tensor([middle])
    dist.broadcast(chosen, 0)
    _, began, hand_overs, returned = timelines[chosen.item()]
    return Measured(step_ns, trainer.communication_ns, compute_us, began, buckets_of(hand_overs),
                    returned, time_calls(rank_count), fake_mps.violations())


def draw(measured):
    """Bars of rank 0; the columns share one scale."""
    first = measured[0]
    started = [max(one.buckets[index].finished for one in measured)
               for index in range(len(first.buckets))]
    end = max(bucket.averaged for bucket in first.buckets)
    compute_end = max(started)
    scale = BAR_COLUMNS / (end - first.began)

    def column(time_ns):
        return min(BAR_COLUMNS - 1, max(0, int((time_ns - first.began) * scale)))

    print(f"  ms of one step of rank 0 ({len(first.buckets)} buckets); - posted, kernels run; "
          "+ other ranks' kernels run;\n  # averaged; | the end of the backward pass on the last "
          "rank's device")
    print("  bucket  posted finished all done averaged")
    overlapped = 0
    for index, (bucket, start) in enumerate(zip(first.buckets, started)):
        bar = [" "] * BAR_COLUMNS
        bar[column(compute_end)] = "|"
        for sign, low, high in (("-", bucket.posted, bucket.finished),
                                ("+", bucket.finished, start), ("#", start, bucket.averaged)):
            for place in range(column(low), column(high) + (sign == "#")):
                bar[place] = sign
        times = [(time_ns - first.began) / 1e6
                 for time_ns in (bucket.posted, bucket.finished, start, bucket.averaged)]
        print(f"  {index:>6}" + "".join(f"{time_ms:>9.2f}" for time_ms in times)
              + "  " + "".join(bar))
        overlapped += bucket.averaged <= compute_end
    print(f"  {overlapped} of {len(first.buckets)} buckets were averaged before the backward pass "
          f"ended on the last device,\n  the last one {(end - compute_end) / 1e6:.2f} ms after it")
    return overlapped


def report(rank_count, measured):
    """Whether all targets are met."""
    median_ms = {kind: statistics.median(one for rank in measured for one in rank.step_ns[kind])
                 / 1e6 for kind in KINDS}
    communication_ms = statistics.median(
        one for rank in measured for one in rank.communication_ns) / 1e6
    speedup = median_ms["manual"] / median_ms["mccl"]
    calls_us = sorted(time_us for rank in measured for time_us in rank.call_us)
    median_us, p99_us = calls_us[len(calls_us) // 2], calls_us[len(calls_us) * 99 // 100]
    violations = [text for rank in measured for text in rank.violations]
    print(f"==== {rank_count} ranks, {LAYERS} buckets of {WIDTH * WIDTH * 4 >> 20} MiB, "
          f"a matrix product takes {measured[0].compute_us / 1000:.2f} ms; load "
          f"{os.getloadavg()[0]:.1f}")
    print("  ms a step: " + ", ".join(f"{kind} {median_ms[kind]:.1f}" for kind in KINDS)
          + f"; manual communication {communication_ms:.1f}, "
          f"{communication_ms / median_ms['compute']:.2f} of compute")
    hidden = hidden_share(median_ms)
    at_ratio = (1 + RATIO) / (1 + RATIO * (1 - hidden))
    print(f"  mccl hides {100 * hidden:.1f} % of it: {speedup:.2f} times faster than manual, which "
          f"is {at_ratio:.2f} at {RATIO} (all hidden: {1 + RATIO:.2f}), target {TARGET_SPEEDUP}")
    overlapped = draw(measured)
    print(f"  inside all_reduce(async_op=True): median {median_us:.0f} us, p99 {p99_us:.0f} us, "
          f"target for the median {TARGET_CALL_US}")
    for text in violations[:5]:
        print(f"  broken: {text}")
    return (at_ratio >= TARGET_SPEEDUP and overlapped >= LAYERS - 1
            and median_us <= TARGET_CALL_US and not violations)


def hidden_share(median_ms):
    exposed = median_ms["mccl"] - median_ms["compute"]
    return 1 - exposed / (median_ms["manual"] - median_ms["compute"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--steps", type=int, default=15)
    options = parser.parse_args()
    is_good = True
    for rank_count in options.ranks:
        with rank_processes.Ranks(rank_count, initialises=False,
                                  environment={"GLOO_SOCKET_IFNAME": "lo"}) as pool:
            pool.call(device_jobs.load_device)
            measured = pool.call(measure, options.steps, timeout_s=600)
        is_good = report(rank_count, measured) and is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
