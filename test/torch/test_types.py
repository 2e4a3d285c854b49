"""Every operation on every type, and how results are rounded."""

import os

import pytest
import torch
import torch.distributed as dist

import mccl
import ranks as rank_processes

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
         torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool,
         torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
         torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
OPS = ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"]
# By rank; as bool: no and yes. Sums and products fit into every type.
OPERANDS = [[0, 6, 2, 0], [3, 2, 4, 0]]
RESULTS = {"SUM": [3, 8, 6, 0], "AVG": [1, 4, 3, 0], "PRODUCT": [0, 12, 8, 0],
           "MIN": [0, 2, 2, 0], "MAX": [3, 6, 4, 0], "BAND": [0, 2, 0, 0], "BOR": [3, 6, 6, 0],
           "BXOR": [3, 4, 6, 0], "PREMUL_SUM": [6, 16, 12, 0]}
FRACTIONS = {"AVG": [1.5, 4, 3, 0]}
LOGIC = {"SUM": [1, 1, 1, 0], "PRODUCT": [0, 1, 1, 0], "MIN": [0, 1, 1, 0], "MAX": [1, 1, 1, 0],
         "BAND": [0, 1, 1, 0], "BOR": [1, 1, 1, 0], "BXOR": [1, 0, 0, 0]}


