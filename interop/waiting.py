"""Waiting with a limit. A real Kafka applies a change to its metadata some milliseconds after acknowledging it."""

import time
from collections.abc import Callable
from typing import Any


def eventually(look: Callable[[], Any], expected: Any, timeout_s: float = 30.0) -> None:
    """Call `look` until it returns the expected value; fail with its last value when the time is over."""
    deadline = time.monotonic() + timeout_s
    while (seen := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert seen == expected, f"{seen!r} after {timeout_s} s, not {expected!r}"
