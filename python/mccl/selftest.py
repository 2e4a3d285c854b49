"""`mccl selftest --device mps`: whether the hand-off of memory with a device keeps its rules here.

For whoever has the hardware: one command, two processes on one machine, or one per machine under
torchrun. Every check compares exact values; none drains the device before its end, because a drain
hides what the check looks for.

    mccl selftest --device mps
    torchrun --nnodes 2 --nproc-per-node 1 ... -m mccl.selftest --device mps
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import statistics
import sys
import time
from typing import Callable

ROUNDS = 40
BURST = 640
ELEMENTS = 4096
BUCKET_BYTES = 25 << 20


class Failure(Exception):
    """A check found something wrong; its text says what."""


def _expect(is_right: bool, what: str) -> None:
    if not is_right:
        raise Failure(what)


def _expect_equal(found, expected, what: str) -> None:
    import torch

    found = found.cpu()
    if torch.equal(found, expected):
        return
    wrong = int((found != expected).sum())
    at = int((found != expected).flatten().nonzero()[0])
    raise Failure(f"{what}: {wrong} of {found.numel()} elements are wrong; element {at} is "
                  f"{found.flatten()[at].item()} and should be {expected.flatten()[at].item()}")


class _Rank:
    """What the checks of one rank share."""

    def __init__(self, device: str):
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        self.device = torch.device(device)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def values(self, rank: int, count: int = ELEMENTS, dtype=None):
        """Small integers that differ by rank: their sums are exact in every type and order."""
        whole = self.torch.arange(count) % 7 + rank + 1
        return whole.to(dtype or self.torch.float32)

    def sum(self, count: int = ELEMENTS, dtype=None):
        total = sum(self.values(rank, count) for rank in range(self.size))
        return total.to(dtype or self.torch.float32)

    def stats(self) -> dict:
        import mccl

        return mccl.stats()


def check_collectives(r: _Rank) -> str:
    """Every collective on the device's memory, in several types, contiguous and strided."""
    torch, dist = r.torch, r.dist
    types = [torch.float32, torch.float16, torch.int32]
    for dtype in types:
        own = r.values(r.rank, dtype=dtype).to(r.device)
        all_values = [r.values(rank, dtype=dtype) for rank in range(r.size)]
        total = own.clone()
        dist.all_reduce(total)
        _expect_equal(total, r.sum(dtype=dtype), f"all_reduce of {dtype}")
        gathered = [torch.empty_like(own) for _ in range(r.size)]
        dist.all_gather(gathered, own)
        for rank, found in enumerate(gathered):
            _expect_equal(found, all_values[rank], f"all_gather of {dtype}, rank {rank}'s")
        copy = own.clone()
        dist.broadcast(copy, r.size - 1)
        _expect_equal(copy, all_values[-1], f"broadcast of {dtype}")
        share = torch.empty(ELEMENTS, dtype=dtype, device=r.device)
        dist.reduce_scatter(share, [own] * r.size)
        _expect_equal(share, r.sum(dtype=dtype), f"reduce_scatter of {dtype}")
        exchanged = torch.empty(r.size * ELEMENTS, dtype=dtype, device=r.device)
        dist.all_to_all_single(exchanged, own.repeat(r.size))
        _expect_equal(exchanged, torch.cat(all_values), f"all_to_all of {dtype}")
    strided = r.values(r.rank).to(r.device).reshape(64, 64).t()
    dist.all_reduce(strided)
    _expect_equal(strided, r.sum().reshape(64, 64).t(), "all_reduce of a transposed view")
    peer, source = (r.rank + 1) % r.size, (r.rank - 1) % r.size
    received = torch.zeros(ELEMENTS, device=r.device)
    sent = r.values(r.rank).to(r.device)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, peer),
                                        dist.P2POp(dist.irecv, received, source)]):
        work.wait()
    _expect_equal(received, r.values(source), "a message on the device")
    return f"{len(types)} types"


def check_producer(r: _Rank) -> str:
    """O1: the engine does not read a bucket before the kernels that write it have finished."""
    results = []
    for _ in range(ROUNDS):
        bucket = r.torch.zeros(ELEMENTS, device=r.device)
        matrix = r.torch.ones(256, 256, device=r.device)
        for _ in range(4):  # keeps the device busy, so that the last kernel is late
            matrix = matrix @ matrix / 256
        bucket += r.values(r.rank).to(r.device) * matrix[0, 0]
        results.append((bucket, r.dist.all_reduce(bucket, async_op=True)))
    for _, work in results:
        work.wait()
    for turn, (bucket, _) in enumerate(results):
        _expect_equal(bucket, r.sum(), f"round {turn}")
    return f"{ROUNDS} rounds"


