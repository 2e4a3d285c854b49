"""Every collective and message on tensors of the fake device gives what it gives on the CPU's."""

import threading

import pytest
import torch
import torch.distributed as dist

import device_jobs
import fake_mps
import ranks as rank_processes

CLEAN = device_jobs.Report(wrong=0, drains=0, violations=[])
ROWS, COLUMNS = 3, 5
CANARY = 77.0


class Tensors:
    """Makes tensors of one layout on one device, and keeps what lies around them."""

    def __init__(self, device, layout):
        self.device = device
        self.layout = layout
        self.canvases = []

    def make(self, seed, rows=ROWS):
        values = (torch.arange(rows * COLUMNS) % 7 + seed).float().view(rows, COLUMNS)
        if self.layout == "transposed":
            canvas = torch.full((COLUMNS + 1, rows), CANARY, device=self.device)
            view = canvas[:COLUMNS].t()
        elif self.layout == "column":
            canvas = torch.full((rows, COLUMNS, 3), CANARY, device=self.device)
            view = canvas[:, :, 1]
        else:
            canvas = torch.full((rows + 2, COLUMNS), CANARY, device=self.device)
            view = canvas[1:-1]
        view.copy_(values)
        self.canvases.append(canvas)
        return view


def finish(work):
    if work is not None:
        work.wait()


def all_reduce(tensors, rank, size, is_async):
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
        finish(dist.all_reduce(tensors.make(rank), op, async_op=is_async))


def all_reduce_coalesced(tensors, rank, size, is_async):
    finish(dist.all_reduce_coalesced([tensors.make(rank), tensors.make(rank + 3)],
                                     async_op=is_async))


def reduce_and_broadcast(tensors, rank, size, is_async):
    finish(dist.reduce(tensors.make(rank), size - 1, async_op=is_async))
    finish(dist.broadcast(tensors.make(rank), size - 1, async_op=is_async))


def all_gather(tensors, rank, size, is_async):
    outputs = [tensors.make(50) for _ in range(size)]
    finish(dist.all_gather(outputs, tensors.make(rank), async_op=is_async))
    uneven = [tensors.make(50, rows=1 + source) for source in range(size)]
    finish(dist.all_gather(uneven, tensors.make(rank, rows=1 + rank), async_op=is_async))
    finish(dist.all_gather_into_tensor(tensors.make(50, rows=ROWS * size), tensors.make(rank),
                                       async_op=is_async))


def gather_and_scatter(tensors, rank, size, is_async):
    outputs = [tensors.make(50) for _ in range(size)] if rank == 0 else None
    finish(dist.gather(tensors.make(rank), outputs, 0, async_op=is_async))
    inputs = [tensors.make(target) for target in range(size)] if rank == 0 else None
    finish(dist.scatter(tensors.make(50), inputs, 0, async_op=is_async))


def reduce_scatter(tensors, rank, size, is_async):
    inputs = [tensors.make(rank + target) for target in range(size)]
    finish(dist.reduce_scatter(tensors.make(50), inputs, async_op=is_async))
    finish(dist.reduce_scatter_tensor(tensors.make(50), tensors.make(rank, rows=ROWS * size),
                                      async_op=is_async))


def all_to_all(tensors, rank, size, is_async):
    inputs = [tensors.make(10 * rank + target) for target in range(size)]
    finish(dist.all_to_all([tensors.make(50) for _ in range(size)], inputs, async_op=is_async))
    finish(dist.all_to_all_single(tensors.make(50, rows=ROWS * size),
                                  tensors.make(rank, rows=ROWS * size), async_op=is_async))


def messages(tensors, rank, size, is_async):
    after, before = (rank + 1) % size, (rank - 1) % size
    works = [dist.isend(tensors.make(rank), after, tag=1),
             dist.irecv(tensors.make(50), before, tag=1)]
    works += dist.batch_isend_irecv([dist.P2POp(dist.isend, tensors.make(rank + 3), after, tag=2),
                                     dist.P2POp(dist.irecv, tensors.make(50), before, tag=2)])
    for work in works:
        work.wait()
    dist.barrier()


CALLS = [all_reduce, all_reduce_coalesced, reduce_and_broadcast, all_gather, gather_and_scatter,
         reduce_scatter, all_to_all, messages]


