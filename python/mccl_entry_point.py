"""Registers the back end "mccl" when torch is imported.

torch calls `register` at the end of its own import. If that raised, `import torch` would fail for
the whole environment; so this module imports nothing of torch or of mccl at its top, and `register`
keeps what went wrong instead of raising it. `import mccl` calls `register` too.
"""

from __future__ import annotations

import contextlib
import sys

# Why the last registration failed; None when it did not.
failure: Exception | None = None


_is_postponed = False


@contextlib.contextmanager
def postponed():
    """Where `import mccl` does not import torch for the back end's sake: torch will call later."""
    global _is_postponed
    _is_postponed = "torch" not in sys.modules
    try:
        yield
    finally:
        _is_postponed = False


def _own_package():
    """The package `mccl`, if it is ours: others use the name."""
    import mccl

    if getattr(mccl, "__distribution__", None) == "torch-mccl":
        return mccl
    from importlib import metadata

    place = getattr(mccl, "__file__", None) or ", ".join(getattr(mccl, "__path__", ["nowhere"]))
    owners = set(metadata.packages_distributions().get("mccl", ())) - {"torch-mccl"}
    advice = f"uninstall {' and '.join(sorted(owners))}" if owners else "rename or remove it"
    raise ImportError(
        f"the back end mccl needs the package mccl of torch-mccl, but another one is imported from "
        f"{place}; {advice}"
    )


def _create_backend(options, backend_options=None):
    # Late: the native module loads when the first group is made, not when torch is imported.
    return _own_package().create_backend(options, backend_options)


def register() -> None:
    """Makes `torch.distributed.init_process_group("mccl")` work. Safe to repeat; never raises."""
    global failure
    if _is_postponed:
        return
    try:
        from torch.distributed import Backend, is_available

        if is_available() and "mccl" not in Backend.backend_list:
            Backend.register_backend(
                "mccl", _create_backend, extended_api=True, devices=["cpu", "mps"]
            )
        failure = None
    except Exception as error:
        failure = error
