"""What ranks do on the fake mps device, and how right it was: shared by tests and the soak.

A job runs on every rank of a pool whose children have loaded the device. It computes what it
expects on the CPU, does the same on the device through mccl, and reports. Kernels of the fake
device are the CPU's, so whatever differs in a single bit is the hand-over's fault.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import fake_mps
import ranks as rank_processes

STEPS = 5
SAMPLES = 16
BUCKET_MB = 0.01
BURST = 40
MANY = 640
BURST_ELEMENTS = 4096
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}


@dataclasses.dataclass
class Report:
    wrong: int  # tensors that differ from the expected ones
    drains: int  # host waits for the device, before the results were looked at
    violations: list[str]
    error: str = ""


def load_device(rank, rank_count, options=None, timeout_s=60.0):
    """Before anything else in a pool that does not initialise: torch asks for devices once."""
    fake_mps.load(**(options or {}))
    rank_processes.init(timeout_s=timeout_s)


def run_guarded(rank, rank_count, job, *arguments):
    """For jobs that are meant to fail: what they raise becomes part of the report."""
    try:
        return job(rank, rank_count, *arguments)
    except Exception as error:
        dist.destroy_process_group()  # or the others would wait for this rank
        return Report(0, 0, fake_mps.violations(), f"{type(error).__name__}: {error}")


class Branches(nn.Module):
    """Two heads, of which a rank uses one in each step."""

    def __init__(self):
        super().__init__()
        self.trunk = make_layers()
        self.heads = nn.ModuleList([nn.Linear(10, 10), nn.Linear(10, 10)])

    def forward(self, inputs, head):
        return self.heads[head](self.trunk(inputs))


def make_layers():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(),
                         nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def make_model(has_branches):
    torch.manual_seed(0)
    return Branches() if has_branches else make_layers()


def make_batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return (torch.randn(SAMPLES, 32, generator=generator),
            torch.randint(0, 10, (SAMPLES,), generator=generator))


def head_of(step, rank):
    """All ranks use one head in even steps; in odd steps every second rank uses the other."""
    return (step * rank) % 2


def loss_of(model, has_branches, step, rank, device):
    inputs, targets = (tensor.to(device) for tensor in make_batch(step, rank))
    outputs = model(inputs, head_of(step, rank)) if has_branches else model(inputs)
    return nn.functional.cross_entropy(outputs, targets)


def train_alone(rank_count, optimizer_name, has_branches=False):
    """The parameters of a training whose gradients are averaged by hand, in the order of ranks."""
    model = make_model(has_branches)
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    for step in range(STEPS):
        shares = []
        for rank in range(rank_count):
            model.zero_grad()
            loss_of(model, has_branches, step, rank, "cpu").backward()
            shares.append([None if parameter.grad is None else parameter.grad / rank_count
                           for parameter in model.parameters()])
        for parameter, *grads in zip(model.parameters(), *shares):
            is_used = any(grad is not None for grad in grads)
            shares_of_all = [torch.zeros_like(parameter) if grad is None else grad
                             for grad in grads]
            parameter.grad = sum(shares_of_all[1:], shares_of_all[0]) if is_used else None
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def train_ddp(rank, device, optimizer_name, ddp_options, fault="none"):
    has_branches = ddp_options.get("find_unused_parameters", False)
    model = make_model(has_branches).to(device)
    parallel = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB, **ddp_options)
    optimizer = OPTIMIZERS[optimizer_name](parallel.parameters())
    if device == "mps":
        fake_mps.synchronize()
        fake_mps.set_fault(fault)  # not before: DDP's constructor would trip over it
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(parallel, has_branches, step, rank, device).backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def run_ddp(rank, rank_count, optimizer_name="sgd", ddp_options={}, delay_us=0, fault="none"):
    """Stock DistributedDataParallel. Of two ranks any order of addition is the same; of more it is
    the program's, which is the same on CPU tensors."""
    fake_mps.set_delay_us(delay_us)
    if rank_count == 2:
        expected = train_alone(rank_count, optimizer_name,
                               ddp_options.get("find_unused_parameters", False))
    else:
        on_cpu = {name: value for name, value in ddp_options.items() if name != "device_ids"}
        expected = train_ddp(rank, "cpu", optimizer_name, on_cpu)
    found = train_ddp(rank, "mps", optimizer_name, ddp_options, fault)
    return compare(found, expected, drains_before=None)


