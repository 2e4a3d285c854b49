"""Messages between two ranks: tags, batches, any source, views."""

import random

import pytest
import torch
import torch.distributed as dist


def exchange_shuffled_tags(rank, rank_count, count):
    peer = 1 - rank
    tags = list(range(100))
    random.Random(rank).shuffle(tags)
    sends = [dist.isend(torch.full((count,), float(1000 * rank + tag)), peer, tag=tag)
             for tag in tags]
    random.Random(rank + 2).shuffle(tags)
    outputs = {tag: torch.empty(count) for tag in tags}
    receives = [(tag, dist.irecv(outputs[tag], peer, tag=tag)) for tag in tags]
    for tag, work in receives:
        work.wait()
        assert outputs[tag][0].item() == outputs[tag][-1].item() == 1000 * peer + tag
    for work in sends:
        work.wait()


def test_a_hundred_tags_in_any_order(two_ranks):
    two_ranks.call(exchange_shuffled_tags, 1)


def exchange_large_messages(rank, rank_count):
    peer = 1 - rank
    count = 4 << 20  # 16 MiB
    works = [dist.isend(torch.full((count,), float(10 * rank + tag)), peer, tag=tag)
             for tag in (0, 1)]
    outputs = [torch.empty(count), torch.empty(count)]
    for tag in (1, 0):  # the other way round
        dist.recv(outputs[tag], peer, tag=tag)
        assert outputs[tag][0].item() == outputs[tag][-1].item() == 10 * peer + tag
    for work in works:
        work.wait()


def test_16_mib_messages_cross(two_ranks):
    two_ranks.call(exchange_large_messages)


def messages_of_one_tag_keep_their_order(rank, rank_count):
    if rank == 0:
        for index in range(50):
            dist.send(torch.tensor([index]), 1, tag=5)
    elif rank == 1:
        tensor = torch.empty(1, dtype=torch.int64)
        for index in range(50):
            dist.recv(tensor, 0, tag=5)
            assert tensor.item() == index


def test_messages_of_one_tag_arrive_in_order(few_ranks):
    few_ranks.call(messages_of_one_tag_keep_their_order)


def pass_round_the_ring(rank, rank_count, count):
    right, left = (rank + 1) % rank_count, (rank - 1) % rank_count
    outgoing = torch.full((count,), float(rank))
    incoming = torch.empty(count)
    second = torch.empty(2, 3).t()
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, outgoing, right, tag=1),
        dist.P2POp(dist.isend, torch.arange(6.0).view(3, 2) + rank, right, tag=2),
        dist.P2POp(dist.irecv, second, left, tag=2),
        dist.P2POp(dist.irecv, incoming, left, tag=1),
    ])
    assert len(works) == 4
    for work in works:
        work.wait()
    assert incoming[0].item() == incoming[-1].item() == left
    assert torch.equal(second, torch.arange(6.0).view(3, 2) + left)
    assert works[3].result()[0].shape == incoming.shape
    assert all(work.is_completed() for work in works)


def batches_after_a_refused_one(rank, rank_count):
    with pytest.raises(ValueError, match="which is this rank"):
        dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(4), rank)])
    pass_round_the_ring(rank, rank_count, 3)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [rank_count] * 3


def test_a_refused_batch_leaves_the_group_as_it_was(few_ranks):
    few_ranks.call(batches_after_a_refused_one)


@pytest.mark.parametrize("rank_count", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 1 << 20])
def test_a_ring_of_batches_does_not_deadlock(pools, rank_count, count):
    pools.get(rank_count).call(pass_round_the_ring, count)


def receive_from_anyone(rank, rank_count):
    if rank != 0:
        dist.send(torch.full((100,), float(rank)), 0, tag=3)
        dist.send(torch.full((100, 2), float(10 * rank)), 0, tag=4)
        return []
    sources = []
    for _ in range(rank_count - 1):
        tensor = torch.empty(100)
        source = dist.recv(tensor, tag=3)
        assert tensor.tolist() == [float(source)] * 100
        sources.append(source)
    for _ in range(rank_count - 1):
        tensor = torch.empty(2, 100).t()
        work = dist.irecv(tensor, tag=4)
        work.wait()
        source = work._source_rank()
        assert tensor.tolist() == [[10.0 * source] * 2] * 100
    return sorted(sources)


@pytest.mark.parametrize("rank_count", [2, 3, 4])
def test_a_receive_from_anyone_tells_who_sent(pools, rank_count):
    assert pools.get(rank_count).call(receive_from_anyone)[0] == list(range(1, rank_count))


def send_within_a_subgroup(rank, rank_count):
    group = dist.new_group([rank_count - 1, 0])
    if rank == 0:
        dist.send(torch.tensor([7.5]), group=group, group_dst=1)
    elif rank == rank_count - 1:
        tensor = torch.empty(1)
        assert dist.recv(tensor, group=group) == 0  # a global rank
        assert tensor.item() == 7.5
    if rank in (0, rank_count - 1):
        dist.destroy_process_group(group)


def test_messages_within_a_subgroup(few_ranks):
    few_ranks.call(send_within_a_subgroup)


def send_every_type(rank, rank_count):
    for dtype in (torch.float8_e5m2, torch.complex128, torch.bool, torch.int16,
                  torch.float8_e8m0fnu):
        tensor = torch.ones(5).to(dtype)
        if rank == 0:
            dist.send(tensor, 1)
        else:
            found = torch.zeros(5).to(dtype)
            dist.recv(found, 0)
            assert torch.equal(found.view(torch.uint8), tensor.view(torch.uint8)), dtype


def test_messages_of_every_type(two_ranks):
    two_ranks.call(send_every_type)


def exchange_objects(rank, rank_count):
    if rank == 0:
        dist.send_object_list([{"from": 0}, None, "x" * 5000], dst=1)
    elif rank == 1:
        objects = [None, 1, None]
        assert dist.recv_object_list(objects, src=0) == 0
        assert objects == [{"from": 0}, None, "x" * 5000]


def test_objects_are_sent(few_ranks):
    few_ranks.call(exchange_objects)


def meet_at_a_monitored_barrier(rank, rank_count):
    for waits_for_all in (False, True):
        dist.group.WORLD.monitored_barrier(wait_all_ranks=waits_for_all)
    return True


def test_a_monitored_barrier_lets_all_pass(ranks):
    assert ranks.call(meet_at_a_monitored_barrier) == [True] * ranks.rank_count
