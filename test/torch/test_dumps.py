"""The last operations of a process: on failure, on SIGUSR1, and when asked."""

import faulthandler
import json
import os
import pathlib
import signal
import socket
import time

import pytest
import torch
import torch.distributed as dist

import mccl
import ranks as rank_processes

DEADLINE_S = 20.0


def name_of(pid):
    return f"{socket.gethostname()}-{pid}.json"


def await_file(path):
    """The dump at `path`, which another thread or process writes."""
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not come"
        time.sleep(0.01)  # nothing tells when another process has renamed a file
    return json.loads(path.read_text())


def lose_the_other(rank, rank_count):
    dist.all_reduce(torch.ones(4))
    if rank == 1:
        rank_processes.await_go("waiting")
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(100000), async_op=True)
    rank_processes.go("waiting")
    try:
        work.wait()
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def test_a_survivor_leaves_a_dump_that_names_the_lost_rank_and_the_operation(tmp_path):
    with rank_processes.Ranks(2, environment={"MCCL_DUMP_DIR": str(tmp_path)}) as ranks:
        survivor, victim = ranks.outcomes(lose_the_other)
        assert victim.error == "SIGKILL"
        pids = ranks.pids
        dump = await_file(tmp_path / name_of(pids[0]))
        log = ranks.output(0)
    assert survivor.error_type == "", survivor.trace
    assert (dump["cause"], dump["pid"], dump["rank"]) == ("failure", pids[0], 0)
    [group] = dump["communicators"]
    assert group["failure"]["code"] == "peer lost"
    assert f"lost rank 1 (host {socket.gethostname()}, pid {pids[1]})" in (
        group["failure"]["message"])
    assert group["failure"]["message"] in survivor.value
    assert [member["pid"] for member in group["members"]] == pids
    complete, failed = group["operations"]
    assert complete["state"] == "complete"
    assert failed["sequence"] == 1
    assert failed["call"] == "all_reduce(float32, sum, 100000 elements)"
    assert (failed["state"], failed["failed_in"]) == ("failed", "running")
    assert failed["waits_for"] == [1]
    assert log.count(f"; the last operations: {tmp_path}/{name_of(pids[0])}") == 1


def dump_while_waiting(rank, rank_count, folder):
    """Rank 1 sends the signal to rank 0, whose Python is blocked in wait()."""
    faulthandler.unregister(signal.SIGUSR1)
    rank_processes.init()
    dist.all_reduce(torch.ones(4))
    if rank == 0:
        rank_processes.go("posting")
        dist.all_reduce(torch.ones(100000))
        return os.getpid()
    rank_processes.await_go("posting")
    peer = mccl_members()[0]["pid"]
    path = pathlib.Path(folder) / name_of(peer)
    while True:  # rank 0 may not have made its call when the first one comes
        os.kill(peer, signal.SIGUSR1)
        dump = await_file(path)
        if dump["communicators"][0]["operations_posted"] == 2:
            break
        path.unlink(missing_ok=True)
    dist.all_reduce(torch.ones(100000))
    return dump


def mccl_members():
    return json.loads(pathlib.Path(mccl.dump()).read_text())["communicators"][0]["members"]


def test_sigusr1_gives_the_file_while_python_is_blocked_in_wait(tmp_path):
    with rank_processes.Ranks(2, initialises=False,
                              environment={"MCCL_DUMP_DIR": str(tmp_path)}) as ranks:
        pid, dump = ranks.call(dump_while_waiting, str(tmp_path))
    assert (dump["cause"], dump["pid"], dump["rank"]) == ("signal", pid, 0)
    [group] = dump["communicators"]
    assert group["failure"] is None
    last = group["operations"][-1]
    assert (last["sequence"], last["state"], last["waits_for"]) == (1, "running", [1])


def keep_own_handler(rank, rank_count):
    faulthandler.unregister(signal.SIGUSR1)
    caught = []
    signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    rank_processes.init()
    os.kill(os.getpid(), signal.SIGUSR1)
    dist.all_reduce(torch.ones(4))
    dist.destroy_process_group()
    os.kill(os.getpid(), signal.SIGUSR1)
    return caught, os.path.exists(os.environ["MCCL_DUMP_DIR"])


def test_a_handler_of_the_program_keeps_working(tmp_path):
    # A directory of its own: where all tests write, others may have written.
    directory = str(tmp_path / "dumps")
    with rank_processes.Ranks(2, initialises=False,
                              environment={"MCCL_DUMP_DIR": directory}) as ranks:
        for caught, has_dumped in ranks.call(keep_own_handler):
            assert caught == [signal.SIGUSR1, signal.SIGUSR1]
            assert not has_dumped, ranks.output(0) + ranks.output(1)


def fail_without_a_place(rank, rank_count):
    faulthandler.unregister(signal.SIGUSR1)
    rank_processes.init()
    dist.all_reduce(torch.ones(4))
    with pytest.raises(ValueError, match="cannot make .*let MCCL_DUMP_DIR name"):
        mccl.dump()
    try:
        dist.all_reduce(torch.ones(5 if rank == 0 else 7))
        dist.barrier()
    except dist.DistBackendError as error:
        dist.destroy_process_group()  # what is to be written has been tried when it returns
        return str(error)
    return "no error"


def test_a_directory_that_cannot_be_written_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with rank_processes.Ranks(2, initialises=False,
                              environment={"MCCL_DUMP_DIR": f"{tmp_path}/file/dumps"}) as ranks:
        texts = ranks.call(fail_without_a_place)
        logs = [ranks.output(rank) for rank in range(2)]
    for text, log in zip(texts, logs):
        assert "count 5 against 7" in text or "count 7 against 5" in text
        assert log.count("the last operations are not written: cannot make") == 1, log


def dump_at(rank, rank_count, path):
    dist.all_reduce(torch.ones(4))
    written = mccl.dump(f"{path}/rank{rank}.json")
    dump = json.loads(pathlib.Path(written).read_text())
    return written, dump["cause"], dump["communicators"][0]["rank"]


def test_a_program_writes_its_own_dump(tmp_path):
    with rank_processes.Ranks(2) as ranks:
        assert ranks.call(dump_at, str(tmp_path)) == [
            (f"{tmp_path}/rank{rank}.json", "call", rank) for rank in range(2)]


def abort_own_group(rank, rank_count):
    dist.all_reduce(torch.ones(4))
    if rank == 0:
        rank_processes.await_go("done")
        dist.group.WORLD._get_backend(torch.device("cpu")).abort()
        dist.destroy_process_group()
        return os.path.exists(os.environ["MCCL_DUMP_DIR"] + "/" + name_of(os.getpid()))
    rank_processes.go("done")
    return False


def test_who_aborts_its_group_itself_needs_no_dump():
    with rank_processes.Ranks(2) as ranks:
        assert ranks.call(abort_own_group) == [False, False]
        ranks.is_broken = True
