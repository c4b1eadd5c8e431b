"""The garbage collector of a process that holds many partitions.

Rule: a collection never holds everybody up for long. A full one looks at all that is alive, which with thousands of
loaded logs takes a tenth of a second or more, and each time what has come since is a quarter of that, there is another
one. So what is alive after one that took long is not looked at again. It still goes when the last reference to it goes,
as everything here does that lives long; only what was in hand at that moment and ends as a cycle would stay, a few
requests each time so much has been loaded.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Mapping

from pykafka_broker.server.system_clock import seconds

_LONG_S = 0.01


class Collector:
    """Watches collections between `start` and `stop`."""

    def __init__(self, now: Callable[[], float] = seconds, freeze: Callable[[], None] = gc.freeze) -> None:
        self._now = now
        self._freeze = freeze
        self._begun = 0.0

    def start(self) -> None:
        self._freeze()  # what a start leaves behind lives as long as the process
        gc.callbacks.append(self.on_collection)

    def stop(self) -> None:
        with contextlib.suppress(ValueError):  # it was never started
            gc.callbacks.remove(self.on_collection)

    def on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._begun = self._now()
        elif self._now() - self._begun >= _LONG_S:
            self._freeze()
