"""Real processes as ranks: a pool of children that run the same function and report back.

    with Ranks(3) as ranks:
        ranks.call(body, 5)   # body(rank, rank_count, 5) on every rank; raises what any raised

The parent imports torch and forks, so children start in milliseconds; it must never compute with
tensors itself (a fork does not take torch's threads along). Every call has a hard deadline: when it
passes, each child prints the Python stack of all its threads, all are killed, and the stacks are in
the error. The ranks meet through a TCPStore that the child of rank 0 hosts on a free port.
"""

from __future__ import annotations

import dataclasses
import datetime
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import sys
import tempfile
import time
import traceback
from typing import Any, Callable

import torch
import torch._dynamo  # what DDP and profiles import at their first use: once, not in every child
import torch.distributed as dist

import mccl

CALL_TIMEOUT_S = 120.0
GROUP_TIMEOUT_S = 60.0
FORK_TIMEOUT_S = 20.0
STACK_WAIT_S = 1.0
_fork = multiprocessing.get_context("fork")
# The parent's ends of all pipes: a child closes its copies, or nobody would see an end of file.
_parent_ends: set[Any] = set()


@dataclasses.dataclass
class Outcome:
    """How a call ended on one rank."""

    rank: int
    value: Any = None
    error_type: str = ""  # empty: it returned
    error: str = ""
    trace: str = ""


class Meeting:
    """What a child knows: who it is, and how it finds the others."""

    def __init__(self, rank: int, rank_count: int, port_pipe: tuple[int, int]):
        self.rank = rank
        self.rank_count = rank_count
        self.port_pipe = port_pipe
        self.store: dist.Store | None = None
        self.group_count = 0

    def connect(self) -> dist.Store:
        if self.store is None:
            limit = datetime.timedelta(seconds=GROUP_TIMEOUT_S)
            if self.rank == 0:
                self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                                           timeout=limit)
                line = self.store.port.to_bytes(2, "little")
                os.write(self.port_pipe[1], line * (self.rank_count - 1))
            else:
                port = int.from_bytes(os.read(self.port_pipe[0], 2), "little")
                self.store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=limit)
        return self.store


_meeting: Meeting | None = None


def init(timeout_s: float = GROUP_TIMEOUT_S, **options) -> None:
    """In a child: init_process_group("mccl") with the other children, under keys of its own."""
    store = dist.PrefixStore(f"group{_meeting.group_count}", _meeting.connect())
    _meeting.group_count += 1
    dist.init_process_group("mccl", store=store, rank=_meeting.rank,
                            world_size=_meeting.rank_count,
                            timeout=datetime.timedelta(seconds=timeout_s), **options)


def go(name: str) -> None:
    """In a child: lets those go on that await this name; past the back end, over the store."""
    _meeting.connect().set(f"go/{_meeting.group_count}/{name}", b"1")


def await_go(name: str) -> None:
    _meeting.connect().wait([f"go/{_meeting.group_count}/{name}"],
                            datetime.timedelta(seconds=CALL_TIMEOUT_S))


