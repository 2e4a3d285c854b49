"""Every collective on every layout of tensors, with exact values and untouched memory around them.

The ranks of a world size start once; each test runs a whole row of the table in them.
"""

import pytest
import torch
import torch.distributed as dist

COLUMNS = 12
ROWS = 2  # of a rank's share


class Memory:
    """Tensors of one layout inside larger memory, of which nothing else may change."""

    def __init__(self, make, dtype):
        self.make = make
        self.dtype = dtype
        self.kept = []

    def tensor(self, shares=1):
        """One share, or the memory for several: shares lie in rows, one after the other."""
        canvas, view = self.make(shares, self.dtype)
        self.kept.append((canvas, view, zeroed(canvas, view)))
        return view

    def check(self):
        for canvas, view, expected in self.kept:
            assert torch.equal(zeroed(canvas, view), expected), "wrote beside the tensor"


def zeroed(canvas, view):
    """The canvas with zeros in the view; what the view holds is put back."""
    content = view.clone()
    view.zero_()
    found = canvas.view(-1).view(torch.uint8).clone()
    view.copy_(content)
    return found


def canvas_of(dtype, *shape):
    return torch.full(shape, 77).to(dtype)


def contiguous(shares, dtype):
    canvas = canvas_of(dtype, ROWS * shares * COLUMNS + 16)
    return canvas, canvas[8:-8].view(ROWS * shares, COLUMNS)


def column(shares, dtype):
    canvas = canvas_of(dtype, ROWS * shares, COLUMNS, 3)
    return canvas, canvas[:, :, 1]


def transpose(shares, dtype):
    canvas = canvas_of(dtype, COLUMNS, ROWS * shares)
    return canvas, canvas.t()


def step_slice(shares, dtype):
    canvas = canvas_of(dtype, 2 * ROWS * shares + 1, 3 * COLUMNS)
    return canvas, canvas[1::2, 1::3]


def channels_last(shares, dtype):
    canvas = canvas_of(dtype, 4 + ROWS * shares, 3, 2, 2).contiguous(
        memory_format=torch.channels_last)
    return canvas.permute(0, 2, 3, 1), canvas[2:-2]


def offset(byte_count):
    def make(shares, dtype):
        count = ROWS * shares * COLUMNS
        canvas = torch.full((count * dtype.itemsize + 16,), 0xA5, dtype=torch.uint8)
        view = torch.frombuffer(canvas.numpy(), dtype=dtype, count=count, offset=byte_count)
        return canvas, view.view(ROWS * shares, COLUMNS)
    return make


def empty(shares, dtype):
    canvas = canvas_of(dtype, 4, COLUMNS)
    return canvas, canvas[2:2]


def scalar(shares, dtype):
    canvas = canvas_of(dtype, shares + 2)
    return canvas, canvas[1] if shares == 1 else canvas[1:-1]


LAYOUTS = {
    "contiguous": contiguous,
    "column": column,
    "transpose": transpose,
    "step slice": step_slice,
    "channels last": channels_last,
    "1 byte off": offset(1),
    "3 bytes off": offset(3),
    "5 bytes off": offset(5),
    "empty": empty,
    "scalar": scalar,
}


def values(tensor, seed):
    return (torch.arange(tensor.numel()) % 5 + seed).to(tensor.dtype).reshape(tensor.shape)


def total(tensor, rank_count, seed=0):
    """What the values of seeds seed, seed + 1, ... of all ranks add up to."""
    return (rank_count * values(tensor, seed).double()
            + rank_count * (rank_count - 1) // 2).to(tensor.dtype)


def fill(tensor, seed):
    tensor.copy_(values(tensor, seed))
    return tensor


def shares_of(tensor, share, rank_count):
    """The memory of several shares, as tensors shaped like one of them. Copies."""
    return [part.reshape(share.shape) for part in tensor.reshape(rank_count, -1)]


def fill_shares(tensor, share, seeds):
    parts = [values(share, seed).reshape(-1) for seed in seeds]
    tensor.copy_(torch.cat(parts).reshape(tensor.shape))
    return tensor


def all_reduce(memory, rank, size):
    tensor = fill(memory.tensor(), rank)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, total(tensor, size))


