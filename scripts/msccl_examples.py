#!/usr/bin/env python3
"""Runs a folder of msccl-tools' example programs as they are and writes the table of docs.

    .venv/bin/python scripts/msccl_examples.py FOLDER [--write docs/msccl-programs.md]

FOLDER is a copy of examples/mscclang of microsoft/msccl-tools (it is not part of this repository).
With published files in FOLDER/golden (as NAME.xml) their gpus are compared with ours too: per
threadblock its peers, channel and steps, and for each step whom it waits for.

Exit status 1: a program did not do what its row says.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys
import time
from xml.etree import ElementTree

# Program and arguments; what the reference needs: steps, lanes, channels; what has to happen:
#   proven      compiled and proven
#   integers    proven, but ranks would differ in the bits of floats
#   corrected   the reference's compiler gets it wrong; ours is proven
#   refused     the program is wrong
#   fails       it stops with an exception of its own, as with msccl-tools
CASES = """
allgather_a100_pcie.py 4 1 | 20 12 1 | proven
allgather_a100_pcie.py 4 2 | 40 24 2 | proven
allgather_allpairs.py 4 1 | 24 12 1 | proven
allgather_allpairs.py 8 1 | 112 56 1 | proven
allgather_allpairs.py 8 2 | 224 112 2 | proven
allgather_recursive_doubling.py 4 1 | 16 8 1 | proven
allgather_recursive_doubling.py 8 1 | 56 24 1 | proven
allgather_recursive_doubling.py 8 2 | 112 48 2 | corrected
allgather_ring.py 4 1 1 | 16 4 1 | proven
allgather_ring.py 8 1 1 | 64 8 1 | proven
allgather_ring.py 8 8 1 | 64 64 8 | proven
allgather_ring.py 8 8 4 | 256 256 32 | proven
allreduce_1step.py 4 1 | 116 16 1 | integers
allreduce_1step.py 8 1 | 1224 64 1 | integers
allreduce_1step.py 8 4 | 4896 256 4 | integers
allreduce_a100_allpairs.py 2 1 | 12 4 1 | proven
allreduce_a100_allpairs.py 4 1 | 140 16 1 | proven
allreduce_a100_allpairs.py 8 1 | 1336 64 1 | proven
allreduce_a100_allpairs.py 8 2 | 2672 128 2 | proven
allreduce_a100_allpairs.py 8 4 | 5344 256 4 | proven
allreduce_a100_allpairs_v2.py 4 1 | 63 14 1 | proven
allreduce_a100_allpairs_v2.py 8 1 | 298 60 1 | proven
allreduce_a100_allpairs_v2.py 8 2 | 596 120 2 | proven
allreduce_a100_multinode_allpairs.py 4 1 | 280 48 2 | proven
allreduce_a100_multinode_allpairs.py 8 1 | 2160 160 2 | proven
allreduce_a100_ncv4.py 4 1 | 28 12 2 | proven
allreduce_a100_ncv4.py 4 12 | 336 144 24 | proven
allreduce_a100_ncv4_v2.py 4 1 | 16 16 2 | proven
allreduce_a100_ncv4_v2.py 4 12 | 192 192 24 | proven
allreduce_a100_pcie_hierarchical.py 4 1 | 112 32 1 | refused
allreduce_a100_pcie_hierarchical.py 8 1 | 1084 128 1 | refused
allreduce_a100_ring.py 2 1 1 | 6 2 1 | proven
allreduce_a100_ring.py 4 1 1 | 28 4 1 | proven
allreduce_a100_ring.py 8 1 1 | 120 8 1 | proven
allreduce_a100_ring.py 8 4 1 | 120 32 4 | proven
allreduce_a100_ring.py 8 4 8 | 960 256 32 | proven
allreduce_a100_ring.py 8 8 1 | 120 64 8 | proven
allreduce_a100_ring.py 8 8 4 | 480 256 32 | proven
allreduce_recursive_doubling_halving.py 4 1 | 32 8 1 | proven
allreduce_recursive_doubling_halving.py 8 1 | 104 24 1 | proven
allreduce_recursive_doubling_halving.py 8 4 | 416 96 4 | proven
alltoall_a100_three_step.py 2 2 1 | 36 18 2 | proven
alltoall_a100_three_step.py 3 2 1 | 90 36 2 | proven
alltoall_a100_three_step.py 3 2 2 | 180 72 4 | proven
alltoall_a100_three_step.py 9 8 2 | 22896 4320 4 | proven
alltoall_a100_two_step.py 2 2 | 36 16 6 | proven
alltoall_a100_two_step.py 2 4 | 152 64 6 | proven
alltoall_a100_two_step.py 2 8 | 624 256 6 | proven
alltoall_a100_two_step.py 4 8 | 2784 640 14 | proven
alltoall_a100_two_step.py 8 2 | 720 256 6 | proven
alltoall_allpairs.py 2 1 | 6 4 1 | proven
alltoall_allpairs.py 4 1 | 28 24 1 | proven
alltoall_allpairs.py 8 1 | 120 112 1 | proven
alltoall_allpairs.py 8 2 | 240 224 2 | proven
alltonext_backward.py 2 1 | 66 66 2 | proven
alltonext_backward.py 8 2 | 756 756 4 | corrected
alltonext_forward.py 2 1 | 66 66 2 | proven
alltonext_forward.py 8 2 | 756 756 4 | corrected
hierarchical_allreduce.py 2 2 1 | 40 24 2 | proven
hierarchical_allreduce.py 4 2 1 | 144 112 12 | proven
hierarchical_allreduce.py 8 2 1 | 544 416 24 | proven
hierarchical_allreduce.py 8 2 2 | 1088 832 48 | proven
hierarchical_allreduce.py 4 2 1 --schedule manual | 160 48 6 | proven
hierarchical_allreduce.py 8 2 1 --schedule manual | 576 96 6 | proven
pipeline_a100_allpairs.py 4 1 | 136 36 2 | refused
pipeline_a100_allpairs.py 8 1 | 1072 136 2 | refused
pipeline_a100_ring.py 4 4 1 | 40 40 4 | refused
pipeline_a100_ring.py 8 4 2 | 288 160 8 | refused
pipeline_a100_ring.py 8 8 1 | 144 144 8 | refused
simple/allgather_ring.py | 20 20 4 | proven
simple/allreduce_ring.py 4 1 | 28 4 1 | proven
simple/allreduce_ring.py 8 1 | 120 8 1 | proven
simple/allreduce_ring.py 8 2 | 240 16 2 | proven
simple/custom_collective.py | 4 4 2 | proven
allgather_a100_pcie.py 8 1 | - - - | fails
allreduce_a100_recursive_doubling_halving.py 1 1 | - - - | fails
allreduce_binomial_tree.py 8 1 1 | - - - | fails
allreduce_dgx1.py 2 1 | - - - | fails
allreduce_ndv2.py 1 | - - - | fails
reducegather.py 4 2 | - - - | fails
"""
# Published file, and the program that it was made of.
GOLDEN = {
    "r48ll": "allreduce_a100_ring.py 8 4 8 --protocol LL",
    "r48ll128": "allreduce_a100_ring.py 8 4 8",
    "ap4ll": "allreduce_a100_allpairs.py 8 4",
    "ap2ll": "allreduce_a100_allpairs.py 8 2",
    "ap-1pass": "allreduce_1step.py 8 4",
    "a2a2ll": "alltoall_allpairs.py 8 2 --protocol LL",
    "a2a4ll": "alltoall_allpairs.py 8 4 --protocol LL",
    "ar_hier_12_Simple": "allreduce_a100_ncv4.py 4 12",
    "ar_tree_12_LL": "allreduce_a100_ncv4_v2.py 4 12",
}
HEAD = """\
# Programs of msccl-tools

