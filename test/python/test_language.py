"""mccl.language: the builder, the verifier and the texts, from Python."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from mccl.language import Buffer, Chunk, ProgramBuilder, read_xml, verify, write_xml

HERE = pathlib.Path(__file__).name


def make_pair() -> ProgramBuilder:
    builder = ProgramBuilder("pair", "all_reduce", rank_count=2, chunk_count=1)
    sum_ = builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.output(1, 0))
    builder.copy(sum_, builder.output(0, 0))
    return builder


def test_a_program_is_lowered_proven_and_written():
    program = make_pair().lower()
    assert str(verify(program)) == ""
    assert write_xml(program) == """\
<program name="pair" collective="all_reduce" ranks="2" chunks="1" in_place="true" \
out_of_place="true">
  <rank id="0" scratch_chunks="0">
    <lane id="0" send="1" recv="1" channel="0">
      <step id="0" op="send" src="i:0"/>
      <step id="1" op="recv" dst="o:0"/>
    </lane>
  </rank>
  <rank id="1" scratch_chunks="0">
    <lane id="0" send="0" recv="0" channel="0">
      <step id="0" op="recv_reduce_copy_send" src="i:0" dst="o:0"/>
    </lane>
  </rank>
</program>
"""
    assert read_xml(write_xml(program)) == program


def test_the_same_statements_give_the_same_bytes():
    assert write_xml(make_pair().lower()) == write_xml(make_pair().lower())


def test_a_place_is_a_value():
    builder = make_pair()
    assert builder.scratch(1, 2, 3) == Chunk(1, Buffer.SCRATCH, 2, 3)
    assert builder.input(0, 0) != builder.output(0, 0)
    assert repr(builder.input(1, 2, 3)) == "input[2..5) of rank 1"


def test_faults_name_the_line_of_the_statement():
    builder = ProgramBuilder("bad", "all_reduce", 2, 1)
    builder.copy(builder.input(0, 5), builder.output(1, 0))
    line = sys._getframe().f_lineno - 1
    builder.copy(builder.scratch(0, 0), builder.output(0, 0), line=("theirs.py", 7))
    with pytest.raises(ValueError) as caught:
        builder.lower()
    first, second = str(caught.value).splitlines()
    assert first.endswith(f"{HERE}:{line}: input[5] of rank 0 is not inside the 1 chunks of input")
    assert second == "theirs.py:7: scratch[0] of rank 0 is read before anything was written to it"


def test_steps_know_the_line_of_their_statement():
    builder = ProgramBuilder("pair", "all_reduce", 2, 1)
    builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.output(1, 0), line=("a", 1))
    builder.copy(builder.output(1, 0), builder.output(0, 0), line=("a", 2))
    builder.lower()
    assert builder.line_of_step(0, 0, 0) == ("a", 1)
    assert builder.line_of_step(0, 0, 1) == ("a", 2)
    with pytest.raises(IndexError):
        builder.line_of_step(0, 0, 2)


def test_a_finding_has_a_rule_a_text_and_a_trace():
    builder = ProgramBuilder("half", "all_reduce", 2, 1)
    builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.output(1, 0))
    builder.copy(builder.input(0, 0), builder.output(0, 0))
    verdict = verify(builder.lower())
    assert not verdict.is_proven
    assert [(found.rule, found.text) for found in verdict.findings][:1] == [
        ("postcondition", "rank 0: output[0] lacks rank 1's contribution")]
    assert verdict.findings[0].trace == [
        "it holds 0", "last written by rank 0 lane 0 step 1: copy output[0] <- input[0]"]


def test_instances_are_side_by_side():
    builder = make_pair()
    builder.set_instances(3, "blocks")
    program = builder.lower()
    assert program.chunk_count == 3
    assert [lane.channel for lane in program.ranks[0].lanes] == [0, 1, 2]


def test_a_contract_makes_a_custom_collective():
    builder = ProgramBuilder("next", [(1, []), (0, [[(0, 0)]])])
    builder.copy(builder.input(0, 0), builder.output(1, 0))
    program = builder.lower()
    assert program.collective == "custom"
    assert verify(program).is_proven


@pytest.mark.parametrize("make, words", [
    (lambda: ProgramBuilder("x", "all_sum", 2, 1), 'there is no collective "all_sum"'),
    (lambda: make_pair().set_instances(0), "0 instances of a program"),
    (lambda: make_pair().set_instances(2, "rows"), 'there is no layout "rows"'),
    (lambda: write_xml(make_pair().lower(), "ours"), 'there is no dialect "ours"'),
    (lambda: write_xml(make_pair().lower(), "msccl", protocol="ll"), 'there is no protocol "ll"'),
    (lambda: ProgramBuilder("x", [(1, [[(0, 0), (0, 0)]])]), "twice"),
    (lambda: read_xml("<algo/>", "mine.xml"), "mine.xml:1:"),
])
def test_wrong_arguments_are_value_errors(make, words):
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)


def test_a_builder_lowers_once():
    builder = make_pair()
    builder.lower()
    with pytest.raises(ValueError, match="a program is lowered once"):
        builder.lower()


def test_msccl_imports_no_torch():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, msccl.language; print('torch' in sys.modules)"],
        capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
