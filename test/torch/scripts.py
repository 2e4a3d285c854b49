"""Ranks that are whole scripts, for what happens when they end; quick to start.

    with Scripts() as scripts:
        ranks = scripts.start(exit_jobs.fail, 2, "IndexError")
        scripts.wait(ranks)
        assert ranks[0].status == 1 and "IndexError" in ranks[0].errors

They meet through a TCPStore of this process, which also carries what they tell each other and the
test: `scripts.await_event(name)`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

import torch.distributed as dist

import exit_jobs

END_TIMEOUT_S = 60.0
FOLDER = pathlib.Path(__file__).parent


def kill(process_id: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process_id, number)


class Script:
    """One rank's process."""

    def __init__(self, rank: int, folder: pathlib.Path):
        self.rank = rank
        self.process_id = 0
        self.status: int | None = None  # as of subprocess: negative, by a signal
        self.output_path = folder / f"rank{rank}.out"
        self.errors_path = folder / f"rank{rank}.err"

    @property
    def errors(self) -> str:
        return self.errors_path.read_text(errors="replace")

    @property
    def reports(self) -> list[dict]:
        """What the job has reported, one line of JSON each."""
        return [json.loads(line) for line in self.output_path.read_text().splitlines()]

    def send_signal(self, number: int) -> float:
        """When it was sent; also to one that has just ended."""
        sent_at = time.monotonic()
        kill(self.process_id, number)
        return sent_at


class Scripts:
    """Starts ranks; one world at a time. Not for several threads."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mccl-scripts-")
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.world_count = 0
        self.scripts: list[Script] = []
        self.received = b""
        self.starter = subprocess.Popen(
            [sys.executable, str(FOLDER / "script_starter.py")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, bufsize=0)

    def __enter__(self) -> Scripts:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def start(self, job, rank_count: int, *arguments, only: list[int] | None = None,
              environment: dict[str, str] | None = None) -> list[Script]:
        """Runs `job(rank, rank_count, *arguments)` as a script per rank, or per rank of `only`."""
        self.world_count += 1
        folder = pathlib.Path(self.folder.name) / str(self.world_count)
        folder.mkdir()
        self.scripts = [Script(rank, folder) for rank in only or range(rank_count)]
        for script in self.scripts:
            task = {"module": job.__module__, "function": job.__name__, "rank": script.rank,
                    "rank_count": rank_count, "arguments": arguments,
                    "output": str(script.output_path), "errors": str(script.errors_path),
                    "environment": {"TEST_PORT": str(self.store.port),
                                    "TEST_WORLD": str(self.world_count),
                                    "MCCL_DUMP_DIR": "off", **(environment or {})}}
            self.starter.stdin.write(json.dumps(task).encode() + b"\n")
            deadline = time.monotonic() + END_TIMEOUT_S
            while not script.process_id:
                script.process_id = self._next_event(deadline).get("started", 0)
        return self.scripts

    def await_event(self, name: str, timeout_s: float = END_TIMEOUT_S) -> str:
        """What a rank told by `tell_event(name, value)`, or an AssertionError with all stacks."""
        key = f"event/{self.world_count}/{name}"
        try:
            self.store.wait([key], datetime.timedelta(seconds=timeout_s))
        except dist.DistStoreError:
            raise AssertionError(self._stacks(f'no event "{name}" after {timeout_s} s')) from None
        return self.store.get(key).decode()

    def await_record(self, rank: int) -> None:
        """Until that rank takes part in the meeting of its world."""
        exit_jobs.await_record(self.store, f"world/{self.world_count}", rank)

    def tell_event(self, name: str, value: str = "") -> None:
        self.store.set(f"event/{self.world_count}/{name}", value)

    def wait(self, scripts: list[Script] | None = None, timeout_s: float = END_TIMEOUT_S) -> None:
        """Until those (all of them) have ended; an AssertionError with their stacks after that."""
        deadline = time.monotonic() + timeout_s
        while any(script.status is None for script in scripts or self.scripts):
            self._next_event(deadline)

    def _next_event(self, deadline: float) -> dict:
        while b"\n" not in self.received:
            ready = select.select([self.starter.stdout], [], [], deadline - time.monotonic())[0]
            data = os.read(self.starter.stdout.fileno(), 65536) if ready else b""
            if not data:
                raise AssertionError(self._stacks("a rank has not ended in time"))
            self.received += data
        line, _, self.received = self.received.partition(b"\n")
        event = json.loads(line)
        for script in self.scripts:
            if script.process_id == event.get("ended"):
                script.status = event["status"]
        return event

    def _stacks(self, reason: str) -> str:
        late = [script for script in self.scripts if script.status is None]
        for script in late:
            script.send_signal(signal.SIGUSR2)
        time.sleep(1.0)  # nothing tells when faulthandler has printed
        for script in late:
            script.send_signal(signal.SIGKILL)
        return f"{reason}; ranks {[script.rank for script in late]} still run" + "".join(
            f"\n---- rank {script.rank} (status {script.status}) reported\n"
            f"{script.output_path.read_text()}---- and printed\n{script.errors}"
            for script in self.scripts)

    def close(self) -> None:
        for script in self.scripts:
            if script.status is None and script.process_id:
                script.send_signal(signal.SIGKILL)
        self.starter.stdin.close()
        self.starter.wait()
        self.starter.stdout.close()
        self.folder.cleanup()
