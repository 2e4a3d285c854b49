"""`mccl compile PROGRAM.py ARGS -o out.xml`: the text of a program that is proven, or no file.

Runs a program written for msccl-tools (`from msccl.language import *`) in this process, compiles
and proves what it says, and writes the file only then. What the program prints goes to standard
error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import runpy
import sys
import tempfile
import traceback

import mccl_entry_point

EXAMPLE = """examples:
  mccl compile allreduce_ring.py 8 1 -o ring.xml
  mccl compile allreduce_ring.py 8 1 -o -            to standard output
  mccl compile examples.py --number 2 -o second.xml  of a file that makes several programs

Exit status: 0 proven and written; 1 not proven, or the program failed: no file, and words about
which rank lacks whose contribution to which chunk, at which line; 2 wrong usage.
Options before PROGRAM.py are compile's, those behind it the program's, but for -o and --number."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mccl compile", description=__doc__.split("\n\n")[1], epilog=EXAMPLE, add_help=True,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        usage="mccl compile PROGRAM.py [ARG ...] -o OUT.xml [--number N]")
    parser.add_argument("-o", "--output", metavar="OUT.xml", required=True,
                        help="the file to write; - is standard output")
    parser.add_argument("--number", metavar="N", type=int, default=None,
                        help="which of the programs that the file makes, from 1")
    return parser


def _run(path: str, arguments: "list[str]") -> "list[tuple]":
    """The programs that the file makes, proven, as (program, text); Refused leaves through here."""
    with mccl_entry_point.postponed():
        from msccl.language import program as language

    language.sink = []
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [path, *arguments], str(pathlib.Path(path).resolve().parent)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            runpy.run_path(path, run_name="__main__")
        return language.sink
    finally:
        language.sink = None
        sys.argv, sys.path[0] = before


def _write(path: str, text: str) -> None:
    """All of it or nothing: a reader never sees a part."""
    if path == "-":
        sys.stdout.write(text)
        return
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".mccl-compile-",
                                     delete=False) as draft:
        draft.write(text)
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(draft.name, 0o666 & ~umask)
    os.replace(draft.name, path)


def _refuse(words: str) -> int:
    print(f"mccl compile: {words}; nothing is written", file=sys.stderr)
    return 1


def _choose(made: "list[tuple]", number: "int | None") -> "tuple | str":
    """One of the programs, or why none."""
    if not made:
        return "the file makes no program: XML() was never called"
    if number is None and len(made) > 1:
        names = ", ".join(f"{place} {prog.name}" for place, (prog, _) in enumerate(made, 1))
        return f"the file makes {len(made)} programs, say --number: {names}"
    if number is not None and not 1 <= number <= len(made):
        return f"--number {number} is not in 1..{len(made)}"
    return made[(number or 1) - 1]


def main(arguments: "list[str] | None" = None) -> int:
    """Compiles; returns the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    # What is behind the file's name is the program's, -h too.
    first = next((place for place, word in enumerate(words) if word.endswith(".py")), len(words))
    if first == len(words):
        parser.parse_args(words)
        parser.error("no PROGRAM.py is given")
    tail, theirs = _split_options(words[first + 1:])
    options = parser.parse_args(words[:first] + tail)
    path = words[first]
    if not os.path.isfile(path):
        parser.error(f"there is no file {path}")
    try:
        made = _run(path, theirs)
    except SystemExit as leaving:
        if leaving.code in (0, None, 2):
            return leaving.code or 0
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
        return _refuse(f"{path} is not compiled")
    except Exception:
        traceback.print_exc()
        return _refuse(f"{path} failed")
    chosen = _choose(made, options.number)
    if isinstance(chosen, str):
        return _refuse(f"{path}: {chosen}")
    prog, text = chosen
    if not prog.check():
        return _refuse(f"{path}: Check() of {prog.name} fails")
    try:
        _write(options.output, text)
    except OSError as failure:
        return _refuse(f"{options.output}: {failure.strerror}")
    return 0


def _split_options(words: "list[str]") -> "tuple[list[str], list[str]]":
    """Behind the file's name: our options, and all else, which is the program's."""
    ours, theirs = [], []
    rest = iter(words)
    for word in rest:
        if word in ("-o", "--output", "--number"):
            ours.append(word)
            ours.extend(value for value in [next(rest, None)] if value is not None)
        elif word.startswith(("--output=", "--number=")):
            ours.append(word)
        else:
            theirs.append(word)
    return ours, theirs


if __name__ == "__main__":
    sys.exit(main())
