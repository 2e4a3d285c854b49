"""What each slot sees, op by op: for programs that look at `prog.instr_dag`.

The compiler does not use it: dependences are worked out where programs are lowered.
"""

from __future__ import annotations

from .ir import ChunkRef, Instruction, Op


class InstructionDAG:
    """`operations[(rank, buffer, index)]` is the first op of a slot; `next` leads on."""

    def __init__(self, num_ranks: int, buffers):
        self.num_ranks = num_ranks
        self.buffers = buffers
        self.operations: "dict[tuple, Op]" = {}
        self._last_writer: "dict[tuple, Op]" = {}
        self._readers: "dict[tuple, list[Op]]" = {}

    def add_start(self, rank: int, buffer, index: int, ref) -> None:
        op = Op(Instruction.start, rank, ref, ref)
        self.operations[(rank, buffer, index)] = op
        self._last_writer[(rank, buffer, index)] = op

    def add(self, inst: Instruction, rank: int, src: ChunkRef, dst: ChunkRef, channel: int) -> Op:
        op = Op(inst, rank, src, dst, channel=channel)
        if inst in (Instruction.send, Instruction.copy, Instruction.reduce):
            for slot in _slots(src):
                self._link(self._last_writer.get(slot), op)
                self._readers.setdefault(slot, []).append(op)
        if inst is not Instruction.send:
            for slot in _slots(dst):
                self._write(slot, op)
        return op

    def _write(self, slot: tuple, op: Op) -> None:
        before = [reader for reader in self._readers.pop(slot, []) if reader is not op]
        for earlier in before or [self._last_writer.get(slot)]:
            self._link(earlier, op)
        self._last_writer[slot] = op
        self.operations.setdefault(slot, op)

    @staticmethod
    def _link(before: "Op | None", after: Op) -> None:
        if before is not None and before is not after and all(op is not after for op in before.next):
            before.next.append(after)
            after.prev.append(before)


def _slots(ref: ChunkRef):
    return [(ref.rank, ref.buffer, index) for index in range(ref.index, ref.index + ref.size)]
