"""Rings, to be used as parts of larger programs."""

from __future__ import annotations

from ..topologies import *  # noqa: F401,F403  programs take all of these from here
from . import *  # noqa: F401,F403
from . import Buffer, chunk
from .collectives import *  # noqa: F401,F403


def allgather_ring_inplace(gpus: int, gpu_offset: int = 0, index_offset: int = 0, ch: int = 0):
    """Every rank's chunk walks around the ring of `gpus` ranks from `gpu_offset` on.

    `ch` is accepted and not used.
    """
    for rank in range(gpu_offset, gpu_offset + gpus):
        place = chunk(rank, Buffer.input, 0)
        for distance in range(1, gpus):
            place = place.copy((rank + distance) % gpus + gpu_offset, Buffer.output,
                               index_offset + rank - gpu_offset, ch=0)


def allreduce_ring_inplace(gpus: int, gpu_offset: int = 0, index_offset: int = 0, ch: int = 0):
    """Every chunk is reduced around the ring and then copied around it."""
    for rank in range(gpu_offset, gpu_offset + gpus):
        index = index_offset + rank - gpu_offset
        place = chunk(rank, Buffer.input, index)
        for distance in range(1, gpus):
            following = chunk((rank + distance) % gpus + gpu_offset, Buffer.input, index)
            place = following.reduce(place, ch=ch)
        for distance in range(gpus - 1):
            place = place.copy((rank + distance) % gpus + gpu_offset, Buffer.input, index, ch=ch)
