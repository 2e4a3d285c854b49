"""From recorded statements to a proven program: hands them to mccl's builder and verifier.

Nothing is worked out here. What the verifier says about steps is said about the author's lines.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mccl.language import Buffer as Memory
from mccl.language import Chunk as Place_
from mccl.language import ProgramBuilder, verify, write_xml

from .buffer import Buffer
from .ir import ThreadblockPolicy

Place = tuple  # rank, buffer or name of scratch, index, size

COLLECTIVES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "alltoall": "all_to_all",
    "reduce_scatter": "reduce_scatter", "reducescatter": "reduce_scatter",
    "broadcast": "broadcast", "reduce": "reduce", "gather": "gather", "scatter": "scatter",
}
FINDINGS_MAX = 20  # of the verifier
NEGATIVE_LANE = 1 << 20  # the key of threadblock -1; -2 is one more


class Statement(NamedTuple):
    """result = moving, or result = op(result, moving)."""

    is_reduce: bool
    moving: Place
    result: Place
    sendtb: int
    recvtb: int
    channel: int
    line: "tuple[str, int]"


class NotProven(Exception):
    """Why there is no program: faults or findings, with the author's lines."""


class Compiled(NamedTuple):
    """A lowered program, its text if it was judged, and what its user should know."""

    program: object
    text: str
    warnings: "list[str]"


def compile_program(prog, is_judged: bool = True) -> Compiled:
    """Lowers and, unless told not to, proves; raises NotProven."""
    if is_judged and not is_built_in(prog.collective) and not prog.check():
        raise NotProven(f"{_program_line(prog)}: {prog.name}: the collective's own check fails")
    builder = _record(prog, prog.instances, is_claim_kept=is_judged)
    try:
        program = builder.lower()
    except ValueError as fault:
        raise NotProven(_author_words(str(fault))) from None
    if not is_judged:
        return Compiled(program, "", [])
    verdict = verify(program)
    warnings = []
    if not verdict.is_proven:
        words = _verdict_words(prog, verdict, builder)
        if not _differs_in_bits_only(verdict):
            raise NotProven(words)
        warnings.append(words + "ranks would differ in the bits of floats: this is a program for "
                        "integers, and calls with floats refuse it")
    try:
        text = write_xml(program, "msccl", protocol=prog.protocol)
    except ValueError as fault:
        raise NotProven(f"{_program_line(prog)}: {prog.name}: {fault}") from None
    return Compiled(program, text, warnings)


def is_built_in(collective) -> bool:
    return collective.name in COLLECTIVES


def _program_line(prog) -> str:
    return "%s:%d" % prog.line


def _scratch_offsets(prog) -> "list[dict]":
    """Per rank, where each name of scratch starts: in the order in which they were made."""
    offsets = []
    for buffers in prog.buffers:
        names, end = {}, 0
        for name, chunks in buffers.items():
            if name is not Buffer.input and name is not Buffer.output:
                names[name] = end
                end += len(chunks)
        offsets.append(names)
    return offsets


def _contract(prog) -> list:
    """What the statements leave in the outputs, which the collective's own check has accepted."""
    contents = _trace(prog)
    contract = []
    for rank, buffers in enumerate(prog.buffers):
        outputs = []
        for index in range(len(buffers.get(Buffer.output, ()))):
            held = contents.get((rank, Buffer.output, index), [])
            if len(set(held)) < len(held):
                raise NotProven(f"{_program_line(prog)}: {prog.name}: output chunk {index} of rank "
                                f"{rank} holds a contribution more than once")
            outputs.append(sorted(held))
        contract.append((len(buffers[Buffer.input]), outputs))
    return contract


