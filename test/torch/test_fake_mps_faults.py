"""Each rule of the hand-off, broken, is noticed. soak_hand_off.py does the same many times."""

import pytest

import soak_hand_off

O1 = "O1: the engine was told that ticket"
O2 = "O2: a kernel"
O3 = "by the engine, on thread"
HELD = "was released before the engine had done with it"
LIVENESS = "whose signal is not committed"
# What is reported or raised, and whether wrong numbers or an error must come too.
EXPECTED = [
    ("early_producer", "ddp", O1, True),
    ("no_consumer_wait", "loop", O2, True),
    ("no_commit", "loop", LIVENESS, False),
    ("engine_encodes", "ddp", O3, False),
    ("no_raise", "loop", "in compare", False),  # the drain that never ends
    ("drop", "burst", HELD, True),
    ("temporary", "burst", O2, True),  # somebody else's, by then
]


@pytest.mark.parametrize("fault, mode, text, is_wrong", EXPECTED,
                         ids=[f"{fault}-{mode}" for fault, mode, _, _ in EXPECTED])
def test_a_broken_rule_is_noticed(fault, mode, text, is_wrong):
    result = soak_hand_off.run_case(fault, mode)
    assert any(text in found for found in [*result.errors, *result.violations]), result
    if is_wrong:
        assert result.wrong > 0 or result.errors, result


def test_a_signal_that_is_not_committed_ends_with_an_error():
    result = soak_hand_off.run_case("no_commit", "ddp")
    assert len(result.errors) == 2
    assert all("waiting for the kernels of this rank's device" in text
               for text in result.errors), result.errors


@pytest.mark.parametrize("mode", soak_hand_off.JOBS)
def test_nothing_is_noticed_where_no_rule_is_broken(mode):
    assert not soak_hand_off.run_case("none", mode).is_noticed
