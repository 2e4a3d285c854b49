"""Stock DistributedDataParallel: its gradients are those of one process with the whole batch."""

import contextlib

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import mccl
import ranks as rank_processes

SAMPLES_PER_RANK = 6


class Branches(nn.Module):
    """Two heads, of which a step uses one."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(12, 16)
        self.heads = nn.ModuleList([nn.Linear(16, 3), nn.Linear(16, 3)])

    def forward(self, inputs, head):
        return self.heads[head](torch.relu(self.trunk(inputs)))


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
                         nn.Linear(64, 3))


def make_batch(rank_count):
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(rank_count * SAMPLES_PER_RANK, 12, generator=generator)
    targets = torch.randn(rank_count * SAMPLES_PER_RANK, 3, generator=generator)
    return inputs, targets


def share_of(batch, rank):
    return [part[rank * SAMPLES_PER_RANK:(rank + 1) * SAMPLES_PER_RANK] for part in batch]


def assert_same_gradients(model, reference):
    for (name, parameter), expected in zip(model.named_parameters(), reference.parameters()):
        if expected.grad is None:
            assert parameter.grad is None or not parameter.grad.any(), name
            continue
        torch.testing.assert_close(parameter.grad, expected.grad, rtol=1e-5, atol=1e-7, msg=name)


def assert_same_everywhere(rank_count, tensors):
    for tensor in tensors:
        copies = [torch.empty_like(tensor) for _ in range(rank_count)]
        dist.all_gather(copies, tensor)
        assert all(torch.equal(copy, copies[0]) for copy in copies)


def train_three_steps(rank, rank_count, options):
    model = DistributedDataParallel(make_model(), bucket_cap_mb=0.01, **options)
    reference = make_model()
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (model, reference)]
    batch = make_batch(rank_count)
    loss = nn.MSELoss()
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        inputs, targets = share_of(batch, rank)
        loss(model(inputs), targets).backward()
        loss(reference(batch[0]), batch[1]).backward()
        assert_same_gradients(model, reference)
        for optimizer in optimizers:
            optimizer.step()
    assert_same_everywhere(rank_count, [parameter.detach() for parameter in model.parameters()])
    assert any(row["collective"] == "all_reduce" for row in mccl.stats()["programs"])


@pytest.mark.parametrize("options", [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}],
                         ids=["plain", "bucket views", "static graph"])
@pytest.mark.parametrize("rank_count", [2, 4])
def test_gradients_equal_those_of_one_process(pools, rank_count, options):
    pools.get(rank_count).call(train_three_steps, options)


def accumulate(rank, rank_count):
    model = DistributedDataParallel(make_model())
    reference = make_model()
    batch = make_batch(rank_count)
    inputs, targets = share_of(batch, rank)
    calls = lambda: mccl.stats()["operations_posted"]
    before = calls()
    for step in range(3):
        is_last = step == 2
        with contextlib.nullcontext() if is_last else model.no_sync():
            nn.functional.mse_loss(model(inputs), targets).backward()
        if not is_last:
            assert calls() == before  # nothing is sent
        nn.functional.mse_loss(reference(batch[0]), batch[1]).backward()
    assert calls() > before
    assert_same_gradients(model, reference)


@pytest.mark.parametrize("rank_count", [2, 4])
def test_gradients_are_accumulated_without_traffic_under_no_sync(pools, rank_count):
    pools.get(rank_count).call(accumulate)


def leave_parameters_unused(rank, rank_count):
    torch.manual_seed(1)
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    torch.manual_seed(1)
    reference = Branches()
    batch = make_batch(rank_count)
    for heads in ([0] * rank_count, [source % 2 for source in range(rank_count)]):
        model.zero_grad()
        reference.zero_grad()
        inputs, targets = share_of(batch, rank)
        nn.functional.mse_loss(model(inputs, heads[rank]), targets).backward()
        for source, head in enumerate(heads):
            inputs, targets = share_of(batch, source)
            (nn.functional.mse_loss(reference(inputs, head), targets) / rank_count).backward()
        assert_same_gradients(model, reference)


@pytest.mark.parametrize("rank_count", [2, 4])
def test_ranks_may_use_different_parameters(pools, rank_count):
    pools.get(rank_count).call(leave_parameters_unused)


def share_buffers(rank, rank_count):
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8)))
    inputs, _ = share_of(make_batch(rank_count), rank)
    norm = model.module[1]
    for _ in range(2):  # the statistics of each rank differ until rank 0's are broadcast
        model(inputs).sum().backward()
    model.eval()
    model.train()
    model(inputs)
    assert norm.num_batches_tracked.item() == 3
    own = norm.running_mean.clone()
    with torch.no_grad():
        norm.running_mean.fill_(float(rank + 5))
    model(inputs * 0 + 1)  # equal inputs on equal buffers
    assert_same_everywhere(rank_count, [norm.running_mean, norm.running_var,
                                        norm.num_batches_tracked])
    assert not torch.equal(own, norm.running_mean)


@pytest.mark.parametrize("rank_count", [2, 4])
def test_buffers_of_rank_0_are_everybodys(pools, rank_count):
    pools.get(rank_count).call(share_buffers)


def use_a_hook(rank, rank_count):
    model = DistributedDataParallel(make_model())
    seen = []

    def double(_, bucket):
        seen.append(bucket.buffer().numel())
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: done.value()[0] * (2.0 / rank_count))

    model.register_comm_hook(None, double)
    reference = make_model()
    batch = make_batch(rank_count)
    inputs, targets = share_of(batch, rank)
    nn.functional.mse_loss(model(inputs), targets).backward()
    (2 * nn.functional.mse_loss(reference(batch[0]), batch[1])).backward()
    assert sum(seen) == sum(parameter.numel() for parameter in model.parameters())
    assert_same_gradients(model, reference)


def test_a_communication_hook_runs_on_our_futures(pools):
    pools.get(2).call(use_a_hook)


def disagree_on_shapes(rank, rank_count):
    try:
        DistributedDataParallel(nn.Linear(4, 4 + rank))
    except RuntimeError as error:
        return str(error)
    return "no error"


def test_models_that_differ_are_refused():
    with rank_processes.Ranks(2) as ranks:  # of its own: one rank goes on and would be waited for
        texts = ranks.call(disagree_on_shapes)
        ranks.is_broken = True
    assert any("appears not to match" in text for text in texts), texts
