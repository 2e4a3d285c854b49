"""Topologies of regular shape."""

from __future__ import annotations

from .topology import Topology


def _linked(name: str, count: int, is_linked, switches=()) -> Topology:
    links = [[int(dst != src and is_linked(dst, src)) for src in range(count)]
             for dst in range(count)]
    return Topology(f"{name}(n={count})", links, switches)


def fully_connected(num_nodes: int) -> Topology:
    return _linked("FullyConnected", num_nodes, lambda dst, src: True)


def hub_and_spoke(num_nodes: int) -> Topology:
    """All connected through one port each, in and out."""
    switches = []
    for node in range(num_nodes):
        others = [other for other in range(num_nodes) if other != node]
        switches.append(([node], others, 1, f"node_{node}_out"))
        switches.append((others, [node], 1, f"node_{node}_in"))
    return _linked("HubAndSpoke", num_nodes, lambda dst, src: True, switches)


def ring(num_nodes: int) -> Topology:
    return _linked("Ring", num_nodes,
                   lambda dst, src: (dst - src) % num_nodes in (1, num_nodes - 1))


def line(num_nodes: int) -> Topology:
    return _linked("Line", num_nodes, lambda dst, src: abs(dst - src) == 1)


def star(num_nodes: int, non_blocking: bool = True) -> Topology:
    """Rank 0 in the middle; if it blocks, all points share one link each way."""
    points = list(range(1, num_nodes))
    switches = [] if non_blocking else [([0], points, 1, "to_points"),
                                        (points, [0], 1, "from_points")]
    return _linked("Star", num_nodes, lambda dst, src: 0 in (dst, src), switches)
