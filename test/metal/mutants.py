#!/usr/bin/env python3
"""Breaks the Metal files, one rule at a time, and runs them over the stand-ins: a test must fail.

Usage: mutants.py [BUILD_FOLDER [WORDS]]. The folder (build/release) must have built
metal_device_test, from whose commands the broken variants are made in a scratch folder. Each line
of the table is a mutant (of those whose name contains the words), how many tests failed, and one of
them. Mutants whose death would need another kind of machine are marked `lives`, and must.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "metal_device_test"
SECONDS_MAX = 150
THREADS = "*UnderThreads*"
EVENT, HAND_OFF, STAGING = (f"src/device/metal_{name}.mm"
                            for name in ("event", "hand_off", "staging"))
DEVICE = "plugins/torch/metal_device.mm"


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    source: str
    changes: list[tuple[str, str]]
    lives: str = ""  # why no test on this machine can see it


MUTANTS = [
    Mutant("the open encoder is not ended", DEVICE, [("stream->endKernelCoalescing();", "")]),
    Mutant("the signal is not committed", DEVICE,
           [("if (after == AfterEncoding::Commit) stream->synchronize(at::mps::SyncType::COMMIT);",
             "(void)after;")]),
    Mutant("the wait is committed", DEVICE, [("if (after == AfterEncoding::Commit) ", "")]),
    Mutant("torch's stream is used off its queue", DEVICE,
           [("dispatch_sync(stream->queue(), ^{", "(^{"),
            ("    });\n    if (thrown", "    })();\n    if (thrown")]),
    Mutant("what torch throws passes through the queue", DEVICE, [("catch (...)", "catch (int)")]),
    Mutant("the storage offset is forgotten", DEVICE,
           [("const_cast<std::byte*>(storage) + offset_bytes(tensor)",
             "const_cast<std::byte*>(storage)")]),
    Mutant("all streams share one hand-off", DEVICE,
           [("streams_[torch_stream]", "streams_[nullptr]")]),
    Mutant("a staged tensor is not held", DEVICE,
           [(".owner = std::make_shared<at::Tensor>(staged.tensor)", ".owner = nullptr")]),
    Mutant("no wait for the producer", EVENT,
           [("if (has_reached(event, value)) return true;", "return true;")]),
    Mutant("the value is not looked at again", EVENT,
           [("return has_reached(event, value) && waiter->use();", "return false;")]),
    Mutant("the engine may be told twice", EVENT,
           [("return has_reached(event, value) && waiter->use();",
             "return has_reached(event, value);")]),
    Mutant("the engine is never woken", EVENT, [("if (waiter->use()) waiter->wake();", "")]),
    Mutant("no acquire fence", EVENT,
           [("std::atomic_thread_fence(std::memory_order_acquire);\n  return", "return")],
           lives="x86 and the stand-ins' locks order the accesses anyway"),
    Mutant("no release fence", EVENT,
           [("std::atomic_thread_fence(std::memory_order_release);", "")],
           lives="x86 and the stand-ins' locks order the accesses anyway"),
    Mutant("the producer's value is too low", HAND_OFF,
           [("Event:produced_ value:ticket", "Event:produced_ value:ticket - 1")]),
    Mutant("an earlier ticket is awaited", HAND_OFF,
           [("await_metal_event(produced_, ticket,", "await_metal_event(produced_, ticket - 1,")]),
    Mutant("the consumer's event is signalled for the producer's", HAND_OFF,
           [("encodeSignalEvent:produced_ value:ticket",
             "encodeSignalEvent:consumer.value().event value:ticket")]),
    Mutant("the producer's event is waited for", HAND_OFF,
           [("encodeWaitForEvent:consumer.event value:consumer.value",
             "encodeWaitForEvent:produced_ value:ticket")]),
    Mutant("no wait for the consumer", HAND_OFF,
           [("[buffer encodeWaitForEvent:consumer.event value:consumer.value];",
             "(void)buffer;")]),
    Mutant("an old value is used again", HAND_OFF, [("++consumer.value;", "")]),
    Mutant("one counter for all consumers", HAND_OFF,
           [("id<MTLSharedEvent> event = [device_ newSharedEvent];",
             "if (only_ == nil) only_ = [device_ newSharedEvent];\n"
             "id<MTLSharedEvent> event = only_;"),
            ("return ConsumerEvent{event, 1};", "return ConsumerEvent{event, last_ticket_ + 1};"),
            ("      free_.push_back(consumer);\n", ""),
            ("std::mutex encoding_mutex_;",
             "id<MTLSharedEvent> only_ = nil;\nstd::mutex encoding_mutex_;")]),
    Mutant("an event is free before its ticket is raised", HAND_OFF,
           [("in_flight_.emplace(ticket, consumer.value());",
             "in_flight_.emplace(ticket, consumer.value()); free_.push_back(consumer.value());")]),
    Mutant("events are not used again", HAND_OFF, [("if (!free_.empty())", "if (false)")]),
    Mutant("nothing is raised", HAND_OFF,
           [("raise_metal_event(consumer.event, consumer.value);", "")]),
    Mutant("copies in do not wait for the kernels", STAGING,
           [("if (direction == Direction::In) [buffer", "if (false) [buffer")]),
    Mutant("copies in and out on one queue", STAGING,
           [("const Queues queues = {[device newCommandQueue], [device newCommandQueue]};",
             "id<MTLCommandQueue> one = [device newCommandQueue];\n"
             "const Queues queues = {one, one};")]),
    Mutant("outputs are copied in", STAGING, [("? region.is_read :", "? true :")]),
    Mutant("inputs are copied back", STAGING, [(": region.is_written)", ": true)")]),
    Mutant("the engine starts before the copies are filled", STAGING,
           [("state_->event, kFilled, listener_", "state_->event, kProduced, listener_")]),
    Mutant("a failed call is copied back", STAGING,
           [("if (state_->event.signaledValue < kFilled)", "if (false)")]),
    Mutant("regions lie on each other", STAGING,
           [("total_bytes += (region", "total_bytes = (region")]),
]


class Build:
    """The commands that made the test program."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        lines = subprocess.run(["ninja", "-C", folder, "-t", "commands", PROGRAM], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        self.compiles = {source: next(line for line in lines if f"-c {ROOT / source} " in line)
                         for source in (EVENT, HAND_OFF, STAGING, DEVICE)}
        parts = (part for line in lines for part in line.split(" && "))
        self.link = next(part for part in parts if f"-o test/metal/{PROGRAM} " in part)

    def compile(self, source: str, text: str, scratch: pathlib.Path) -> pathlib.Path | None:
        path = scratch / pathlib.Path(source).name
        path.write_text(text)
        compiled = scratch / "mutant.o"
        words = shlex.split(self.compiles[source].split(" && ")[1])
        words[words.index("-o") + 1] = str(compiled)
        words[words.index("-c") + 1] = str(path)
        words[words.index("-MF") + 1] = str(scratch / "mutant.d")
        words.remove("-Werror")  # what a mutant leaves unused is no fault
        return compiled if self.run(words) else None

    def link_with(self, compiled: pathlib.Path, scratch: pathlib.Path) -> pathlib.Path | None:
        """The object is named before the archives, so the linker takes nothing else for it."""
        program = scratch / PROGRAM
        words = shlex.split(self.link)
        place = words.index("-o") + 1
        words[place] = str(program)
        words.insert(place + 1, str(compiled))
        return program if self.run(words) else None

    def run(self, words: list[str]) -> bool:
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stderr[-2000:])
        return done.returncode == 0


