"""Law L9: calls that differ end on every rank within a second, with both calls in words."""

import time

import pytest
import torch
import torch.distributed as dist

import ranks as rank_processes

REPETITIONS = 100
LIMIT_S = 1.0

FOUR = torch.ones(4)
SUM = dist.ReduceOp.SUM

# The call of the odd rank, the others' call, and what both are called in messages.
CASES = {
    "shape": (lambda: dist.all_reduce(torch.ones(3)), lambda: dist.all_reduce(torch.ones(4)),
              "all_reduce(float32, sum, 3 elements)", "all_reduce(float32, sum, 4 elements)"),
    "dtype": (lambda: dist.all_reduce(torch.ones(4).double()),
              lambda: dist.all_reduce(torch.ones(4)),
              "all_reduce(float64, sum, 4 elements)", "all_reduce(float32, sum, 4 elements)"),
    "op": (lambda: dist.all_reduce(torch.ones(4), dist.ReduceOp.MAX),
           lambda: dist.all_reduce(torch.ones(4), dist.ReduceOp.MIN),
           "all_reduce(float32, max, 4 elements)", "all_reduce(float32, min, 4 elements)"),
    "root": (lambda: dist.broadcast(torch.ones(4), 1), lambda: dist.broadcast(torch.ones(4), 0),
             "broadcast(float32, root 1, 4 elements)", "broadcast(float32, root 0, 4 elements)"),
    "order": (lambda: (dist.all_reduce(torch.ones(4)), dist.all_reduce(torch.ones(9))),
              lambda: (dist.all_reduce(torch.ones(9)), dist.all_reduce(torch.ones(4))),
              "all_reduce(float32, sum, 4 elements)", "all_reduce(float32, sum, 9 elements)"),
    "broadcast": (lambda: dist.broadcast(torch.ones(4), 0), lambda: dist.all_reduce(torch.ones(4)),
                  "broadcast(float32, root 0, 4 elements)", "all_reduce(float32, sum, 4 elements)"),
    "barrier, leaf": (lambda: dist.broadcast(torch.ones(4), 0), lambda: dist.barrier(),
                      "broadcast(float32, root 0, 4 elements)", "barrier()"),
    "root of reduce, leaf": (lambda: dist.broadcast(torch.ones(4), 0),
                             lambda: dist.reduce(torch.ones(4), 0),
                             "broadcast(float32, root 0, 4 elements)",
                             "reduce(float32, sum, root 0, 4 elements)"),
    "nothing": (lambda: dist.all_reduce(torch.ones(0)), lambda: dist.all_reduce(torch.ones(4)),
                "all_reduce(float32, sum, 0 elements)", "all_reduce(float32, sum, 4 elements)"),
}


def call_differently(rank, rank_count, case, repetition):
    odd_call, usual_call, _, _ = CASES[case]
    is_odd = rank == (rank_count - 1 - repetition) % rank_count
    rank_processes.init()
    began = time.monotonic()
    text = "no error"
    try:
        (odd_call if is_odd else usual_call)()
        dist.barrier()  # a call that was complete already reports it at the next one
    except dist.DistBackendError as error:
        text = str(error)
    took = time.monotonic() - began
    dist.destroy_process_group()
    return took, text


@pytest.mark.parametrize("rank_count", [2, 4])
def test_every_kind_of_mismatch_ends_on_every_rank(rank_count):
    cases = list(CASES)
    with rank_processes.Ranks(rank_count, initialises=False) as ranks:
        for repetition in range(REPETITIONS):
            case = cases[repetition % len(cases)]
            for took, text in ranks.call(call_differently, case, repetition // len(cases)):
                what = f"{case}, repetition {repetition}: {took:.2f} s, {text}"
                assert took < LIMIT_S, what
                assert all(call in text for call in CASES[case][2:]), what


def make_groups(rank, rank_count):
    rank_processes.init(timeout_s=20.0)
    everybody = list(range(rank_count))
    began = time.monotonic()
    try:
        dist.new_group(everybody if rank > 0 else everybody[:1])
    except dist.DistBackendError as error:
        return time.monotonic() - began, str(error)
    return time.monotonic() - began, "no error"


@pytest.mark.parametrize("rank_count", [2, 4])
def test_lists_of_members_that_differ_are_said(rank_count):
    with rank_processes.Ranks(rank_count, initialises=False) as ranks:
        outcomes = ranks.call(make_groups)
        ranks.is_broken = True
    members = ", ".join(str(rank) for rank in range(rank_count))
    assert outcomes[0][1] == "no error"  # a group of one is complete
    for took, text in outcomes[1:]:
        assert took < LIMIT_S, text
        assert "(global ranks 0) of 1 ranks" in text, text
        assert f"(global ranks {members}) of {rank_count} ranks" in text, text
