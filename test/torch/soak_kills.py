"""Kills ranks at random points, again and again; survivors say whom they lost, and go on without.

    soak_kills.py --runs 300 [--seed 1]

Each run: 2 to 5 ranks, one of them killed with SIGKILL. Every survivor must raise a
DistBackendError that names the killed rank and its host within 2 s, leave its group, form one with
the other survivors, get an exact sum and end with status 0. Prints how long it took to raise, by
point; exits 1 when a run failed, and prints its seed: --runs 1 --seed SEED repeats it.
"""

from __future__ import annotations

import argparse
import random
import re
import sys

import kill_jobs
import scripts as script_processes

RAISES_WITHIN_S = 2.0
ABSENT_TIMEOUT_S = 2.0
# The most that the kill may come after the victim has got to the point.
DELAYS_S = {"meeting": 0.04, "first": 0.005, "small": 0.03, "large": 0.3, "barrier": 0.03,
            "between": 0.05, "absent": 0.0}
POINTS = list(DELAYS_S)


def check_survivor(script, victim, killed_at: float, point: str, survivors: list[int]) -> float:
    """How long it took to raise: after the kill, or after the timeout if nobody had come."""
    assert script.status == 0, f"rank {script.rank} ended with {script.status}\n{script.errors}"
    assert len(script.reports) == 2, (script.reports, script.errors)
    told, after = script.reports
    assert told["type"] == "DistBackendError", told
    assert after == {"sums": [float(sum(survivors))]}, after
    if point == "absent":
        took_s = told["at"] - told["began"] - ABSENT_TIMEOUT_S
        assert re.search(rf"\branks? {victim.rank}\b", told["text"]), told
        assert "Timed out" in told["text"], told
        assert -0.1 < took_s < RAISES_WITHIN_S, took_s
        return took_s
    took_s = told["at"] - killed_at
    name = rf"rank {victim.rank} \(host \S+, pid {victim.process_id}\)"
    assert re.search(name, told["text"]), told
    assert took_s < RAISES_WITHIN_S, f"rank {script.rank} raised after {took_s:.3f} s: {told}"
    return took_s


def run_one(scripts: script_processes.Scripts, seed: int) -> tuple[str, list[float]]:
    """The point, and how long each survivor took to raise; else an AssertionError."""
    choose = random.Random(seed)
    point = POINTS[seed % len(POINTS)]
    rank_count = choose.randint(2, 5)
    victim = choose.randrange(rank_count)
    keeps_prefix = choose.random() < 0.5
    timeout_s = ABSENT_TIMEOUT_S if point == "absent" else kill_jobs.exit_jobs.GROUP_TIMEOUT_S
    ranks = scripts.start(kill_jobs.run, rank_count, point, victim,
                          choose.uniform(0.0, DELAYS_S[point]), timeout_s, keeps_prefix)
    scripts.wait()
    assert ranks[victim].status == -9, (ranks[victim].status, ranks[victim].errors)
    reports = ranks[victim].reports
    killed_at = reports[0]["at"] if reports else 0.0
    survivors = [rank for rank in range(rank_count) if rank != victim]
    return point, [check_survivor(ranks[rank], ranks[victim], killed_at, point, survivors)
                   for rank in survivors]


def describe(values: list[float]) -> str:
    values = sorted(values)
    shares = [values[round(share * (len(values) - 1))] for share in (0.0, 0.5, 0.95, 1.0)]
    return " ".join(f"{value * 1e3:8.1f}" for value in shares)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    times: dict[str, list[float]] = {point: [] for point in POINTS}
    failed = []
    with script_processes.Scripts() as scripts:
        for seed in range(arguments.seed, arguments.seed + arguments.runs):
            try:
                point, took = run_one(scripts, seed)
                times[point] += took
            except AssertionError as error:
                failed.append(seed)
                print(f"kills: seed {seed} failed: {error}", flush=True)
    print("ms until survivors raise       min   median      p95      max   survivors")
    for point, values in times.items():
        if values:
            print(f"{point:24} {describe(values)} {len(values):11}")
    print(f"kills: {arguments.runs - len(failed)} of {arguments.runs} runs went well"
          + (f"; failing seeds: {failed}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