def run_loop(rank, rank_count, optimizer_name="sgd", delay_us=0, fault="none", slow_rank=None):
    """A hand-written loop: a hook starts an all_reduce for every gradient, Work.wait() orders the
    optimizer behind it. The host never waits for the device, nor for the network.

    Kernels take delay_us, of slow_rank alone when one is given: the engine of the others is then
    sure to be behind their device."""
    fake_mps.set_delay_us(delay_us if slow_rank in (None, rank) else 0)
    expected = train_alone(rank_count, optimizer_name)
    model = make_model(has_branches=False).to("mps")
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    works = []

    def start_average(parameter):
        parameter.grad.div_(rank_count)
        works.append(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(start_average)
    fake_mps.synchronize()
    fake_mps.set_fault(fault)
    drains_before = fake_mps.counts()["drains"]
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, False, step, rank, "mps").backward()
        for work in works:
            work.wait()
        works.clear()
        optimizer.step()
    return compare([parameter.detach() for parameter in model.parameters()], expected,
                   drains_before)


def run_burst(rank, rank_count, delay_us=0, fault="none", uses_temporaries=False):
    """All-reduces whose caller lets go of every second tensor at once, and fills new ones.

    Only what writes the tensors takes time: who comes next to memory that is not held is there
    before the engine.
    """
    fake_mps.set_delay_us(delay_us, only="aten::mul")
    base = torch.arange(BURST_ELEMENTS, dtype=torch.float32).to("mps") + rank
    fake_mps.synchronize()
    fake_mps.set_fault(fault)
    if uses_temporaries:
        fake_mps.stage_through_temporaries()
    drains_before = fake_mps.counts()["drains"]
    works, kept, bystanders = [], [], []
    for index in range(BURST):
        tensor = base * (index + 1)
        handed = fake_mps.without_ownership(tensor) if fault == "drop" else tensor
        works.append(dist.all_reduce(handed, async_op=True))
        if index % 2 == 0:
            kept.append((index, tensor))
        del tensor, handed
        bystanders.append(torch.full((BURST_ELEMENTS,), float(index), device="mps"))
    for work in works:
        work.wait()
    fake_mps.set_fault("none")
    found = [tensor * 1 for _, tensor in kept] + [tensor + 0 for tensor in bystanders]
    total = (rank_count * torch.arange(BURST_ELEMENTS, dtype=torch.float32)
             + rank_count * (rank_count - 1) // 2)
    expected = [(index + 1) * total for index, _ in kept]
    expected += [torch.full((BURST_ELEMENTS,), float(index)) for index in range(BURST)]
    return compare(found, expected, drains_before)


def run_many(rank, rank_count):
    """MANY operations in flight at once, of 1 to 3000 elements."""
    fake_mps.set_delay_us(0)
    drains_before = fake_mps.counts()["drains"]
    tensors = [torch.full((1 + index * 7 % 3000,), float(index + rank), device="mps")
               for index in range(MANY)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    found = [tensor + 0 for tensor in tensors]
    total = rank_count * (rank_count - 1) / 2
    expected = [torch.full(tensor.shape, rank_count * index + total)
                for index, tensor in enumerate(tensors)]
    return compare(found, expected, drains_before)


def run_many_at(rank_count):
    with rank_processes.Ranks(rank_count, initialises=False) as pool:
        pool.call(load_device)
        return pool.call(run_many, timeout_s=600)


def same_bits(found, expected):
    found, expected = (tensor.reshape(-1).view(torch.uint8) for tensor in (found, expected))
    return torch.equal(found, expected)


def compare(found, expected, drains_before):
    """Looks at the results, which drains the device. `drains_before` None: the host may wait."""
    drains = 0 if drains_before is None else fake_mps.counts()["drains"] - drains_before
    wrong = sum(not same_bits(tensor.cpu(), wanted)
                for tensor, wanted in zip(found, expected, strict=True))
    return Report(wrong, drains, fake_mps.violations())
