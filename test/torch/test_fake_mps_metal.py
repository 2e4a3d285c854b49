"""The Metal files as the hand-off of the fake device, and c10d's operators on mps."""

import os
import pathlib
import subprocess
import sys

import pytest

import soak_hand_off

FOLDER = pathlib.Path(__file__).resolve().parent
TREE = pathlib.Path(os.environ.get("FAKE_MPS_TREE", FOLDER.parents[1] / "build/release"))
needs_metal = pytest.mark.skipif(not list(TREE.glob("test/metal/libmccl_fake_torch_metal*")),
                                 reason="built without clang-16: the Metal files are not there")


def run_alone(code: str, **environment: str) -> str:
    """Of one process with the device loaded and a group of one rank; what it printed."""
    start = "import fake_mps, mccl, torch, torch.distributed as dist; fake_mps.load()\n"
    return subprocess.run([sys.executable, "-c", start + code], cwd=FOLDER, check=True,
                          env={**os.environ, **environment}, capture_output=True,
                          text=True).stdout


@needs_metal
@pytest.mark.parametrize("mode", soak_hand_off.JOBS)
def test_training_and_bursts_are_exact_on_the_metal_files(mode, monkeypatch):
    monkeypatch.setenv("MCCL_FAKE_MPS_HAND_OFF", "metal")
    result = soak_hand_off.run_case("none", mode)
    assert not result.is_noticed, result


@needs_metal
def test_the_metal_files_serve_the_calls():
    code = """
dist.init_process_group("mccl", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.arange(4., device="mps")
dist.all_reduce(tensor, async_op=True).wait()
print(tensor.tolist(), fake_mps.violations(), fake_mps.counts()["tickets"])
"""
    # The simulated device's own tickets are those of its own hand-off.
    assert run_alone(code, MCCL_FAKE_MPS_HAND_OFF="metal") == "[0.0, 1.0, 2.0, 3.0] [] 0\n"
    assert run_alone(code, MCCL_FAKE_MPS_HAND_OFF="sim") == "[0.0, 1.0, 2.0, 3.0] [] 1\n"


def test_a_group_with_another_back_end_for_cpu_is_refused_by_name():
    said = run_alone("""
dist.init_process_group("cpu:gloo,mps:mccl", store=dist.HashStore(), rank=0, world_size=1)
try:
    dist.all_reduce(torch.ones(3, device="mps"))
except RuntimeError as error:
    print(str(error).splitlines()[0])
""")
    assert said == ("mccl: c10d::allreduce_ of an mps tensor needs one back end for mps and cpu, "
                    "but this process group has mccl for mps and gloo for cpu; make it with "
                    'init_process_group(backend="mccl")\n')
