"""Programs from files serve torch's collectives: found, proven, compared between ranks, counted."""

import os
import pathlib

import pytest
import torch
import torch.distributed as dist

import mccl
import ranks as rank_processes

RING = (pathlib.Path(__file__).parent / "programs" / "ring_of_two.xml").read_text()


def write(folder, file, text=RING, **changes):
    """A program file, with attributes of its root changed."""
    for attribute, value in changes.items():
        begin = text.index(f'{attribute}="') + len(attribute) + 2
        text = text[:begin] + value + text[text.index('"', begin):]
    path = folder / file
    path.write_text(text)
    return str(path)


def join(rank, files, **settings):
    os.environ["MSCCL_XML_FILES"] = files[rank] if isinstance(files, list) else files
    os.environ.update(settings)
    rank_processes.init()


def leave():
    dist.destroy_process_group()


def sum_once(rank, rank_count, dtype, count):
    tensor = torch.arange(count).to(dtype) * (rank + 1)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.arange(count).to(dtype) * 3)


def serve(rank, rank_count, files):
    join(rank, files)
    sum_once(rank, rank_count, torch.float32, 16)
    sum_once(rank, rank_count, torch.float32, 15)  # 60 bytes: below the window
    sum_once(rank, rank_count, torch.int64, 9)  # two chunks do not divide it
    average = torch.full((16,), float(rank))
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    assert torch.equal(average, torch.full((16,), 0.5))
    found = mccl.stats()
    text = mccl.explain("all_reduce", 64, dtype=torch.float32, in_place=True)
    leave()
    return found, text


@pytest.fixture
def two():
    with rank_processes.Ranks(2, initialises=False) as ranks:
        yield ranks


def test_a_file_serves_all_reduce(two, tmp_path):
    path = write(tmp_path, "ring.xml")
    for found, text in two.call(serve, path):
        assert found["loaded"] == [{"program": "ring_of_two", "collective": "all_reduce",
                                    "file": path, "rank_count": 2, "calls": 3}]
        mine = next(one for one in found["programs"] if one["program"] == "ring_of_two")
        assert mine["reason"] == f"loaded from {path}"
        assert mine["ragged_calls"] == 1
        assert mine["averaged_calls"] == 1
        assert [(one["rule"], one["calls"]) for one in found["refusals"]] == [("window", 1)]
        assert "* ring_of_two\n" in text
        assert f"chosen: loaded from {path}" in text
    told = two.output(0)
    assert "programs from files: loaded 1, proven 1, used 0 so far; 1 of them is for 2" in told
    assert "programs from files: ring_of_two served 3 calls" in told


def fail_to_join(rank, rank_count, files):
    with pytest.raises(dist.DistBackendError) as raised:
        join(rank, files)
    return str(raised.value)


def test_ranks_with_different_programs_are_told_of_rank_files_and_digests(two, tmp_path):
    first = write(tmp_path, "a.xml")
    second = write(tmp_path, "b.xml", maxBytes="2097152")
    texts = two.call(fail_to_join, [first, second])
    assert texts[0] == texts[1]
    assert "the ranks have loaded different programs" in texts[0]
    for path in (first, second):
        assert f"({path})" in texts[0]
    assert "on rank 0 (host" in texts[0]
    assert "on rank 1 (host" in texts[0]


def test_a_broken_file_on_one_rank_is_told_to_all(two, tmp_path):
    good = write(tmp_path, "good.xml")
    bad = write(tmp_path, "bad.xml", RING.replace('type="rrcs"', 'type="rrcx"', 1))
    texts = two.call(fail_to_join, [good, bad])
    assert texts[0] == texts[1]
    assert "rank 1 (host" in texts[0]
    assert f"{bad}:5:" in texts[0]


def test_a_program_that_is_not_proven_does_not_run(two, tmp_path):
    wrong = write(tmp_path, "wrong.xml", RING.replace('type="rrcs"', 'type="rcs"'))
    for text in two.call(fail_to_join, wrong):
        assert "the ranks cannot use their programs" in text
        assert f"{wrong}:" in text
        assert "not proven, postcondition" in text


def serve_and_name(rank, rank_count, files):
    join(rank, files)
    sum_once(rank, rank_count, torch.float32, 1000)
    names = [one["program"] for one in mccl.stats()["programs"]]
    leave()
    return names


def test_overlapping_files_in_another_order_serve_alike(two, tmp_path):
    first = write(tmp_path, "a.xml", name="second_by_name")
    second = write(tmp_path, "b.xml", name="first_by_name")
    orders = [f"{first}:{second}", f"{second}:{first}"]
    assert two.call(serve_and_name, orders) == [["first_by_name"], ["first_by_name"]]


def raise_at_the_call(rank, rank_count, files):
    join(rank, files, MCCL_ALGO="ring_of_two", MCCL_ALGO_STRICT="1")
    sum_once(rank, rank_count, torch.float32, 16)
    with pytest.raises(Exception, match="its window is 64 bytes or more and less than") as raised:
        dist.all_reduce(torch.ones(4))
    sum_once(rank, rank_count, torch.float32, 16)  # nothing was sent: the group lives on
    leave()
    return str(raised.value)


def test_strictly_a_call_that_the_named_program_does_not_serve_raises(two, tmp_path):
    for text in two.call(raise_at_the_call, write(tmp_path, "ring.xml")):
        assert "would do: calls of 64 bytes or more" in text
