"""What tests of the server share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Let the loop run until this is so."""
    for _ in range(int(seconds * 1000)):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came")
