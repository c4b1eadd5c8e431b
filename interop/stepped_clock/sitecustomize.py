"""The wall clock of a Python process, set from outside as an operator or NTP would. Rule: it takes effect in a process
that is started with this folder on PYTHONPATH and a file's name in `WALL_CLOCK_STEP_FILE`; the file holds the
milliseconds by which the clock is off. The steady clock is left alone, as it is by those.

Python imports a module of this name at each start; the broker knows nothing of it.
"""

import mmap
import os
import struct
import time

_unpack = struct.Struct("<q").unpack_from


def _step_clock(path: str) -> None:
    with open(path, "rb") as file:
        step_ms = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    seconds, nanoseconds = time.time, time.time_ns
    vars(time).update(
        time=lambda: seconds() + _unpack(step_ms)[0] / 1_000,
        time_ns=lambda: nanoseconds() + _unpack(step_ms)[0] * 1_000_000,
    )


if "WALL_CLOCK_STEP_FILE" in os.environ:
    _step_clock(os.environ["WALL_CLOCK_STEP_FILE"])
