"""Every collective of the back end, with values that are exact in every dtype it takes."""

import hashlib

import pytest
import torch
import torch.distributed as dist

REDUCED = [torch.float32, torch.bfloat16, torch.int64, torch.int32]
MOVED = REDUCED + [torch.uint8]
OPS = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG, "min": dist.ReduceOp.MIN,
       "max": dist.ReduceOp.MAX}
SIZES = [0, 1, 1000003]
CANARY = 77


def pattern(size, dtype, rank):
    """0 to 6, again and again, plus the rank: sums of 4 ranks fit in a bfloat16's 8 bits."""
    return (torch.arange(size) % 7 + rank).to(dtype)


def reduced_pattern(size, dtype, op, rank_count):
    base = torch.arange(size) % 7
    if op == "min":
        return base.to(dtype)
    if op == "max":
        return (base + rank_count - 1).to(dtype)
    total = base * rank_count + rank_count * (rank_count - 1) // 2
    if op == "sum":
        return total.to(dtype)
    if not dtype.is_floating_point:
        return (total // rank_count).to(dtype)  # of positive numbers: towards zero
    return (total.double() / rank_count).to(dtype)


def check_all_reduce(rank, rank_count, dtype, op):
    for size in SIZES:
        tensor = pattern(size, dtype, rank)
        dist.all_reduce(tensor, OPS[op])
        assert torch.equal(tensor, reduced_pattern(size, dtype, op, rank_count)), size


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_all_reduce_gives_exact_values(ranks, dtype, op):
    ranks.call(check_all_reduce, dtype, op)


def average_negative_integers(rank, rank_count):
    tensor = torch.tensor([-7 if rank == 0 else 0, 7 if rank == 0 else 0])
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    return tensor.tolist()


@pytest.mark.parametrize("count, expected", [(2, [-3, 3]), (3, [-2, 2]), (4, [-1, 1])])
def test_an_average_of_integers_rounds_towards_zero(pools, count, expected):
    assert pools.get(count).call(average_negative_integers) == [expected] * count


def overflow(rank, rank_count):
    tensors = [torch.tensor([torch.iinfo(dtype).max, -1], dtype=dtype)
               for dtype in (torch.int32, torch.int64)]
    for tensor in tensors:
        dist.all_reduce(tensor)
    return [tensor.tolist() for tensor in tensors]


def test_sums_of_integers_wrap(two_ranks):
    assert two_ranks.call(overflow) == [[[-2, -2], [-2, -2]]] * 2


def reduce_special_values(rank, rank_count):
    nan, infinity = float("nan"), float("inf")
    is_odd = rank == 1
    least = torch.tensor([nan if is_odd else 1.0, -0.0 if is_odd else 0.0, infinity, -infinity])
    most = least.clone()
    dist.all_reduce(least, dist.ReduceOp.MIN)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    assert least[0].isnan() and most[0].isnan()
    assert torch.signbit(least[1]) and not torch.signbit(most[1])
    assert least[2:].tolist() == most[2:].tolist() == [infinity, -infinity]


def test_min_and_max_order_zeros_and_keep_nan(few_ranks):
    few_ranks.call(reduce_special_values)


def digest_of_random_sums(rank, rank_count, dtype):
    generator = torch.Generator().manual_seed(rank)
    digests = []
    for size in (5, 1000, 300001):
        tensor = torch.randn(size, generator=generator).to(dtype)
        dist.all_reduce(tensor)
        digests.append(hashlib.sha256(tensor.view(torch.uint8).numpy().tobytes()).hexdigest())
    return digests


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_all_ranks_get_the_same_bits(ranks, dtype):
    digests = ranks.call(digest_of_random_sums, dtype)
    assert digests == [digests[0]] * ranks.rank_count


def reduce_a_scalar(rank, rank_count):
    scalar = torch.tensor(float(rank + 1))
    dist.all_reduce(scalar)
    assert scalar.shape == ()
    return scalar.item()


def test_a_scalar_is_reduced(ranks):
    total = ranks.rank_count * (ranks.rank_count + 1) / 2
    assert ranks.call(reduce_a_scalar) == [total] * ranks.rank_count


def views_of_a_canvas():
    """Views, each with the tensor whose other elements must stay as they are."""
    canvas = torch.full((9, 11), float(CANARY))
    yield "transposed", canvas, canvas[1:8, 2:9].t()
    canvas = torch.full((9, 11), float(CANARY))
    yield "every second column", canvas, canvas[1:8, 1:10:2]
    canvas = torch.full((20,), float(CANARY))
    yield "a slice", canvas, canvas[3:10]
    canvas = torch.full((20,), float(CANARY))
    yield "every third element", canvas, canvas[1:19:3]
    canvas = torch.full((2, 3, 5, 4), float(CANARY)).to(memory_format=torch.channels_last)
    yield "channels last", canvas, canvas
    canvas = torch.full((4, 3, 5, 4), float(CANARY)).to(memory_format=torch.channels_last)
    yield "images of a batch", canvas, canvas[1:3]


def count_canaries(canvas):
    return int((canvas == CANARY).sum())


def reduce_views(rank, rank_count):
    for name, canvas, view in views_of_a_canvas():
        outside = canvas.numel() - view.numel()
        view.copy_(pattern(view.numel(), view.dtype, rank).view(view.shape))
        dist.all_reduce(view)
        expected = reduced_pattern(view.numel(), view.dtype, "sum", rank_count).view(view.shape)
        assert torch.equal(view, expected), name
        assert count_canaries(canvas) == outside, name


def test_all_reduce_writes_a_view_and_nothing_beside_it(ranks):
    ranks.call(reduce_views)


def broadcast_views(rank, rank_count):
    for root in range(rank_count):
        for name, canvas, view in views_of_a_canvas():
            outside = canvas.numel() - view.numel()
            view.copy_(pattern(view.numel(), view.dtype, rank).view(view.shape))
            dist.broadcast(view, root)
            expected = pattern(view.numel(), view.dtype, root).view(view.shape)
            assert torch.equal(view, expected), name
            assert count_canaries(canvas) == outside, name


def test_broadcast_writes_a_view_and_nothing_beside_it(few_ranks):
    few_ranks.call(broadcast_views)


def reduce_different_layouts(rank, rank_count):
    matrix = torch.arange(12.0).view(3, 4)
    if rank % 2 == 1:
        matrix = matrix.t().contiguous().t()  # equal values, other strides
    dist.all_reduce(matrix)
    assert torch.equal(matrix, rank_count * torch.arange(12.0).view(3, 4))


def test_ranks_may_lay_the_same_tensor_out_differently(ranks):
    ranks.call(reduce_different_layouts)


def reduce_parameters(rank, rank_count):
    parameter = torch.nn.Parameter(torch.full((5,), float(rank)))
    dist.all_reduce(parameter)
    assert parameter.tolist() == [float(rank_count * (rank_count - 1) // 2)] * 5
    weight = torch.nn.Parameter(torch.full((4, 3), float(rank)))
    dist.broadcast(weight.t(), rank_count - 1)  # a view, staged
    assert weight.tolist() == [[float(rank_count - 1)] * 3] * 4
    assert parameter.requires_grad and parameter.grad_fn is None
    (parameter.sum() + weight.sum()).backward()
    assert parameter.grad.tolist() == [1.0] * 5


def test_tensors_that_require_gradients_are_reduced_without_a_trace(ranks):
    ranks.call(reduce_parameters)


def refuse_expanded_outputs(rank, rank_count):
    expanded = torch.zeros(1).expand(4)
    calls = {
        "all_reduce": lambda: dist.all_reduce(expanded),
        "broadcast": lambda: dist.broadcast(expanded, 0),
        "all_gather": lambda: dist.all_gather([expanded] * rank_count, torch.zeros(4)),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"mccl: the output of {name} has elements that share "
                                             r"memory \(an expanded tensor\); pass a clone"):
            call()
    dist.all_reduce(torch.zeros(1))  # the group is as good as before


def test_expanded_outputs_are_refused(few_ranks):
    few_ranks.call(refuse_expanded_outputs)


def gather_even(rank, rank_count, dtype):
    for size in SIZES:
        outputs = [torch.full((size,), CANARY).to(dtype) for _ in range(rank_count)]
        dist.all_gather(outputs, pattern(size, dtype, rank))
        for source, output in enumerate(outputs):
            assert torch.equal(output, pattern(size, dtype, source)), (size, source)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_all_gather_into_a_list(ranks, dtype):
    ranks.call(gather_even, dtype)


def gather_uneven(rank, rank_count):
    for sizes in ([3, 0, 70001, 1], [0, 5, 0, 2], [1, 2, 3, 4], [100000, 1, 1, 1]):
        outputs = [torch.full((sizes[source],), CANARY) for source in range(rank_count)]
        dist.all_gather(outputs, pattern(sizes[rank], torch.int64, rank))
        for source, output in enumerate(outputs):
            assert torch.equal(output, pattern(sizes[source], torch.int64, source)), sizes


def test_all_gather_takes_a_length_per_rank(ranks):
    ranks.call(gather_uneven)


def gather_views(rank, rank_count):
    canvas = torch.full((2 * rank_count, 9, 6), float(CANARY))
    outputs = [canvas[2 * source, 1:8, 1:4].t() for source in range(rank_count)]
    dist.all_gather(outputs, pattern(21, torch.float32, rank).view(7, 3).t())
    for source, output in enumerate(outputs):
        assert torch.equal(output, pattern(21, torch.float32, source).view(7, 3).t())
    assert count_canaries(canvas) == canvas.numel() - 21 * rank_count


def test_all_gather_reads_and_writes_views(ranks):
    ranks.call(gather_views)


def gather_into_tensor(rank, rank_count, dtype):
    for size in SIZES:
        expected = torch.cat([pattern(size, dtype, source) for source in range(rank_count)])
        output = torch.full((rank_count * size,), CANARY).to(dtype)
        dist.all_gather_into_tensor(output, pattern(size, dtype, rank))
        assert torch.equal(output, expected), size
        stacked = torch.full((rank_count, size), CANARY).to(dtype)
        dist.all_gather_into_tensor(stacked, pattern(size, dtype, rank))
        assert torch.equal(stacked.view(-1), expected), size
        whole = torch.full((rank_count * size,), CANARY).to(dtype)
        part = whole.narrow(0, rank * size, size)
        part.copy_(pattern(size, dtype, rank))
        dist.all_gather_into_tensor(whole, part)
        assert torch.equal(whole, expected), size


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_all_gather_into_one_tensor_also_in_place(ranks, dtype):
    ranks.call(gather_into_tensor, dtype)


def broadcast_from_every_root(rank, rank_count, dtype):
    for root in range(rank_count):
        for size in SIZES:
            tensor = pattern(size, dtype, rank)
            dist.broadcast(tensor, root)
            assert torch.equal(tensor, pattern(size, dtype, root)), (root, size)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_broadcast_from_every_root(ranks, dtype):
    ranks.call(broadcast_from_every_root, dtype)


def check_barrier(rank, rank_count):
    tensors = [torch.full((50000,), float(index)) for index in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    dist.barrier()
    assert all(work.is_completed() for work in works)
    assert [tensor[-1].item() for tensor in tensors] == [float(i * rank_count) for i in range(8)]


def test_after_a_barrier_all_earlier_works_are_done(ranks):
    ranks.call(check_barrier)
