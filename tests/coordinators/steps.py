"""Steps of a call: the byte codes that Python executes, which are the same on a fast machine and on a busy one."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import CodeType, FrameType
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
    if sys.version_info >= (3, 12):
        # Tracing of single byte codes leaves out the first run of each function in 3.13.
        monitoring, tool, here = sys.monitoring, sys.monitoring.PROFILER_ID, get_ident()

        def on_byte_code(code: CodeType, offset: int) -> None:
            nonlocal steps
            steps += get_ident() == here

        with garbage_kept():
            monitoring.use_tool_id(tool, "steps")
            monitoring.register_callback(tool, monitoring.events.INSTRUCTION, on_byte_code)
            monitoring.set_events(tool, monitoring.events.INSTRUCTION)
            try:
                result = call()
            finally:
                monitoring.set_events(tool, 0)
                monitoring.free_tool_id(tool)
        return result, steps

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    with garbage_kept():
        sys.settrace(trace)
        try:
            result = call()
        finally:
            sys.settrace(before)
    return result, steps