def check_consumer(r: _Rank) -> str:
    """O2: kernels behind wait() do not read a bucket before it is reduced; the host goes on."""
    before = r.stats()
    readers = []
    for turn in range(ROUNDS):
        bucket = r.values(r.rank).to(r.device) * (turn + 1)
        work = r.dist.all_reduce(bucket, async_op=True)
        work.wait()
        readers.append(bucket + 0)
        bucket.fill_(-1)
    after = r.stats()
    for turn, found in enumerate(readers):
        _expect_equal(found, r.sum() * (turn + 1), f"round {turn}")
    host_waits = after["host_waits"] - before["host_waits"]
    if r.device.type != "cpu":
        _expect(host_waits == 0, f"the host waited {host_waits} times in {ROUNDS} rounds")
    return f"{ROUNDS} rounds, {after['stream_waits'] - before['stream_waits']} left to the stream"


def check_held(r: _Rank) -> str:
    """Buckets that the caller forgets stay untouched until they are reduced, and so do others."""
    torch, dist = r.torch, r.dist
    base = r.values(r.rank).to(r.device)
    works, kept, bystanders = [], [], []
    for turn in range(BURST):
        bucket = base * (turn % 5 + 1)
        works.append(dist.all_reduce(bucket, async_op=True))
        if turn % 2 == 0:
            kept.append((turn, bucket))
        del bucket
        if turn % 8 == 0:
            bystanders.append((turn, torch.full((ELEMENTS,), float(turn), device=r.device)))
    for work in works:
        work.wait()
    for turn, bucket in kept:
        _expect_equal(bucket, r.sum() * (turn % 5 + 1), f"operation {turn}")
    for turn, other in bystanders:
        _expect_equal(other, torch.full((ELEMENTS,), float(turn)), f"memory beside {turn}")
    return f"{BURST} operations"


def check_training(r: _Rank) -> str:
    """Stock DDP and a hand-written loop of gradient hooks end with the same weights."""
    torch, dist = r.torch, r.dist

    def make_model():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(),
                                   torch.nn.Linear(64, 64), torch.nn.Tanh(),
                                   torch.nn.Linear(64, 10)).to(r.device)

    def train(model, forward, finish):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(5):
            generator = torch.Generator().manual_seed(1000 * step + r.rank)
            inputs = torch.randn(16, 32, generator=generator).to(r.device)
            labels = torch.randint(0, 10, (16,), generator=generator).to(r.device)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(forward(inputs), labels).backward()
            finish()
            optimizer.step()
        return [parameter.detach().cpu() for parameter in model.parameters()]

    ddp_model = make_model()
    ddp = torch.nn.parallel.DistributedDataParallel(ddp_model, bucket_cap_mb=0.01)
    by_ddp = train(ddp_model, ddp, lambda: None)

    loop_model, works = make_model(), []

    def hook(parameter):
        parameter.grad.div_(r.size)
        works.append(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in loop_model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)

    def finish():
        for work in works:
            work.wait()
        works.clear()

    by_loop = train(loop_model, loop_model, finish)
    for index, (found, expected) in enumerate(zip(by_loop, by_ddp)):
        _expect_equal(found, expected, f"parameter {index}")
    for index, own in enumerate(by_ddp):
        first = own.clone().to(r.device)
        dist.broadcast(first, 0)
        _expect_equal(first, own, f"parameter {index} of rank 0")
    return "5 steps each"


def check_place(r: _Rank) -> str:
    """Memory that CPU and device share is reduced in place, or copied where told so."""
    before = r.stats()
    for _ in range(18):
        bucket = r.values(r.rank).to(r.device)
        r.dist.all_reduce(bucket)
    copies = r.stats()["staged_calls"] - before["staged_calls"]
    is_staged = r.device.type != "cpu" and os.environ.get("MCCL_UNIFIED_COLLECTIVE") == "0"
    _expect(copies == (18 if is_staged else 0), f"{copies} copies for 18 buckets")
    return f"{copies} copies for 18 buckets"


def check_speed(r: _Rank) -> str:
    """Not judged: what a call costs its thread, and how fast buckets of 25 MB are reduced."""
    count = BUCKET_BYTES // 4
    buckets = [r.torch.ones(count, device=r.device) for _ in range(4)]
    for bucket in buckets:
        r.dist.all_reduce(bucket)
    calls = []
    begin = time.perf_counter()
    works = []
    for bucket in buckets:
        called = time.perf_counter()
        works.append(r.dist.all_reduce(bucket, async_op=True))
        calls.append(time.perf_counter() - called)
    for work in works:
        work.wait()
    for bucket in buckets:
        bucket[0].item()
    seconds = time.perf_counter() - begin
    bandwidth = 2 * (r.size - 1) / r.size * BUCKET_BYTES * len(buckets) / seconds
    return (f"{statistics.median(calls) * 1e6:.0f} us of the caller per bucket, busbw "
            f"{bandwidth / 1e9:.3f} GB/s (measured)")