What the example programs of microsoft/msccl-tools become here, and what its own compiler makes of
them. Steps include nops. *corrected*: the reference's text of the program is wrong, ours is proven.
*integers*: proven, but the ranks would differ in the bits of floats. *refused*: the program itself
is wrong, and its words name rank, chunk and line. *fails*: it stops with the same exception of its
own as with msccl-tools.

Made by `scripts/msccl_examples.py` from copies of the programs without their comments and help
texts; the statements are theirs. The programs are not part of this repository: fetch the folder and
run the script to make the page again. Programs of our own with these shapes, and their exact
figures, are in `test/python/test_msccl_programs.py`.

| program | ranks | result | steps | reference | lanes | reference | channels | reference |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def run(folder: pathlib.Path, words: "list[str]") -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(folder / words[0]), *words[1:]],
                          capture_output=True, text=True, check=False)


def result_of(done: subprocess.CompletedProcess, wanted: str) -> str:
    if done.returncode != 0:
        return "fails" if "Traceback" in done.stderr else "refused"
    if "is proven for integers only" in done.stderr:
        return "integers"
    return "corrected" if wanted == "corrected" else "proven"


def figures_of(text: str) -> "list[str]":
    """Ranks, steps, lanes and channels of the first program."""
    first = text.split("</algo>")[0]
    found = [re.search(rf'{name}="(\d+)"', first) for name in ("ngpus", "nchannels")]
    if not all(found):
        return ["-"] * 4
    return [found[0][1], str(first.count("<step ")), str(first.count("<tb ")), found[1][1]]


