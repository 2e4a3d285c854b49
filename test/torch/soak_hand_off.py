"""Breaks the rules of the device hand-off one by one and counts in how many runs it was noticed.

A rule that can be broken without a wrong number, an error or a report is a rule without a test.
Run it from the root of the repository: scripts/soak.sh handoff, or with --runs, --fault, --many.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys

import device_jobs
import ranks as rank_processes

DELAY_US = 300
GROUP_TIMEOUT_S = 5.0
END_S = 60.0  # that a run has ended
HANG_S = 8.0   # of one that never ends
JOBS = {
    "ddp": lambda fault: (device_jobs.run_ddp, "sgd", {}, DELAY_US, fault),
    # A kernel that does not wait for the engine is only wrong when the engine is late.
    "loop": lambda fault: (device_jobs.run_loop, "sgd", DELAY_US, fault,
                           1 if fault == "no_consumer_wait" else None),
    "burst": lambda fault: (device_jobs.run_burst, DELAY_US, fault),
}
# Stock DDP waits on the host, and holds its buckets: what it cannot notice is not asked of it.
CASES = [
    ("none", "ddp"), ("none", "loop"), ("none", "burst"),
    ("early_producer", "ddp"), ("early_producer", "loop"),
    ("no_consumer_wait", "loop"),
    ("no_commit", "ddp"), ("no_commit", "loop"),
    ("engine_encodes", "ddp"), ("engine_encodes", "loop"),
    ("no_raise", "ddp"), ("no_raise", "loop"),
    ("drop", "burst"),
    ("temporary", "ddp"), ("temporary", "loop"), ("temporary", "burst"),
]


@dataclasses.dataclass
class Result:
    """What the two ranks of one run noticed."""

    wrong: int  # tensors
    errors: list[str]
    violations: list[str]

    @property
    def is_noticed(self) -> bool:
        return bool(self.wrong or self.errors or self.violations)


def run_case(fault: str, mode: str) -> Result:
    """In two processes of its own, since a broken rule may leave anything behind."""
    timeout_s = GROUP_TIMEOUT_S if fault == "no_commit" else END_S
    limit_s = HANG_S if fault == "no_raise" else END_S
    with rank_processes.Ranks(2, initialises=False) as ranks:
        ranks.call(device_jobs.load_device, {"jitter": 1.0}, timeout_s)
        try:
            reports = ranks.call(device_jobs.run_guarded, *JOBS[mode](fault), timeout_s=limit_s)
        except AssertionError as error:
            return Result(0, [f"hangs: {error}"], [])
        ranks.is_broken = fault != "none"
    return Result(sum(report.wrong for report in reports),
                  [report.error for report in reports if report.error],
                  [text for report in reports for text in report.violations])


def print_row(fault: str, mode: str, results: list[Result]) -> bool:
    """Whether every run went as it should."""
    wrong = sum(result.wrong > 0 for result in results)
    errors = sum(bool(result.errors) for result in results)
    reported = sum(bool(result.violations) for result in results)
    noticed = sum(result.is_noticed for result in results)
    expected = 0 if fault == "none" else len(results)
    is_good = noticed == expected
    print(f"{fault:<18}{mode:<7}{wrong:>6}{errors:>8}{reported:>10}{noticed:>9} of {len(results)}"
          + ("" if is_good else f"   expected {expected}"), flush=True)
    if not is_good:
        for result in results:
            for text in [*result.errors, *result.violations[:3]]:
                print(f"    {text}")
    return is_good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each case")
    parser.add_argument("--fault", default="", help="only this one")
    parser.add_argument("--many", type=int, default=24,
                        help="ranks of the run with 640 operations in flight, 0: none")
    options = parser.parse_args()
    print(f"{'rule broken':<18}{'mode':<7}{'wrong':>6}{'errors':>8}{'reported':>10}{'noticed':>9}")
    is_good = True
    for fault, mode in CASES:
        if options.fault in ("", fault):
            results = [run_case(fault, mode) for _ in range(options.runs)]
            is_good = print_row(fault, mode, results) and is_good
    if options.many > 0:
        reports = device_jobs.run_many_at(options.many)
        wrong = sum(report.wrong for report in reports)
        reported = sum(len(report.violations) for report in reports)
        print(f"{device_jobs.MANY} operations in flight at {options.many} ranks: {wrong} wrong "
              f"tensors, {reported} rules broken")
        is_good = is_good and wrong == reported == 0
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
