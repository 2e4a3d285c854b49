"""Several copies of a machine, with links between them."""

from __future__ import annotations

from .topology import Topology


def _copies(local: Topology, num_copies: int, remote_bw):
    count = local.num_nodes()

    def bandwidth(dst: int, src: int):
        if dst // count != src // count:
            return remote_bw
        return local.link(src % count, dst % count)

    nodes = range(count * num_copies)
    links = [[bandwidth(dst, src) for src in nodes] for dst in nodes]
    switches = []
    for copy in range(num_copies):
        for srcs, dsts, shared, name in local.switches:
            switches.append(([src + copy * count for src in srcs],
                             [dst + copy * count for dst in dsts], shared, f"copy_{copy}_{name}"))
    return links, switches


def distributed_fully_connected(local_topology: Topology, num_copies: int, remote_bw) -> Topology:
    """Every rank has a link of `remote_bw` to every rank of the other copies."""
    links, switches = _copies(local_topology, num_copies, remote_bw)
    return Topology(f"DistributedFullyConnected(local={local_topology.name},n={num_copies},"
                    f"bw={remote_bw})", links, switches)


def distributed_hub_and_spoke(local_topology: Topology, num_copies: int, remote_bw) -> Topology:
    """The same, but what a copy sends and what it receives shares `remote_bw` each."""
    links, switches = _copies(local_topology, num_copies, remote_bw)
    count = local_topology.num_nodes()
    for copy in range(num_copies):
        own = list(range(copy * count, (copy + 1) * count))
        others = [rank for rank in range(count * num_copies) if rank not in own]
        switches.append((own, others, remote_bw, f"copy_{copy}_out_remote"))
        switches.append((others, own, remote_bw, f"copy_{copy}_in_remote"))
    return Topology(f"DistributedHubAndSpoke(local={local_topology.name},n={num_copies},"
                    f"bw={remote_bw})", links, switches)