def row_of(folder: pathlib.Path, case: str) -> "tuple[str, bool]":
    program, reference, wanted = (part.strip() for part in case.split("|"))
    start = time.monotonic()
    done = run(folder, program.split())
    seconds = time.monotonic() - start
    result = result_of(done, wanted)
    ours, theirs = figures_of(done.stdout), reference.split()
    is_right = result == wanted
    if wanted in ("proven", "integers"):
        is_right = is_right and all(int(own) <= int(other) for own, other in zip(ours[1:], theirs))
    print(f"{'ok  ' if is_right else 'WRONG'} {program}: {result}, {seconds:.2f} s",
          file=sys.stderr)
    cells = [f"`{program}`", ours[0], result]
    for own, other in zip(ours[1:], theirs):
        cells += [own, other]
    return "| " + " | ".join(cells) + " |\n", is_right


def lanes_of(gpu: ElementTree.Element) -> dict:
    """By (send peer, recv peer, channel): per step that is no nop what it does and waits for.

    Of several waits for one threadblock the last one says all.
    """
    names, places, lanes = {}, {}, {}
    for tb in gpu:
        names[tb.get("id")] = tuple(tb.get(part) for part in ("send", "recv", "chan"))
        real = 0
        for step in tb:
            places[tb.get("id"), step.get("s")] = real
            real += step.get("type") != "nop"
    for tb in gpu:
        waits, steps = {}, []
        for step in tb:
            waited = step.get("depid")
            if waited not in ("-1", tb.get("id")):
                number = places[waited, step.get("deps")]
                waits[names[waited]] = max(number, waits.get(names[waited], 0))
            kind = step.get("type")
            if kind == "nop":
                continue
            read = step.get("srcbuf") + step.get("srcoff") if kind not in ("r", "rcs") else ""
            written = step.get("dstbuf") + step.get("dstoff") if kind not in ("s", "rrs") else ""
            steps.append((kind, read, written, step.get("cnt"), tuple(sorted(waits.items()))))
            waits = {}
        lanes[names[tb.get("id")]] = steps
    return lanes


def gpus_of(text: str) -> "list[dict]":
    """Of each gpu that the text has in full: a file may be cut off."""
    return [lanes_of(ElementTree.fromstring(gpu))
            for gpu in re.findall(r"<gpu .*?</gpu>", text, re.S)]


def compare(folder: pathlib.Path, name: str) -> bool:
    path = folder / "golden" / f"{name}.xml"
    if not path.exists():
        return True
    theirs = gpus_of(path.read_text())
    ours = gpus_of(run(folder, GOLDEN[name].split()).stdout)
    same = sum(own == other for own, other in zip(ours, theirs))
    print(f"{name}: {same} of {len(theirs)} gpus are equal", file=sys.stderr)
    return same == len(theirs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path, help="the page; else standard output")
    options = parser.parse_args()
    present = [case for case in CASES.strip().splitlines()
               if (options.folder / case.split()[0]).exists()]
    rows = [row_of(options.folder, case) for case in present]
    page = HEAD + "".join(row for row, _ in rows)
    if options.write:
        options.write.write_text(page)
    else:
        print(page, end="")
    is_right = all(is_right for _, is_right in rows)
    return 0 if is_right & all([compare(options.folder, name) for name in GOLDEN]) else 1


if __name__ == "__main__":
    sys.exit(main())
