"""Which ranks have links to which."""

from __future__ import annotations

from collections.abc import Iterator


class Topology:
    """`links[dst][src]` is the bandwidth from src to dst, 0 where there is no link.

    A switch is (sources, destinations, bandwidth, name): what they share.
    """

    def __init__(self, name: str, links, switches=()):
        self.name = name
        self.links = links
        self.switches = list(switches)
        for _, _, bandwidth, switch in self.switches:
            if bandwidth <= 0:
                raise ValueError(f"Switch {switch} has bandwidth {bandwidth}; it must be positive, "
                                 f"and links say what is connected")

    def link(self, src: int, dst: int):
        return self.links[dst][src]

    def sources(self, dst: int) -> Iterator[int]:
        return (src for src, bandwidth in enumerate(self.links[dst]) if bandwidth > 0)

    def destinations(self, src: int) -> Iterator[int]:
        return (dst for dst, row in enumerate(self.links) if row[src] > 0)

    def num_nodes(self) -> int:
        return len(self.links)

    def nodes(self) -> range:
        return range(self.num_nodes())

    def bandwidth_constraints(self) -> Iterator[tuple]:
        for dst in self.nodes():
            for src in self.sources(dst):
                yield [src], [dst], self.link(src, dst), f"{src}→{dst}"
        yield from self.switches
