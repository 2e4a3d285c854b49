"""Programs of the shapes that people write for msccl-tools: steps, lanes and channels.

The figures of the reference are those of its compiler for the same programs; ours are exact, and
never more where the reference's are right.
"""

from __future__ import annotations

import collections
import re

import msccl_programs
import pytest

from mccl.language import read_xml

# Program, arguments; steps, lanes and channels: ours, and the reference's where it has the program.
FIGURES = [
    ("all_reduce_ring", (2, 1, 1), (6, 2, 1), (6, 2, 1)),
    ("all_reduce_ring", (4, 1, 1), (28, 4, 1), (28, 4, 1)),
    ("all_reduce_ring", (8, 1, 1), (120, 8, 1), (120, 8, 1)),
    ("all_reduce_ring", (8, 8, 4), (480, 256, 32), (480, 256, 32)),
    ("all_reduce_ring", (8, 4, 8), (960, 256, 32), (960, 256, 32)),
    ("all_gather_ring", (4, 1, 1), (16, 4, 1), (16, 4, 1)),
    ("all_gather_ring", (8, 8, 4), (256, 256, 32), (256, 256, 32)),
    ("all_pairs", (2, 1), (12, 4, 1), (12, 4, 1)),
    ("all_pairs", (4, 1), (140, 16, 1), (140, 16, 1)),
    ("all_pairs", (8, 1), (1336, 64, 1), (1336, 64, 1)),
    ("all_pairs", (8, 4), (5344, 256, 4), (5344, 256, 4)),
    ("one_step", (4, 1), (92, 16, 1), (116, 16, 1)),
    ("one_step", (8, 4), (3552, 256, 4), (4896, 256, 4)),
    ("doubling", (4, 1), (16, 8, 1), (16, 8, 1)),
    ("doubling", (8, 1), (48, 24, 1), (56, 24, 1)),
    ("halving_doubling", (4, 1), (28, 8, 1), (32, 8, 1)),
    ("halving_doubling", (8, 4), (352, 96, 4), (416, 96, 4)),
    ("two_trees", (1,), (16, 16, 2), (16, 16, 2)),
    ("two_trees", (12,), (192, 192, 24), (192, 192, 24)),
    ("all_to_all_pairs", (8, 1), (120, 112, 1), (120, 112, 1)),
    ("all_to_all_pairs", (8, 2), (240, 224, 2), (240, 224, 2)),
    ("all_to_all_two_step", (2, 8), (608, 256, 6), (624, 256, 6)),
    ("all_to_all_two_step", (4, 8), (2688, 640, 14), (2784, 640, 14)),
    ("two_level_rings", (4, 2, 1), (136, 52, 5), (144, 112, 12)),
    ("two_level_rings", (8, 2, 2), (1056, 336, 18), (1088, 832, 48)),
    ("to_next", (2, 1), (26, 26, 2), None),
    # Wrong when the reference compiles them; these are right.
    ("all_pairs", (8, 2, True), (2672, 128, 2), None),
    ("doubling", (8, 2), (224, 48, 2), None),
    ("to_next", (4, 2), (132, 132, 4), None),
]


def text_of(name: str, *arguments) -> str:
    program = getattr(msccl_programs, name)(*arguments)
    assert program.check()
    return program.generate_xml()  # proven, or it raises



@pytest.mark.parametrize("name, arguments, ours, reference", FIGURES)
def test_figures(name, arguments, ours, reference):
    text = text_of(name, *arguments)
    channels = int(re.search(r'nchannels="(\d+)"', text)[1])
    assert (text.count("<step "), text.count("<tb "), channels) == ours
    if reference is not None:
        assert all(own <= theirs for own, theirs in zip(ours, reference))


@pytest.mark.parametrize("ranks", range(2, 9))
@pytest.mark.parametrize("instances", [1, 2])
def test_all_pairs_with_default_settings_for_two_to_eight_ranks(ranks, instances):
    text = text_of("all_pairs", ranks, instances, True, False)
    assert f'nchunksperloop="{ranks * ranks * instances}"' in text
    assert text.count(f's_chunks="{ranks * (ranks - 1) * instances}"') == ranks


def test_bytes_are_the_same_every_time():
    assert text_of("two_level_rings", 4, 2, 2) == text_of("two_level_rings", 4, 2, 2)