CHECKS: dict[str, Callable[[_Rank], str]] = {
    "collectives": check_collectives, "producer": check_producer, "consumer": check_consumer,
    "held": check_held, "training": check_training, "place": check_place, "speed": check_speed}


def _run_check(check: Callable[[_Rank], str], rank: _Rank) -> tuple[bool, str]:
    try:
        return True, check(rank)
    except Failure as failure:
        return False, str(failure)
    except Exception as error:  # whatever torch or mccl raises: the other checks still run
        return False, f"{type(error).__name__}: {error}".splitlines()[0]


def _compare(own: tuple[bool, str], rank: _Rank) -> list[str]:
    """What is wrong on any rank."""
    verdicts: list = [None] * rank.size
    try:
        rank.dist.all_gather_object(verdicts, own)
    except Exception as error:
        verdicts[rank.rank] = own if not own[0] else (False, str(error))
    return [f"rank {who}: {verdict[1]}" for who, verdict in enumerate(verdicts)
            if verdict is not None and not verdict[0]]


def _run_rank(arguments: argparse.Namespace) -> int:
    """Runs the checks on this rank; rank 0 prints. A failure on any rank is a failure."""
    for module in arguments.imports:
        importlib.import_module(module)
    import torch.distributed as dist

    import mccl  # noqa: F401

    dist.init_process_group("mccl")
    rank = _Rank(arguments.device)
    rows = []
    for name in arguments.only or CHECKS:
        own = _run_check(CHECKS[name], rank)
        wrong = _compare(own, rank)
        rows.append({"check": name, "passed": not wrong, "detail": "; ".join(wrong) or own[1],
                     "about": CHECKS[name].__doc__})
        if rank.rank == 0 and not arguments.json:
            print(f"{'FAIL' if wrong else 'ok  '} {name:<12} {rows[-1]['detail']}", flush=True)
    failed = sum(not row["passed"] for row in rows)
    if rank.rank == 0 and arguments.json:
        print(json.dumps({"verb": "selftest", "kind": "measured", "device": arguments.device,
                          "ranks": rank.size, "failed": failed, "checks": rows}, indent=2))
    elif rank.rank == 0:
        print(f"{len(rows) - failed} of {len(rows)} checks passed on {arguments.device}, "
              f"{rank.size} ranks")
    dist.destroy_process_group()
    return 1 if failed else 0


def _run_local_rank(index: int, arguments: argparse.Namespace, port: int) -> None:
    os.environ.update(RANK=str(index), WORLD_SIZE=str(arguments.ranks), LOCAL_RANK=str(index),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    sys.exit(_run_rank(arguments))


def _check_launcher(parser: argparse.ArgumentParser) -> None:
    """Whoever sets RANK is a launcher, and sets the rest as well."""
    if "RANK" not in os.environ:
        return
    for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            parser.error(f"RANK is set and {name} is not: unset RANK, or start it with torchrun")
    for name in ("RANK", "WORLD_SIZE"):
        if not os.environ[name].isdigit():
            parser.error(f"{name}={os.environ[name]} is not a number")
    if int(os.environ["WORLD_SIZE"]) < 2:
        parser.error(f"WORLD_SIZE={os.environ['WORLD_SIZE']}: at least 2 ranks are needed")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mccl selftest", description=__doc__.split("\n\n")[0],
        epilog="example: mccl selftest --device mps --ranks 2")
    parser.add_argument("--device", default="mps", choices=["cpu", "mps"],
                        help="whose tensors (default mps)")
    parser.add_argument("--ranks", type=int, default=2,
                        help="processes on this machine, where torchrun does not say (default 2)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--only", action="append", choices=CHECKS, help="this check, or these")
    parser.add_argument("--import", dest="imports", action="append", default=[], metavar="MODULE",
                        help="imported by every rank first: what makes a device known")
    parsed = parser.parse_args(arguments)
    if parsed.ranks < 2:
        parser.error(f"--ranks {parsed.ranks}: at least 2 are needed")
    _check_launcher(parser)
    if parsed.device == "mps" and not parsed.imports:
        import torch

        if not torch.backends.mps.is_available():
            parser.error("--device mps: this machine has none, or macOS is older than 14; "
                         "--device cpu runs anywhere")
    return parsed


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 all checks passed, 1 one did not or a rank failed, 2 usage."""
    parsed = _parse(arguments)
    if "RANK" in os.environ:
        return _run_rank(parsed)
    import torch.multiprocessing as mp

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    try:
        mp.start_processes(_run_local_rank, (parsed, port), nprocs=parsed.ranks,
                           start_method="spawn")
    except mp.ProcessExitedException:
        return 1
    except mp.ProcessRaisedException as error:
        print(f"mccl selftest: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
