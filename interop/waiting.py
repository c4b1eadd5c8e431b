"""Waiting with a limit. A real Kafka applies a change to its metadata some milliseconds after acknowledging it."""

import time
from collections.abc import Callable
from typing import Any


def eventually(look: Callable[[], Any], expected: Any, timeout_s: float = 30.0) -> None:
    """Look until the expected thing is seen; what is seen last decides."""
    deadline = time.monotonic() + timeout_s
    while (seen := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert seen == expected, f"{seen!r} after {timeout_s} s, not {expected!r}"
