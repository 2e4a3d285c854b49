"""What Check() moves around: chunks with their origin, and reductions of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Chunk:
    """A chunk of a rank's input, equal to any other of the same origin."""

    origin_rank: int
    origin_index: int
    dst_rank: int = -1
    dst_index: int = -1

    def reduce(self, dst: int, chunk: "Chunk | ReduceChunk") -> "ReduceChunk":
        return ReduceChunk(dst, [self]).reduce(dst, chunk)

    def __eq__(self, other) -> bool:
        return (type(other) is Chunk and self.origin_rank == other.origin_rank
                and self.origin_index == other.origin_index)

    def __hash__(self) -> int:
        return hash((self.origin_rank, self.origin_index))

    def __lt__(self, other: "Chunk") -> bool:
        return (self.origin_rank, self.origin_index) < (other.origin_rank, other.origin_index)


@dataclass
class ReduceChunk:
    """The reduction of chunks; one that is contained twice counts twice."""

    creation_rank: int
    chunks: "list[Chunk]"

    def reduce(self, dst: int, chunk: "Chunk | ReduceChunk") -> "ReduceChunk":
        added = chunk.chunks if isinstance(chunk, ReduceChunk) else [chunk]
        return ReduceChunk(dst, self.chunks + added)

    def sort(self) -> None:
        self.chunks.sort()

    def __eq__(self, other) -> bool:
        return type(other) is ReduceChunk and sorted(self.chunks) == sorted(other.chunks)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.chunks)))