def failures(program: pathlib.Path, test_filter: str) -> list[str]:
    """Names of the tests that failed; one that does not end, or aborts, is the last of them."""
    try:
        output = subprocess.run([program, f"--gtest_filter={test_filter}"], capture_output=True,
                                text=True, timeout=SECONDS_MAX, check=False).stdout
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode()
    failed = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", output, re.M)))
    started = re.findall(r"^\[ RUN      \] ([\w/.]+)", output, re.M)
    ended = set(re.findall(r"^\[       OK \] ([\w/.]+)", output, re.M)) | set(failed)
    return failed + [f"{name} (does not end)" for name in started if name not in ended]


def main() -> int:
    folder, words = [*sys.argv[1:], *["build/release", ""][len(sys.argv) - 1:]]
    build = Build((ROOT / folder).resolve())
    wrong = 0
    for mutant in MUTANTS:
        if words not in mutant.name:
            continue
        text = (ROOT / mutant.source).read_text()
        for right, broken in mutant.changes:
            if right not in text:
                sys.exit(f"mutants: {mutant.source} does not say {right!r} any more; mend MUTANTS")
            text = text.replace(right, broken, 1)
        with tempfile.TemporaryDirectory() as scratch_name:
            scratch = pathlib.Path(scratch_name)
            compiled = build.compile(mutant.source, text, scratch)
            program = compiled and build.link_with(compiled, scratch)
            if program is None:
                sys.exit(f"mutants: {mutant.name}: does not build")
            # With threads a broken hand-off is waited for in vain, which takes a minute.
            failed = failures(program, f"-{THREADS}") or failures(program, THREADS)
        is_wrong = bool(failed) == bool(mutant.lives)
        wrong += is_wrong
        outcome = f"{len(failed):3} fail, {failed[0]}" if failed else f"  lives: {mutant.lives}"
        print(f"{'WRONG' if is_wrong else 'ok   '} {mutant.name:<52} {outcome}", flush=True)
    print(f"{wrong} mutants not as they should")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
