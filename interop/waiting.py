"""Waiting with a limit. A real Kafka applies a change to its metadata some milliseconds after acknowledging it."""

import time
from collections.abc import Callable
from typing import Any


def eventually(look: Callable[[], Any], expected: Any, timeout_s: float = 60.0) -> None:
    """Call `look` until it returns the expected value; fail with its last value when the time is over.

    A look may cost a client and its connections: the longer a wait takes, the longer are its pauses.
    """
    deadline, pause_s = time.monotonic() + timeout_s, 0.02
    while (seen := look()) != expected and time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, 0.1)
    assert seen == expected, f"{seen!r} after {timeout_s} s, not {expected!r}"
