"""What a program has to achieve: initial chunks, aliasing and the final check of each collective.

A collective of one's own derives from Collective and overrides init_buffers and check, and, where
buffers are the same memory, get_buffer_index.
"""

from __future__ import annotations

from . import *  # noqa: F401,F403  programs take the whole language from here
from .buffer import Buffer
from .chunk import Chunk, ReduceChunk


class Collective:
    """The base: a collective of one's own is called "custom"."""

    def __init__(self, num_ranks: int, chunk_factor: int, inplace: bool):
        self.num_ranks = num_ranks
        self.chunk_factor = chunk_factor
        self.inplace = inplace
        self.name = "custom"

    def init_buffers(self):
        """Per rank a dict of lists of Chunk or None."""

    def check(self, prog) -> bool:
        """Whether the program's buffers are as they must be at the end."""
        raise NotImplementedError(f"{type(self).__name__} has no check(prog)")

    def get_buffer_index(self, rank: int, buffer, index: int):
        """Where a slot really is: both buffers may be one."""
        return buffer, index

    def _wrong(self, rank: int, index: int, expected, found) -> bool:
        print(f"Rank {rank} chunk {index} is incorrect should be {expected} given {found}")
        return False

    def _check_origins(self, prog, expected) -> bool:
        """Whether output[index] of every rank has the origin `expected(rank)` lists for it."""
        is_correct = True
        for rank in range(self.num_ranks):
            output = prog.buffers[rank][Buffer.output]
            for index, origin in enumerate(expected(rank)):
                found = output[index]
                if not isinstance(found, Chunk) or found != Chunk(*origin):
                    is_correct = self._wrong(rank, index, origin, found)
        return is_correct


class AllToAll(Collective):
    """Input block r of every rank becomes that rank's block of the output of rank r."""

    def __init__(self, num_ranks: int, chunk_factor: int, inplace: bool):
        super().__init__(num_ranks, chunk_factor, inplace)
        self.name = "alltoall"

    def init_buffers(self):
        factor = self.chunk_factor
        count = self.num_ranks * factor
        buffers = []
        for rank in range(self.num_ranks):
            chunks = [Chunk(rank, index, index // factor, index % factor + rank * factor)
                      for index in range(count)]
            output = chunks if self.inplace else [None] * count
            buffers.append({Buffer.input: chunks, Buffer.output: output})
        return buffers

    def check(self, prog) -> bool:
        factor = self.chunk_factor
        return self._check_origins(prog, lambda rank: [
            (source, rank * factor + part)
            for source in range(self.num_ranks) for part in range(factor)])


class AllGather(Collective):
    """Every rank's input, in the order of ranks, on every rank."""

    def __init__(self, num_ranks: int, chunk_factor: int, inplace: bool):
        super().__init__(num_ranks, chunk_factor, inplace)
        self.name = "allgather"

    def init_buffers(self):
        factor = self.chunk_factor
        buffers = []
        for rank in range(self.num_ranks):
            own = [Chunk(rank, part, -1, rank * factor + part) for part in range(factor)]
            output = [None] * (self.num_ranks * factor)
            if self.inplace:
                output[rank * factor:(rank + 1) * factor] = own
            buffers.append({Buffer.input: own, Buffer.output: output})
        return buffers

    def check(self, prog) -> bool:
        return self._check_origins(prog, lambda _: [
            (source, part)
            for source in range(self.num_ranks) for part in range(self.chunk_factor)])

    def get_buffer_index(self, rank: int, buffer, index: int):
        if self.inplace and buffer == Buffer.input:
            return Buffer.output, index + rank * self.chunk_factor
        return buffer, index


class AllReduce(Collective):
    """The reduction of all inputs on every rank."""

    def __init__(self, num_ranks: int, chunk_factor: int, inplace: bool):
        super().__init__(num_ranks, chunk_factor, inplace)
        self.name = "allreduce"

    def init_buffers(self):
        buffers = []
        for rank in range(self.num_ranks):
            chunks = [Chunk(rank, part, -1, part) for part in range(self.chunk_factor)]
            output = chunks if self.inplace else [None] * self.chunk_factor
            buffers.append({Buffer.input: chunks, Buffer.output: output})
        return buffers

    def check(self, prog) -> bool:
        result = Buffer.input if self.inplace else Buffer.output
        expected = [ReduceChunk(-1, [Chunk(rank, part) for rank in range(self.num_ranks)])
                    for part in range(self.chunk_factor)]
        is_correct = True
        for rank in range(self.num_ranks):
            for part in range(self.chunk_factor):
                found = prog.buffers[rank][result][part]
                if not isinstance(found, ReduceChunk) or found != expected[part]:
                    is_correct = self._wrong(rank, part, expected[part], found)
        return is_correct

    def get_buffer_index(self, rank: int, buffer, index: int):
        if self.inplace and buffer == Buffer.output:
            return Buffer.input, index
        return buffer, index


class ReduceScatter(Collective):
    """Block r of the reduction of all inputs on rank r."""

    def __init__(self, num_ranks: int, chunk_factor: int, inplace: bool):
        super().__init__(num_ranks, chunk_factor, inplace)
        self.name = "reduce_scatter"

    def init_buffers(self):
        factor = self.chunk_factor
        buffers = []
        for rank in range(self.num_ranks):
            slots = {Buffer.input: [Chunk(rank, block * factor + part, block, part)
                                    for block in range(self.num_ranks) for part in range(factor)]}
            if not self.inplace:
                slots[Buffer.output] = [None] * factor
            buffers.append(slots)
        return buffers

    def check(self, prog) -> bool:
        is_correct = True
        for rank in range(self.num_ranks):
            first = rank * self.chunk_factor
            for part in range(self.chunk_factor):
                expected = ReduceChunk(-1, [Chunk(source, first + part)
                                            for source in range(self.num_ranks)])
                found = (prog.buffers[rank][Buffer.input][first + part] if self.inplace
                         else prog.buffers[rank][Buffer.output][part])
                if not isinstance(found, ReduceChunk) or found != expected:
                    is_correct = self._wrong(rank, part, expected, found)
        return is_correct

    def get_buffer_index(self, rank: int, buffer, index: int):
        if self.inplace and buffer == Buffer.output:
            return Buffer.input, index + rank * self.chunk_factor
        return buffer, index
