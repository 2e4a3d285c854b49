"""torch's own suite against our back end, seen under three names, and gloo as the measure.

Prints one line of totals per view, writes docs/conformance.md, and fails when a test fails that
gloo passes, or when fewer than PASSED_MIN pass in any view.

    conformance.py [--folder FOLDER]    # where logs and results go; default: a new one
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "conformance.md"
TIMEOUT_S = 600
PASSED_MIN = 105  # in any view, of the 112 that a back end of another name can reach
VIEWS = {  # name: back end, seen as
    "gloo": ("gloo", "gloo"),
    "mccl": ("mccl", "mccl"),
    "mccl seen as gloo": ("mccl", "gloo"),
    "mccl seen as mpi": ("mccl", "mpi"),
}
# What no back end of another name can pass, and why: not counted as worse than gloo.
NAME_BOUND = {"test_ddp_logging_data_cpu": "wants the name that DDP logs, which torch gives as "
                                           "`custom` for all back ends but its own"}
Outcomes = dict[str, tuple[str, str]]


def run_view(name: str, folder: pathlib.Path) -> tuple[Outcomes, float]:
    backend, seen_as = VIEWS[name]
    stem = folder / name.replace(" ", "_")
    began = time.monotonic()
    with open(stem.with_suffix(".log"), "wb") as log:
        subprocess.run([sys.executable, str(HERE / "run_view.py"), backend, seen_as,
                        str(stem.with_suffix(".json"))], stdout=log, stderr=subprocess.STDOUT,
                       timeout=TIMEOUT_S, check=True)
    found = json.loads(stem.with_suffix(".json").read_text())
    return found, time.monotonic() - began


def count(outcomes: Outcomes) -> dict[str, int]:
    return collections.Counter(outcome for outcome, _ in outcomes.values())


def totals_line(name: str, outcomes: Outcomes) -> str:
    counted = count(outcomes)
    return (f"{name}: {counted['passed']} passed, {counted['failed']} failed, "
            f"{counted['skipped']} skipped")


def write_page(results: dict[str, Outcomes], union: set[str]) -> None:
    import torch

    version = torch.__version__.split("+")[0]
    lines = [
        "# torch's own suite", "",
        f"Written by `make conformance`: the `DistributedTest` of torch {version}, 3 ranks, "
        "forked, on the CPU. Most of its tests want GPUs. The suite knows back ends by name, so "
        "tests that are meant for gloo or mpi are reached by importing it under that name and "
        "putting ours in afterwards ([how](../test/conformance_torch/run_view.py)).", "",
        "| view | passed | failed | skipped |", "|---|---|---|---|"]
    for name, outcomes in results.items():
        counted = count(outcomes)
        lines.append(f"| {name} | {counted['passed']} | {counted['failed']} | "
                     f"{counted['skipped']} |")
    lines += ["", f"Passed in one of our views: {len(union)}.", "",
              "## Failed in a view of ours", "",
              "| test | view | gloo | why |", "|---|---|---|---|"]
    for name, outcomes in results.items():
        if name == "gloo":
            continue
        for test, (outcome, reason) in sorted(outcomes.items()):
            if outcome == "failed":
                reason = NAME_BOUND.get(test, reason).replace("|", "\\|").replace("<", "\\<")
                lines.append(f"| `{test}` | {name} | {results['gloo'][test][0]} | {reason} |")
    lines += ["", "## Passed in no view of ours", ""]
    by_reason = collections.defaultdict(list)
    for test in sorted(results["mccl"]):
        if test not in union:
            reason = sort_sets(results["mccl"][test][1]).replace("<", "\\<")
            by_reason[reason].append(test)
    for reason, tests in sorted(by_reason.items(), key=lambda entry: -len(entry[1])):
        lines += [f"{reason} ({len(tests)}):", "",
                  ", ".join(f"`{test}`" for test in tests) + ".", ""]
    PAGE.write_text("\n".join(lines).rstrip() + "\n")


def sort_sets(text: str) -> str:
    """Python prints the members of a set in another order every time."""
    return re.sub(r"\{([^{}]*)\}",
                  lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder = folder or pathlib.Path(tempfile.mkdtemp(prefix="mccl-conformance-"))
    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        runs = {name: executor.submit(run_view, name, folder) for name in VIEWS}
        results = {}
        for name, run in runs.items():
            results[name], elapsed_s = run.result()
            print(f"{totals_line(name, results[name])} ({elapsed_s:.0f} s)", flush=True)
    ours = {name: outcomes for name, outcomes in results.items() if name != "gloo"}
    union = {test for outcomes in ours.values() for test, (outcome, _) in outcomes.items()
             if outcome == "passed"}
    print(f"passed in one of our views: {len(union)}")
    write_page(results, union)
    worse = [test for test, (outcome, _) in results["mccl"].items()
             if outcome == "failed" and results["gloo"][test][0] == "passed"
             and test not in NAME_BOUND]
    for test in worse:
        print(f"fails under our own name, passes with gloo: {test}: {results['mccl'][test][1]}")
    if len(union) < PASSED_MIN:
        print(f"fewer than {PASSED_MIN} tests pass")
    print(f"logs: {folder}")
    return 1 if worse or len(union) < PASSED_MIN else 0


if __name__ == "__main__":
    sys.exit(main())
