"""Groups: subsets, objects, leaving and coming back, what they can tell about themselves."""

import os

import pytest
import torch
import torch.distributed as dist

import mccl
import ranks as rank_processes


def use_subsets(rank, rank_count):
    subsets = [[0], [rank_count - 1], list(range(rank_count)), [0, rank_count - 1]]
    groups = [dist.new_group(sorted(set(subset))) for subset in subsets]
    for subset, group in zip(subsets, groups):
        if rank not in subset:
            assert group == dist.GroupMember.NON_GROUP_MEMBER
            continue
        tensor = torch.full((1000,), float(rank + 1))
        dist.all_reduce(tensor, group=group)
        assert tensor[999].item() == sum(member + 1 for member in set(subset))
        tensor = torch.full((10,), float(rank))
        dist.broadcast(tensor, src=max(subset), group=group)  # src is a rank of the world
        assert tensor.tolist() == [float(max(subset))] * 10
        outputs = [torch.empty(1) for _ in set(subset)]
        dist.all_gather(outputs, torch.tensor([float(rank)]), group=group)
        assert [output.item() for output in outputs] == [float(m) for m in sorted(set(subset))]
    for subset, group in zip(subsets, groups):
        if rank in subset:
            dist.destroy_process_group(group)


def test_subsets_of_the_ranks_form_groups(ranks):
    ranks.call(use_subsets)


def exchange_objects(rank, rank_count):
    gathered = [None] * rank_count
    dist.all_gather_object(gathered, {"rank": rank, "padding": "x" * (1000 * rank)})
    assert [entry["rank"] for entry in gathered] == list(range(rank_count))
    assert [len(entry["padding"]) for entry in gathered] == [1000 * i for i in range(rank_count)]
    for root in range(rank_count):
        objects = [("from", rank), None, [rank] * 3]
        dist.broadcast_object_list(objects, src=root)
        assert objects == [("from", root), None, [root] * 3]


def test_objects_are_gathered_and_broadcast(ranks):
    ranks.call(exchange_objects)


def come_and_go(rank, rank_count):
    for generation in range(3):
        rank_processes.init()
        tensor = torch.full((3000,), float(rank + generation))
        dist.all_reduce(tensor)
        assert tensor[0].item() == rank_count * generation + rank_count * (rank_count - 1) / 2
        assert mccl.stats()["operations_posted"] == 1
        left_over = dist.all_reduce(torch.ones(1), async_op=True)
        left_over.wait()
        dist.destroy_process_group()
        with pytest.raises(ValueError, match="there is no process group"):
            mccl.stats()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def test_a_process_leaves_and_comes_back_three_times_and_keeps_nothing():
    with rank_processes.Ranks(2, initialises=False) as ranks:
        first = ranks.call(come_and_go)
        assert ranks.call(come_and_go) == first


def use_after_shutdown(rank, rank_count):
    rank_processes.init()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    dist.destroy_process_group()
    with pytest.raises(dist.DistBackendError, match="mccl: the process group was shut down"):
        backend.allreduce([torch.ones(1)])
    backend.shutdown()


def test_a_group_that_was_shut_down_says_so():
    with rank_processes.Ranks(2, initialises=False) as ranks:
        ranks.call(use_after_shutdown)


def work_under_detail(rank, rank_count):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    rank_processes.init()
    tensor = torch.full((10,), float(rank))
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    outputs = [torch.empty(10) for _ in range(rank_count)]
    dist.all_gather(outputs, tensor)
    dist.barrier()
    assert mccl.stats()["rank_count"] == rank_count  # through torch's wrapper
    text = ""
    try:
        dist.all_reduce(torch.ones(10 + rank))
    except RuntimeError as error:
        text = str(error)
    return text


def test_debug_level_detail_works_and_finds_a_mismatch():
    with rank_processes.Ranks(2, initialises=False) as ranks:
        texts = ranks.call(work_under_detail)
        ranks.is_broken = True
    assert any("Detected mismatch between collectives on ranks" in text for text in texts), texts


