"""What must not take long, and can't be asked to yield.

Rule: only CPU time counts, so that a machine under load changes nothing; and the timer of the process is used for no
longer than the call. A regular expression looks after it, which nothing else could end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pykafka_broker.system import HAS_CPU_TIMER


class TooLong(Exception):
    """The limit is exceeded."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raises TooLong where it is when its time is over. Of the main thread, which a broker runs in; elsewhere, and on
    Windows, there is no limit.
    """
    if not HAS_CPU_TIMER or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _over(number: int, frame: FrameType | None) -> None:
    raise TooLong
