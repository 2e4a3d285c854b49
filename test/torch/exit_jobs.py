"""What the ranks of test_exits.py do: each function is a script's body, called by its last line."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

GROUP_TIMEOUT_S = 60.0
kept = []  # until the interpreter is gone


def connect() -> dist.Store:
    return dist.TCPStore("127.0.0.1", int(os.environ["TEST_PORT"]), is_master=False)


def init(rank: int, rank_count: int, timeout_s: float = GROUP_TIMEOUT_S) -> dist.Store:
    """The store is the test's, without a prefix."""
    store = connect()
    world = dist.PrefixStore(f"world/{os.environ['TEST_WORLD']}", store)
    dist.init_process_group("mccl", store=world, rank=rank, world_size=rank_count,
                            timeout=datetime.timedelta(seconds=timeout_s))
    return store


def event_key(name: str) -> str:
    return f"event/{os.environ['TEST_WORLD']}/{name}"


def tell_event(store: dist.Store, name: str, value: str = "") -> None:
    store.set(event_key(name), value)


def await_event(store: dist.Store, name: str) -> None:
    store.wait([event_key(name)], datetime.timedelta(seconds=GROUP_TIMEOUT_S))


def await_record(store: dist.Store, prefix: str, rank: int) -> None:
    """Until that rank takes part in the meeting of the world that has this prefix."""
    root = f"{prefix}/0//cpu//mccl/world"
    limit = datetime.timedelta(seconds=GROUP_TIMEOUT_S)
    store.wait([f"{root}/meeting"], limit)
    meeting = store.get(f"{root}/meeting").decode()
    store.wait([f"{root}/{meeting}/rank/{rank}"], limit)


def await_all(store: dist.Store, rank: int, rank_count: int) -> None:
    """Past the back end, whose barrier may be over here and still under way elsewhere."""
    tell_event(store, f"here/{rank}")
    for other in range(rank_count):
        await_event(store, f"here/{other}")


def report(**values) -> None:
    os.write(1, json.dumps(values).encode() + b"\n")


def report_failure(action) -> None:
    """Runs it again and again until it raises."""
    try:
        while True:
            action()
    except Exception as error:
        report(type=type(error).__name__, text=str(error).splitlines()[0], at=time.monotonic())


def reduce_once() -> None:
    dist.all_reduce(torch.ones(4))


def next_batch(batches: list[int]) -> int:
    return batches[3]


class Batches(torch.utils.data.Dataset):
    """Ten items; the seventh is broken on demand."""

    def __init__(self, is_broken: bool):
        self.is_broken = is_broken

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.is_broken and index == 7:
            raise IndexError("item 7 is broken")
        return torch.full((4,), float(index))


def load(is_broken: bool, context: str) -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(Batches(is_broken), batch_size=2, num_workers=2,
                                       multiprocessing_context=context)


def break_hook(module, inputs):
    raise RuntimeError("no such layer")


def train(on_model=None) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    if on_model is not None:
        on_model(model)
    while True:
        model(torch.ones(2, 4)).sum().backward()


# How the last rank ends; it has made one all_reduce.

def end_off_the_end(store):
    pass


def end_with_status_0(store):
    sys.exit(0)


def end_with_status_3(store):
    sys.exit(3)


def end_with_a_message(store):
    sys.exit("the data is gone")


def end_with_a_caught_exit(store):
    try:
        sys.exit(3)
    except SystemExit:
        pass


def end_while_handling(store):
    try:
        next_batch([1, 2, 3])
    except IndexError:
        sys.exit(1)


def end_at_once(store):
    os._exit(7)


def end_with_an_exception(store):
    next_batch([1, 2, 3])


def end_in_a_forward_hook(store):
    train(lambda model: model.module.register_forward_pre_hook(break_hook))


def end_in_a_loader(store):
    for _ in load(True, "fork"):
        pass


def end_with_works(store):
    kept.extend(dist.all_reduce(torch.ones(4), async_op=True) for _ in range(3))
    kept.append(dist.irecv(torch.ones(4), 0))


# The test sends these a signal.

def end_in_python(store):
    tell_event(store, "ready")
    threading.Event().wait(GROUP_TIMEOUT_S)


