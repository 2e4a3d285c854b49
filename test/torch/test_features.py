"""What stock features of torch do over the back end equals what one process computes."""

import contextlib
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import mccl

SAMPLES = 4  # per rank


def make_model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))


def make_inputs(rank_count):
    return torch.randn(rank_count * SAMPLES, 8, generator=torch.Generator().manual_seed(4))


def share(inputs, rank):
    return inputs[rank * SAMPLES:(rank + 1) * SAMPLES]


def assert_close(found, expected):
    for left, right in zip(found, expected):
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


def train_with_accumulation(rank, rank_count):
    model = DistributedDataParallel(make_model())
    reference = make_model()
    inputs = make_inputs(rank_count)
    for step in range(4):
        context = model.no_sync() if step % 2 == 0 else contextlib.nullcontext()
        with context:
            model(share(inputs, rank) * (step + 1)).square().mean().backward()
        reference(inputs * (step + 1)).square().mean().backward()
    assert_close([p.grad for p in model.parameters()], [p.grad for p in reference.parameters()])


@pytest.mark.parametrize("rank_count", [2, 4])
def test_ddp_accumulates_gradients(pools, rank_count):
    pools.get(rank_count).call(train_with_accumulation)


def train_with_uneven_inputs(rank, rank_count):
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    with Join([model]):
        for _ in range(2 + rank):
            optimizer.zero_grad()
            model(torch.ones(SAMPLES, 8) * (rank + 1)).square().mean().backward()
            optimizer.step()
            steps += 1
    weights = [parameter.detach() for parameter in model.parameters()]
    for weight in weights:
        copies = [torch.empty_like(weight) for _ in range(rank_count)]
        dist.all_gather(copies, weight)
        assert all(torch.equal(copy, copies[0]) for copy in copies)
    return steps


@pytest.mark.parametrize("rank_count", [2, 3])
def test_join_lets_ranks_run_out_of_inputs(pools, rank_count):
    steps = pools.get(rank_count).call(train_with_uneven_inputs)
    assert steps == [2 + rank for rank in range(rank_count)]


def compress(group, bucket):
    """torch's own hook, which under its own name is let in with NCCL only."""
    return default_hooks.bf16_compress_hook(group, bucket)


def compress_gradients(rank, rank_count):
    model = DistributedDataParallel(make_model())
    model.register_comm_hook(dist.group.WORLD, compress)
    reference = make_model()
    inputs = make_inputs(rank_count)
    model(share(inputs, rank)).square().mean().backward()
    reference(inputs).square().mean().backward()
    for found, expected in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(found.grad, expected.grad, rtol=0.03, atol=1e-3)
        assert torch.equal(found.grad, found.grad.bfloat16().float())  # it went as bfloat16


def test_a_bf16_communication_hook(two_ranks):
    two_ranks.call(compress_gradients)


def gather_statistics(rank, rank_count):
    """What SyncBatchNorm does, forward and backward: it runs on accelerators only."""
    inputs = make_inputs(rank_count)
    own = share(inputs, rank)
    count = torch.full((1,), float(SAMPLES))
    packed = torch.cat([own.mean(0), own.var(0, unbiased=False), count])
    gathered = torch.empty(rank_count, packed.numel())
    dist.all_gather_into_tensor(gathered, packed, async_op=False)
    mean, variance, _ = torch.split(gathered, [8, 8, 1], dim=1)
    whole = inputs.mean(0)
    torch.testing.assert_close(mean.mean(0), whole)
    torch.testing.assert_close((variance + (mean - whole) ** 2).mean(0),
                               inputs.var(0, unbiased=False))
    sums = torch.cat([own.sum(0), own.square().sum(0)])
    dist.all_reduce(sums)
    torch.testing.assert_close(sums, torch.cat([inputs.sum(0), inputs.square().sum(0)]))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_collectives_of_sync_batch_norm(few_ranks):
    few_ranks.call(gather_statistics)


def shard_fully(rank, rank_count):
    from torch.distributed.fsdp import fully_shard

    warnings.simplefilter("ignore", FutureWarning)
    mesh = init_device_mesh("cpu", (rank_count,))
    model = make_model()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    reference = make_model()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, reference)]
    inputs = make_inputs(rank_count)
    for step in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        model(share(inputs, rank)).square().mean().backward()
        reference(inputs).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    assert_close([p.full_tensor() for p in model.parameters()], reference.parameters())
    rows = mccl.stats(mesh.get_group())["programs"]
    assert {"all_gather", "reduce_scatter"} <= {row["collective"] for row in rows}


@pytest.mark.parametrize("rank_count", [2, 4])
def test_fsdp2_trains_like_one_process(pools, rank_count):
    pools.get(rank_count).call(shard_fully)


