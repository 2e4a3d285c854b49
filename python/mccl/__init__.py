"""mccl: collectives for training on the machines you own, as a back end of torch.distributed.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("mccl")  # doctest: +SKIP

Stock DistributedDataParallel runs on it unmodified; `mccl.stats()` tells which program served how
many calls and why.
"""

from __future__ import annotations

import atexit
import functools
import os
from typing import Any

import mccl_entry_point

__version__ = "0.1.0"
# Tells this package from another one that is imported as `mccl`.
__distribution__ = "torch-mccl"

__all__ = ["create_backend", "custom_collective", "dump", "explain", "stats"]

# Held here because torch keeps the C++ object only; what a destroyed group leaves is small.
_living: "set[Any]" = set()


def _native():
    """The native module, if it fits the torch that is installed."""
    import torch

    from . import _build_info

    found = ".".join(torch.__version__.split(".")[:2])
    if found != _build_info.TORCH_MINOR:
        raise ImportError(
            f"torch-mccl was built for torch {_build_info.TORCH_MINOR}, found torch "
            f"{torch.__version__}; install the torch-mccl for it, or build it again"
        )
    from . import _C

    return _C


def _rendezvous_host(store) -> str:
    """The host of the TCPStore under any prefixes; empty for other stores."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return getattr(store, "host", "")


def create_backend(options, backend_options=None):
    """The factory that torch calls for `init_process_group("mccl")`.

    Meets the other ranks through `options.store`; blocks until all are there or the group's timeout
    has passed, and then raises torch.distributed.DistBackendError, which names the missing ranks.
    """
    from datetime import timedelta

    native = _native()
    own = backend_options if isinstance(backend_options, native.Options) else native.Options()
    timeout = options.timeout
    own._timeout = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
    own.group_name = options.group_id  # for messages, like the next
    own.global_ranks_in_group = options.global_ranks_in_group
    backend = native.Backend(
        options.store,
        options.group_rank,
        options.group_size,
        own,
        master_address=_rendezvous_host(options.store),
    )
    _living.add(backend)
    _watch_for_the_end()
    return backend


@functools.cache
def _hook_of(process_id: int):
    from .exit_hook import ExitHook

    hook = ExitHook(_abort_all, _shut_down_all)
    hook.install()
    return hook


def _watch_for_the_end() -> None:
    # Of every process that has groups: a forked one makes its own.
    _hook_of(os.getpid())


def _abort_all(reason: str) -> None:
    for backend in list(_living):
        backend._abort(reason)


def _shut_down_all() -> None:
    # Threads of ours must be gone before the interpreter is.
    for backend in list(_living):
        backend.shutdown()


atexit.register(_shut_down_all)


def _backend_of(group):
    import torch
    import torch.distributed as dist

    if group is None:
        group = dist.group.WORLD
    if group is None:
        raise ValueError("mccl: there is no process group; call init_process_group first")
    backend = group._get_backend(torch.device("cpu"))
    # TORCH_DISTRIBUTED_DEBUG=DETAIL puts a wrapper around it.
    backend = getattr(backend, "wrapped_pg", backend)
    if not isinstance(backend, _native().Backend):
        raise ValueError(f"mccl: the group's back end is {backend.name()}, not mccl")
    return backend


def stats(group=None) -> dict:
    """What the communicator of `group` (default: the world) has done so far.

    `programs` lists, in the order of first use, which program served how many calls and bytes of
    which collective, and the reason why it was chosen. `staged_calls` and `staged_bytes` count the
    copies that layouts, or MCCL_UNIFIED_COLLECTIVE=0, made necessary. `loaded` lists the programs
    from files and what each served, `refusals` what they did not serve, by the first rule that was
    in the way. `device_calls` counts calls
    on memory of a device such as mps; in `stream_waits` of them wait() left the waiting to the
    device's stream, in `host_waits` the host had to wait. Byte and call counters of sockets are
    those of the process, all groups together.
    """
    return _backend_of(group).stats()


def explain(
    collective: str, bytes: int, group=None, *, dtype=None, op: str = "sum", in_place: bool = False
) -> str:
    """Which program would serve a call of `bytes` bytes, and why each other candidate would not.

    `bytes` is the size of a rank's larger buffer. With `dtype` (a torch.dtype or its name) the
    rules of programs from files are asked, too, that depend on the type, on `op` ("sum", "avg",
    ...) and on whether the call is `in_place`; see docs/custom-algorithms.md.
    """
    name = None if dtype is None else str(dtype).removeprefix("torch.")
    return _backend_of(group).explain(collective, bytes, name, op, in_place)


def custom_collective(
    name: str, input, output, group=None, *, op: str = "sum", async_op: bool = False,
    chunk_elements: "int | None" = None
):
    """Runs the custom collective `name`, a program that was loaded from a file, on all ranks.

    `input` and `output` are tensors of one dtype that hold the chunks which the program's contract
    gives this rank, one behind the other; all chunks of all ranks are equally long. A rank with no
    chunks of its own passes empty tensors and `chunk_elements`. With `async_op` returns a Work,
    else waits and returns None. ValueError names the programs that are loaded, or the two sizes
    that disagree; see docs/custom-algorithms.md.
    """
    work = _backend_of(group).custom(name, input, output, op, async_op, chunk_elements)
    if async_op:
        return work
    work.wait()
    return None


def dump(path: "str | None" = None) -> str:
    """Writes what this process's groups have done last, for `mccl dump PATH...`; returns the path.

    Without `path` it is HOST-PID.json in the directory of MCCL_DUMP_DIR. The same is written when a
    group fails, and on SIGUSR1 unless the program handles that itself.
    """
    return _backend_of(None).write_dump("" if path is None else str(path))


mccl_entry_point.register()
