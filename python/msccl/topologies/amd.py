"""Machines with links between AMD GPUs."""

from __future__ import annotations

from .topology import Topology


def _of_pairs(name: str, count: int, pairs) -> Topology:
    links = [[0] * count for _ in range(count)]
    for one, other in pairs:
        links[one][other] = links[other][one] = 1
    return Topology(name, links)


def amd4() -> Topology:
    return _of_pairs("AMD4", 4, ((0, 1), (1, 2), (2, 3), (3, 0)))


def amd8() -> Topology:
    """Two rings of four, joined by two links."""
    return _of_pairs("AMD8", 8, ((0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4),
                                 (0, 4), (2, 6)))
