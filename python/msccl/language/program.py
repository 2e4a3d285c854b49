"""MSCCLProgram and the statements inside it.

A statement does two things: it moves chunk objects in `prog.buffers`, which is what Check() looks
at, and it is recorded with the author's line for mccl's compiler. What XML() prints is compiled and
proven; the chunk objects have no part in that.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from dataclasses import dataclass, field

from . import lowering
from .buffer import Buffer, BufferSlice
from .ir import ChunkRef, Instruction, ThreadblockPolicy, view_of
from .rank_dag import InstructionDAG

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_current_program: "MSCCLProgram | None" = None
# Where XML() puts texts; None: standard output. `mccl compile` sets a list here.
sink: "list[tuple[MSCCLProgram, str]] | None" = None


class Refused(SystemExit):
    """A program that is not proven: exit status 1; the words were written to standard error."""

    def __init__(self, words: str):
        super().__init__(1)
        self.words = words


def _curr() -> "MSCCLProgram":
    if _current_program is None:
        raise RuntimeError("No Program in context")
    return _current_program


def _author_line() -> "tuple[str, int]":
    """The innermost line outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


class MSCCLProgram:
    """A program; as a context, the one that chunk(), XML() and Check() are about."""

    def __init__(self, name, topo, collective, instances, protocol="Simple",
                 threadblock_policy=ThreadblockPolicy.auto, interleaved_replication=True,
                 instr_fusion=True, check_xml=True, dependence_nop=False):
        assert protocol in ("Simple", "LL", "LL128"), \
            f"Given protocol: {protocol}. Must be either Simple, LL, LL128"
        self.name = name
        self.topo = topo
        self.collective = collective
        self.num_ranks = topo.num_nodes()
        self.instances = instances
        self.protocol = protocol
        self.threadblock_policy = threadblock_policy
        self.interleaved_replication = interleaved_replication
        self.instr_fusion = instr_fusion
        self.check_xml = check_xml
        self.dependence_nop = dependence_nop
        self.statements: "list[lowering.Statement]" = []
        self.line = _author_line()
        self.buffers = collective.init_buffers()
        self._starts = [
            (rank, *collective.get_buffer_index(rank, Buffer.input, index))
            for rank in range(self.num_ranks)
            for index in range(len(self.buffers[rank][Buffer.input]))]
        self._stdout = None

    def __enter__(self):
        global _current_program
        if _current_program is not None:
            raise RuntimeError("There is already a MSCCL Program in context")
        _current_program = self
        # What a program prints is no part of the XML.
        self._stdout, sys.stdout = sys.stdout, sys.stderr

    def __exit__(self, kind, value, traceback):
        global _current_program
        if _current_program is not self:
            raise RuntimeError("This program is not in context")
        _current_program = None
        if sys.stdout is sys.stderr:
            sys.stdout = self._stdout
        self._stdout = None

    def check(self) -> bool:
        """Whether the chunks are where the collective wants them; its lines go to stderr."""
        with contextlib.redirect_stdout(sys.stderr):
            return self.collective.check(self)

    def lower(self):
        """The compiled program, proven or not, to look at."""
        compiled = lowering.compile_program(self, is_judged=False)
        return view_of(compiled.program, self.collective.name, self.protocol)

    def generate_xml(self) -> str:
        """The text of the proven program in MSCCL's dialect.

        Refused, with the words on standard error, if it is not proven.
        """
        try:
            compiled = lowering.compile_program(self)
        except lowering.NotProven as failure:
            print(failure, file=sys.stderr)
            raise Refused(str(failure)) from None
        for warning in compiled.warnings:
            print(warning, file=sys.stderr)
        return compiled.text

    @property
    def instr_dag(self) -> InstructionDAG:
        """The ops in the order of the statements, before anything is fused."""
        dag = InstructionDAG(self.num_ranks, self.buffers)
        for rank, buffer, index in self._starts:
            dag.add_start(rank, buffer, index, ChunkRef(rank, buffer, index, 1))
        for statement in self.statements:
            moving, result = ChunkRef(*statement.moving), ChunkRef(*statement.result)
            is_reduce = statement.is_reduce
            if moving.rank == result.rank:
                inst = Instruction.reduce if is_reduce else Instruction.copy
                dag.add(inst, result.rank, moving, result, -1)
                continue
            dag.add(Instruction.send, moving.rank, moving, result, statement.channel)
            inst = Instruction.recv_reduce_copy if is_reduce else Instruction.recv
            dag.add(inst, result.rank, moving, result, statement.channel)
        return dag

    def get_ref(self, rank, buffer, index, size) -> "Ref":
        buffer, index = self.collective.get_buffer_index(rank, buffer, index)
        return Ref(rank, buffer, index, size, self)

    def get_chunks(self, rank, buffer, index, size=1):
        if self.buffers[rank][buffer] is None:
            return [None] * size
        return [self.buffers[rank][buffer][place] for place in range(index, index + size)]

    def check_buffer_exists(self, rank, name) -> None:
        if name not in self.buffers[rank]:
            self.buffers[rank][name] = BufferSlice(Buffer.scratch, name)

    def apply_send(self, src, src_buffer, src_index, dst, dst_buffer, dst_index, size) -> None:
        source, destination = self.buffers[src][src_buffer], self.buffers[dst][dst_buffer]
        for part in range(size):
            destination[dst_index + part] = source[src_index + part]

    def apply_reduce(self, src, src_buffer, src_index, dst, dst_buffer, dst_index, size) -> None:
        source, destination = self.buffers[src][src_buffer], self.buffers[dst][dst_buffer]
        for part in range(size):
            moving, staying = source[src_index + part], destination[dst_index + part]
            # A chunk that is not there is found by the compiler, with the line.
            destination[dst_index + part] = (
                staying.reduce(dst, moving) if moving is not None else None)


