"""The digits example under torchrun computes what one process computes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("tqdm")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples/train_digits.py"
TIMEOUT_S = 300


def train(results: pathlib.Path, rank_count: int, *words: str) -> dict:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(rank_count)]
    environment = {name: value for name, value in os.environ.items() if name != "WORLD_SIZE"}
    completed = subprocess.run(
        [sys.executable, *(launcher if rank_count else []), str(SCRIPT), "--results", str(results),
         "--steps", "20", *words],
        env={**environment, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        timeout=TIMEOUT_S, check=False)
    assert completed.returncode == 0, completed.stderr
    return json.loads(results.read_text())


def test_two_ranks_over_mccl_have_the_losses_of_one_process(tmp_path):
    single = train(tmp_path / "single.json", 0)
    pair = train(tmp_path / "pair.json", 2, "--backend", "mccl", "--exposed-pairs", "2")

    assert pair["backend"] == "mccl"
    assert pair["world_size"] == 2
    assert len(single["losses"]) == 20
    assert pair["losses"] == pytest.approx(single["losses"], rel=1e-4, abs=0)
    assert pair["has_equal_weights"]
    # It learns: losses that stay where they are would agree, too.
    assert single["losses"][-1] < 0.99 * single["losses"][0]
    # Twenty gradients and twenty losses, at the least.
    calls = sum(row["calls"] for row in pair["programs"] if row["collective"] == "all_reduce")
    assert calls >= 40
    assert pair["exposed"]["with_ms"] > 0


def test_a_batch_that_cannot_be_split_equally_is_refused(tmp_path):
    completed = subprocess.run(
        [sys.executable, str(SCRIPT), "--global-batch", "63", "--results", str(tmp_path / "x")],
        env={**os.environ, "WORLD_SIZE": "2"}, capture_output=True, text=True, timeout=TIMEOUT_S,
        check=False)
    assert completed.returncode == 2
    assert "63 images cannot be split over 2 ranks" in completed.stderr
