"""The language of msccl-tools: `from msccl.language import *`.

There is no __all__: programs use whatever the original module happens to hold.
"""

from __future__ import annotations

import functools  # noqa: F401
import heapq  # noqa: F401
import sys  # noqa: F401
from collections import defaultdict  # noqa: F401
from dataclasses import dataclass, field  # noqa: F401
from enum import Enum  # noqa: F401
from xml.etree import ElementTree as ET  # noqa: F401

from .. import collectives  # noqa: F401
from .buffer import Buffer, BufferSlice  # noqa: F401
from .chunk import Chunk, ReduceChunk  # noqa: F401
from .ir import (ChunkInstruction, ChunkRef, Gpu, Instruction, Op, Program,  # noqa: F401
                 Threadblock, ThreadblockPolicy, ir_to_xml)
from .program import (XML, Check, MSCCLProgram, Print, Ref, chunk,  # noqa: F401
                      create_scratch)
from .rank_dag import InstructionDAG  # noqa: F401


def _inside(name: str):
    """A pass of the original compiler, which programs import with `*` and never call."""
    def refuse(*_, **__):
        raise NotImplementedError(f"{name} is inside mccl's compiler; call prog.lower()")
    refuse.__name__ = name
    return refuse


manual_assign_tbs = _inside("manual_assign_tbs")
auto_assign_tbs = _inside("auto_assign_tbs")
topo_sort_instrs = _inside("topo_sort_instrs")
channel_assignment = _inside("channel_assignment")
check_dependency_cycles = _inside("check_dependency_cycles")
check_threadblock_ordering = _inside("check_threadblock_ordering")
