"""The fake device alone: it computes what the CPU does, later, and without ever waiting."""

import ctypes

import pytest
import torch
from torch import nn

import device_jobs
import fake_mps

DELAYS_US = (0, 100)


@pytest.fixture(scope="module")
def device(device_pools):
    return device_pools.get(1)


def make_images(step):
    generator = torch.Generator().manual_seed(step)
    return (torch.randn(6, 1, 8, 8, generator=generator),
            torch.randint(0, 10, (6,), generator=generator))


def train_images(device, optimizer_name):
    """Parameters, buffers and losses of three steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(36, 10)).to(device)
    optimizer = device_jobs.OPTIMIZERS[optimizer_name](model.parameters())
    losses = []
    for step in range(3):
        images, labels = (tensor.to(device) for tensor in make_images(step))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [tensor.detach() for tensor in (*model.parameters(), *model.buffers(), *losses)]


def train_on_both(rank, rank_count, optimizer_name, delay_us):
    fake_mps.set_delay_us(delay_us)
    before = fake_mps.counts()
    found = train_images("mps", optimizer_name)
    report = device_jobs.compare(found, train_images("cpu", optimizer_name), before["drains"])
    return report, fake_mps.counts()["kernels"] - before["kernels"]


@pytest.mark.parametrize("delay_us", DELAYS_US)
@pytest.mark.parametrize("optimizer_name", device_jobs.OPTIMIZERS)
def test_training_equals_the_cpus_bit_for_bit_without_a_drain(device, optimizer_name, delay_us):
    [(report, kernel_count)] = device.call(train_on_both, optimizer_name, delay_us)
    assert report == device_jobs.Report(wrong=0, drains=0, violations=[])
    assert kernel_count > 100


def list_synchronous_operators(rank, rank_count):
    train_images("mps", "sgd")
    before = fake_mps.synchronous_operators()
    torch.nonzero(torch.tensor([0.0, 1.0, 0.0, 2.0]).to("mps"))
    return before, fake_mps.synchronous_operators()


def test_only_shapes_that_depend_on_values_run_at_once(device):
    [(before, after)] = device.call(list_synchronous_operators)
    assert before == {}
    assert after == {"aten::nonzero": 1}


def run_before_and_after_a_commit(rank, rank_count):
    fake_mps.set_delay_us(0)
    fake_mps.synchronize()
    tensor = torch.zeros(4, device="mps")
    fake_mps.synchronize()
    memory = (ctypes.c_float * 4).from_address(tensor.data_ptr())
    commits = fake_mps.counts()["commits"]
    tensor.fill_(5.0)
    before = list(memory), fake_mps.counts()["commits"] - commits
    fake_mps.synchronize()
    return before, list(memory)


def test_a_kernel_runs_after_a_commit_and_not_before(device):
    assert device.call(run_before_and_after_a_commit) == [(([0.0] * 4, 0), [5.0] * 4)]


def reuse_memory(rank, rank_count):
    first = torch.zeros(1000, device="mps")
    address = first.data_ptr()
    del first
    return torch.empty(1000, device="mps").data_ptr() == address


def test_released_memory_is_handed_out_again_at_once(device):
    assert device.call(reuse_memory) == [True]


def fail_a_kernel(rank, rank_count):
    table = torch.zeros(4, device="mps")
    index = torch.tensor([9]).to("mps")
    picked = table.index_select(0, index)  # the CPU's kernel refuses when it runs, which is later
    try:
        picked.cpu()
    except Exception as error:
        return str(error), torch.ones(2, device="mps").tolist()
    return "no error", []


def test_the_error_of_a_kernel_is_raised_by_the_next_drain(device):
    [(text, after)] = device.call(fail_a_kernel)
    assert "out of range" in text
    assert after == [1.0, 1.0]


def look_at_torch(rank, rank_count):
    event = torch.Event("mps")
    event.record()
    event.synchronize()
    torch.mps.synchronize()
    place = str(torch.empty(1, device="mps").device)
    return torch.backends.mps.is_available(), event.query(), place


def test_torch_takes_it_for_the_real_one(device):
    assert device.call(look_at_torch) == [(True, True, "mps:0")]
