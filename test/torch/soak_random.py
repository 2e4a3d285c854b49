"""Random collectives at 4 ranks under torchrun, every result checked, resources watched.

All ranks draw the same calls from one seed, and every rank knows every rank's input, so each result
is known exactly: inputs are small integers. `--seconds` of them; then memory, descriptors and
threads are compared with what they were after the first third. Prints the seed; `--seed` repeats a
run.
"""

import argparse
import collections
import datetime
import os
import random
import time

import torch
import torch.distributed as dist

import mccl  # noqa: F401, registers the back end where the entry point is not installed

WARM_UP_SHARE = 0.3  # of the time: allocators and pools have then seen every size
CALLS_PER_CHECK = 100
GROWTH_MAX_KIB = 64 * 1024
COUNTS = (0, 1, 2, 3, 7, 64, 1000, 4096, 40_000, 300_000)
EXACT_TYPES = (torch.float64, torch.float32, torch.int64, torch.int32, torch.int16, torch.int8)
MOVED_TYPES = EXACT_TYPES + (torch.bfloat16, torch.float16, torch.uint8, torch.bool,
                             torch.complex64)
REDUCTIONS = ("SUM", "MIN", "MAX", "PRODUCT", "AVG")


def values(step, rank, part, count, dtype):
    """What `rank` puts into part `part` of call `step`: the same on whoever asks."""
    generator = torch.Generator().manual_seed(step * 1_000_003 + rank * 1009 + part)
    drawn = torch.randint(0, 3, (count,), generator=generator)
    return drawn.to(dtype)


def lay_out(source, layout):
    """A tensor of the same elements in the layout, and the memory that surrounds it."""
    count = source.numel()
    if layout == "contiguous":
        memory = source.clone()
        return memory, memory
    if layout == "offset":
        memory = torch.full((count + 3,), 1, dtype=source.dtype)
        view = memory[3:]
    elif layout == "step":
        memory = torch.full((2 * count + 1,), 1, dtype=source.dtype)
        view = memory[1::2][:count]
    else:
        memory = torch.full((count, 3), 1, dtype=source.dtype)
        view = memory[:, 1]
    view.copy_(source)
    return view, memory


def untouched(view, memory):
    """Whether what lies around and between the elements is still 1."""
    if view is memory:
        return True
    outside = memory.clone()
    outside.as_strided(view.size(), view.stride(), view.storage_offset()).fill_(1)
    return bool((outside == 1).all())


def combine(op, parts, rank_count):
    result = parts[0].clone()
    for part in parts[1:]:
        if op in ("SUM", "AVG"):
            result = result + part
        elif op == "PRODUCT":
            result = result * part
        else:
            result = torch.minimum(result, part) if op == "MIN" else torch.maximum(result, part)
    if op != "AVG":
        return result
    if result.dtype.is_floating_point:
        return result / rank_count
    return torch.div(result, rank_count, rounding_mode="trunc")


class Caller:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.rank = dist.get_rank()
        self.members = [(0, 1, 2, 3), (0, 1), (1, 2, 3), (0, 2)]
        self.groups = [None] + [dist.new_group(list(ranks)) for ranks in self.members[1:]]
        self.counts = collections.Counter()

    def call(self, step):
        draw = self.random
        index = draw.randrange(len(self.groups))
        kind = draw.choice(KINDS)
        reduces = kind in REDUCING
        dtype = draw.choice(EXACT_TYPES if reduces else MOVED_TYPES)
        op = draw.choice(REDUCTIONS)
        count = draw.choice(COUNTS)
        layout = draw.choice(("contiguous", "offset", "step", "column"))
        root = draw.choice(self.members[index])
        uneven = [draw.randrange(count + 1) for _ in range(len(self.members[index]) ** 2)]
        if self.rank not in self.members[index]:
            return
        call = Call(step, self.members[index], self.groups[index], self.rank, dtype, op, count,
                    layout, root, uneven)
        wrong = getattr(call, kind)()
        self.counts[kind] += 1
        if wrong:
            raise SystemExit(
                f"random: step {step}, rank {self.rank}: {kind} {op} of {count} {dtype}, {layout}, "
                f"ranks {self.members[index]}, root {root}: {wrong}")