def run_on_both(rank, size, call, layout, is_async):
    """Compares all memory, also what lies around the tensors."""
    fake_mps.set_delay_us(50)
    on_cpu, on_device = Tensors("cpu", layout), Tensors("mps", layout)
    for tensors in (on_cpu, on_device):
        call(tensors, rank, size, is_async)
    return device_jobs.compare(on_device.canvases, on_cpu.canvases, drains_before=None)


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "column"])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_calls_give_what_they_give_on_the_cpu(device_pools, call, layout, is_async):
    assert device_pools.get(2).call(run_on_both, call, layout, is_async) == [CLEAN] * 2


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_calls_of_four_ranks(device_pools, call):
    assert device_pools.get(4).call(run_on_both, call, "transposed", True) == [CLEAN] * 4


@pytest.mark.parametrize("delay_us", [0, 200])
def test_a_burst_leaves_bystanders_intact_without_a_drain(device_pools, delay_us):
    assert device_pools.get(2).call(device_jobs.run_burst, delay_us) == [CLEAN] * 2


def test_temporaries_that_are_held_serve(device_pools):
    pool = device_pools.get(2)
    assert pool.call(device_jobs.run_burst, 200, "none", True) == [CLEAN] * 2


def test_640_operations_in_flight_at_8_ranks():
    assert device_jobs.run_many_at(8) == [CLEAN] * 8


def mix_devices(rank, rank_count):
    on_cpu, on_device = torch.ones(4), torch.ones(4, device="mps")
    texts = []
    for call in (lambda: dist.all_gather([on_cpu] * rank_count, on_device),
                 lambda: dist.all_to_all_single(on_cpu, on_device)):
        with pytest.raises(ValueError) as error:
            call()
        texts.append(str(error.value))
    dist.all_reduce(on_device)
    return texts, on_device.tolist()


def test_a_call_with_tensors_of_two_devices_names_both(device_pools):
    text = "mccl: the tensors of {} are on one device; one is on mps:0, another on cpu"
    expected = [text.format("all_gather"), text.format("all_to_all_single")], [2.0] * 4
    assert device_pools.get(2).call(mix_devices) == [expected] * 2


def reduce_nothing(rank, rank_count):
    fake_mps.set_delay_us(0)
    tensors = [torch.empty(0, device="mps"), torch.empty(3, 0, device="mps").t()]
    for tensor in tensors:
        dist.all_reduce(tensor)
        dist.all_gather([torch.empty_like(tensor) for _ in range(rank_count)], tensor)
    # The stream waits for the engine: were the engine to wait for the stream, nobody would end.
    fake_mps.synchronize()
    return [list(tensor.shape) for tensor in tensors], fake_mps.violations()


@pytest.mark.parametrize("is_in_place", [0, 1])
def test_tensors_without_elements_need_no_copies_of_the_device(is_in_place):
    setting = {"MCCL_UNIFIED_COLLECTIVE": str(is_in_place)}
    with rank_processes.Ranks(2, environment=setting, initialises=False) as pool:
        pool.call(device_jobs.load_device)
        assert pool.call(reduce_nothing) == [([[0], [0, 3]], [])] * 2


def leave_during_calls(rank, rank_count):
    """A callback holds up the completion of works whose group goes meanwhile."""
    fake_mps.set_delay_us(0)
    group = dist.new_group(backend="mccl")
    is_left, last = threading.Event(), None
    if rank == 0:
        works = [dist.all_reduce(torch.ones(1000, device="mps"), group=group, async_op=True)
                 for _ in range(8)]
        works[0].get_future().then(lambda _: is_left.wait())
        last = works[-1].get_future()
        del works
        rank_processes.go("called")
    else:
        rank_processes.await_go("called")
    dist.destroy_process_group(group)
    del group
    is_left.set()
    if rank == 0:
        with pytest.raises(RuntimeError):
            last.wait()
        del last
    dist.barrier()
    dist.all_reduce(torch.ones(1, device="mps"))
    return fake_mps.violations()


def test_memory_of_calls_that_a_group_leaves_behind_is_not_released_by_our_threads():
    with rank_processes.Ranks(2, initialises=False) as pool:
        pool.call(device_jobs.load_device)
        assert pool.call(leave_during_calls) == [[], []]
