"""How one rank's process ends, and what the others are told: by whole scripts, in 2 and 3 ranks."""

import re
import signal
import subprocess
import sys

import pytest

import exit_jobs
import scripts as script_processes

TOLD_WITHIN_S = 2.0


@pytest.fixture(scope="module")
def scripts():
    with script_processes.Scripts() as starter:
        yield starter


def assert_printed_once(script):
    """What begins a line of standard error stands there once; inner lines of traces may not."""
    lines = [line.removeprefix(f"[rank{script.rank}]: ") for line in script.errors.splitlines()]
    heads = [line for line in lines if line and not line.startswith(" ")]
    assert len(heads) == len(set(heads)), script.errors


def assert_told(ranks, at, text, status, survivors=None):
    """All but the last raised `text` soon after `at` and ended well; it ended with `status`."""
    victim = ranks[-1]
    assert victim.status == status, victim.errors
    for script in ranks[:-1] if survivors is None else survivors:
        assert script.status == 0, script.errors
        told = script.reports[-1]
        assert told["type"] == "DistBackendError", told
        prefix = rf"mccl: (lost )?rank {victim.rank} \(host \S+, pid {victim.process_id}\)"
        assert re.match(prefix, told["text"]) and text in told["text"], told
        assert told["at"] - at < TOLD_WITHIN_S, (told, at)
    for script in ranks:
        assert_printed_once(script)


LEFT = "destroyed the communicator while this rank still needs it"
OUT_OF_RANGE = r"aborted: IndexError: list index out of range (exit_jobs.py:"


@pytest.mark.parametrize("rank_count", [2, 3])
@pytest.mark.parametrize("ending, status, text", [
    ("end_off_the_end", 0, LEFT),
    ("end_with_status_0", 0, LEFT),
    ("end_with_status_3", 3, "aborted: SystemExit: 3 (exit_jobs.py:"),
    ("end_with_a_message", 1, "aborted: SystemExit: the data is gone (exit_jobs.py:"),
    ("end_with_a_caught_exit", 0, LEFT),
    ("end_while_handling", 1, "in next_batch), then SystemExit: 1 (exit_jobs.py:"),
    ("end_at_once", 7, ""),
    ("end_with_an_exception", 1, OUT_OF_RANGE),
    ("end_in_a_forward_hook", 1, "aborted: RuntimeError: no such layer (exit_jobs.py:"),
    ("end_in_a_loader", 1, "worker process 1. ... IndexError: item 7 is broken (exit_jobs.py:"),
    ("end_with_works", 0, ""),
])
def test_an_end_is_told(scripts, ending, status, text, rank_count):
    ranks = scripts.start(exit_jobs.fail, rank_count, ending)
    scripts.wait()
    assert_told(ranks, ranks[-1].reports[0]["at"], text, status)
    if status in (0, 3, 7):
        assert "Traceback" not in ranks[-1].errors


@pytest.mark.parametrize("rank_count", [2, 3])
@pytest.mark.parametrize("ending, number, text", [
    ("end_in_python", signal.SIGINT, "aborted: KeyboardInterrupt (exit_jobs.py:"),
    ("end_in_wait", signal.SIGINT, "aborted: KeyboardInterrupt (exit_jobs.py:"),
    ("end_in_training", signal.SIGINT, "aborted: KeyboardInterrupt (exit_jobs.py:"),
    ("end_in_python", signal.SIGTERM, ""),
    ("end_in_training", signal.SIGTERM, ""),
    ("end_in_python", signal.SIGKILL, ""),
])
def test_a_signal_that_ends_a_rank_is_told(scripts, ending, number, text, rank_count):
    ranks = scripts.start(exit_jobs.fail, rank_count, ending)
    scripts.await_event("ready")
    sent_at = ranks[-1].send_signal(number)
    scripts.tell_event("sent")
    scripts.wait()
    assert_told(ranks, sent_at, text, -number)
    assert ("Traceback" in ranks[-1].errors) == (number == signal.SIGINT)


