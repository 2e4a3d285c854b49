"""The collectives of msccl-tools' synthesis, as far as programs of the language import them.

Synthesis itself is not here: a program says how, mccl proves that it is right.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Chunk:
    """Ranks that have the chunk at first, ranks that must have it, and its address."""

    precondition: set = field(default_factory=set)
    postcondition: set = field(default_factory=set)
    address: int = 0


class Collective:
    """Chunks to be moved between nodes."""

    def __init__(self, name: str, num_nodes: int, chunks, triggers=None, runtime_name=None):
        self.name = name
        self.num_nodes = num_nodes
        self._chunks = list(chunks)
        self._triggers = defaultdict(lambda: None, triggers or {})
        self.runtime_name = runtime_name
        self.num_chunks = len(self._chunks)

    def ranks(self) -> range:
        return range(self.num_nodes)

    def chunks(self) -> range:
        return range(self.num_chunks)

    def precondition(self, rank: int, chunk: int) -> bool:
        return rank in self._chunks[chunk].precondition

    def postcondition(self, rank: int, chunk: int) -> bool:
        return rank in self._chunks[chunk].postcondition

    def address(self, chunk: int) -> int:
        return self._chunks[chunk].address

    def num_addresses(self) -> int:
        return 1 + max((chunk.address for chunk in self._chunks), default=-1)


def build_collective(name: str, num_nodes: int, num_chunks: int, precondition, postcondition,
                     address=lambda chunk: chunk, trigger=None, runtime_name=None) -> Collective:
    """A collective whose chunks are where the two conditions (rank, chunk) say."""
    nodes = range(num_nodes)
    chunks = [Chunk({node for node in nodes if precondition(node, chunk)},
                    {node for node in nodes if postcondition(node, chunk)}, address(chunk))
              for chunk in range(num_chunks)]
    triggers = {}
    if trigger is not None:
        triggers = {(node, chunk): trigger(node, chunk)
                    for node in nodes for chunk in range(num_chunks)}
    return Collective(name, num_nodes, chunks, triggers, runtime_name)
