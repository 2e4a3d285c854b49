"""Topologies made of others."""

from __future__ import annotations

from .topology import Topology


def reverse_topology(topology: Topology) -> Topology:
    """Every link the other way round."""
    nodes = topology.nodes()
    links = [[topology.link(dst, src) for src in nodes] for dst in nodes]
    switches = [(dsts, srcs, bandwidth, name) for srcs, dsts, bandwidth, name in topology.switches]
    return Topology(f"Reverse{topology.name}", links, switches)


def binarize_topology(topology: Topology) -> Topology:
    """Every link of bandwidth 1, no switches."""
    links = [[int(bandwidth > 0) for bandwidth in row] for row in topology.links]
    return Topology(f"Binarized{topology.name}", links)