def test_a_killed_rank_is_missed_although_a_child_of_it_lives(scripts):
    ranks = scripts.start(exit_jobs.fail, 2, "end_before_a_child")
    scripts.await_event("ready")
    child = int(scripts.await_event("child"))
    try:
        sent_at = ranks[-1].send_signal(signal.SIGKILL)
        scripts.wait()
    finally:
        script_processes.kill(child)
    assert_told(ranks, sent_at, "", -signal.SIGKILL)


def test_who_catches_nothing_ends_with_the_reason_of_the_first(scripts):
    ranks = scripts.start(exit_jobs.fail_uncaught, 3)
    scripts.wait()
    for script in ranks:
        assert script.status == 1
        assert script.errors.count("Traceback") == 1
        assert_printed_once(script)
        if script.rank < 2:
            last = script.errors.splitlines()[-1]
            assert "DistBackendError: mccl: rank 2 (host " in last and OUT_OF_RANGE in last


def test_an_interrupt_during_the_meeting_is_told(scripts):
    ranks = scripts.start(exit_jobs.meet, 4, only=[0, 1, 2])
    for rank in range(3):
        scripts.await_record(rank)
    sent_at = ranks[1].send_signal(signal.SIGINT)
    scripts.wait()
    assert ranks[1].errors.count("KeyboardInterrupt") == 1
    victim_last = [ranks[0], ranks[2], ranks[1]]
    assert_told(victim_last, sent_at, "interrupted", -signal.SIGINT)


@pytest.mark.parametrize("rank_count", [2, 3])
def test_works_may_outlive_the_interpreter(scripts, rank_count):
    ranks = scripts.start(exit_jobs.end_normally, rank_count)
    scripts.wait()
    for script in ranks:
        assert script.status == 0, script.errors
        assert "Traceback" not in script.errors
        assert_printed_once(script)


def test_children_do_not_disturb_their_rank(scripts):
    ranks = scripts.start(exit_jobs.fork_and_go_on, 2)
    scripts.wait()
    for script in ranks:
        assert script.status == 0, script.errors
        # 1: an exception, as using the parent's group is.
        assert script.reports == [{"statuses": [5, 6, 1, 5, 1, 4, 180.0, 180.0], "sums": [1.0]}]
        assert_printed_once(script)


@pytest.mark.parametrize("how, kind, text", [
    ("fork", "exception", OUT_OF_RANGE),
    ("fork", "exit", "aborted: SystemExit: 4 (exit_jobs.py:"),
    ("fork", "none", LEFT),
    ("spawn", "exception", OUT_OF_RANGE),
    ("torch", "exception", OUT_OF_RANGE),
])
def test_the_end_of_a_child_process_is_told(scripts, how, kind, text):
    (script,) = scripts.start(exit_jobs.start_children, 1, how, kind)
    scripts.wait()
    assert script.status == 0, script.errors
    began, told = sorted((row for row in script.reports if "at" in row), key=lambda row: row["at"])
    assert told["type"] == "DistBackendError"
    assert told["text"].startswith("mccl: rank 1 (host ") and text in told["text"], told
    assert told["at"] - began["at"] < TOLD_WITHIN_S
    last = {"exception": 1, "exit": 4, "none": 0}[kind]
    expected = {"raised": "IndexError: list index out of range"}
    assert (expected if how == "torch" else {"statuses": [0, last]}) in script.reports


RECORDED = '''
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    dist.init_process_group("mccl")
    if dist.get_rank() == 1:
        raise IndexError("no more batches")
    while True:
        dist.all_reduce(torch.ones(4))

main()
'''


def test_torchrun_shows_the_first_cause(tmp_path):
    (tmp_path / "train.py").write_text(RECORDED)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(tmp_path / "train.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    # It takes the earliest by whole seconds, of equal ones the lowest rank: that names the other.
    root = done.stderr.split("Root Cause")[1]
    assert "IndexError: no more batches" in root, done.stderr
    assert re.search(r"rank +: 1 |mccl: rank 1 \(host \S+, pid \d+\) aborted: ", root), done.stderr
