"""Twenty of the kills that scripts/soak.sh makes by the hundred: every point, 2 to 5 ranks."""

import pytest

import scripts as script_processes
import soak_kills


@pytest.fixture(scope="module")
def scripts():
    with script_processes.Scripts() as starter:
        yield starter


@pytest.mark.parametrize("seed", range(1, 21))
def test_survivors_name_the_killed_rank_and_go_on(scripts, seed):
    soak_kills.run_one(scripts, seed)
