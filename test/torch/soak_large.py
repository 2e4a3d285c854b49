"""2 GiB and 8 bytes, all-reduced at 2 ranks under torchrun: every element exact."""

import datetime
import time

import torch
import torch.distributed as dist

import mccl  # noqa: F401, registers the back end where the entry point is not installed

COUNT = (2 << 30) // 8 + 1
CHUNK = 1 << 22

dist.init_process_group("mccl", timeout=datetime.timedelta(minutes=10))
rank, rank_count = dist.get_rank(), dist.get_world_size()
tensor = torch.arange(COUNT)
tensor += rank
began = time.monotonic()
dist.all_reduce(tensor)
elapsed = time.monotonic() - began
for first in range(0, COUNT, CHUNK):
    last = min(first + CHUNK, COUNT)
    expected = torch.arange(first, last) * rank_count + rank_count * (rank_count - 1) // 2
    if not torch.equal(tensor[first:last], expected):
        raise SystemExit(f"large: rank {rank} has wrong values between {first} and {last}")
if rank == 0:
    print(f"large: {COUNT} int64 ({8 * COUNT} bytes) exact on {rank_count} ranks, {elapsed:.1f} s")
dist.destroy_process_group()
