"""The chunk language in Python: the nouns of include/mccl/language.h, over the same builder.

    >>> from mccl.language import ProgramBuilder, verify, write_xml
    >>> ring = ProgramBuilder("pair", "all_reduce", rank_count=2, chunk_count=1)
    >>> value = ring.reduce(ring.input(0, 0), ring.input(1, 0), ring.output(1, 0))
    >>> value = ring.copy(value, ring.output(0, 0))
    >>> program = ring.lower()
    >>> verify(program).is_proven
    True

A statement whose operands lie on two ranks moves a message. Statements take effect in the order in
which they are written, on the whole machine at once. Errors are ValueError, with the author's file
and line.
"""

from __future__ import annotations

from ._language import (Buffer, Chunk, Finding, Lane, Program, ProgramBuilder, RankProgram, Span,
                        Step, Verdict, read_xml, verify, write_xml)

__all__ = ["Buffer", "Chunk", "Finding", "Lane", "Program", "ProgramBuilder", "RankProgram", "Span",
           "Step", "Verdict", "read_xml", "verify", "write_xml"]