def call_in_fork(action: Callable[[], Any]) -> tuple[int, str]:
    """What `action` comes to in a forked child: its exit status, and what it returned or raised.

    Through a pipe: the child must not come back into the pool's loop. One that does not end is
    killed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(action() or "no error")
        except BaseException as error:  # noqa: B902
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    if not multiprocessing.connection.wait([reader], FORK_TIMEOUT_S):
        os.kill(child, signal.SIGKILL)
    text = os.read(reader, 4096).decode()
    os.close(reader)
    return os.waitpid(child, 0)[1], text


def _run_child(meeting: Meeting, pipe, output: str, environment: dict, initialises: bool) -> None:
    global _meeting
    _meeting = meeting
    for end in _parent_ends:
        end.close()
    sink = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("MCCL_DUMP_DIR", str(pathlib.Path(output).parent / "dumps"))
    os.environ.update(environment)
    torch.set_num_threads(1)
    is_ready = not initialises
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            break
        try:
            if not is_ready:
                init()
                is_ready = True
            value = function(meeting.rank, meeting.rank_count, *arguments)
            report = Outcome(meeting.rank, value)
        except BaseException as error:  # noqa: B902, a KeyboardInterrupt is a result like any other
            report = Outcome(meeting.rank, None, type(error).__name__, str(error),
                             traceback.format_exc())
        pipe.send(report)
    if dist.is_initialized():
        dist.destroy_process_group()


class Ranks:
    """`rank_count` children; with `initialises` they form the default group at their first call."""

    def __init__(self, rank_count: int, initialises: bool = True,
                 environment: dict[str, str] | None = None):
        self.rank_count = rank_count
        self.is_broken = False
        self.folder = tempfile.TemporaryDirectory(prefix="mccl-ranks-")
        folder = pathlib.Path(self.folder.name)
        self.outputs = [folder / f"rank{rank}" for rank in range(rank_count)]
        self.pipes = []
        self.processes = []
        port_pipe = os.pipe()
        for rank, output in enumerate(self.outputs):
            output.touch()
            own_end, child_end = _fork.Pipe()
            _parent_ends.add(own_end)
            process = _fork.Process(
                target=_run_child, daemon=True,
                args=(Meeting(rank, rank_count, port_pipe), child_end, str(output),
                      environment or {}, initialises))
            process.start()
            child_end.close()
            self.pipes.append(own_end)
            self.processes.append(process)
        for end in port_pipe:
            os.close(end)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def output(self, rank: int) -> str:
        return self.outputs[rank].read_text(errors="replace")

    def start(self, function: Callable, *arguments, only: list[int] | None = None) -> None:
        """Starts the call on all ranks, or on those of `only`, without waiting for its end."""
        self.called = list(range(self.rank_count)) if only is None else only
        for rank in self.called:
            self.pipes[rank].send((function, arguments))

    def finish(self, timeout_s: float = CALL_TIMEOUT_S) -> list[Outcome]:
        """How the started call ended, in the order of ranks. A child that died has no value."""
        deadline = time.monotonic() + timeout_s
        outcomes = {}
        while len(outcomes) < len(self.called):
            waiting = {self.pipes[rank]: rank for rank in self.called if rank not in outcomes}
            ready = multiprocessing.connection.wait(
                list(waiting), max(0.0, deadline - time.monotonic()))
            if not ready:
                self.is_broken = True
                raise AssertionError(self._stacks(sorted(waiting.values()), timeout_s))
            for pipe in ready:
                rank = waiting[pipe]
                try:
                    outcomes[rank] = pipe.recv()
                except (EOFError, ConnectionResetError):
                    outcomes[rank] = self._death(rank)
        return [outcomes[rank] for rank in sorted(outcomes)]

    def outcomes(self, function: Callable, *arguments,
                 timeout_s: float = CALL_TIMEOUT_S) -> list[Outcome]:
        """For calls that are meant to fail; a failed collective is the pool's last."""
        self.start(function, *arguments)
        return self.finish(timeout_s)

    def call(self, function: Callable, *arguments, timeout_s: float = CALL_TIMEOUT_S) -> list:
        """The values of all ranks; an AssertionError with every trace when one of them failed."""
        outcomes = self.outcomes(function, *arguments, timeout_s=timeout_s)
        failed = [outcome for outcome in outcomes if outcome.error_type]
        if failed:
            self.is_broken = True
            raise AssertionError("".join(
                f"\n---- rank {outcome.rank} raised\n{outcome.trace}"
                f"---- rank {outcome.rank} printed\n{self.output(outcome.rank)}"
                for outcome in failed))
        return [outcome.value for outcome in outcomes]

    def _death(self, rank: int) -> Outcome:
        self.is_broken = True
        self.processes[rank].join(10)
        code = self.processes[rank].exitcode
        cause = signal.Signals(-code).name if code is not None and code < 0 else f"status {code}"
        return Outcome(rank, None, "Death", cause, f"ended with {cause}\n{self.output(rank)}")

    def _stacks(self, late: list[int], timeout_s: float) -> str:
        for process in self.processes:
            if process.is_alive():
                os.kill(process.pid, signal.SIGUSR1)
        time.sleep(STACK_WAIT_S)  # nothing tells when faulthandler has printed
        self.kill()
        return f"no end after {timeout_s:.0f} s on ranks {late}" + "".join(
            f"\n---- rank {rank} printed\n{self.output(rank)}" for rank in range(self.rank_count))

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()

    def close(self, timeout_s: float = 20.0) -> list[int]:
        """Lets the children leave their group and end; kills those that do not. Exit statuses."""
        for pipe in self.pipes:
            pipe.close()
            _parent_ends.discard(pipe)
        deadline = time.monotonic() + (0.0 if self.is_broken else timeout_s)
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        self.kill()
        self.folder.cleanup()
        return [process.exitcode for process in self.processes]
