"""Runs torch's own DistributedTest against one back end, under one name, and writes what became of
each test as JSON.

    run_view.py BACKEND SEEN_AS RESULT.json [TEST ...]

The suite asks for the back end's name at two times: decorators when it is imported, bodies when
they run. A test that is meant for gloo or mpi is reached by importing the suite under that name and
setting ours afterwards; so `SEEN_AS` is a view of the suite, never another back end. Seen as
another, worlds of three are let into tests that want more ("mpi" in the environment at run time is
the suite's own switch for it). Children are forked, not spawned: importing torch takes seconds.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
import unittest

RANK_COUNT = 3
FEATURES = ("ddp", "subgroup", "plugin")  # of the suite's lists: what a back end is able to do


class Recorder(unittest.TestResult):
    """The outcome of each test: passed, skipped or failed, and why in one line."""

    def __init__(self):
        super().__init__()
        self.outcomes: dict[str, tuple[str, str]] = {}

    def _record(self, test, outcome, reason=""):
        self.outcomes[test._testMethodName] = (outcome, reason)

    def addSuccess(self, test):  # noqa: N802, unittest's names
        self._record(test, "passed")

    def addSkip(self, test, reason):  # noqa: N802
        self._record(test, "skipped", reason)

    def addFailure(self, test, error):  # noqa: N802
        self._record(test, "failed", last_line_of(error))

    def addError(self, test, error):  # noqa: N802
        self._record(test, "failed", last_line_of(error))


def last_line_of(error) -> str:
    """Of a child's trace: the line that names the error, not those about C++ frames."""
    lines = [line.strip() for line in str(error[1]).splitlines() if line.strip()]
    named = [line for line in lines if "Error: " in line and not line.startswith("frame")]
    return (named or lines or ["no message"])[-1][:300]


def load_suite(backend: str, seen_as: str):
    """The suite's module, with the environment of its run set."""
    os.environ.update(BACKEND=seen_as, WORLD_SIZE=str(RANK_COUNT), MASTER_ADDR="127.0.0.1",
                      TEMP_DIR=tempfile.mkdtemp(prefix="mccl-conformance-"), OMP_NUM_THREADS="1")
    import torch  # noqa: F401
    from torch.testing._internal.common_distributed import DistTestCases

    if backend == "mccl":
        import mccl

        mccl._native()  # loaded here, children have it
    for feature in FEATURES:
        DistTestCases.backend_feature[feature].add(backend)
    from torch.testing._internal.distributed import distributed_test

    distributed_test.BACKEND = backend
    if seen_as != backend:
        os.environ["BACKEND"] = "mpi"
    return distributed_test


def main() -> None:
    backend, seen_as, result_path, *names = sys.argv[1:]
    suite = load_suite(backend, seen_as)
    import torch.multiprocessing

    start = torch.multiprocessing.get_context("fork").Process

    class TestView(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):  # noqa: N802
            super().setUp()
            self._start_processes(start)

    loader = unittest.TestLoader()
    recorder = Recorder()
    for name in names or loader.getTestCaseNames(TestView):
        TestView(name).run(recorder)
        print(name, *recorder.outcomes.get(name, ("lost",)), flush=True)
    pathlib.Path(result_path).write_text(json.dumps(recorder.outcomes))


if __name__ == "__main__":
    main()