def end_in_wait(store):
    work = dist.all_reduce(torch.ones(4), async_op=True)
    tell_event(store, "ready")
    work.wait()


def end_in_training(store):
    train(lambda model: tell_event(store, "ready"))


def end_before_a_child(store):
    child = os.fork()
    if child == 0:  # it has copies of all descriptors, and lives on
        tell_event(store, "child", str(os.getpid()))
        signal.pause()
    await_event(store, "child")
    end_in_python(store)


def fail(rank: int, rank_count: int, ending: str) -> None:
    """The last rank ends as named; the others go on until they are told."""
    store = init(rank, rank_count)
    reduce_once()
    await_all(store, rank, rank_count)
    if rank == rank_count - 1:
        report(at=time.monotonic())
        globals()[ending](store)
        return
    if ending == "end_in_wait":
        await_event(store, "sent")
    is_training = ending in ("end_in_a_forward_hook", "end_in_training")
    report_failure(train if is_training else reduce_once)
    dist.destroy_process_group()


def fail_uncaught(rank: int, rank_count: int) -> None:
    """Nobody catches anything."""
    init(rank, rank_count)
    if rank == rank_count - 1:
        next_batch([1, 2, 3])
    while True:
        reduce_once()


def meet(rank: int, rank_count: int) -> None:
    """One rank does not come; rank 1 is interrupted."""
    if rank == 1:
        init(rank, rank_count)
    else:
        report_failure(lambda: init(rank, rank_count))


def end_normally(rank: int, rank_count: int) -> None:
    """With works that are done, kept until the interpreter is gone, and no destroy."""
    init(rank, rank_count)
    kept.extend(dist.all_reduce(torch.ones(100_000), async_op=True) for _ in range(20))
    for work in kept:
        work.wait()
    kept.extend(work.get_future() for work in list(kept))
    if rank == 0:
        dist.barrier()
    else:
        kept.append(dist.barrier(async_op=True))
        kept[-1].wait()


# Forks of a rank that has a group.

def fork(action) -> int:
    """The exit status of a child that does it."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        action()
        sys.exit(5)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def load_all(context: str) -> float:
    return sum(batch.sum().item() for batch in load(False, context))


def fork_and_go_on(rank: int, rank_count: int) -> None:
    """After each child an exact sum."""
    init(rank, rank_count)
    reduce_once()
    work = dist.all_reduce(torch.ones(200_000), async_op=True)
    statuses = [fork(action) for action in (
        lambda: None, lambda: os._exit(6), lambda: next_batch([]), dist.destroy_process_group,
        reduce_once)]
    statuses.append(subprocess.run([sys.executable, "-c", "raise SystemExit(4)"]).returncode)
    statuses += [load_all("fork"), load_all("spawn")]
    work.wait()
    tensor = torch.full((1000,), float(rank))
    dist.all_reduce(tensor)
    report(statuses=statuses, sums=tensor.unique().tolist())
    dist.destroy_process_group()


# Ranks that are children of multiprocessing; their parent is the script.

def fail_as_a_child(rank: int, rank_count: int, kind: str) -> None:
    store = init(rank, rank_count)
    reduce_once()
    await_all(store, rank, rank_count)
    if rank < rank_count - 1:
        report_failure(reduce_once)
        return
    report(at=time.monotonic())
    if kind == "exception":
        next_batch([1, 2, 3])
    if kind == "exit":
        raise SystemExit(4)


def start_children(rank: int, rank_count: int, how: str, kind: str) -> None:
    """`how`: of torch.multiprocessing, or plain."""
    if how == "torch":
        try:
            torch.multiprocessing.start_processes(
                fail_as_a_child, (2, kind), nprocs=2, join=True, start_method="fork")
        except torch.multiprocessing.ProcessRaisedException as error:
            report(raised=str(error).splitlines()[-1])
        return
    context = torch.multiprocessing.get_context(how)
    try:
        next_batch([])  # the children inherit that it is being handled
    except IndexError:
        children = [context.Process(target=fail_as_a_child, args=(child, 2, kind))
                    for child in range(2)]
        for child in children:
            child.start()
    for child in children:
        child.join()
    report(statuses=[child.exitcode for child in children])
