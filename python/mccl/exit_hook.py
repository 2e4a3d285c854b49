"""What ends this process, told to the other ranks before it is gone.

Peers of a rank that fails would otherwise learn only that it is lost. No single place sees every
end, so there are three:

- `sys.excepthook`: exceptions of the main thread of a script, Ctrl-C among them.
- `sys.exit` with a status other than 0: the interpreter shows that one to nobody. It counts once
  the interpreter itself has dropped the SystemExit, so one that is caught does not. A plain `raise
  SystemExit` is not seen: peers are told that this rank has left.
- The finalizers of `multiprocessing`: its children, and those of `torch.multiprocessing.spawn`,
  run neither `sys.excepthook` nor `atexit`.

Other threads do not count: their end is not the process's. `os._exit` and signals that kill run
nothing at all; peers then see the closed connection.
"""

from __future__ import annotations

import functools
import multiprocessing.process
import multiprocessing.util
import os
import sys
import sysconfig
import threading
import traceback
from types import FrameType, TracebackType
from typing import Any, Callable

REASON_CHARACTERS_MAX = 400
_LIBRARY_FOLDERS = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})
_OWN_CODE = (__file__, "<frozen ")


def _is_of_user(path: str) -> bool:
    return not path.startswith(_LIBRARY_FOLDERS + _OWN_CODE)


def _place(frames: list[tuple[FrameType, int]]) -> str:
    """" (train.py:212 in next_batch)": the innermost line that is not a library's, else of all."""
    frames = [entry for entry in frames if not entry[0].f_code.co_filename.startswith(_OWN_CODE)]
    if not frames:
        return ""
    users = [entry for entry in frames if _is_of_user(entry[0].f_code.co_filename)]
    frame, line = (users or frames)[-1]
    return f" ({os.path.basename(frame.f_code.co_filename)}:{line} in {frame.f_code.co_name})"


def _message(error: BaseException) -> str:
    """One line. Of many lines the first and the last: torch quotes a worker's whole traceback."""
    try:
        text = str(error)
    except Exception:
        text = "<no text>"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    text = " ... ".join(lines if len(lines) < 2 else [lines[0], lines[-1]])
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def _frames_of(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    return list(traceback.walk_tb(trace))


def describe(error: BaseException, frames: list[tuple[FrameType, int]] | None = None) -> str:
    """`IndexError: list index out of range (train.py:212 in next_batch)`.

    An exit from the handling of an exception names that first: it is why the process ends.
    """
    if frames is None:
        frames = _frames_of(error.__traceback__)
    text = _message(error) + _place(frames)
    cause = error.__context__
    if isinstance(error, SystemExit) and cause is not None and not error.__suppress_context__:
        handled = _frames_of(cause.__traceback__)
        # A forked child inherits what its parent was handling: that is in no frame of its own.
        if handled and any(frame is handled[0][0] for frame, _ in frames):
            text = f"{_message(cause)}{_place(handled)}, then {text}"
    # Other ranks print it: a NUL would cut it short, an escape would command their terminals.
    text = "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text)
    if len(text) > REASON_CHARACTERS_MAX:
        text = text[: REASON_CHARACTERS_MAX - 3] + "..."
    return text


def is_failure(error: BaseException | None) -> bool:
    return error is not None and not (isinstance(error, SystemExit) and error.code in (None, 0))


class _PendingExit:
    """Lives as long as the SystemExit that holds it, and then tells whether that was the end."""

    def __init__(self, hook: ExitHook, reason: str):
        self.hook = hook
        self.reason = reason

    def __del__(self, current_frame=sys._getframe):
        # Called by the interpreter with no Python below: it has taken the exception as its end.
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and current_frame().f_back is None:
            self.hook.tell(self.reason)


class ExitHook:
    """Of this process. `abort` gets the reason; `leave` ends all groups. Neither may block long."""

    def __init__(self, abort: Callable[[str], None], leave: Callable[[], None]):
        self._abort = abort
        self._leave = leave
        self._process_id = os.getpid()

    def install(self) -> None:
        """Once, on any thread. What is there already is called as before."""
        previous_hook = sys.excepthook
        previous_exit = sys.exit

        @functools.wraps(previous_hook)
        def excepthook(kind, error, trace):
            # First the peers: what is chained may wait for somebody, as a debugger does.
            if is_failure(error) and self._is_end(sys._getframe().f_back):
                self.tell(describe(error, _frames_of(trace)))
            previous_hook(kind, error, trace)

        @functools.wraps(previous_exit)
        def exit(status: Any = None, /):
            try:
                previous_exit(status)
            except SystemExit as error:
                if is_failure(error) and threading.current_thread() is threading.main_thread():
                    frames = list(traceback.walk_stack(sys._getframe().f_back))[::-1]
                    error._mccl_pending = _PendingExit(self, describe(error, frames))
                raise

        sys.excepthook = excepthook
        sys.exit = exit
        multiprocessing.util.Finalize(None, self._end_child, exitpriority=100)

    def tell(self, reason: str) -> None:
        """Never raises: the process ends for a reason of its own."""
        if os.getpid() != self._process_id:
            return  # forked: the groups are the parent's
        try:
            self._abort(reason)
        except Exception:
            pass

    @staticmethod
    def _is_end(caller: FrameType | None) -> bool:
        """Whether an exception that sys.excepthook gets ends the process.

        The interpreter calls it from no frame at all, other hooks perhaps in between; consoles call
        it from within a program, and go on.
        """
        if threading.current_thread() is not threading.main_thread():
            return False
        if hasattr(sys, "ps1") or sys.flags.interactive or sys.flags.inspect:
            return False
        while caller is not None and caller.f_back is not None:
            caller = caller.f_back
        return caller is None or caller.f_code.co_name != "<module>"

    def _end_child(self) -> None:
        """At the end of what a child of multiprocessing was made for, the exception in flight."""
        if multiprocessing.process.parent_process() is None:
            return  # a script: atexit follows
        error = sys.exc_info()[1]
        # One that the parent was handling when it forked is seen here, too.
        bootstrap = multiprocessing.process.BaseProcess._bootstrap.__code__
        trace = None if error is None else error.__traceback__
        if trace is not None and trace.tb_frame.f_code is bootstrap and is_failure(error):
            self.tell(describe(error))
        elif any(not thread.daemon for thread in threading.enumerate()
                 if thread is not threading.main_thread()):
            return  # they are waited for, and may still use the groups
        self._leave()
