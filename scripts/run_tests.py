#!/usr/bin/env python3
"""Runs every test program of a build tree, then the Python tests, and counts single cases.

The last line is `N passed, N failed`, with `, N skipped` appended when a case was skipped; every
skipped case and its reason are listed above it. Exits 1 when a case failed or none ran.
GoogleTest programs are known by the ctest label `gtest`; any other ctest entry is one case. Those
labelled `untimed` run beside all others in what these leave of the processors (SCHED_IDLE), two at
a time: they neither look at real time nor take it from programs that do.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree
from typing import IO

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTEST_FOLDERS = ("test/torch", "test/python")
DEFAULT_TIMEOUT_S = 300.0
PYTEST_TIMEOUT_S = 900.0
UNTIMED_TIMEOUT_FACTOR = 4.0  # they wait while others run


@dataclasses.dataclass
class Program:
    """One command that reports one or many cases."""

    name: str
    command: list[str]
    report: str  # "gtest" and "pytest" write a JUnit file, "exit" is one case by its exit status
    timeout_s: float = DEFAULT_TIMEOUT_S
    folder: str = str(ROOT)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    skip_status: int | None = None
    runs_alone: bool = False
    is_untimed: bool = False


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)  # "name: reason"
    output: str = ""
    elapsed_s: float = 0.0


class Children:
    """The processes that run now. Each leads its own group, so an interrupt must end them here."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.processes: set[subprocess.Popen] = set()
        self.is_stopped = False

    def start(self, program: Program, extra: list[str], sink: IO[bytes]) -> subprocess.Popen:
        with self.lock:
            if self.is_stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                program.command + extra, cwd=program.folder, stdin=subprocess.DEVNULL, stdout=sink,
                stderr=subprocess.STDOUT, env={**os.environ, **program.environment},
                start_new_session=True)
            self.processes.add(process)
            return process

    def forget(self, process: subprocess.Popen) -> None:
        with self.lock:
            self.processes.discard(process)

    def stop(self) -> None:
        with self.lock:
            self.is_stopped = True
            for process in self.processes:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)


