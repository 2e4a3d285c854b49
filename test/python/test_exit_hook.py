"""What an exception's text becomes on its way to other ranks. Needs no extension."""

from __future__ import annotations

import importlib.util
import pathlib

_PATH = pathlib.Path(__file__).parents[2] / "python" / "mccl" / "exit_hook.py"
_SPEC = importlib.util.spec_from_file_location("exit_hook", _PATH)
exit_hook = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(exit_hook)


def test_control_characters_of_an_exception_are_escaped():
    assert exit_hook.describe(ValueError("a\0b\x1b[31mc é")) == "ValueError: a\\x00b\\x1b[31mc é"
