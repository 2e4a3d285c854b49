"""Tensors in private storage, as torch's mps had them before 2.12: through the device's own copies."""

import pytest

import soak_hand_off


@pytest.mark.parametrize("mode", soak_hand_off.JOBS)
def test_training_and_bursts_are_exact(mode, monkeypatch):
    monkeypatch.setenv("MCCL_FAKE_MPS_MEMORY", "private")
    result = soak_hand_off.run_case("none", mode)
    assert not result.is_noticed, result
