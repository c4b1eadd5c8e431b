"""SIGTERM, SIGINT and SIGHUP, from the first line of the command to the last.

Rule: the first signal ends the broker in an orderly way, at any time; later ones are ignored. A terminal, a parent and
an impatient user may each send one, and an interrupted shutdown costs the next start a recovery.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from pykafka_broker.platform import STOP_SIGNALS


class StopSignals:
    """The signals that end the process, caught from the construction on.

    asked: whether the process has been asked to end.
    """

    def __init__(self) -> None:
        self.asked = False
        self._stop: Callable[[], object] | None = None
        for number in STOP_SIGNALS:
            if number.name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, lambda signum, frame: self.stop())

    def hand_to(self, stop: Callable[[], object]) -> None:
        """Call `stop` at the first signal, between two lines of the main thread; at once after an earlier signal."""
        self._stop = stop
        if self.asked:
            stop()

    def ignore(self) -> None:
        """Ignore signals from now on: nothing is left to stop."""
        self.asked = True

    def stop(self) -> None:
        """Ask for the end, as a signal does; from any thread."""
        if not self.asked:
            self.asked = True
            if self._stop is not None:
                self._stop()