def all_reduce_coalesced(memory, rank, size):
    tensors = [fill(memory.tensor(), rank + 3 * index) for index in range(3)]
    dist.all_reduce_coalesced(tensors)
    for index, tensor in enumerate(tensors):
        assert torch.equal(tensor, total(tensor, size, 3 * index))


def reduce(memory, rank, size):
    for root in range(size):
        tensor = fill(memory.tensor(), rank)
        dist.reduce(tensor, root)
        expected = total(tensor, size) if rank == root else values(tensor, rank)
        assert torch.equal(tensor, expected)


def broadcast(memory, rank, size):
    for root in range(size):
        tensor = fill(memory.tensor(), rank)
        dist.broadcast(tensor, root)
        assert torch.equal(tensor, values(tensor, root))


def all_gather(memory, rank, size):
    tensor = fill(memory.tensor(), rank)
    outputs = [memory.tensor() for _ in range(size)]
    dist.all_gather(outputs, tensor)
    assert torch.equal(tensor, values(tensor, rank))
    for source, output in enumerate(outputs):
        assert torch.equal(output, values(output, source))


def all_gather_uneven(memory, rank, size):
    tensor = fill(memory.tensor(1 + rank), rank)
    outputs = [memory.tensor(1 + source) for source in range(size)]
    dist.all_gather(outputs, tensor)
    for source, output in enumerate(outputs):
        assert torch.equal(output, values(output, source))


def all_gather_into_tensor(memory, rank, size):
    tensor = fill(memory.tensor(), rank)
    output = memory.tensor(size)
    dist.all_gather_into_tensor(output, tensor)
    for source, part in enumerate(shares_of(output, tensor, size)):
        assert torch.equal(part, values(tensor, source))


def all_gather_in_place(memory, rank, size):
    output = memory.tensor(size)
    if output.dim() < 2:
        return
    share = output[ROWS * rank:ROWS * (rank + 1)]
    fill(share, rank)
    dist.all_gather_into_tensor(output, share)
    for source, part in enumerate(shares_of(output, share, size)):
        assert torch.equal(part, values(share, source))


def all_gather_coalesced(memory, rank, size):
    inputs = [fill(memory.tensor(), rank + index) for index in range(2)]
    outputs = [[memory.tensor() for _ in range(2)] for _ in range(size)]
    dist.all_gather_coalesced(outputs, inputs)
    for source, row in enumerate(outputs):
        for index, output in enumerate(row):
            assert torch.equal(output, values(output, source + index))


def gather(memory, rank, size):
    for root in range(size):
        tensor = fill(memory.tensor(), rank)
        outputs = [memory.tensor() for _ in range(size)] if rank == root else None
        dist.gather(tensor, outputs, root)
        assert torch.equal(tensor, values(tensor, rank))
        for source, output in enumerate(outputs or []):
            assert torch.equal(output, values(output, source))


def scatter(memory, rank, size):
    for root in range(size):
        output = memory.tensor()
        inputs = None
        if rank == root:
            inputs = [fill(memory.tensor(), root + 2 * target) for target in range(size)]
        dist.scatter(output, inputs, root)
        assert torch.equal(output, values(output, root + 2 * rank))


def reduce_scatter(memory, rank, size):
    inputs = [fill(memory.tensor(), rank + 2 * target) for target in range(size)]
    output = memory.tensor()
    dist.reduce_scatter(output, inputs)
    assert torch.equal(output, total(output, size, 2 * rank))
    for target, tensor in enumerate(inputs):
        assert torch.equal(tensor, values(tensor, rank + 2 * target))


def reduce_scatter_uneven(memory, rank, size):
    inputs = [fill(memory.tensor(1 + target), rank + 2 * target) for target in range(size)]
    output = memory.tensor(1 + rank)
    dist.reduce_scatter(output, inputs)
    assert torch.equal(output, total(output, size, 2 * rank))


def reduce_scatter_tensor(memory, rank, size):
    output = memory.tensor()
    seeds = [rank + 2 * target for target in range(size)]
    whole = fill_shares(memory.tensor(size), output, seeds)
    dist.reduce_scatter_tensor(output, whole)
    assert torch.equal(output, total(output, size, 2 * rank))
    for seed, part in zip(seeds, shares_of(whole, output, size)):
        assert torch.equal(part, values(output, seed))