def _trace(prog) -> dict:
    """By slot: the input chunks (rank, index) that are in it at the end."""
    contents = {(rank, Buffer.input, index): [(rank, index)]
                for rank, buffers in enumerate(prog.buffers)
                for index in range(len(buffers[Buffer.input]))}
    for statement in prog.statements:
        rank, buffer, first, size = statement.moving
        to_rank, to_buffer, to_first, _ = statement.result
        moved = [contents.get((rank, buffer, first + part), []) for part in range(size)]
        for part, held in enumerate(moved):
            slot = (to_rank, to_buffer, to_first + part)
            contents[slot] = contents.get(slot, []) + held if statement.is_reduce else held
    return contents


def _make_builder(prog):
    collective = prog.collective
    if is_built_in(collective):
        return ProgramBuilder(prog.name, COLLECTIVES[collective.name], prog.num_ranks,
                              collective.chunk_factor)
    return ProgramBuilder(prog.name, _contract(prog))


def _record(prog, instances: int, is_claim_kept: bool) -> ProgramBuilder:
    builder = _make_builder(prog)
    _serve(prog, builder, is_claim_kept)
    if instances < 1:
        raise NotProven(f"{_program_line(prog)}: {prog.name}: {instances} instances")
    builder.set_instances(instances, "interleaved" if prog.interleaved_replication else "blocks")
    builder.set_fusion(prog.instr_fusion)
    builder.set_early_waits(prog.dependence_nop)
    offsets = _scratch_offsets(prog)
    is_manual = prog.threadblock_policy is ThreadblockPolicy.manual

    def place(where: Place) -> Place_:
        rank, buffer, index, size = where
        if buffer is Buffer.input:
            return Place_(rank, Memory.INPUT, index, size)
        if buffer is Buffer.output:
            return Place_(rank, Memory.OUTPUT, index, size)
        return Place_(rank, Memory.SCRATCH, offsets[rank][buffer] + index, size)

    def lane(threadblock: int) -> int:
        if not is_manual:
            return -1
        return threadblock if threadblock >= 0 else NEGATIVE_LANE - 1 - threadblock

    for statement in prog.statements:
        moving, result = place(statement.moving), place(statement.result)
        where = {"channel": statement.channel, "send_lane": lane(statement.sendtb),
                 "recv_lane": lane(statement.recvtb), "line": statement.line}
        if statement.is_reduce:
            builder.reduce(moving, result, result, **where)
        else:
            builder.copy(moving, result, **where)
    return builder


def _serve(prog, builder: ProgramBuilder, is_claim_kept: bool) -> None:
    if prog.collective.name not in COLLECTIVES or prog.collective.name == "alltoall":
        builder.serve(in_place=False, out_of_place=True)
        return
    is_in_place = bool(prog.collective.inplace)
    # To look at, even what would be refused is lowered.
    if not is_claim_kept and any(s.result[1] is Buffer.input for s in prog.statements):
        is_in_place = True
    builder.serve(in_place=is_in_place, out_of_place=not is_in_place)


def _differs_in_bits_only(verdict) -> bool:
    findings = verdict.findings
    return len(findings) < FINDINGS_MAX and all(found.rule == "trees" for found in findings)


def _author_words(text: str) -> str:
    """The names of lanes as the author knows them."""
    def threadblock(match):
        key = int(match.group(1))
        return f"threadblock {key if key < NEGATIVE_LANE else NEGATIVE_LANE - 1 - key}"
    return re.sub(r"\blane (\d+)(?= of rank)", threadblock, text)


def _verdict_words(prog, verdict, builder) -> str:
    if prog.instances > 1 and not _differs_in_bits_only(verdict):
        # One instance has the chunks of the author.
        alone = _record(prog, 1, is_claim_kept=True)
        single = verify(alone.lower())
        if not single.is_proven:
            verdict, builder = single, alone

    def with_line(match):
        file, line = builder.line_of_step(*(int(number) for number in match.groups()))
        return f"{match.group(0)} ({file}:{line})"

    text = re.sub(r"rank (\d+) lane (\d+) step (\d+)", with_line, str(verdict))
    return f"{_program_line(prog)}: {prog.name} is not proven:\n{text}"