class Screen:
    """Standard output: a progress line and colours on a terminal only."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self.has_colour = self.is_terminal and not os.environ.get("NO_COLOR")
        self.lock = threading.Lock()
        self.running: list[str] = []
        self.done_count = 0
        self.total_count = 0

    def paint(self, text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.has_colour else text

    def draw(self) -> None:
        if self.is_terminal:
            line = f"{self.done_count}/{self.total_count} running {', '.join(self.running)}"
            print("\r\x1b[K" + line[:79], end="", flush=True)

    def started(self, name: str) -> None:
        with self.lock:
            self.running.append(name)
            self.draw()

    def finished(self, name: str, outcome: Outcome) -> None:
        with self.lock:
            self.running.remove(name)
            self.done_count += 1
            if self.is_terminal:
                print("\r\x1b[K", end="")
            word = self.paint("FAIL", 31) if outcome.failed else self.paint("ok  ", 32)
            count = outcome.passed + len(outcome.failed) + len(outcome.skipped)
            unit = "case" if count == 1 else "cases"
            print(f"{word} {name:<32} {count:5} {unit:<5} {outcome.elapsed_s:7.1f} s", flush=True)
            if self.running:
                self.draw()


def list_programs(tree: pathlib.Path, only: str, timeout_factor: float) -> list[Program]:
    listing = subprocess.run(
        ["ctest", "--test-dir", str(tree), "--show-only=json-v1"],
        check=True, capture_output=True, text=True).stdout
    programs = []
    for test in json.loads(listing)["tests"]:
        if only not in test["name"]:
            continue
        properties = {row["name"]: row["value"] for row in test.get("properties", [])}
        if "command" not in test:
            raise SystemExit(f"run_tests: {test['name']} is not built: run `make build` first")
        programs.append(Program(
            name=test["name"],
            command=test["command"],
            report="gtest" if "gtest" in properties.get("LABELS", []) else "exit",
            is_untimed="untimed" in properties.get("LABELS", []),
            timeout_s=timeout_factor * properties.get("TIMEOUT", DEFAULT_TIMEOUT_S),
            folder=properties.get("WORKING_DIRECTORY", str(ROOT)),
            environment=dict(row.split("=", 1) for row in properties.get("ENVIRONMENT", [])),
            skip_status=properties.get("SKIP_RETURN_CODE"),
            runs_alone=bool(properties.get("RUN_SERIAL"))))
    return programs


def python_program(timeout_factor: float) -> list[Program]:
    folders = [name for name in PYTEST_FOLDERS if any((ROOT / name).glob("**/test_*.py"))]
    if not folders:
        return []
    python = ROOT / ".venv/bin/python"
    if not python.exists():
        raise SystemExit("run_tests: .venv is missing: run `make build` first")
    command = [str(python), "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", *folders]
    return [Program("pytest", command, "pytest", timeout_factor * PYTEST_TIMEOUT_S,
                    runs_alone=True)]


def run_command(program: Program, extra: list[str], children: Children) -> tuple[int | None, str]:
    """Exit status (None: timed out) and everything the command printed."""
    with tempfile.TemporaryFile() as sink:
        process = children.start(program, extra, sink)
        try:
            status = process.wait(program.timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        if status is None:
            os.killpg(process.pid, signal.SIGKILL)  # the group is the program and its children
            process.wait()
        children.forget(process)
        sink.seek(0)
        return status, sink.read().decode(errors="replace")


def read_report(path: pathlib.Path, outcome: Outcome) -> None:
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed.append(name)
        elif skipped is not None:
            reason = (skipped.get("message") or skipped.text or "no reason given").strip()
            reason = " ".join(reason.replace(f"{ROOT}/", "").split())
            outcome.skipped.append(f"{name}: {reason}")
        elif case.get("status") == "notrun":
            outcome.skipped.append(f"{name}: disabled in the source")
        else:
            outcome.passed += 1


def describe_death(status: int | None, program: Program, output: str) -> str:
    where = ""
    for line in output.splitlines():
        if line.startswith("[ RUN      ] "):
            where = " in " + line[len("[ RUN      ] "):]
    if status is None:
        return f"{program.name}: no end after {program.timeout_s:.0f} s{where}"
    if status < 0:
        return f"{program.name}: killed by {signal.Signals(-status).name}{where}"
    return f"{program.name}: exit status {status}{where}"


def run_program(program: Program, screen: Screen, children: Children) -> Outcome:
    screen.started(program.name)
    outcome = Outcome()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        program.environment.setdefault("MCCL_DUMP_DIR", folder)
        extra = {"gtest": [f"--gtest_output=xml:{report}"],
                 "pytest": [f"--junitxml={report}"], "exit": []}[program.report]
        status, outcome.output = run_command(program, extra, children)
        if program.report == "exit":
            if status == 0:
                outcome.passed = 1
            elif program.skip_status is not None and status == program.skip_status:
                last = (outcome.output.strip().splitlines() or ["no reason given"])[-1]
                outcome.skipped.append(f"{program.name}: {last}")
            else:
                outcome.failed.append(describe_death(status, program, outcome.output))
        else:
            if status is not None and report.exists():
                read_report(report, outcome)
            else:  # it died: count the cases that had ended
                outcome.passed = outcome.output.count("\n[       OK ] ")
            if status != 0 and not outcome.failed:
                outcome.failed.append(describe_death(status, program, outcome.output))
    outcome.elapsed_s = time.monotonic() - start
    screen.finished(program.name, outcome)
    return outcome


def failure_text(program: Program, outcome: Outcome) -> str:
    """The printed text of the failed cases; everything where single cases cannot be told apart."""
    if program.report != "gtest" or any(":" in name for name in outcome.failed):
        return outcome.output
    kept: list[str] = []
    case: list[str] = []
    for line in outcome.output.splitlines():
        if line.startswith("[ RUN      ]"):
            case = [line]
        elif case:
            case.append(line)
            if line.startswith("[  FAILED  ]"):
                kept += case
            if line.startswith(("[  FAILED  ]", "[       OK ]", "[  SKIPPED ]")):
                case = []
    return "\n".join(kept) if kept else outcome.output


def summary_line(outcomes: list[Outcome]) -> str:
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(len(outcome.failed) for outcome in outcomes)
    skipped = sum(len(outcome.skipped) for outcome in outcomes)
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def print_details(programs: list[Program], outcomes: list[Outcome], screen: Screen) -> None:
    for program, outcome in zip(programs, outcomes):
        if outcome.failed:
            print("\n" + screen.paint(f"==== {program.name} failed", 31))
            print("command: " + " ".join(program.command))
            print(failure_text(program, outcome).rstrip())
    for heading, colour, rows in (
            ("skipped", 33, [row for outcome in outcomes for row in outcome.skipped]),
            ("failed", 31, [row for outcome in outcomes for row in outcome.failed])):
        if rows:
            print("\n" + screen.paint(f"{heading}:", colour))
            print("\n".join("  " + row for row in rows))


def idle_command() -> list[str]:
    """What runs a command only where a processor has nothing else to do; empty where none does."""
    chrt = shutil.which("chrt")
    if chrt is None:
        return []
    command = [chrt, "--idle", "0"]
    return [] if subprocess.run([*command, "true"], capture_output=True).returncode else command


def run_all(programs: list[Program], job_count: int, screen: Screen) -> list[Outcome]:
    """Outcomes in the order of `programs`. Those that run alone come last, beside untimed ones."""
    screen.total_count = len(programs)
    children = Children()
    outcomes: dict[str, Outcome] = {}
    idle = idle_command()
    untimed = [program for program in programs if program.is_untimed and idle]
    for program in untimed:
        program.command = idle + program.command
        program.timeout_s *= UNTIMED_TIMEOUT_FACTOR
    together = [program for program in programs
                if not program.runs_alone and program not in untimed]
    background = concurrent.futures.ThreadPoolExecutor(job_count)
    beside = {program.name: background.submit(run_program, program, screen, children)
              for program in untimed}
    try:
        with concurrent.futures.ThreadPoolExecutor(job_count) as pool:
            futures = {program.name: pool.submit(run_program, program, screen, children)
                       for program in together}
            try:
                outcomes.update((name, future.result()) for name, future in futures.items())
            except KeyboardInterrupt:
                children.stop()
                pool.shutdown(cancel_futures=True)
                raise
        for program in programs:
            if program.runs_alone:
                outcomes[program.name] = run_program(program, screen, children)
        outcomes.update((name, future.result()) for name, future in beside.items())
    finally:
        background.shutdown(wait=False, cancel_futures=True)
        children.stop()
    return [outcomes[program.name] for program in programs]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time")
    parser.add_argument("--timeout-factor", type=float, default=1.0)
    parser.add_argument("--no-python", action="store_true", help="leave the Python tests out")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    arguments = parser.parse_args()

    programs = list_programs(arguments.build_dir, arguments.only, arguments.timeout_factor)
    if not arguments.no_python and arguments.only in "pytest":
        programs += python_program(arguments.timeout_factor)
    screen = Screen()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end the children then, too
    try:
        outcomes = run_all(programs, arguments.jobs, screen)
    except KeyboardInterrupt:
        print("\nrun_tests: interrupted")
        return 130
    print_details(programs, outcomes, screen)
    line = summary_line(outcomes)
    (arguments.build_dir / "test_summary.txt").write_text(line + "\n")
    print("\n" + line, flush=True)
    ran_count = sum(outcome.passed + len(outcome.failed) for outcome in outcomes)
    return 1 if ran_count == 0 or any(outcome.failed for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
