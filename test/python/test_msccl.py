"""The package msccl: what programs written for msccl-tools call, and what they get."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from msccl.language import *
from msccl.language.collectives import AllGather, AllReduce, AllToAll, Collective, ReduceScatter
from msccl.language.routines import allgather_ring_inplace, allreduce_ring_inplace
from msccl.topologies import *

MANUAL = ThreadblockPolicy.manual


def program(ranks: int, collective, instances: int = 1, **options) -> MSCCLProgram:
    return MSCCLProgram("test", fully_connected(ranks), collective, instances, **options)


def run_script(tmp_path, body: str) -> subprocess.CompletedProcess:
    """A program of two ranks as a user runs it; `body` stands in its context."""
    head = ("from msccl.language import *\nfrom msccl.topologies import *\n"
            "from msccl.language.collectives import *\n"
            "with MSCCLProgram('mine', fully_connected(2), AllReduce(2, 1, True), 1):\n")
    path = tmp_path / "mine.py"
    path.write_text(head + "".join(f"    {line}\n" for line in body.splitlines()))
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)


RIGHT = """\
c = chunk(1, Buffer.input, 0).reduce(chunk(0, Buffer.input, 0))
c.copy(0, Buffer.input, 0)
"""
WRONG = "chunk(1, Buffer.input, 0).reduce(chunk(0, Buffer.input, 0))\n"


def test_a_script_prints_xml_and_nothing_else(tmp_path):
    done = run_script(tmp_path, RIGHT + "print('hello')\nXML()\nassert Check()\n")
    assert (done.returncode, done.stderr) == (0, "hello\n")
    assert done.stdout.startswith("<algo name=\"mine\" ")
    assert done.stdout.endswith("</algo>\n")


def test_xml_of_a_wrong_program_is_words_and_status_1(tmp_path):
    done = run_script(tmp_path, WRONG + "XML()\n")
    assert (done.returncode, done.stdout) == (1, "")
    path = tmp_path / "mine.py"
    assert f"{path}:4: mine is not proven:\n" in done.stderr
    assert "rank 0: output[0] lacks rank 1's contribution" in done.stderr


def test_a_failed_check_is_status_1(tmp_path):
    done = run_script(tmp_path, WRONG + "print('result', Check())\n")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Rank 0 chunk 0 is incorrect should be " in done.stderr
    assert "Check() of mine failed" in done.stderr
    assert "result False" in done.stderr


def test_words_name_the_line_that_wrote_the_wrong_chunk(tmp_path):
    done = run_script(tmp_path, "chunk(0, Buffer.input, 0).copy(1, Buffer.input, 0)\nXML()\n")
    assert done.returncode == 1
    path = tmp_path / "mine.py"
    assert f"rank 1 lane 0 step 0 ({path}:5): recv input[0] <- message from 0" in done.stderr


def test_the_language_leaks_what_programs_use():
    names = globals()
    for name in ("dataclass", "field", "Enum", "defaultdict", "functools", "heapq", "sys", "ET",
                 "Chunk", "ReduceChunk", "Buffer", "BufferSlice", "ChunkRef", "Op", "Gpu",
                 "Threadblock", "Program", "InstructionDAG", "ChunkInstruction", "create_scratch",
                 "Print", "ir_to_xml", "manual_assign_tbs", "collectives"):
        assert name in names, name


def test_contexts_do_not_nest_and_are_left_by_exceptions():
    with pytest.raises(RuntimeError, match="No Program in context"):
        chunk(0, Buffer.input, 0)
    with program(2, AllReduce(2, 1, True)) as bound:
        assert bound is None
        with pytest.raises(RuntimeError, match="There is already a MSCCL Program in context"):
            with program(2, AllReduce(2, 1, True)):
                pass
    with pytest.raises(KeyError):
        with program(2, AllReduce(2, 1, True)):
            chunk(0, "no such scratch", 0)
    with program(2, AllReduce(2, 1, True)):
        with pytest.raises(IndexError):
            chunk(0, Buffer.input, 1)
        with pytest.raises(TypeError):
            chunk(0, Buffer.input)


def test_a_protocol_is_one_of_three():
    with pytest.raises(AssertionError, match="Simple, LL, LL128"):
        program(2, AllReduce(2, 1, True), protocol="ll")


def test_a_scratch_name_without_an_index_appends():
    with program(3, AllReduce(3, 3, False)):
        assert chunk(0, Buffer.input, 0).copy(2, "scratch", 2).index == 2
        assert chunk(2, "scratch", 0) is None
        assert chunk(1, Buffer.input, 0).copy(2, "scratch").index == 3
        assert repr(chunk(2, "scratch", 3)) == "Ref(Buffer:scratch, Index:3, Size:1, Rank:2)"


def test_copy_defaults_to_the_same_place_and_onto_itself_does_nothing():
    with program(2, AllReduce(2, 2, True)):
        moved = chunk(0, Buffer.input, 1).copy(1)
        assert (moved.rank, moved.buffer, moved.index) == (1, Buffer.input, 1)
        assert chunk(0, Buffer.input, 1).copy(0) is None


def test_forms_that_are_gone_are_errors_of_python():
    with program(2, AllReduce(2, 1, True)):
        here = chunk(0, Buffer.input, 0)
        with pytest.raises(AttributeError, match="send"):
            here.send(1, Buffer.input, 0)
        with pytest.raises(AttributeError, match="rank"):
            here.reduce(1, Buffer.input, 0)
        with pytest.raises(TypeError, match="multiple values for argument 'sendtb'"):
            here.reduce(1, Buffer.input, 0, sendtb=0)
        with pytest.raises(TypeError, match="buffer"):
            here.reduce(1, buffer=Buffer.input)


def test_split_and_group():
    with program(2, AllReduce(2, 4, True)):
        halves = chunk(0, Buffer.input, 0, 4).split(2)
        assert [(half.index, half.size) for half in halves] == [(0, 2), (2, 2)]
        whole = halves[1].group(chunk(0, Buffer.input, 0))
        assert (whole.index, whole.size) == (0, 4)
        with pytest.raises(AssertionError):
            halves[0].split(3)
        with pytest.raises(AssertionError):
            halves[0].group(chunk(1, Buffer.input, 0))


def test_there_must_be_a_link():
    with MSCCLProgram("line", line(3), AllReduce(3, 1, True), 1):
        with pytest.raises(AssertionError, match="No link from 0 to 2"):
            chunk(0, Buffer.input, 0).copy(2)
        with pytest.raises(AssertionError, match="No link from 0 to 2"):
            chunk(2, Buffer.input, 0).reduce(chunk(0, Buffer.input, 0))


def test_chunks_know_where_they_come_from_and_belong():
    with program(2, AllToAll(2, 2, False)):
        part = chunk(1, Buffer.input, 1, 2)
        assert (part.get_origin_rank(), part.get_origin_index(1)) == (1, 2)
        assert (part.get_dst_rank(), part.get_dst_index()) == (0, 3)
        assert (part.get_dst_rank(1), part.get_dst_index(1)) == (1, 2)


def test_a_contribution_that_comes_twice_fails_check():
    test = program(2, AllReduce(2, 1, True))
    with test:
        for _ in range(2):
            chunk(0, Buffer.input, 0).reduce(chunk(1, Buffer.input, 0))
        chunk(0, Buffer.input, 0).copy(1)
        assert not Check()


@pytest.mark.parametrize("collective", [AllGather, ReduceScatter, AllToAll])
def test_two_ranks_in_place_as_far_as_a_collective_has_that(collective):
    is_in_place = collective is not AllToAll
    test = program(2, collective(2, 1, is_in_place), instances=2)
    with test:
        for rank in (0, 1):
            other = 1 - rank
            if collective is AllGather:
                chunk(rank, Buffer.input, 0).copy(other, Buffer.output, rank)
            elif collective is ReduceScatter:
                chunk(rank, Buffer.input, rank).reduce(chunk(other, Buffer.input, rank))
            else:
                chunk(rank, Buffer.input, rank).copy(rank, Buffer.output, rank)
                chunk(rank, Buffer.input, other).copy(other, Buffer.output, rank)
        assert Check()
    assert f'coll="{collective(2, 1, True).name}"' in test.generate_xml()


def test_fusion_of_a_chain_in_one_threadblock():
    test = program(3, AllReduce(3, 3, True), threadblock_policy=MANUAL)
    with test:
        part = chunk(0, Buffer.input, 0, 3)
        for rank in (1, 2):
            part = chunk(rank, Buffer.input, 0, 3).reduce(part, sendtb=0, recvtb=0)
        for rank in (0, 1):
            part = part.copy(rank, Buffer.input, 0, sendtb=0, recvtb=0)
        assert Check()
    ops = [[op.inst for op in gpu.threadblocks[0].ops] for gpu in test.lower().gpus]
    assert ops == [[Instruction.send, Instruction.recv_copy_send],
                   [Instruction.recv_reduce_send, Instruction.recv],
                   [Instruction.recv_reduce_copy_send]]


def test_without_fusion_every_op_stays_apart():
    test = program(2, AllReduce(2, 1, True), instr_fusion=False)
    with test:
        exec(RIGHT)
    assert test.generate_xml().count("<step ") == 4


def test_one_threadblock_has_one_peer_each_way(capsys):
    test = program(3, AllToAll(3, 1, False), threadblock_policy=MANUAL)
    with test:
        chunk(0, Buffer.input, 1).copy(1, Buffer.output, 0, sendtb=0, recvtb=1)
        chunk(0, Buffer.input, 2).copy(2, Buffer.output, 0, sendtb=0, recvtb=1)
        with pytest.raises(SystemExit):
            XML()
    words = capsys.readouterr().err
    assert "threadblock 0 of rank 0 would send to ranks 1 and 2" in words
    assert pathlib.Path(__file__).name in words


def test_the_dag_of_a_slot_that_is_sent_and_then_written():
    test = program(2, AllReduce(2, 2, False))
    with test:
        chunk(1, Buffer.input, 0).copy(0, "sc", 1)
        chunk(0, Buffer.input, 0).copy(1, Buffer.input, 0)
    test.lower()  # to look at: as a program for out-of-place calls it is refused
    op = test.instr_dag.operations[(1, Buffer.input, 0)]
    assert op.inst == Instruction.start
    assert [after.inst for after in op.next] == [Instruction.send]
    assert [after.inst for after in op.next[0].next] == [Instruction.recv]


def test_routines():
    gather = program(4, AllGather(4, 1, True))
    with gather:
        allgather_ring_inplace(4)
        assert Check()
    reduce = program(4, AllReduce(4, 4, True))
    with reduce:
        allreduce_ring_inplace(4)
        assert Check()
    assert [test.generate_xml().count("<step ") for test in (gather, reduce)] == [16, 28]


# ---- What the reference compiles wrongly: compiled right, or refused with the reason ----

def test_a_remote_reduce_from_another_slot_is_compiled_right():
    test = program(2, AllReduce(2, 1, True))
    with test:
        copied = chunk(0, Buffer.input, 0).copy(0, "mine", 0)
        chunk(1, Buffer.input, 0).reduce(copied).copy(0, Buffer.input, 0)
        assert Check()
    assert 'type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0"' in test.generate_xml()


def test_a_part_of_a_sum_that_comes_back_leaves_the_rest_stored():
    test = program(2, AllReduce(2, 2, True))
    with test:
        both = chunk(1, Buffer.input, 0, 2).reduce(chunk(0, Buffer.input, 0, 2))
        both.copy(0, Buffer.input, 0)
        chunk(0, Buffer.input, 0).copy(1, Buffer.input, 0)
        assert Check()
    assert 'type="rrcs"' in test.generate_xml()


def test_scratch_at_other_offsets_of_two_ranks_is_forwarded_to_the_right_place():
    test = program(3, AllGather(3, 1, False))
    with test:
        for rank in range(3):
            chunk(rank, Buffer.input, 0).copy(rank, Buffer.output, rank)
        chunk(1, Buffer.input, 0).copy(1, "x", 0)
        through = chunk(0, Buffer.input, 0).copy(1, "y", 0).copy(2, "y", 0)
        through.copy(2, Buffer.output, 0)
        chunk(1, "y", 0).copy(1, Buffer.output, 0)
        chunk(1, "x", 0).copy(0, Buffer.output, 1).copy(2, Buffer.output, 1)
        chunk(2, Buffer.input, 0).copy(0, Buffer.output, 2).copy(1, Buffer.output, 2)
        assert Check()
    test.generate_xml()


def test_a_program_that_begins_with_a_local_reduce_is_not_empty(capsys):
    test = program(2, AllReduce(2, 2, True))
    with test:
        chunk(0, Buffer.input, 0).reduce(chunk(0, Buffer.input, 1))
        with pytest.raises(SystemExit):
            XML()
    words = capsys.readouterr().err
    assert "reduces chunks of different origin: input[0] holds chunk 0 and input[1]" in words


def test_overlapping_operands_are_refused_with_their_line(capsys):
    test = program(2, AllReduce(2, 3, True))
    with test:
        chunk(0, Buffer.input, 0, 2).copy(0, Buffer.input, 1)
        with pytest.raises(SystemExit):
            XML()
    assert "input[0..2) of rank 0 and input[1..3) of rank 0 overlap" in capsys.readouterr().err


def test_a_chunk_that_is_reduced_with_nothing_is_named(capsys):
    test = program(2, AllReduce(2, 1, False))
    with test:
        nothing = chunk(0, Buffer.input, 0).copy(1, "s", 1).prog.get_ref(1, "s", 0, 1)
        chunk(1, Buffer.input, 0).copy(1, Buffer.output, 0).reduce(nothing)
        with pytest.raises(SystemExit):
            XML()
    words = capsys.readouterr().err
    assert "scratch[0] of rank 1 is read before anything was written to it" in words


# ---- Collectives of one's own ----

class Swap(Collective):
    """Two ranks exchange the chunks of their inputs; rank 1 wants them turned round."""

    def init_buffers(self):
        return [{Buffer.input: [Chunk(rank, index, 1 - rank, index) for index in (0, 1)],
                 Buffer.output: [None, None]} for rank in (0, 1)]

    def check(self, prog):
        print("looked")
        return ([prog.buffers[0][Buffer.output][index] for index in (0, 1)]
                == [Chunk(1, 0), Chunk(1, 1)]
                and [prog.buffers[1][Buffer.output][index] for index in (0, 1)]
                == [Chunk(0, 1), Chunk(0, 0)])


def swap(instances: int, is_turned: bool) -> MSCCLProgram:
    test = program(2, Swap(2, 2, False), instances)
    with test:
        chunk(1, Buffer.input, 0, 2).copy(0, Buffer.output, 0)
        for index in (0, 1):
            chunk(0, Buffer.input, index).copy(1, Buffer.output, 1 - index if is_turned else index)
    return test


def test_a_custom_collective_is_proven_against_what_its_check_accepted(capsys):
    text = swap(1, True).generate_xml()
    assert 'coll="custom"' in text
    assert 'outputs="1:0 1:1"' in text and 'outputs="0:1 0:0"' in text
    assert capsys.readouterr().out == ""


def test_instances_of_a_custom_collective_keep_the_order_of_its_elements():
    text = swap(2, True).generate_xml()
    assert 'outputs="1:0 1:1 1:2 1:3"' in text and 'outputs="0:2 0:3 0:0 0:1"' in text


def test_a_custom_collective_whose_check_fails_is_refused(capsys):
    with pytest.raises(SystemExit):
        swap(1, False).generate_xml()
    assert "test: the collective's own check fails" in capsys.readouterr().err


# ---- Topologies ----

def test_topologies():
    assert [star(3).link(*pair) for pair in ((0, 1), (1, 0), (1, 2))] == [1, 1, 0]
    assert sorted(ring(4).destinations(0)) == [1, 3]
    assert (dgx1().link(0, 1), dgx1().link(0, 2), dgx1().link(0, 5)) == (2, 1, 0)
    assert (dgx_a100().num_nodes(), dgx_a100().link(3, 4), dgx_a100().link(3, 3)) == (8, 12, 0)
    both = distributed_fully_connected(line(2), 2, 5)
    assert [both.link(0, other) for other in range(4)] == [0, 1, 5, 5]
    assert len(distributed_hub_and_spoke(hub_and_spoke(2), 2, 1).switches) == 12
    one_way = Topology("t", [[0, 0], [3, 0]])
    assert (reverse_topology(one_way).link(1, 0), binarize_topology(one_way).link(0, 1)) == (3, 1)
    assert list(one_way.bandwidth_constraints()) == [([0], [1], 3, "0→1")]
    with pytest.raises(ValueError, match="must be positive"):
        Topology("t", [[0]], [([0], [0], 0, "none")])


def test_the_links_that_nvidia_smi_prints():
    text = ("\tGPU0\tGPU1\tmlx5_0\nGPU0\t X \tNV4\tPIX\nGPU1\tNV4\t X \tSYS\n"
            "mlx5_0\tPIX\tSYS\t X \n")
    assert nvlink_only(text).links == [[0, 4], [4, 0]]