def redistribute(rank, rank_count):
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor, DTensor

    warnings.simplefilter("ignore", FutureWarning)
    mesh = init_device_mesh("cpu", (rank_count,))
    whole = torch.arange(7 * 12.0).view(7, 12)  # no number of ranks divides the rows
    for first in (Shard(0), Shard(1), Replicate()):
        tensor = distribute_tensor(whole, mesh, [first])
        for second in (Shard(1), Shard(0), Replicate()):
            assert torch.equal(tensor.redistribute(mesh, [second]).full_tensor(), whole)
    partial = DTensor.from_local(whole * (rank + 1), mesh, [Partial()])
    factor = rank_count * (rank_count + 1) // 2
    for target in (Replicate(), Shard(0), Shard(1)):
        assert torch.equal(partial.redistribute(mesh, [target]).full_tensor(), factor * whole)
    left = distribute_tensor(whole, mesh, [Shard(1)])
    right = distribute_tensor(torch.ones(12, 4), mesh, [Shard(0)])
    assert torch.equal((left @ right).full_tensor(), whole @ torch.ones(12, 4))


@pytest.mark.parametrize("rank_count", [2, 4])
def test_dtensor_redistributes(pools, rank_count):
    pools.get(rank_count).call(redistribute)


def use_functional_collectives(rank, rank_count):
    import torch.distributed._functional_collectives as functional

    group = dist.group.WORLD
    own = torch.arange(4.0) + rank
    summed = functional.all_reduce(own, "sum", group)
    assert torch.equal(summed + 0, rank_count * torch.arange(4.0)
                       + rank_count * (rank_count - 1) / 2)
    assert torch.equal(own, torch.arange(4.0) + rank)
    gathered = functional.all_gather_tensor(own, 0, group)
    assert torch.equal(gathered + 0, torch.cat([torch.arange(4.0) + r for r in range(rank_count)]))
    scattered = functional.reduce_scatter_tensor(gathered, "avg", 0, group)
    assert torch.equal(scattered + 0, own)
    both = functional.all_reduce_coalesced([own, own * 2], "max", group)
    assert torch.equal(both[1] + 0, 2 * (torch.arange(4.0) + rank_count - 1))
    exchanged = functional.all_to_all_single(torch.full((rank_count,), float(rank)), None, None,
                                             group)
    assert (exchanged + 0).tolist() == [float(r) for r in range(rank_count)]
    assert (functional.broadcast(own, rank_count - 1, group) + 0)[0].item() == rank_count - 1


def test_functional_collectives(ranks):
    ranks.call(use_functional_collectives)


def exchange_objects_in_every_way(rank, rank_count):
    everything = [f"object {r}" * (r + 1) for r in range(rank_count)]
    root = rank_count - 1
    gathered = [None] * rank_count if rank == root else None
    dist.gather_object(everything[rank], gathered, dst=root)
    assert gathered == (everything if rank == root else None)
    received = [None]
    dist.scatter_object_list(received, everything if rank == root else None, src=root)
    assert received == [everything[rank]]


def test_objects_are_gathered_and_scattered(ranks):
    ranks.call(exchange_objects_in_every_way)


def reduce_sparse_tensors(rank, rank_count):
    whole = torch.zeros(6, 3)
    for index in range(rank_count):
        whole[[index, 5]] += float(index + 1)
    rows = torch.tensor([[rank, 5, 5]])
    values = torch.full((3, 3), float(rank + 1))
    values[2] = 0
    tensor = torch.sparse_coo_tensor(rows, values, (6, 3))
    dist.all_reduce(tensor)
    assert torch.equal(tensor.to_dense(), whole)
    nothing = torch.zeros(6, 3).to_sparse(1)
    work = dist.all_reduce(nothing if rank else tensor, async_op=True)
    work.wait()
    assert torch.equal((nothing if rank else tensor).to_dense(), whole)
    try:
        dist.all_reduce(torch.zeros(2 + rank).to_sparse())
    except ValueError as error:
        return str(error)
    return "no error"


def test_sparse_tensors_are_added(ranks):
    texts = ranks.call(reduce_sparse_tensors)
    if ranks.rank_count > 1:
        assert all("of different shapes: group rank" in text for text in texts)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4, sparse=True)

    def forward(self, words):
        return self.table(words).sum()


def train_sparse_embedding(rank, rank_count):
    torch.manual_seed(0)
    model = DistributedDataParallel(Words())
    model(torch.tensor([rank, 9])).backward()
    gradient = model.module.table.weight.grad
    expected = torch.zeros(10, 4)
    for index in range(rank_count):
        expected[[index, 9]] += 1.0 / rank_count
    assert gradient.is_sparse
    torch.testing.assert_close(gradient.to_dense(), expected)


def test_ddp_with_a_sparse_embedding(two_ranks):
    two_ranks.call(train_sparse_embedding)
