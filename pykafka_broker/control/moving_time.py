"""Time under the control of a test.

Rule: when the clock is moved, everything that falls due on the way is done at its own time, one deadline after the
other, with the work beside the loop that it has led to, before the move is over. Sockets are served in between, at the
time that it is by then. Only on a way of more than a day the upkeep of logs (retention, compaction, checkpoints) is
done less often than every few seconds.
"""

from __future__ import annotations

import asyncio

from pykafka_broker.server.movable_clock import MovableClock
from pykafka_broker.server.serving import Running

_EXACT_MS = 24 * 3_600_000
_MOST_UPKEEPS = 500  # of logs and idle connections, on a way that is longer than that
_STEPS_AT_ONCE = 50  # between which clients are served


class MovingTime:
    """The clock of one process, and what follows it."""

    def __init__(self, running: Running, clock: MovableClock) -> None:
        self.clock = clock
        self._running = running
        self._moves = asyncio.Lock()
        self.frozen = False

    def freeze(self) -> None:
        """The clock stands until it is moved or resumed."""
        self.frozen = True
        self._hold()

    def resume(self) -> None:
        """The clock runs on from where it stands."""
        self.frozen = False
        self._release()

    def reset(self) -> None:
        """It is the system's time again, for timestamps. Intervals go on from where they are."""
        self._hold()
        self.clock.set_wall(self.clock.system_wall())
        self.frozen = False
        self._release()

    async def advance(self, ms: int) -> None:
        """Move both times on by that much."""
        async with self._moves:
            self._hold()
            try:
                await self._go_to(self.clock.now + ms)
            finally:
                self._release()

    async def set_wall(self, wall: int) -> None:
        """It is that time. If it is later than before, all that falls due on the way is done; if it is earlier, only
        the time that goes into records goes back, and no deadline comes later.
        """
        async with self._moves:
            self._hold()
            try:
                if wall > self.clock.wall:
                    await self._go_to(self.clock.now + wall - self.clock.wall)
                self.clock.set_wall(wall)
            finally:
                self._release()

    def _hold(self) -> None:
        if not self.clock.held:
            self.clock.hold()
            self._running.server.hold_timer()

    def _release(self) -> None:
        if not self.frozen and self.clock.held:
            self.clock.release()
            self._running.server.release_timer()

    async def _go_to(self, end: int) -> None:
        server, clock, jobs = self._running.server, self.clock, self._running.jobs
        grain = (end - clock.now) // _MOST_UPKEEPS if end - clock.now > _EXACT_MS else 0
        steps = 0
        while (due := self._next(grain)) <= end:
            clock.move(max(0, due - clock.now))
            server.do_due()
            if not jobs.is_idle:
                await jobs.all_done()
            steps += 1
            if steps % _STEPS_AT_ONCE == 0 or server.next_deadline() <= clock.now:
                await asyncio.sleep(0)  # what is due again at once waits for something that the loop has to do
        clock.move(max(0, end - clock.now))

    def _next(self, grain: int) -> int:
        """When something is due; upkeep that comes every few seconds is done once in `grain`."""
        server = self._running.server
        due, of_clients = server.next_deadline(), server.broker.next_deadline_of_clients()
        later = max(due, self.clock.now + grain)
        return later if of_clients is None else min(later, of_clients)
