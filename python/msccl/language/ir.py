"""The lowered program as programs and tests look at it: gpus, threadblocks, ops."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from .buffer import Buffer

SPELLINGS = {  # ours to theirs
    "send": "s", "recv": "r", "recv_copy_send": "rcs", "recv_reduce_send": "rrs",
    "recv_reduce_copy": "rrc", "recv_reduce_copy_send": "rrcs", "copy": "cpy", "reduce": "re",
}


class Instruction(Enum):
    """What an op does."""

    delete = "d"
    start = "st"
    nop = "nop"
    send = "s"
    recv = "r"
    recv_copy_send = "rcs"
    recv_reduce_send = "rrs"
    recv_reduce_copy = "rrc"
    recv_reduce_copy_send = "rrcs"
    copy = "cpy"
    reduce = "re"

    def __str__(self) -> str:
        return self.value


class ChunkInstruction(Enum):
    """What a statement does to chunks."""

    start = "start"
    reduce = "reduce"
    send = "send"

    def __str__(self) -> str:
        return self.value


class ThreadblockPolicy(Enum):
    """Who assigns threadblocks: the compiler, or the program's sendtb and recvtb."""

    auto = "auto"
    manual = "manual"

    def __str__(self) -> str:
        return self.value


@dataclass
class ChunkRef:
    """A place: `size` neighbouring chunks of a buffer of a rank."""

    rank: int
    buffer: "Buffer | str"
    index: int
    size: int

    def __hash__(self) -> int:
        return hash((self.rank, self.buffer, self.index, self.size))


@dataclass
class Op:
    """One instruction of a threadblock."""

    inst: Instruction
    rank: int
    src: "ChunkRef | None" = None
    dst: "ChunkRef | None" = None
    depends: list = field(default_factory=list)  # (threadblock, step)
    step: int = -1
    tb: int = -1
    next: list = field(default_factory=list, repr=False)
    prev: list = field(default_factory=list, repr=False)
    channel: int = -1

    def is_send(self) -> bool:
        return self.inst.value in ("s", "rcs", "rrs", "rrcs")

    def is_recv(self) -> bool:
        return self.inst.value in ("r", "rcs", "rrs", "rrc", "rrcs")

    def is_local(self) -> bool:
        return self.inst.value in ("cpy", "re")

    def cnt(self) -> int:
        return (self.src or self.dst).size


@dataclass
class Threadblock:
    """A sequential instruction stream of one gpu."""

    channel: int = -1
    send: int = -1
    recv: int = -1
    ops: "list[Op]" = field(default_factory=list)
    rbid: int = -1
    id: int = -1


@dataclass
class Gpu:
    """The threadblocks of one rank."""

    rank: int
    threadblocks: "list[Threadblock]" = field(default_factory=list)
    input_chunks: int = 0
    output_chunks: int = 0
    scratch_chunks: int = 0

    def scratch_size(self) -> int:
        return self.scratch_chunks


@dataclass
class Program:
    """A lowered program; `lowered` is mccl's own."""

    name: str
    collective: str
    inplace: bool
    protocol: str
    gpus: "list[Gpu]" = field(default_factory=list)
    lowered: object = field(default=None, repr=False)


_BUFFERS = {"INPUT": Buffer.input, "OUTPUT": Buffer.output, "SCRATCH": Buffer.scratch}


def _place(spans) -> "ChunkRef | None":
    if not spans:
        return None
    return ChunkRef(spans[0].rank, _BUFFERS[spans[0].buffer.name], spans[0].index, spans[0].count)


def view_of(lowered, collective: str, protocol: str) -> Program:
    """The lowered program of mccl in these words."""
    program = Program(lowered.name, collective, lowered.in_place, protocol, lowered=lowered)
    for rank, lanes in enumerate(lowered.ranks):
        gpu = Gpu(rank, scratch_chunks=lanes.scratch_chunk_count)
        for number, lane in enumerate(lanes.lanes):
            block = Threadblock(lane.channel, lane.send_peer, lane.recv_peer, id=number)
            for position, step in enumerate(lane.steps):
                block.ops.append(Op(Instruction(SPELLINGS[step.op]), rank, _place(step.sources),
                                    _place(step.destinations), step.dependences, position, number,
                                    channel=lane.channel))
            gpu.threadblocks.append(block)
        program.gpus.append(gpu)
    return program


def ir_to_xml(program: Program, *_, **__) -> str:
    """The text of a lowered program in MSCCL's dialect."""
    from mccl.language import write_xml

    return write_xml(program.lowered, "msccl", protocol=program.protocol)
