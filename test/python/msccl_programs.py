"""Programs in the language of msccl-tools, written for these tests: the shapes that people write.

Each function makes one MSCCLProgram, outside of any context when it returns.
"""

from __future__ import annotations

from msccl.language import (Buffer, Chunk, MSCCLProgram, ThreadblockPolicy, chunk)
from msccl.language.collectives import AllGather, AllReduce, AllToAll, Collective
from msccl.topologies import fully_connected

MANUAL = ThreadblockPolicy.manual


def all_reduce_ring(ranks: int, channels: int, instances: int) -> MSCCLProgram:
    """A ring whose chunks are dealt out over channels, each with a threadblock."""
    program = MSCCLProgram("ring", fully_connected(ranks), AllReduce(ranks, ranks, True), instances,
                           protocol="LL128", threadblock_policy=MANUAL)
    with program:
        for distance in range(2 * ranks - 2):
            for index in range(ranks):
                where = dict.fromkeys(("ch", "sendtb", "recvtb"), index % channels)
                here = chunk((index + distance) % ranks, Buffer.input, index)
                following = (index + distance + 1) % ranks
                if distance < ranks - 1:
                    chunk(following, Buffer.input, index).reduce(here, **where)
                else:
                    here.copy(following, Buffer.input, index, **where)
    return program


def all_gather_ring(ranks: int, channels: int, instances: int) -> MSCCLProgram:
    program = MSCCLProgram("gather", fully_connected(ranks), AllGather(ranks, 1, True), instances,
                           threadblock_policy=MANUAL)
    with program:
        for distance in range(ranks - 1):
            for index in range(ranks):
                where = dict.fromkeys(("ch", "sendtb", "recvtb"), index % channels)
                here = chunk((index + distance) % ranks, Buffer.output, index)
                here.copy((index + distance + 1) % ranks, Buffer.output, index, **where)
    return program


def all_pairs(ranks: int, instances: int, interleaved: bool = False,
              early_waits: bool = True) -> MSCCLProgram:
    """Every rank reduces its part of everybody's chunks and gives it back, by threadblocks."""
    program = MSCCLProgram("pairs", fully_connected(ranks),
                           AllReduce(ranks, ranks * ranks, True), instances, protocol="LL",
                           interleaved_replication=interleaved, threadblock_policy=MANUAL,
                           dependence_nop=early_waits)
    pairs = [(one, other) for one in range(ranks) for other in range(ranks) if one != other]
    with program:
        for one, other in pairs:
            part = chunk(one, Buffer.input, other * ranks, ranks)
            part.copy(other, "parts", sendtb=other, recvtb=one)
        for rank in range(ranks):
            for index in range(ranks * (ranks - 1)):
                sum_ = chunk(rank, Buffer.input, rank * ranks + index % ranks)
                sum_.reduce(chunk(rank, "parts", index), sendtb=index % ranks)
        for one, other in pairs:
            part = chunk(one, Buffer.input, one * ranks, ranks)
            part.copy(other, Buffer.input, one * ranks, sendtb=other, recvtb=one)
    return program


def one_step(ranks: int, instances: int) -> MSCCLProgram:
    """Everybody sends everything to everybody; each reduces in an order of its own."""
    program = MSCCLProgram("one_step", fully_connected(ranks), AllReduce(ranks, ranks, True),
                           instances, protocol="LL", interleaved_replication=False,
                           threadblock_policy=MANUAL, dependence_nop=True)
    pairs = [(one, other) for one in range(ranks) for other in range(ranks) if one != other]
    with program:
        for one, other in pairs:
            chunk(one, Buffer.input, 0, ranks).copy(other, "all", sendtb=other, recvtb=one)
        for rank in range(ranks):
            for index in range(ranks * (ranks - 1)):
                chunk(rank, Buffer.input, index % ranks).reduce(
                    chunk(rank, "all", index), sendtb=index % ranks)
    return program


def doubling(ranks: int, instances: int) -> MSCCLProgram:
    """All-gather by exchanging twice as much over twice the distance each time."""
    program = MSCCLProgram("doubling", fully_connected(ranks), AllGather(ranks, 1, True), instances,
                           threadblock_policy=MANUAL)
    with program:
        distance = 1
        while distance < ranks:
            for rank in range(ranks):
                peer, first = rank ^ distance, rank // distance * distance
                chunk(rank, Buffer.output, first, distance).copy(
                    peer, Buffer.output, first, sendtb=peer, recvtb=rank)
            distance *= 2
    return program


def halving_doubling(ranks: int, instances: int) -> MSCCLProgram:
    program = MSCCLProgram("halving", fully_connected(ranks), AllReduce(ranks, ranks, True),
                           instances, "LL", interleaved_replication=False,
                           threadblock_policy=MANUAL)
    distances = [1 << bit for bit in range(ranks.bit_length() - 1)]
    with program:
        for distance in reversed(distances):
            for rank in range(ranks):
                peer = rank ^ distance
                first = peer // distance * distance
                chunk(peer, Buffer.output, first, distance).reduce(
                    chunk(rank, Buffer.input, first, distance), sendtb=peer, recvtb=rank, ch=0)
        for distance in distances:
            for rank in range(ranks):
                peer, first = rank ^ distance, rank // distance * distance
                chunk(rank, Buffer.output, first, distance).copy(
                    peer, Buffer.output, first, sendtb=peer, recvtb=rank, ch=0)
    return program


