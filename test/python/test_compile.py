"""`mccl compile` as it is installed."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

MAKES = """\
import sys
from msccl.language import *
from msccl.topologies import *
from msccl.language.collectives import AllReduce
is_right = sys.argv[1] == "right"
for name in sys.argv[2:]:
    with MSCCLProgram(name, fully_connected(2), AllReduce(2, 1, True), 1):
        c = chunk(1, Buffer.input, 0).reduce(chunk(0, Buffer.input, 0))
        if is_right:
            c.copy(0)
        print("made", name)
        XML()
"""


@pytest.fixture
def path(tmp_path) -> pathlib.Path:
    path = tmp_path / "makes.py"
    path.write_text(MAKES)
    return path


def compile_(*arguments: object) -> "tuple[int, str, str]":
    """Exit status, standard output and standard error."""
    done = subprocess.run([sys.executable, "-m", "mccl.compile", *map(str, arguments)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_proven_program_is_written(path, tmp_path):
    out = tmp_path / "out.xml"
    assert compile_(path, "right", "one", "-o", out) == (0, "", "made one\n")
    assert out.read_text().startswith('<algo name="one" ')
    assert list(tmp_path.iterdir()) == [path, out] or set(tmp_path.iterdir()) == {path, out}
    assert compile_("-o", "-", path, "right", "one") == (0, out.read_text(), "made one\n")


def test_a_wrong_program_leaves_no_file_and_the_old_one_alone(path, tmp_path):
    out = tmp_path / "out.xml"
    status, printed, words = compile_(path, "wrong", "one", "-o", out)
    assert (status, printed) == (1, "")
    assert not out.exists()
    assert f"{path}:7: one is not proven" in words
    assert "rank 0: output[0] lacks rank 1's contribution" in words
    assert words.endswith(f"mccl compile: {path} is not compiled; nothing is written\n")
    out.write_text("old")
    assert compile_(path, "wrong", "one", "-o", out)[0] == 1
    assert out.read_text() == "old"


def test_of_several_programs_one_is_chosen(path):
    status, _, words = compile_(path, "right", "one", "two", "-o", "-")
    assert status == 1
    assert "makes 2 programs, say --number: 1 one, 2 two; nothing is written" in words
    status, text, _ = compile_(path, "right", "one", "two", "-o", "-", "--number", 2)
    assert status == 0
    assert text.startswith('<algo name="two" ')
    assert compile_(path, "right", "one", "-o", "-", "--number=2")[2].endswith(
        "--number 2 is not in 1..1; nothing is written\n")


def test_a_program_that_fails_shows_where(path):
    status, printed, words = compile_(path, "-o", "-")
    assert (status, printed) == (1, "")
    assert "IndexError: list index out of range" in words
    assert words.endswith(f"mccl compile: {path} failed; nothing is written\n")


def test_usage(path, tmp_path):
    status, printed, _ = compile_("-h")
    assert status == 0
    assert "mccl compile allreduce_ring.py 8 1 -o ring.xml" in printed
    assert compile_()[0] == 2
    assert compile_(path, "right", "one")[0] == 2
    assert compile_(tmp_path / "none.py", "-o", "-")[0] == 2
    status, _, words = compile_(path, "right", "one", "-o", tmp_path / "none" / "out.xml")
    assert (status, "No such file or directory; nothing is written" in words) == (1, True)
