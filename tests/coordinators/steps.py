"""Steps of a call: the byte codes that Python executes, which are the same on a fast machine and on a busy one."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

R = TypeVar("R")


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Collect no garbage in the block: what is called for what other tests have left would be counted too."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def steps_of(call: Callable[[], R]) -> tuple[R, int]:
    """Return the result of a call, and its steps. What C code does within a step is not counted.

    The first call in a process may take some more, for what Python finds out once, such as of which abstract base a
    class is.
    """
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return trace

    sys._getframe().f_trace_opcodes = True  # Python 3.12 heeds no such wish that comes after `settrace`
    before = sys.gettrace()
    with garbage_kept():
        sys.settrace(trace)
        try:
            result = call()
        finally:
            sys.settrace(before)
    return result, steps