def reduce_scatter_in_place(memory, rank, size):
    whole = memory.tensor(size)
    if whole.dim() < 2:
        return
    share = whole[ROWS * rank:ROWS * (rank + 1)]
    fill_shares(whole, share, [rank + 2 * target for target in range(size)])
    dist.reduce_scatter_tensor(share, whole)
    assert torch.equal(share, total(share, size, 2 * rank))


def coalescing_manager(memory, rank, size):
    tensors = [fill(memory.tensor(), rank + index) for index in range(2)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    shares = [fill(memory.tensor(), rank + index) for index in range(2)]
    outputs = [memory.tensor(size) for _ in range(2)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output, share in zip(outputs, shares):
            dist.all_gather_into_tensor(output, share)
    manager.wait()
    results = [memory.tensor() for _ in range(2)]
    with dist._coalescing_manager():
        for result, output in zip(results, outputs):
            dist.reduce_scatter_tensor(result, output)
    for index in range(2):
        assert torch.equal(tensors[index], total(tensors[index], size, index))
        for source, part in enumerate(shares_of(outputs[index], shares[index], size)):
            assert torch.equal(part, values(shares[index], source + index))
        assert torch.equal(results[index], size * values(shares[index], rank + index))


def all_to_all(memory, rank, size):
    inputs = [fill(memory.tensor(), 3 * rank + target) for target in range(size)]
    outputs = [memory.tensor() for _ in range(size)]
    dist.all_to_all(outputs, inputs)
    for source, output in enumerate(outputs):
        assert torch.equal(output, values(output, 3 * source + rank))


def all_to_all_single(memory, rank, size):
    share = memory.tensor()
    sent = memory.tensor(size)
    received = memory.tensor(size)
    if sent.dim() == 0:
        return  # a scalar has no rows to share out
    fill_shares(sent, share, [3 * rank + target for target in range(size)])
    dist.all_to_all_single(received, sent)
    for source, part in enumerate(shares_of(received, share, size)):
        assert torch.equal(part, values(share, 3 * source + rank))


def all_to_all_split(memory, rank, size):
    """Rank s sends (s + r) % 2 of its shares to rank r, so some get nothing."""
    sent_shares = [(rank + target) % 2 for target in range(size)]
    received_shares = [(source + rank) % 2 for source in range(size)]
    sent = memory.tensor(max(1, sum(sent_shares)))
    received = memory.tensor(max(1, sum(received_shares)))
    if sent.dim() < 2:
        return
    rows = 0 if sent.numel() == 0 else ROWS
    sent = sent[:rows * sum(sent_shares)]
    received = received[:rows * sum(received_shares)]
    for index in range(sum(sent_shares)):
        fill(sent[rows * index:rows * (index + 1)], rank)
    dist.all_to_all_single(received, sent, [rows * count for count in received_shares],
                           [rows * count for count in sent_shares])
    sources = [source for source in range(size) if (source + rank) % 2]
    for index, source in enumerate(sources):
        part = received[rows * index:rows * (index + 1)]
        assert torch.equal(part, values(part, source))


def send_and_recv(memory, rank, size):
    outgoing = fill(memory.tensor(), rank)
    incoming = memory.tensor()
    if size == 1:
        return
    works = [dist.isend(outgoing, (rank + 1) % size), dist.irecv(incoming, (rank - 1) % size)]
    for work in works:
        work.wait()
    assert torch.equal(outgoing, values(outgoing, rank))
    assert torch.equal(incoming, values(incoming, (rank - 1) % size))


CALLS = {function.__name__: function for function in [
    all_reduce, all_reduce_coalesced, reduce, broadcast, all_gather, all_gather_uneven,
    all_gather_into_tensor, all_gather_in_place, all_gather_coalesced, gather, scatter,
    reduce_scatter, reduce_scatter_uneven, reduce_scatter_tensor, reduce_scatter_in_place,
    coalescing_manager, all_to_all, all_to_all_single, all_to_all_split, send_and_recv]}


def run_on_all_layouts(rank, rank_count, name, dtype):
    for layout, make in LAYOUTS.items():
        memory = Memory(make, dtype)
        try:
            CALLS[name](memory, rank, rank_count)
            memory.check()
        except Exception as error:
            raise AssertionError(f"{name}, layout {layout}: {error}") from error


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", CALLS)
def test_every_collective_takes_every_layout(ranks, name):
    ranks.call(run_on_all_layouts, name, torch.float32)
