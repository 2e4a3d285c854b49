"""2 GiB and 8 bytes through every collective at 2 ranks under torchrun: every element exact.

Elements are int64 that say where they are, so a part that lands in a wrong place is found. Each
collective has its own tensors, freed before the next: at most 9 GiB at a time, both ranks together.
"""

import datetime
import time

import torch
import torch.distributed as dist

import mccl  # noqa: F401, registers the back end where the entry point is not installed

COUNT = (2 << 30) // 8 + 1
CHUNK = 1 << 22
HALF = COUNT // 2 + 1


def numbers(count, factor, offset):
    return torch.arange(count).mul_(factor).add_(offset)


def check(name, tensor, factor, offset):
    """tensor[i] == i * factor + offset, looked at in parts."""
    for first in range(0, tensor.numel(), CHUNK):
        last = min(first + CHUNK, tensor.numel())
        expected = torch.arange(first, last) * factor + offset
        if not torch.equal(tensor[first:last], expected):
            place = f"rank {dist.get_rank()} is wrong between {first} and {last}"
            raise SystemExit(f"large: {name}: {place}")


def all_reduce(rank):
    tensor = numbers(COUNT, 1, rank)
    yield lambda: dist.all_reduce(tensor)
    check("all_reduce", tensor, 2, 1)


def reduce(rank):
    tensor = numbers(COUNT, 1, rank)
    yield lambda: dist.reduce(tensor, 1)
    check("reduce", tensor, 2 if rank == 1 else 1, 1 if rank == 1 else 0)


def broadcast(rank):
    tensor = numbers(COUNT, 3, 5) if rank == 1 else torch.zeros(COUNT, dtype=torch.int64)
    yield lambda: dist.broadcast(tensor, 1)
    check("broadcast", tensor, 3, 5)


def all_gather(rank):
    output = torch.zeros(2 * HALF, dtype=torch.int64)
    source = numbers(HALF, 1, rank * 7)
    yield lambda: dist.all_gather_into_tensor(output, source)
    for other in range(2):
        check("all_gather", output[other * HALF : (other + 1) * HALF], 1, other * 7)


def reduce_scatter(rank):
    output = torch.zeros(HALF, dtype=torch.int64)
    source = numbers(2 * HALF, 1, rank)
    yield lambda: dist.reduce_scatter_tensor(output, source)
    check("reduce_scatter", output, 2, 1 + 2 * rank * HALF)


def gather(rank):
    source = numbers(COUNT, 1, rank * 7)
    outputs = [torch.zeros(COUNT, dtype=torch.int64) for _ in range(2)] if rank == 0 else None
    yield lambda: dist.gather(source, outputs, 0)
    for other in range(2 if rank == 0 else 0):
        check("gather", outputs[other], 1, other * 7)


def scatter(rank):
    output = torch.zeros(COUNT, dtype=torch.int64)
    sources = [numbers(COUNT, 1, part * 7) for part in range(2)] if rank == 0 else None
    yield lambda: dist.scatter(output, sources, 0)
    check("scatter", output, 1, rank * 7)


def all_to_all(rank):
    output = torch.zeros(2 * HALF, dtype=torch.int64)
    source = numbers(2 * HALF, 1, rank * 7)
    yield lambda: dist.all_to_all_single(output, source)
    for other in range(2):
        check("all_to_all", output[other * HALF : (other + 1) * HALF], 1, other * 7 + rank * HALF)


def send(rank):
    tensor = numbers(COUNT, 1, 9) if rank == 0 else torch.zeros(COUNT, dtype=torch.int64)
    yield (lambda: dist.send(tensor, 1)) if rank == 0 else (lambda: dist.recv(tensor, 0))
    check("send", tensor, 1, 9)


CASES = (
    all_reduce, reduce, broadcast, all_gather, reduce_scatter, gather, scatter, all_to_all, send)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("mccl", timeout=datetime.timedelta(minutes=10))
    for case in CASES:
        steps = case(dist.get_rank())
        call = next(steps)
        dist.barrier()
        began = time.monotonic()
        call()
        elapsed = time.monotonic() - began
        next(steps, None)
        if dist.get_rank() == 0:
            print(f"large: {case.__name__} of {8 * COUNT} bytes exact, {elapsed:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