def lanes_of(text: str, rank: int) -> dict:
    """By (send peer, recv peer, channel): per step its op, its span and whom it waits for."""
    lanes = read_xml(text).ranks[rank].lanes
    names = [(lane.send_peer, lane.recv_peer, lane.channel) for lane in lanes]
    assert len(set(names)) == len(names)
    return {name: [(step.op, repr((step.sources + step.destinations)[-1]),
                    {(names[waited], number) for waited, number in step.dependences})
                   for step in lane.steps]
            for name, lane in zip(names, lanes)}


def test_all_pairs_waits_as_the_published_files_do():
    # What the file for 8 ranks and 2 instances has in instance 0 of its first gpu; the program is
    # the same for all ranks but for their numbers.
    text = text_of("all_pairs", 8, 2)
    for rank in range(8):
        lanes = lanes_of(text, rank)
        peers = [peer for peer in range(8) if peer != rank]
        arrivals = {peer: ((peer, peer, 0), 1) for peer in peers}
        sums = {peer: ((peer, peer, 0), 8) for peer in peers} | {rank: ((-1, -1, 0), 6)}
        first = f"input[{8 * rank}..{8 * rank + 8})"
        for peer in peers:
            steps = lanes[(peer, peer, 0)]
            assert [op for op, _, _ in steps] == ["send", "recv", *["reduce"] * 7, "send", "recv"]
            assert steps[2][2] == set(arrivals.values()) - {arrivals[peer]}
            assert [waits for _, _, waits in steps[3:9]] == [set()] * 6
            assert steps[9][1:] == (first, set(sums.values()) - {sums[peer]})
            assert steps[10][1:] == (f"input[{8 * peer}..{8 * peer + 8})", set())
        own = lanes[(-1, -1, 0)]
        assert [op for op, _, _ in own] == ["reduce"] * 7
        assert own[0][2] == set(arrivals.values())


def test_all_to_all_copies_where_the_published_file_does():
    # Gpus 0 to 2 of the file; the others follow from them.
    text = text_of("all_to_all_pairs", 8, 2)
    for rank in range(8):
        lanes = lanes_of(text, rank)
        for peer in range(8):
            if peer == rank:
                continue
            is_first = peer == (1 if rank == 0 else 0)
            expected = [("send", f"input[{2 * peer}]", set())]
            if is_first:
                expected.append(("copy", f"output[{2 * rank}]", set()))
            assert lanes[(peer, -1, 0)] == expected
            assert lanes[(-1, peer, 0)] == [("recv", f"output[{2 * peer}]", set())]


def test_two_trees_are_those_of_the_published_file():
    lanes = lanes_of(text_of("two_trees", 12), 0)
    assert {name: steps for name, steps in lanes.items() if name[2] < 2} == {
        (-1, 1, 0): [("recv_reduce_copy", "input[0]", set())],
        (1, -1, 0): [("send", "input[0]", {((-1, 1, 0), 0)})],
        (1, 3, 1): [("recv_reduce_send", "input[1]", set())],
        (3, 1, 1): [("recv_copy_send", "input[1]", {((1, 3, 1), 0)})],
    }


def test_a_ring_with_four_channels_is_that_of_the_published_file():
    lanes = lanes_of(text_of("all_reduce_ring", 8, 4, 8), 0)
    found = {name[2]: [(op, place) for op, place, _ in steps] for name, steps in lanes.items()}
    assert [found[channel] for channel in range(4)] == [
        [("send", "input[0]"), ("recv_reduce_send", "input[32]"), ("recv_copy_send", "input[0]"),
         ("recv_copy_send", "input[32]")],
        [("recv_reduce_send", "input[40]"), ("recv_reduce_copy_send", "input[8]"),
         ("recv_copy_send", "input[40]")],
        [("recv_reduce_send", "input[48]"), ("recv_reduce_send", "input[16]"),
         ("recv_copy_send", "input[48]"), ("recv", "input[16]")],
        [("recv_reduce_send", "input[56]"), ("recv_reduce_send", "input[24]"),
         ("recv_copy_send", "input[56]"), ("recv_copy_send", "input[24]")]]
    counted = collections.Counter(name[:2] for name in lanes)
    assert counted == {(1, 7): 32}


def test_one_step_is_proven_for_integers_and_says_so(capsys):
    msccl_programs.one_step(8, 4).generate_xml()
    words = capsys.readouterr().err
    assert "one_step is proven for integers only, ranks would differ in the bits of floats" in words
    assert "trees (in place): output[0] is " in words
