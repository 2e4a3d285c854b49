"""Machines with NVLink; a link counts its bricks."""

from __future__ import annotations

import subprocess

from .topology import Topology

# Pairs of one and of two bricks; the sockets are 0-3 and 4-7.
_DGX1_SINGLE = ((0, 2), (0, 3), (1, 2), (3, 7), (1, 5), (4, 6), (4, 7), (5, 6))
_DGX1_DOUBLE = ((0, 1), (1, 3), (3, 2), (0, 4), (2, 6), (4, 5), (5, 7), (7, 6))


def dgx1() -> Topology:
    links = [[0] * 8 for _ in range(8)]
    for bricks, pairs in ((1, _DGX1_SINGLE), (2, _DGX1_DOUBLE)):
        for one, other in pairs:
            links[one][other] = links[other][one] = bricks
    return Topology("DGX1", links)


def dgx_a100() -> Topology:
    return Topology("DGX_A100", [[0 if dst == src else 12 for src in range(8)] for dst in range(8)])


def nvlink_only(nvidia_smi_topo: "str | None" = None) -> Topology:
    """The NVLinks that `nvidia-smi topo -m` prints; runs it when no text is given."""
    if nvidia_smi_topo is None:
        nvidia_smi_topo = subprocess.run(["nvidia-smi", "topo", "-m"], check=True, text=True,
                                         capture_output=True).stdout
    rows = []
    for text in nvidia_smi_topo.splitlines()[1:]:
        if not text.startswith("GPU"):
            break
        rows.append([cell.strip() for cell in text.split("\t")[1:]])
    links = [[int(cell[2:]) if cell.startswith("NV") else 0 for cell in row[:len(rows)]]
             for row in rows]
    return Topology("NVLinkOnly", links)
