"""The buffers of a rank, and the growing list behind a scratch name."""

from __future__ import annotations

from enum import Enum


class Buffer(Enum):
    """The buffers of the call. Any other key of a program's buffers is the name of scratch."""

    input = "i"
    output = "o"
    scratch = "s"

    def __str__(self) -> str:
        return self.value

    def __lt__(self, other: "Buffer") -> bool:
        return self.value < other.value

    def __gt__(self, other: "Buffer") -> bool:
        return self.value < other.value  # as programs know it


class BufferSlice:
    """A scratch buffer: a list that grows to the index written."""

    def __init__(self, buf, name):
        self.name = name
        self.buf = buf
        self.offset = -1
        self.chunks: list = []

    def get_global_index(self, index: int) -> int:
        return self.offset + index

    def get_buffer(self):
        return self.buf

    def instance_size(self) -> int:
        return len(self.chunks)

    def set_offset(self, offset: int) -> None:
        self.offset = offset

    def __getitem__(self, index):
        return self.chunks[index]

    def __setitem__(self, index: int, value) -> None:
        self.chunks.extend([None] * (index + 1 - len(self.chunks)))
        self.chunks[index] = value

    def __len__(self) -> int:
        return len(self.chunks)
