#!/usr/bin/env python3
"""Type-checks the Objective-C++ files for a Mac's compiler, with ARC, against the headers in stubs.

Usage: type_check.py [--torch FOLDER ...]. The folders are torch's include folders; without them the
files that need torch are left out. Four questions, each a line of the report:
  - every file compiles without a warning, metal_device.mm against torch's own headers;
  - metal_device.mm compiles against the stubs of three of torch's versions;
  - it takes the path of that version;
  - each of a list of slips is rejected: else the stubs would accept anything.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FLAGS = ["-std=c++20", "-fblocks", "-fobjc-arc", "-fobjc-runtime=macosx", "-Wall", "-Wextra",
         "-Werror"]
OURS = ["-I", ROOT / "include", "-I", ROOT / "src", "-I", ROOT / "plugins/torch"]
EVENT, HAND_OFF, STAGING = (f"src/device/metal_{name}.mm"
                            for name in ("event", "hand_off", "staging"))
DEVICE = "plugins/torch/metal_device.mm"
# Of torch's versions, by the name of their folder: whether streams are public.
SHAPES = {"2.9": False, "2.14": False, "2.15": True}

# (file, what it says, what a slip would say).
SLIPS = [
    (EVENT, "signaledValue >= value", "signalledValue >= value"),
    (EVENT, "notifyListener:listener", "notify:listener"),
    (EVENT, "block:^(id<MTLSharedEvent>, uint64_t)", "block:^(id<MTLSharedEvent>)"),
    (EVENT, "initWithDispatchQueue:dispatch_queue_create", "initWithQueue:dispatch_queue_create"),
    (HAND_OFF, "encodeSignalEvent:produced_ value:", "encodeSignalEvent:produced_ atValue:"),
    (HAND_OFF, "encodeWaitForEvent:consumer.event", "encodeWaitForEvent:consumer"),
    (HAND_OFF, "id<MTLSharedEvent> event = nil;", "id<MTLEvent> event = nil;"),
    (HAND_OFF, "[device_ newSharedEvent]", "[device_ newCommandQueue]"),
    (STAGING, "[buffer blitCommandEncoder]", "[buffer blitEncoder]"),
    (STAGING, "options:MTLResourceStorageModeShared", "options:MTLStorageModeShared"),
    (STAGING, "[encoder endEncoding]", "[buffer endEncoding]"),
    (STAGING, "Handler:^(id<MTLCommandBuffer>)", "Handler:^(id<MTLBuffer>)"),
    (DEVICE, "(__bridge id<MTLBuffer>)", "(id<MTLBuffer>)"),
    (DEVICE, "stream->endKernelCoalescing()", "stream->endKernelCoalescence()"),
    (DEVICE, "SyncType::COMMIT)", "SyncType::COMMITTED)"),
    (DEVICE, "->getSharedBufferPtr(", "->getSharedBuffer("),
    (DEVICE, "buffer.storageMode !=", "buffer.storageOptions !="),
    (DEVICE, "make_metal_hand_off(torch_stream->device(), ", "make_metal_hand_off(torch_stream, "),
]


@dataclasses.dataclass(frozen=True)
class Check:
    """One compilation and how it must end."""

    name: str
    source: str
    is_accepted: bool
    shape: str = ""  # of SHAPES; empty: torch's own headers
    text: str = ""  # instead of the file's own


def list_checks(has_torch: bool) -> list[Check]:
    sources = [EVENT, HAND_OFF, STAGING] + [DEVICE] * has_torch
    checks = [Check(f"{source} compiles", source, is_accepted=True) for source in sources]
    for shape, has_streams in SHAPES.items() if has_torch else ():
        expected = "" if has_streams else "!"
        path = f"static_assert({expected}mccl::HasPublicStreams<at::mps::MPSStream>);"
        checks.append(Check(f"{DEVICE} compiles with torch {shape}, and takes its path", DEVICE,
                            is_accepted=True, shape=shape,
                            text=(ROOT / DEVICE).read_text() + "\n" + path))
    for source, right, slip in SLIPS:
        if source not in sources:
            continue
        text = (ROOT / source).read_text()
        if right not in text:
            sys.exit(f"type_check: {source} does not say {right!r} any more; mend SLIPS")
        checks.append(Check(f"{source} with {slip!r} is rejected", source, is_accepted=False,
                            text=text.replace(right, slip, 1)))
    return checks


class Compiler:
    """clang, its include folders, and torch's tensor header compiled once for all."""

    def __init__(self, clang: str, torch_folders: list[str], scratch: pathlib.Path) -> None:
        self.command = [clang, "-x", "objective-c++", *FLAGS]
        self.torch = [argument for folder in torch_folders for argument in ("-isystem", folder)]
        self.scratch = scratch
        self.tensor_header = scratch / "tensor.pch"
        if torch_folders:
            header = scratch / "tensor.h"
            header.write_text("#include <ATen/core/Tensor.h>\n")
            self.run([clang, "-x", "objective-c++-header", *FLAGS, *self.includes(""), header, "-o",
                      self.tensor_header]).check_returncode()

    def includes(self, shape: str) -> list[str | pathlib.Path]:
        stubs = ["-isystem", HERE / "torch_stubs" / shape] if shape else []
        return [*stubs, "-isystem", HERE / "stubs", *self.torch, *OURS]

    @staticmethod
    def run(command: list) -> subprocess.CompletedProcess:
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def judge(self, check: Check) -> str:
        """Empty, or what the compiler said instead of what was expected."""
        path = ROOT / check.source
        if check.text:
            folder = self.scratch / str(abs(hash(check)))
            folder.mkdir()
            path = folder / path.name
            path.write_text(check.text)
        header = ["-include-pch", self.tensor_header] if check.source == DEVICE else []
        done = self.run([*self.command, *self.includes(check.shape), *header, "-fsyntax-only",
                         path])
        if check.is_accepted:
            return done.stderr
        return "" if "error:" in done.stderr else "the compiler took it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clang", default="clang++-16")
    parser.add_argument("--torch", nargs="*", default=[])
    arguments = parser.parse_args()
    failed = 0
    with (tempfile.TemporaryDirectory() as scratch,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        compiler = Compiler(arguments.clang, arguments.torch, pathlib.Path(scratch))
        checks = list_checks(bool(arguments.torch))
        for check, complaint in zip(checks, pool.map(compiler.judge, checks)):
            print(f"{'FAIL' if complaint else 'ok  '} {check.name}")
            if complaint:
                failed += 1
                print(complaint)
    print(f"{len(checks) - failed} as expected, {failed} not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