def two_trees(instances: int) -> MSCCLProgram:
    """Two chains of four ranks in opposite directions, each up and down."""
    program = MSCCLProgram("trees", fully_connected(4), AllReduce(4, 2, True), instances, "LL",
                           interleaved_replication=False, threadblock_policy=MANUAL,
                           dependence_nop=True)
    with program:
        for index, chain in enumerate(((3, 2, 1, 0), (2, 3, 0, 1))):
            up, down = 2 * index, 2 * index + 1
            for here, following in zip(chain, chain[1:]):
                chunk(following, Buffer.input, index).reduce(
                    chunk(here, Buffer.input, index), sendtb=up, recvtb=up)
            for here, following in zip(chain[::-1], chain[-2::-1]):
                chunk(here, Buffer.input, index).copy(following, Buffer.input, index, sendtb=down,
                                                      recvtb=down)
    return program


def all_to_all_pairs(ranks: int, instances: int) -> MSCCLProgram:
    program = MSCCLProgram("to_all", fully_connected(ranks), AllToAll(ranks, 1, False), instances)
    with program:
        for rank in range(ranks):
            for peer in range(ranks):
                chunk(rank, Buffer.input, peer).copy(peer, Buffer.output, rank)
    return program


def all_to_all_two_step(nodes: int, local: int) -> MSCCLProgram:
    """Inside a node first, so that one message goes from each rank to each other node."""
    ranks = nodes * local
    program = MSCCLProgram("two_step", fully_connected(ranks), AllToAll(ranks, 1, False), 1)
    away = [(node, (node + step) % nodes) for node in range(nodes) for step in range(1, nodes)]
    with program:
        for node, other in away:
            for source in range(local):
                for through in range(local):
                    chunk(node * local + source, Buffer.input, other * local + through).copy(
                        node * local + through, f"for {other}")
        for node, other in away:
            for through in range(local):
                gathered = chunk(node * local + through, f"for {other}", 0, local)
                gathered.copy(other * local + through, Buffer.output, gathered.get_dst_index(),
                              ch=(node + other) % local * 2 + through % 2 + 2)
        for rank in range(ranks):
            for place in range(local):
                own = chunk(rank, Buffer.input, rank // local * local + place)
                own.copy(own.get_dst_rank(), Buffer.output, own.get_dst_index())
    return program


def two_level_rings(local: int, nodes: int, instances: int) -> MSCCLProgram:
    """Reduce-scatter inside nodes, all-reduce between them, all-gather inside; no threadblocks."""
    ranks = local * nodes
    program = MSCCLProgram("two_level", fully_connected(ranks), AllReduce(ranks, ranks, True),
                           instances, interleaved_replication=False)

    def ring(members, indices, is_reducing):
        for start, index in enumerate(indices):
            order = [members[(start + step) % len(members)] for step in range(len(members))]
            if is_reducing:
                order = order[1:] + order[:1]
            for here, following in zip(order, order[1:]):
                if is_reducing:
                    chunk(following, Buffer.input, index).reduce(chunk(here, Buffer.input, index))
                else:
                    chunk(here, Buffer.input, index).copy(following, Buffer.input, index)

    inside = [([node * local + place for place in range(local)],
               [place * nodes + offset for place in range(local)])
              for node in range(nodes) for offset in range(nodes)]
    between = [([place + node * local for node in range(nodes)],
                [place * nodes + node for node in range(nodes)]) for place in range(local)]
    with program:
        for groups, is_reducing in ((inside, True), (between, True), (between, False),
                                    (inside, False)):
            for members, indices in groups:
                ring(members, indices, is_reducing)
    return program


class ToNext(Collective):
    """Every rank's input becomes the output of the next one."""

    def init_buffers(self):
        count = self.chunk_factor
        return [{Buffer.input: [Chunk(rank, index, rank + 1, index) for index in range(count)],
                 Buffer.output: [None] * count} for rank in range(self.num_ranks)]

    def check(self, prog):
        return all(prog.buffers[rank][Buffer.output][index] == Chunk(rank - 1, index)
                   for rank in range(1, self.num_ranks) for index in range(self.chunk_factor))


def to_next(nodes: int, instances: int, local: int = 4) -> MSCCLProgram:
    """Whole inputs inside a node; chunk by chunk over all of its ranks between nodes.

    The scratch of a rank has one name per node, and so another offset on every rank.
    """
    ranks = nodes * local
    program = MSCCLProgram("to_next", fully_connected(ranks), ToNext(ranks, local, False),
                           instances)
    with program:
        for rank in range(ranks - 1):
            node, place = divmod(rank, local)
            if place < local - 1:
                chunk(rank, Buffer.input, 0, local).copy(rank + 1, Buffer.output, 0, ch=place % 2)
                continue
            for index in range(local):
                part = chunk(rank, Buffer.input, index)
                name = f"to {node + 1}"
                for hop in (node * local + index, (node + 1) * local + index):
                    if hop not in (rank, rank + 1):
                        part = part.copy(hop, name, 0, ch=index % 2)
                part.copy(rank + 1, Buffer.output, index, ch=index % 2)
    return program