def expected_result(name: str, dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor(LOGIC[name]).to(dtype)
    is_exact = dtype.is_floating_point or dtype.is_complex
    return torch.tensor((FRACTIONS if is_exact else {}).get(name, RESULTS[name])).to(dtype)


def try_reductions(rank: int, rank_count: int) -> dict:
    """By type, then by operation: "yes", or the refusal."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    table: dict = {}
    for dtype in TYPES:
        row = table[str(dtype)] = {}
        for name in OPS:
            options = dist.AllreduceOptions()
            options.reduceOp = (dist._make_nccl_premul_sum(2.0) if name == "PREMUL_SUM"
                                else getattr(dist.ReduceOp, name))
            tensor = torch.tensor(OPERANDS[rank]).to(dtype)
            try:
                backend.allreduce([tensor], options).wait()
            except NotImplementedError as error:
                row[name] = str(error).splitlines()[0].removeprefix("mccl: ")
                continue
            assert torch.equal(tensor, expected_result(name, dtype)), (name, dtype, tensor)
            row[name] = "yes"
    return table


def try_moves(rank: int, rank_count: int) -> None:
    for dtype in TYPES:
        tensor = torch.tensor(OPERANDS[rank % 2]).to(dtype)
        outputs = [torch.zeros(4).to(dtype) for _ in range(rank_count)]
        dist.all_gather(outputs, tensor)
        for source, output in enumerate(outputs):
            wanted = torch.tensor(OPERANDS[source % 2]).to(dtype)
            assert torch.equal(output.view(torch.uint8), wanted.view(torch.uint8)), dtype


def test_every_operation_on_every_type_is_exact_or_refused(two_ranks):
    table = two_ranks.call(try_reductions)[0]
    served = {dtype: {name for name, text in row.items() if text == "yes"}
              for dtype, row in table.items()}
    bits = {"BAND", "BOR", "BXOR"}
    for dtype in TYPES:
        if dtype.is_complex:
            expected = {"SUM", "AVG"}
        elif dtype.itemsize == 1 and dtype.is_floating_point:
            expected = set()
        elif dtype.is_floating_point:
            expected = set(OPS) - bits
        elif dtype is torch.bool:
            expected = set(OPS) - {"AVG", "PREMUL_SUM"}
        else:
            expected = set(OPS) - {"PREMUL_SUM"}
        assert served[str(dtype)] == expected, dtype


def test_every_type_is_moved(few_ranks):
    few_ranks.call(try_moves)


def move_columns_of_bits(rank, rank_count):
    for dtype in (torch.uint4, torch.int2, torch.bits8, torch.float4_e2m1fn_x2):
        rows = torch.arange(6, dtype=torch.uint8).view(2, 3) * (rank + 1)
        dist.broadcast(rows.t().view(dtype), rank_count - 1)
        assert rows.tolist() == [[index * rank_count for index in range(row, row + 3)]
                                 for row in (0, 3)], dtype


def test_views_of_types_that_torch_does_not_copy_are_moved(few_ranks):
    few_ranks.call(move_columns_of_bits)


def scale_then_add(rank, rank_count):
    tensor = torch.full((3, 2), float(rank + 1)).t()
    for factor in (torch.tensor([0.5]), torch.tensor(2), torch.ones(1, 1).to(torch.float8_e5m2)):
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
    assert tensor.tolist() == [[rank_count ** 3 * (rank_count + 1) / 2] * 3] * 2
    whole = torch.arange(2.0 * rank_count).to(torch.bfloat16)
    output = torch.empty(2, dtype=torch.bfloat16)
    dist.reduce_scatter_tensor(output, whole, dist._make_nccl_premul_sum(4.0))
    assert output.tolist() == [4 * rank_count * (2 * rank + index) for index in (0, 1)]
    assert torch.equal(whole, torch.arange(2.0 * rank_count).to(torch.bfloat16))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_factor_is_applied_before_the_sum(ranks):
    ranks.call(scale_then_add)


def reduce_complex_views(rank, rank_count):
    tensor = torch.full((4,), complex(rank, 1)).to(torch.complex64)
    lazily = tensor.conj()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend.allreduce([lazily], dist.AllreduceOptions()).wait()
    total = rank_count * (rank_count - 1) / 2
    assert tensor.tolist() == [complex(total, rank_count)] * 4
    negated = torch.full((2,), complex(1, rank)).conj().imag
    assert negated.is_neg()
    options = dist.BroadcastOptions()
    options.rootRank = rank_count - 1
    # Not by torch.distributed, whose dispatcher hands a resolved copy to every back end.
    backend.broadcast([negated], options).wait()
    assert negated.tolist() == [-(rank_count - 1)] * 2


def test_conjugated_and_negated_views_are_resolved(ranks):
    ranks.call(reduce_complex_views)


HALF, BFLOAT = torch.float16, torch.bfloat16
INFINITY = float("inf")
PROGRAMS = [f"all_reduce_{name}" for name in ("ring", "all_pairs", "recursive_doubling",
                                             "halving_doubling")]
# Type, summands of ranks 0 and 1, sum to nearest even.
ROUNDINGS = [(HALF, 2048, 1, 2048), (HALF, 2050, 1, 2052), (HALF, 65504, 16, INFINITY),
             (HALF, 65504, 15, 65504), (HALF, 2 ** -24, 2 ** -24, 2 ** -23), (BFLOAT, 256, 1, 256),
             (BFLOAT, 258, 1, 260), (BFLOAT, 1, 2 ** -9, 1)]


def sum_with_every_program(rank, rank_count):
    """By program: the sums that two summands (others add 0) and 256 + 1 + 1 give, on this rank."""
    found = {}
    os.environ["MCCL_ALGO_STRICT"] = "1"
    for program in PROGRAMS:
        os.environ["MCCL_ALGO"] = program
        rank_processes.init()
        sums = []
        for dtype, first, second, _ in ROUNDINGS:
            tensor = torch.full((33,), [first, second, 0, 0][rank], dtype=dtype)
            dist.all_reduce(tensor)
            assert (tensor == tensor[0]).all()
            sums.append(tensor[0].item())
        three = torch.full((33,), [256, 1, 1, 0][rank], dtype=BFLOAT)
        dist.all_reduce(three)
        used = [row["program"] for row in mccl.stats()["programs"]
                if row["collective"] == "all_reduce"]
        found[program] = (sums, three[0].item(), used)
        dist.destroy_process_group()
    return found


@pytest.mark.parametrize("rank_count", [2, 3, 4])
def test_half_types_round_to_nearest_even_in_every_program(rank_count):
    with rank_processes.Ranks(rank_count, initialises=False) as ranks:
        answers = ranks.call(sum_with_every_program)
    assert answers == [answers[0]] * rank_count  # the same bits on all ranks
    for program, (sums, three, used) in answers[0].items():
        assert used == [program]
        assert sums == [expected for _, _, _, expected in ROUNDINGS], program
        # Rounded after each sum, 1 is lost twice; the tree decides who meets whom first.
        assert three in ((256,) if rank_count == 2 else (256, 258)), program
