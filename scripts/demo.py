#!/usr/bin/env python3
"""What `make demo` shows: training over mccl beside gloo and one process, a sweep, the C++ example.

Exits 1 with a line per promise that was broken. Results go to standard output, the rest to standard
error. Every figure is measured in this run, on this machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANK_COUNT = 4
RUN_TIMEOUT_S = 600

ACCURACY_MIN = 0.95
ACCURACY_DISTANCE_MAX = 0.015  # from one process
LOSS_DIFFERENCE_MAX = 1e-4  # relative, of each of the first losses, to one process


class Screen:
    """Standard output; bold and colours on a terminal only."""

    def __init__(self) -> None:
        is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self.has_colour = is_terminal and not os.environ.get("NO_COLOR")

    def paint(self, text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.has_colour else text

    def heading(self, text: str) -> None:
        print("\n" + self.paint(text, 1), flush=True)

    def table(self, names: list[str], rows: list[list[str]], left_columns: int = 1) -> None:
        """The first `left_columns` and the last column to the left, the others to the right."""
        widths = [max(len(row[column]) for row in [names, *rows]) for column in range(len(names))]
        for row in [names, *rows]:
            cells = [cell.ljust(width) if column < left_columns or column == len(names) - 1
                     else cell.rjust(width)
                     for column, (cell, width) in enumerate(zip(row, widths))]
            print(("  " + "  ".join(cells)).rstrip(), flush=True)


def note(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)


def run(command: list[str]) -> None:
    """Runs a command with its output on our standard error; a failure ends the demo."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=sys.stderr)
    try:
        status = process.wait(RUN_TIMEOUT_S)
    except BaseException as error:
        process.terminate()  # the launcher ends its ranks
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise SystemExit(f"demo: no end after {RUN_TIMEOUT_S} s: {' '.join(command)}") from None
    if status != 0:
        raise SystemExit(f"demo: exit status {status}: {' '.join(command)}")


def launch(script: str, folder: pathlib.Path, name: str, rank_count: int, *words: str):
    """Runs an example script, under torchrun when it has ranks, and reads its JSON."""
    results = folder / f"{name}.json"
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(rank_count)]
    start = time.monotonic()
    run([sys.executable, *(launcher if rank_count else []), f"examples/{script}",
         "--results", str(results), *words])
    note(f"{name}: {time.monotonic() - start:.1f} s")
    return json.loads(results.read_text())


def loss_difference(run_results: dict, single: dict) -> float:
    """The largest; infinite when a loss is no number, which max() could miss."""
    differences = [abs(ours - its) / abs(its)
                   for ours, its in zip(run_results["losses"], single["losses"], strict=True)]
    return math.inf if any(map(math.isnan, differences)) else max(differences)


def broken_promises(name: str, run_results: dict, single: dict) -> list[str]:
    """A sentence for each."""
    broken = []
    accuracy = run_results["test_accuracy"]
    if accuracy < ACCURACY_MIN:
        broken.append(f"{name}: test accuracy is {accuracy:.4f}, promised at least {ACCURACY_MIN}")
    distance = abs(accuracy - single["test_accuracy"])
    if distance > ACCURACY_DISTANCE_MAX:
        broken.append(f"{name}: test accuracy is {100 * distance:.2f} points from one process, "
                      f"promised at most {100 * ACCURACY_DISTANCE_MAX}")
    difference = loss_difference(run_results, single)
    if difference > LOSS_DIFFERENCE_MAX:
        broken.append(f"{name}: a loss differs from one process by {difference:.1e} of it, "
                      f"promised at most {LOSS_DIFFERENCE_MAX:.0e}")
    if not run_results["has_equal_weights"]:
        broken.append(f"{name}: ranks ended with different weights")
    return broken


def training_row(name: str, run_results: dict, single: dict) -> list[str]:
    exposed = run_results["exposed"]
    return [name, f"{100 * run_results['test_accuracy']:.2f} %",
            f"{loss_difference(run_results, single):.1e}",
            f"{run_results['step_ms_median']:.1f} ms",
            f"{exposed['exposed_ms']:.1f} ms" if exposed else "-",
            f"{run_results['train_s']:.1f} s",
            "equal" if run_results["has_equal_weights"] else "different"]