class Call:
    def __init__(self, step, members, group, rank, dtype, op, count, layout, root, uneven):
        self.step, self.members, self.group, self.rank = step, members, group, rank
        self.dtype, self.op, self.count, self.layout = dtype, op, count, layout
        self.root, self.uneven = root, uneven
        self.place = members.index(rank)

    def input(self, rank, part=0, count=None):
        return values(self.step, rank, part, self.count if count is None else count, self.dtype)

    def laid(self, source):
        return lay_out(source, self.layout)

    def room(self, count):
        return self.laid(torch.zeros(count, dtype=self.dtype))

    def differs(self, outputs, expected):
        for position, ((view, memory), wanted) in enumerate(zip(outputs, expected, strict=True)):
            if not torch.equal(view, wanted):
                return f"output {position} is wrong"
            if not untouched(view, memory):
                return f"memory beside output {position} was written"
        return ""

    def reduced(self, part=0, count=None):
        return combine(self.op, [self.input(rank, part, count) for rank in self.members],
                       len(self.members))

    def reduce_op(self):
        return getattr(dist.ReduceOp, self.op)

    def all_reduce(self):
        tensor = self.laid(self.input(self.rank))
        dist.all_reduce(tensor[0], self.reduce_op(), group=self.group)
        return self.differs([tensor], [self.reduced()])

    def all_reduce_in_flight(self):
        tensors = [self.laid(self.input(self.rank, part)) for part in range(4)]
        works = [dist.all_reduce(tensor[0], self.reduce_op(), group=self.group, async_op=True)
                 for tensor in tensors]
        for work in reversed(works):
            work.wait()
        return self.differs(tensors, [self.reduced(part) for part in range(4)])

    def reduce(self):
        source = self.input(self.rank)
        tensor = self.laid(source)
        dist.reduce(tensor[0], self.root, self.reduce_op(), group=self.group)
        return self.differs([tensor], [self.reduced() if self.rank == self.root else source])

    def broadcast(self):
        tensor = self.laid(self.input(self.rank))
        dist.broadcast(tensor[0], self.root, group=self.group)
        return self.differs([tensor], [self.input(self.root)])

    def all_gather(self):
        counts = self.uneven[: len(self.members)]
        outputs = [self.room(count) for count in counts]
        source = self.laid(self.input(self.rank, 0, counts[self.place]))
        dist.all_gather([view for view, _ in outputs], source[0], group=self.group)
        return self.differs(outputs, [self.input(rank, 0, count)
                                      for rank, count in zip(self.members, counts, strict=True)])

    def all_gather_into_tensor(self):
        memory = torch.zeros(self.count * len(self.members), dtype=self.dtype)
        dist.all_gather_into_tensor(memory, self.laid(self.input(self.rank))[0], group=self.group)
        return self.differs([(memory, memory)],
                            [torch.cat([self.input(rank) for rank in self.members])])

    def gather(self):
        is_root = self.rank == self.root
        outputs = [self.room(self.count) for _ in self.members] if is_root else []
        dist.gather(self.laid(self.input(self.rank))[0],
                    [view for view, _ in outputs] if is_root else None, self.root, group=self.group)
        return self.differs(outputs, [self.input(rank) for rank in self.members] if is_root else [])

    def scatter(self):
        output = self.room(self.count)
        pieces = [self.laid(self.input(self.root, part))[0] for part in range(len(self.members))]
        dist.scatter(output[0], pieces if self.rank == self.root else None, self.root,
                     group=self.group)
        return self.differs([output], [self.input(self.root, self.place)])

    def reduce_scatter(self):
        counts = self.uneven[: len(self.members)]
        output = self.room(counts[self.place])
        pieces = [self.laid(self.input(self.rank, part, count))[0]
                  for part, count in enumerate(counts)]
        dist.reduce_scatter(output[0], pieces, self.reduce_op(), group=self.group)
        return self.differs([output], [self.reduced(self.place, counts[self.place])])

    def all_to_all_single(self):
        ranks = len(self.members)
        sent = self.uneven[self.place * ranks: (self.place + 1) * ranks]
        received = [self.uneven[place * ranks + self.place] for place in range(ranks)]
        source = torch.cat([self.input(self.rank, part, count) for part, count in enumerate(sent)])
        memory = torch.zeros(sum(received), dtype=self.dtype)
        dist.all_to_all_single(memory, source, received, sent, group=self.group)
        expected = [self.input(rank, self.place, count)
                    for rank, count in zip(self.members, received, strict=True)]
        return self.differs([(memory, memory)], [torch.cat(expected)])

    def ring(self):
        """Every rank sends to the next one, two tags in the wrong order."""
        after = self.members[(self.place + 1) % len(self.members)]
        before = self.members[self.place - 1]
        outputs = [self.room(self.count), self.room(self.count // 2)]
        works = [
            dist.isend(self.laid(self.input(self.rank, 0))[0], after, group=self.group, tag=0),
            dist.isend(self.laid(self.input(self.rank, 1, self.count // 2))[0], after,
                       group=self.group, tag=1),
            dist.irecv(outputs[1][0], before, group=self.group, tag=1),
            dist.irecv(outputs[0][0], before, group=self.group, tag=0)]
        for work in works:
            work.wait()
        return self.differs(outputs,
                            [self.input(before, 0), self.input(before, 1, self.count // 2)])

    def barrier(self):
        dist.barrier(group=self.group)
        return ""


REDUCING = ("all_reduce", "all_reduce_in_flight", "reduce", "reduce_scatter")
KINDS = REDUCING + ("broadcast", "all_gather", "all_gather_into_tensor", "gather", "scatter",
                    "all_to_all_single", "ring", "barrier")


def resources():
    with open("/proc/self/status", encoding="ascii") as lines:
        status = dict(line.split(":", 1) for line in lines)
    return {"memory": int(status["VmRSS"].split()[0]), "threads": int(status["Threads"]),
            "descriptors": len(os.listdir("/proc/self/fd"))}


def make_groups_come_and_go(count):
    for _ in range(count):
        group = dist.new_group([0, 1, 2, 3])
        tensor = torch.ones(10)
        dist.all_reduce(tensor, group=group)
        assert torch.equal(tensor, torch.full((10,), 4.0))
        dist.destroy_process_group(group)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=300)
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    options = arguments.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("mccl", timeout=datetime.timedelta(minutes=5))
    seed = torch.tensor([options.seed])
    dist.broadcast(seed, 0)
    caller = Caller(int(seed))
    step, before = 0, None
    began = time.monotonic()
    ends_at = began + options.seconds
    is_over = torch.zeros(1, dtype=torch.int64)
    while not is_over.item():
        for _ in range(CALLS_PER_CHECK):
            step += 1
            caller.call(step)
        make_groups_come_and_go(1)
        if before is None and time.monotonic() > began + WARM_UP_SHARE * options.seconds:
            before = resources()
        is_over.fill_(int(dist.get_rank() == 0 and time.monotonic() > ends_at))
        dist.all_reduce(is_over)
    after = resources()
    for _ in range(100):  # threads that helped with completions are on their way out
        if after["threads"] <= before["threads"]:
            break
        time.sleep(0.02)  # nothing tells when a thread has ended
        after = resources()
    grown = after["memory"] - before["memory"]
    if grown > GROWTH_MAX_KIB or any(after[name] > before[name]
                                     for name in ("threads", "descriptors")):
        raise SystemExit(f"random: rank {dist.get_rank()} grew from {before} to {after}")
    if dist.get_rank() == 0:
        print(f"random: seed {int(seed)}, {step} draws, every result exact; rank 0: "
              f"{sum(caller.counts.values())} calls, memory {grown:+} KiB, "
              f"{after['threads']} threads, {after['descriptors']} descriptors")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