@dataclass
class Ref(ChunkRef):
    """A place in a program. It holds no value: it reads what is there when a statement runs."""

    prog: MSCCLProgram = field(repr=False)

    def __repr__(self) -> str:
        return f"Ref(Buffer:{self.buffer}, Index:{self.index}, Size:{self.size}, Rank:{self.rank})"

    def __hash__(self) -> int:
        return super().__hash__()

    def _end(self) -> int:
        return self.index + self.size

    def _get_chunk(self, index):
        return self.prog.buffers[self.rank][self.buffer][index]

    def _place(self) -> "lowering.Place":
        return self.rank, self.buffer, self.index, self.size

    def split(self, num: int) -> "list[Ref]":
        assert self.size % num == 0, f"Trying to split a chunk of {self.size} elements into {num}"
        size = self.size // num
        return [self.prog.get_ref(self.rank, self.buffer, self.index + part * size, size)
                for part in range(num)]

    def group(self, other: "Ref") -> "Ref":
        assert self.rank == other.rank, \
            f"Trying to concatenate chunks on ranks {self.rank} and {other.rank}"
        assert self.buffer == other.buffer, \
            f"Trying to concatenate chunks in {self.buffer} and {other.buffer}"
        first = min(self.index, other.index)
        return Ref(self.rank, self.buffer, first, max(self._end(), other._end()) - first, self.prog)

    def copy(self, dst, buffer=None, index=-1, sendtb=-1, recvtb=-1, ch=-1) -> "Ref | None":
        """Puts the chunks to a place of rank `dst`; the same place unless said; returns it.

        The name of scratch without an index appends. None where source and destination are one.
        """
        prog = self.prog
        prog.check_buffer_exists(dst, buffer)
        if index == -1 and buffer is None:
            buffer, index = self.buffer, self.index
        elif index == -1 and buffer is not Buffer.input and buffer is not Buffer.output:
            index = len(prog.buffers[dst][buffer])
        # The source's rank twice over what is meant: programs are written for it.
        buffer, index = prog.collective.get_buffer_index(self.rank, buffer, index)
        destination = prog.get_ref(dst, buffer, index, self.size)
        assert dst == self.rank or prog.topo.link(self.rank, dst), \
            f"No link from {self.rank} to {dst}"
        if destination == self:
            return None
        prog.apply_send(self.rank, self.buffer, self.index, dst, buffer, index, self.size)
        prog.statements.append(lowering.Statement(
            False, self._place(), destination._place(), sendtb, recvtb, ch, _author_line()))
        return destination

    def reduce(self, other_chunkref: "Ref", sendtb=-1, recvtb=-1, ch=-1) -> "Ref":
        """Reduces another place's chunks into this place's; returns this."""
        other, prog = other_chunkref, self.prog
        assert other.rank == self.rank or prog.topo.link(other.rank, self.rank), \
            f"No link from {other.rank} to {self.rank}"
        prog.apply_reduce(other.rank, other.buffer, other.index, self.rank, self.buffer, self.index,
                          self.size)
        prog.statements.append(lowering.Statement(
            True, other._place(), self._place(), sendtb, recvtb, ch, _author_line()))
        return self

    def get_origin_index(self, index=0):
        return self._get_chunk(index + self.index).origin_index

    def get_origin_rank(self, index=0):
        return self._get_chunk(index + self.index).origin_rank

    def get_dst_index(self, index=0):
        return self._get_chunk(index + self.index).dst_index

    def get_dst_rank(self, index=0):
        return self._get_chunk(index + self.index).dst_rank

    def print_chunk_info(self, index=0) -> None:
        print(self._get_chunk(index + self.index), file=sys.stderr)


def chunk(rank, buffer, index, size=1) -> "Ref | None":
    """The place of `size` chunks; None if there is no chunk at the first."""
    prog = _curr()
    if prog.buffers[rank][buffer][index] is None:
        return None
    return prog.get_ref(rank, buffer, index, size)


def create_scratch(rank, name) -> None:
    """Makes an empty scratch buffer; copying into a name does so too."""
    _curr().check_buffer_exists(rank, name)


def XML() -> None:
    """Prints the program's text; not proven: words on standard error and exit status 1."""
    prog = _curr()
    text = prog.generate_xml()
    if sink is not None:
        sink.append((prog, text))
    else:
        out = prog._stdout or sys.stdout
        out.write(text)
        out.flush()


def Check() -> bool:
    """Whether the collective is satisfied; a script where it is not exits with status 1."""
    prog = _curr()
    is_right = prog.check()
    if not is_right:
        file, line = prog.line
        print(f"{file}:{line}: Check() of {prog.name} failed", file=sys.stderr)
        if sink is None and _is_script():
            _fail_at_exit()
    return is_right


def Print() -> None:
    """Writes the statements to standard error, one a line."""
    for statement in _curr().statements:
        print(statement, file=sys.stderr)


def _is_script() -> bool:
    """Whether the program run by the interpreter is one of ours, and not, say, pytest."""
    names = vars(sys.modules.get("__main__", object)).values()
    return any(str(getattr(name, "__module__", "")).startswith("msccl") for name in names)


_is_failing = False


def _fail_at_exit() -> None:
    global _is_failing
    if not _is_failing:
        _is_failing = True
        atexit.register(_exit_with_failure)


def _exit_with_failure() -> None:
    # The interpreter has its status by now; only this changes it.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