def show_training(screen: Screen, folder: pathlib.Path) -> list[str]:
    note("three trainings: one process, then 4 ranks over gloo and over mccl")
    single = launch("train_digits.py", folder, "one process", 0)
    runs = {f"{backend}, {RANK_COUNT} ranks":
            launch("train_digits.py", folder, backend, RANK_COUNT, "--backend", backend)
            for backend in ("gloo", "mccl")}
    screen.heading(f"A vision transformer of {single['parameter_count']:,} parameters on 8x8 "
                   f"digits, {single['steps']} steps of {single['global_batch']} images, stock DDP")
    rows = [training_row("one process", single, single)]
    rows += [training_row(name, run_results, single) for name, run_results in runs.items()]
    screen.table(["", "test accuracy", "loss difference", "step", "exposed", "training", "weights"],
                 rows)
    print(f"  loss difference: the largest of the first {len(single['losses'])} global losses to\n"
          "  one process, relative; step: median; exposed: a step less a no_sync() step, medians")
    mccl_run = runs[f"mccl, {RANK_COUNT} ranks"]
    screen.heading("Which program served it, and why (mccl.stats())")
    screen.table(["collective", "program", "calls", "bytes", "reason"],
                 [[row["collective"], row["program"], str(row["calls"]), f"{row['bytes']:,}",
                   row["reason"]] for row in mccl_run["programs"]], left_columns=2)
    broken = broken_promises("one process", single, single)
    for name, run_results in runs.items():
        broken += broken_promises(name, run_results, single)
    return broken


def show_sweep(screen: Screen, folder: pathlib.Path) -> None:
    note("an all-reduce sweep, mccl and gloo in turns")
    rows = launch("all_reduce_sweep.py", folder, "sweep", RANK_COUNT)
    screen.heading(f"all_reduce on {RANK_COUNT} ranks over TCP, both in the same processes, in "
                   "turns A B B A, medians of the slowest rank")
    bus_factor = 2 * (RANK_COUNT - 1) / RANK_COUNT
    table = []
    for row in rows:
        bus = row["bytes"] * bus_factor / row["mccl_us"] / 1e3
        table.append([f"{row['bytes']:,}", f"{row['mccl_us']:,.0f} us", f"{row['gloo_us']:,.0f} us",
                      f"{row['gloo_us'] / row['mccl_us']:.2f}", f"{bus:.3f} GB/s", row["program"]])
    screen.table(["bytes", "mccl", "gloo", "gloo/mccl", "mccl busbw", "mccl's program"], table,
                 left_columns=0)


def show_example(screen: Screen, example: pathlib.Path) -> None:
    screen.heading(f"The same library from C++, without torch: {example.relative_to(ROOT)}")
    status = subprocess.run([str(example), "--ranks", str(RANK_COUNT)], timeout=RUN_TIMEOUT_S,
                            check=False).returncode
    if status != 0:
        raise SystemExit(f"demo: exit status {status}: {example}")


def load_warning() -> str:
    load, core_count = os.getloadavg()[0], os.cpu_count() or 1
    if load < core_count:
        return ""
    return (f"The machine was busy before we began (load {load:.1f} on {core_count} cores): times "
            "say little.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--example", type=pathlib.Path, help="the C++ example's program",
                        default=ROOT / "build/release/examples/all_reduce_example")
    arguments = parser.parse_args()
    screen = Screen()
    warning = load_warning()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mccl_demo_") as folder:
        broken = show_training(screen, pathlib.Path(folder))
        show_sweep(screen, pathlib.Path(folder))
    show_example(screen, arguments.example.resolve())
    print()
    if warning:
        print(screen.paint(warning, 33))
    for sentence in broken:
        print(screen.paint(f"broken promise: {sentence}", 31))
    if broken:
        return 1
    print(screen.paint(
        f"all promises kept: accuracy at least {100 * ACCURACY_MIN:.0f} % and within "
        f"{100 * ACCURACY_DISTANCE_MAX} points of one process, losses within "
        f"{LOSS_DIFFERENCE_MAX:.0e}, equal weights", 32))
    note(f"done in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        note("interrupted")
        sys.exit(130)
