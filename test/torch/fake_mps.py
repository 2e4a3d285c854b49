"""A fake torch.device("mps") on any machine: kernels run later, on a thread, after a commit.

    import fake_mps
    fake_mps.load(delay_us=300)      # once per process, before its first tensor on the device
    model.to("mps")                  # and whatever torch does with a device
    assert fake_mps.violations() == []

The kernels are the CPU's, so results equal the CPU's bit for bit. Memory that is released is handed
out again at once. The module is found in the build tree, FAKE_MPS_TREE or build/release.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
from typing import NamedTuple

import torch

FAULTS = ("early_producer", "no_consumer_wait", "no_commit", "engine_encodes", "no_raise", "drop",
          "temporary")
_ROOT = pathlib.Path(__file__).resolve().parents[2]
_module = None


class HandOver(NamedTuple):
    """One call of the seam between the device and the engine."""

    call: str
    ticket: int
    begin_ns: int  # of CLOCK_MONOTONIC, the same for all processes of a host
    end_ns: int


def _find_module():
    tree = pathlib.Path(os.environ.get("FAKE_MPS_TREE", _ROOT / "build/release"))
    folder = tree / "test/torch/fake_mps"
    files = sorted(folder.glob("_fake_mps*.so"))
    if not files:
        raise ImportError(f"fake_mps: there is no _fake_mps in {folder}; run `make build`, or set "
                          "FAKE_MPS_TREE")
    spec = importlib.util.spec_from_file_location("_fake_mps", files[0])
    module = importlib.util.module_from_spec(spec)
    sys.modules["_fake_mps"] = module
    spec.loader.exec_module(module)
    return module


def load(delay_us: float = 0, jitter: float = 0, autocommit: int = 64, seed: int = 1,
         fault: str = "none") -> None:
    """Starts the device and hands it to mccl.

    Every kernel takes delay_us * (1 + U(0, jitter)), during which the CPU is free; after
    `autocommit` kernels without a commit the device commits by itself, 0: never.
    """
    global _module
    import mccl

    module = _find_module()
    module.start(delay_us, jitter, autocommit, seed)
    if not torch.backends.mps.is_available():
        raise RuntimeError("fake_mps: somebody in this process, or in the one that it was forked "
                           "from, has asked torch for MPS before; load the device earlier")
    mccl._native()._register_tensor_device("mps", module.tensor_device(
        is_private=os.environ.get("MCCL_FAKE_MPS_MEMORY") == "private"))
    _module = module
    set_fault(fault)


def set_fault(name: str) -> None:
    """Breaks one rule from now on: one of FAULTS, or "none"."""
    if name != "none" and name not in FAULTS:
        raise ValueError(f"fake_mps: there is no fault {name!r}; there are {', '.join(FAULTS)}")
    is_own = name in ("drop", "temporary")  # `drop` is up to the caller: without_ownership()
    _module.set_fault("none" if is_own else name)
    _module.set_temporary("released" if name == "temporary" else "none")


def stage_through_temporaries() -> None:
    """As the fault `temporary`, but each is held as long as it must be."""
    _module.set_temporary("held")


def without_ownership(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory; not kept alive by what is returned."""
    return _module.without_ownership(tensor)


def set_delay_us(delay_us: float, only: str = "") -> None:
    """Of kernels encoded from now on whose name contains `only`; the others take no time."""
    _module.set_delay_us(delay_us, only)


def synchronize() -> None:
    """Waits until everything encoded has run; counted as a drain."""
    _module.synchronize()


def counts() -> dict[str, int]:
    """kernels, commits, drains, reused_blocks, tickets, device_waits since the start."""
    return _module.counts()


def synchronous_operators() -> dict[str, int]:
    """Which operators had to drain the device for a fallback, and how often."""
    return _module.synchronous_operators()


def violations() -> list[str]:
    """What was broken, each with its rule, also where no number came out wrong."""
    return _module.violations()


def take_hand_overs() -> list[HandOver]:
    """Every call of the seam since the last time."""
    return [HandOver(*row) for row in _module.take_hand_overs()]


def now_ns() -> int:
    return _module.now_ns()
