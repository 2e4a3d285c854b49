"""Wrong calls: one clear error before anything is sent, and the group is as good as before."""

import pytest
import torch
import torch.distributed as dist

BAND, MIN, PRODUCT = dist.ReduceOp.BAND, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT
AVG, MAX = dist.ReduceOp.AVG, dist.ReduceOp.MAX


def refusal(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def check_refusals(rank, rank_count, calls):
    found = {name: refusal(call) for name, call in calls.items()}
    tensor = torch.ones(3)
    dist.all_reduce(tensor)  # nothing was sent, nothing is broken
    assert tensor.tolist() == [float(rank_count)] * 3
    return found


def reduce_without_meaning(rank, rank_count):
    ones = torch.ones(2)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    premul = dist._make_nccl_premul_sum(2.0)
    quantized = torch.quantize_per_tensor(ones, 0.1, 0, torch.qint8)
    return check_refusals(rank, rank_count, {
        "bits": lambda: dist.all_reduce(ones, BAND),
        "bits of half": lambda: dist.reduce(ones.half(), 0, dist.ReduceOp.BXOR),
        "complex product": lambda: dist.group.WORLD.allreduce(
            [ones.to(torch.complex64)], PRODUCT).wait(),
        "complex min": lambda: dist.reduce_scatter_tensor(
            torch.ones(1, dtype=torch.complex128),
            torch.ones(rank_count, dtype=torch.complex128), MIN),
        "bool avg": lambda: dist.all_reduce(ones.bool(), AVG),
        "float8": lambda: dist.all_reduce(ones.to(torch.float8_e4m3fn)),
        "float8 scale": lambda: dist.all_reduce(ones.to(torch.float8_e8m0fnu)),
        "premul int": lambda: dist.all_reduce(ones.int(), premul),
        "premul float8": lambda: dist.all_reduce(ones.to(torch.float8_e5m2), premul),
        "premul scale": lambda: dist.all_reduce(ones.to(torch.float8_e8m0fnu), premul),
        "premul complex": lambda: dist.group.WORLD.allreduce(
            [ones.to(torch.complex64)], premul).wait(),
        "complex factor": lambda: dist.all_reduce(
            ones, dist._make_nccl_premul_sum(torch.tensor([1j]))),
        "quantized": lambda: backend.broadcast([quantized], dist.BroadcastOptions()),
        "sparse max": lambda: dist.all_reduce(ones.to_sparse(), MAX),
        "sparse broadcast": lambda: backend.broadcast([ones.to_sparse()],
                                                      dist.BroadcastOptions()),
        "meta": lambda: backend.broadcast([ones.to("meta")], dist.BroadcastOptions()),
    })


def test_reductions_without_meaning_are_refused_by_name(few_ranks):
    no = "NotImplementedError: mccl: "
    for found in few_ranks.call(reduce_without_meaning):
        assert found == {
            "bits": no + "bit_and of float32 is not supported; bit operations need an integer or "
                         "bool type",
            "bits of half": no + "bit_xor of float16 is not supported; bit operations need an "
                                 "integer or bool type",
            "complex product": no + "product of complex64 is not supported; all_gather the "
                                    "factors and multiply them on each rank",
            "complex min": no + "min of complex128 is not supported; complex numbers have no "
                                "order",
            "bool avg": no + "avg of bool is not supported; use sum of int32",
            "float8": no + "sum of float8_e4m3fn is not supported; reduce in float16 or bfloat16",
            "float8 scale": no + "sum of Float8_e8m0fnu is not supported; convert to a type that "
                                 "mccl reduces, such as float32",
            "premul int": no + "premul_sum of int32 is not supported; the factor needs float16, "
                               "bfloat16, float32 or float64",
            "premul float8": no + "premul_sum of float8_e5m2 is not supported; reduce in float16 "
                                  "or bfloat16",
            "premul scale": no + "premul_sum of Float8_e8m0fnu is not supported; reduce in "
                                 "float16 or bfloat16",
            "premul complex": no + "premul_sum of complex64 is not supported; multiply the tensor "
                                   "by the factor, then use sum",
            "complex factor": no + "premul_sum by a Strided ComplexFloat factor on cpu is not "
                                   "supported; pass a real number",
            "quantized": no + "quantized tensors (QInt8) are not supported",
            "sparse max": no + "all_reduce of sparse tensors supports ReduceOp.SUM only",
            "sparse broadcast": no + "broadcast of a Sparse tensor is not supported; supported "
                                     "are strided tensors, and sparse COO tensors in all_reduce",
            "meta": no + "broadcast of a tensor on meta is not supported; supported are cpu, and "
                         "mps on a Mac",
        }


def split_wrongly(rank, rank_count):
    rows = torch.ones(7, 2)
    even = [1] * (rank_count - 1)
    return check_refusals(rank, rank_count, {
        "odd": lambda: dist.all_to_all_single(torch.ones(7, 2), rows),
        "sum": lambda: dist.all_to_all_single(torch.ones(7, 2), rows, even + [8 - rank_count],
                                              even + [9 - rank_count]),
        "negative": lambda: dist.all_to_all_single(torch.ones(7, 2), rows, even + [8 - rank_count],
                                                   [8] + [0] * (rank_count - 2) + [-1]),
        "length": lambda: dist.all_to_all_single(torch.ones(7, 2), rows, [7], [7]),
        "scalar": lambda: dist.all_to_all_single(torch.tensor(1.0), torch.tensor(1.0)),
    })


@pytest.mark.parametrize("rank_count", [3])
def test_wrong_splits_are_refused_in_rows(pools, rank_count):
    for found in pools.get(rank_count).call(split_wrongly):
        no = "ValueError: mccl: all_to_all_single"
        assert found == {
            "odd": f"{no}'s input has 7 rows, which 3 ranks do not divide; pass split sizes",
            "sum": f"{no}'s input split sizes [1, 1, 6] add up to 8, its input has 7 rows",
            "negative": f"{no}'s input split size -1 for rank 2 is negative",
            "length": f"{no} has 1 input split sizes for 3 ranks",
            "scalar": f"{no}'s input is a scalar; it needs rows to share out",
        }


def name_wrong_ranks(rank, rank_count):
    group = dist.new_group([0, 2])
    found = {}
    if rank != 1:
        ones = torch.ones(2)
        found = {
            "root": refusal(lambda: dist.broadcast(ones, group_src=2, group=group)),
            "negative": refusal(lambda: dist.reduce(ones, group_dst=-1, group=group)),
            "gather": refusal(lambda: dist.gather(ones, None, group_dst=5, group=group)),
            "peer": refusal(lambda: dist.isend(ones, group_dst=7, group=group)),
            "outside": refusal(lambda: dist.broadcast(ones, 1, group=group)),
        }
        dist.broadcast(ones, 2, group=group)
        dist.destroy_process_group(group)
    else:
        ones = torch.ones(1)
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        found = {"self": refusal(lambda: backend.send([ones], 1, 0))}
    dist.barrier()
    return found


def test_ranks_outside_the_group_are_named_in_both_numberings(pools):
    found = pools.get(3).call(name_wrong_ranks)
    known = "this group has group ranks 0 to 1 (global ranks 0, 2)"
    assert found[0]["root"] == (f"ValueError: mccl: broadcast's root is group rank 2; {known}; "
                                "global rank 2 is group rank 1")
    assert found[0]["negative"] == f"ValueError: mccl: reduce's root is group rank -1; {known}"
    assert found[0]["gather"] == f"ValueError: mccl: gather's root is group rank 5; {known}"
    assert found[0]["peer"] == f"ValueError: mccl: send's destination is group rank 7; {known}"
    assert "rank 1 is not part of group" in found[0]["outside"]  # torch's own
    assert found[1] == {"self": "ValueError: mccl: send's destination is group rank 1, which is "
                                "this rank; copy the tensor instead"}


def pass_wrong_tensors(rank, rank_count):
    world = dist.group.WORLD
    expanded = torch.zeros(1).expand(4)
    four = torch.zeros(4)
    many = [torch.zeros(4) for _ in range(rank_count)]
    own = rank == 0
    found = check_refusals(rank, rank_count, {
        "into": lambda: dist.all_gather_into_tensor(torch.empty(5), torch.ones(2)),
        "own": lambda: dist.all_gather([torch.empty(3) for _ in range(rank_count)], torch.ones(2)),
        "list": lambda: dist.all_gather([torch.empty(2)], torch.ones(2)),
        "scatter": lambda: dist.reduce_scatter_tensor(torch.empty(2), torch.ones(5)),
        "scatter own": lambda: dist.reduce_scatter(torch.empty(3), many),
        "dtypes": lambda: world.allgather(
            [[torch.empty(4, dtype=torch.int32) for _ in range(rank_count)]], [four]).wait(),
        "coalesced": lambda: world.allreduce_coalesced([four, four.int()]).wait(),
        "second": lambda: world.all_gather_single_coalesced(
            [torch.empty(4 * rank_count), torch.empty(3)], [four, four]).wait(),
    })
    calls = {
        "all_reduce": lambda: dist.all_reduce(expanded),
        "broadcast": lambda: dist.broadcast(expanded, 0),
        "reduce": lambda: dist.reduce(expanded, 0),
        "all_gather": lambda: dist.all_gather([expanded] * rank_count, four),
        "reduce_scatter": lambda: dist.reduce_scatter(expanded, many),
        "all_to_all": lambda: dist.all_to_all([expanded] * rank_count, many),
        "scatter": lambda: dist.scatter(expanded, many if own else None, 0),
        "recv": lambda: dist.irecv(expanded, (rank + 1) % rank_count),
    }
    for name, text in check_refusals(rank, rank_count, calls).items():
        assert text == (f"ValueError: mccl: the output of {name} has elements that share memory "
                        "(an expanded tensor); pass a clone"), text
    return found


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_wrong_tensors_are_refused(pools):
    for found in pools.get(3).call(pass_wrong_tensors):
        no = "ValueError: mccl: "
        assert found == {
            "into": no + "the output of all_gather_into_tensor has 5 elements, 3 ranks with an "
                         "input of 2 need 6",
            "own": no + "all_gather's own input has 2 elements, its output 3",
            "list": no + "all_gather's output has 1 tensors for 3 ranks",
            "scatter": no + "the input of reduce_scatter_tensor has 5 elements, 3 ranks with an "
                            "output of 2 need 6",
            "scatter own": no + "reduce_scatter's own output has 3 elements, its input 4",
            "dtypes": no + "the tensors of all_gather are of one dtype; one is Float, another Int",
            "coalesced": no + "the tensors of all_reduce_coalesced are of one dtype; one is Float, "
                              "another Int",
            "second": no + "the output of all_gather_into_tensor has 3 elements, 3 ranks with an "
                           "input of 4 need 12",
        }
