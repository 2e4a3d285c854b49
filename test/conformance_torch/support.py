"""Writes docs/support.md: what each call does with each type, tried on two ranks.

Fails when a call that is not refused gives a wrong result.
"""

from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test" / "torch"))

import ranks as rank_processes  # noqa: E402
import test_cases  # noqa: E402
import test_types  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

PAGE = ROOT / "docs" / "support.md"
def try_layouts(rank: int, rank_count: int) -> dict:
    """By call, then by layout: bytes that were copied for it, of those the call names."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    table: dict = {}
    for name, call in test_cases.CALLS.items():
        row = table[name] = {}
        for layout, make in test_cases.LAYOUTS.items():
            memory = test_cases.Memory(make, torch.float32)
            before = backend.stats()["staged_bytes"]
            call(memory, rank, rank_count)
            memory.check()
            row[layout] = "copied" if backend.stats()["staged_bytes"] > before else "in place"
    return table


def rows_of(header: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header)] + rows]


def main() -> None:
    with rank_processes.Ranks(2) as ranks:
        reductions = ranks.call(test_types.try_reductions)[0]
        ranks.call(test_types.try_moves)
        layouts = ranks.call(try_layouts)[0]
    notes: dict[str, int] = {}
    rows = []
    for dtype, row in reductions.items():
        cells = [f"`{dtype.removeprefix('torch.')}`"]
        for text in row.values():
            # One note for all pairs that are refused with the same alternative.
            reason = text.split("; ", 1)[-1]
            note = 0 if text == "yes" else notes.setdefault(reason, len(notes) + 1)
            cells.append(f"no ({note})" if note else "yes")
        rows.append(cells)
    names = list(test_cases.LAYOUTS)
    lines = [
        "# What is supported", "",
        "Written by `make conformance` from calls that were made. A call is refused with "
        "NotImplementedError, on every rank and before anything is sent; its message names the "
        "alternative.", "", "## Reductions", "",
        "By all_reduce, reduce, reduce_scatter and their variants. Integers wrap, an integer "
        "average rounds towards zero, half types are rounded to nearest even after each step. "
        "Sparse COO tensors: all_reduce with SUM.", ""]
    lines += rows_of(["type", *test_types.OPS], rows)
    lines += [""] + [f"{number}. {reason}" for reason, number in notes.items()]
    lines += ["", "## Moves", "",
              "broadcast, gather, scatter, all_gather, all_to_all, send and recv take all types "
              "above, and every other unquantized one as bytes.", "",
              "## Layouts", "",
              "Every call takes every layout, blocking or asynchronous. Copied: through memory of "
              "ours, counted in `mccl.stats()` as `staged_calls` and `staged_bytes`.", ""]
    lines += rows_of(["call", *names],
                     [[name, *(layouts[name][layout] for layout in names)] for name in layouts])
    PAGE.write_text("\n".join(lines) + "\n")
    print(f"support: {len(test_types.TYPES)} types, {len(test_types.OPS)} operations, "
          f"{len(layouts)} calls: {PAGE.name}")


if __name__ == "__main__":
    main()
