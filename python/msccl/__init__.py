"""Programs written for msccl-tools run unmodified on this package; mccl compiles and proves them.

    python PROGRAM.py ARGS > out.xml
    mccl compile PROGRAM.py ARGS -o out.xml
"""

from __future__ import annotations

import mccl_entry_point

__version__ = "2.3.0"  # of the interface

# The language needs no torch, whose import takes longer than most programs.
with mccl_entry_point.postponed():
    import mccl.language as _language  # noqa: F401