def read_statistics(rank, rank_count):
    group = dist.new_group()
    for _ in range(3):
        dist.all_reduce(torch.ones(25), group=group)
    dist.broadcast(torch.ones(7, dtype=torch.int32), 0, group=group)
    dist.all_gather([torch.empty(2) for _ in range(rank_count)], torch.ones(2), group=group)
    found = mccl.stats(group)
    dist.destroy_process_group(group)
    return found


def test_stats_tell_what_was_done(few_ranks):
    for rank, stats in enumerate(few_ranks.call(read_statistics)):
        assert (stats["rank"], stats["rank_count"]) == (rank, few_ranks.rank_count)
        assert stats["host_count"] == 1
        assert stats["operations_posted"] == stats["operations_completed"] == 5
        programs = {row["collective"]: row for row in stats["programs"]}
        assert list(programs) == ["all_reduce", "broadcast", "all_gather"]
        assert (programs["all_reduce"]["calls"], programs["all_reduce"]["bytes"]) == (3, 300)
        assert (programs["broadcast"]["calls"], programs["broadcast"]["bytes"]) == (1, 28)
        assert programs["all_gather"]["calls"] == 1
        assert all(row["program"] and row["reason"] for row in stats["programs"])
        for counter in ("bytes_sent", "bytes_received", "write_calls", "read_calls"):
            assert stats[counter] > 0
        assert stats["parked_bytes"] == 0


def explain_calls(rank, rank_count):
    with pytest.raises(ValueError, match='no collective is called "reduce_all"; there are all_'):
        mccl.explain("reduce_all", 4)
    tensor = torch.ones(256)
    group = dist.new_group()
    dist.all_reduce(tensor, group=group)
    program = mccl.stats(group)["programs"][0]["program"]
    text = mccl.explain("all_reduce", 1024, group)
    dist.destroy_process_group(group)
    return program, text


def test_explain_names_the_program_that_runs(few_ranks):
    answers = few_ranks.call(explain_calls)
    assert len(set(answers)) == 1  # all ranks say the same
    program, text = answers[0]
    assert program in text
    assert len(text.splitlines()) > 2  # the other candidates, and why not


def refuse_foreign_groups(rank, rank_count):
    group = dist.new_group(backend="gloo")
    try:
        with pytest.raises(ValueError, match="the group's back end is gloo, not mccl"):
            mccl.stats(group)
    finally:
        dist.destroy_process_group(group)


def test_stats_of_another_back_end_are_refused(two_ranks):
    two_ranks.call(refuse_foreign_groups)


def names(rank, rank_count):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert dist.get_backend() == "mccl" and backend.name() == "mccl"
    assert dist.get_world_size() == rank_count and dist.get_rank() == rank
    before = backend._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    assert backend._get_sequence_number_for_group() == before + 1


def test_the_group_knows_its_name_and_counts_its_calls(ranks):
    ranks.call(names)


def fork_and_use(rank, rank_count):
    """What a forked child gets."""
    dist.all_reduce(torch.ones(10))
    status, text = rank_processes.call_in_fork(lambda: dist.all_reduce(torch.ones(10)))
    dist.all_reduce(torch.ones(10))  # the parent goes on
    return status, text


def test_a_forked_child_is_refused_and_the_parent_goes_on(two_ranks):
    for status, text in two_ranks.call(fork_and_use):
        assert status == 0
        assert text == ("ValueError: mccl: this process was forked from the one that made the "
                        "communicator")


def fork_and_leave(rank, rank_count):
    """A child that ends like Python's do, through destructors."""

    def leave():
        dist.destroy_process_group()
        return "left"

    status, text = rank_processes.call_in_fork(leave)
    dist.all_reduce(torch.ones(10))
    return status, text


def test_a_forked_child_that_destroys_its_copy_hurts_nobody(two_ranks):
    assert two_ranks.call(fork_and_leave, timeout_s=60) == [(0, "left")] * 2
