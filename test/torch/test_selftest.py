"""`mccl selftest` on the fake device: passes where the rules are kept, fails where one is not."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


def run(*arguments, **environment):
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "mccl.selftest", *arguments], capture_output=True, text=True,
        timeout=240, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                          "MCCL_LOG": "error", **environment})


def run_on_fake_mps(*arguments, **environment):
    result = run("--device", "mps", "--import", "loaded_fake_mps", "--json", *arguments,
                 **environment)
    report = json.loads(result.stdout)
    return result.returncode, {row["check"]: row for row in report["checks"]}


def test_every_check_passes_in_place():
    status, checks = run_on_fake_mps()
    assert status == 0, checks
    assert len(checks) == 7 and all(row["passed"] for row in checks.values())
    assert checks["place"]["detail"] == "0 copies for 18 buckets"


def test_copies_are_as_good_and_each_is_counted():
    status, checks = run_on_fake_mps("--only", "held", "--only", "place",
                                     MCCL_UNIFIED_COLLECTIVE="0")
    assert status == 0, checks
    assert checks["place"]["detail"] == "18 copies for 18 buckets"


@pytest.mark.parametrize("fault, check", [("early_producer", "producer"),
                                          ("no_consumer_wait", "consumer")])
def test_a_broken_order_is_found(fault, check):
    status, checks = run_on_fake_mps("--only", check, FAKE_MPS_FAULT=fault)
    assert status == 1
    assert not checks[check]["passed"]
    assert "elements are wrong" in checks[check]["detail"]


def test_usage():
    result = run("--device", "cpu", "--ranks", "1")
    assert result.returncode == 2
    assert "--ranks 1: at least 2 are needed" in result.stderr
    result = run("--device", "mps")
    assert result.returncode == 2
    assert "--device cpu runs anywhere" in result.stderr
    result = run("--device", "cpu", RANK="0")
    assert result.returncode == 2
    assert "RANK is set and WORLD_SIZE is not" in result.stderr
