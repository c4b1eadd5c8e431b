"""Time under the control of a test: a clock that can be stopped and moved, and what falls due on the way.

Rule: moved or not, `now` never goes back, and a stopped clock never ticks. When the clock is moved, everything that
falls due on the way is done at its own time, one deadline after the other, together with the work beside the loop that
it leads to, before the move is over; where a move ends, logs and idle connections are looked at once more. Clients are
not served in between, as if all of them had been silent that long. A long way does not stop at every deadline: see
`_Way`.
"""

from __future__ import annotations

import asyncio

from pykafka_broker.server.server import Server
from pykafka_broker.server.serving import Running
from pykafka_broker.server.system_clock import SystemClock


class MovableClock(SystemClock):
    """Runs with the system's clocks, so far ahead of them as it was moved; behind them after it was held.

    held: it stands still until `release`.
    """

    __slots__ = ("_ahead", "_wall_ahead", "held")

    def __init__(self) -> None:
        super().__init__()
        self._ahead = self._wall_ahead = 0
        self.held = False

    def tick(self) -> int:
        if self.held:
            return self.now
        super().tick()
        self.wall += self._wall_ahead
        self.now += self._ahead
        return self.now

    def hold(self) -> None:
        """Let it stand at this moment."""
        self.tick()
        self.held = True

    def move(self, ms: int) -> None:
        """Both times go on by that much, which is not negative; the clock is held."""
        self.set(self.now + ms, self.wall + ms)

    def set_wall(self, wall: int) -> None:
        """It is that time, for timestamps; deadlines go on from where they are. The clock is held."""
        self.wall = wall

    def system_wall(self) -> int:
        """What time it is outside."""
        system = SystemClock()
        system.tick()
        return system.wall

    def release(self) -> None:
        """Run on from where it stands."""
        now, wall = self.now, self.wall
        super().tick()
        self._ahead, self._wall_ahead = now - self.now, wall - self.wall
        self.held = False
        self.set(now, wall)


_HOUR_MS = 3_600_000
_MOST_LOOKS = 1_000
_MOST_STOPS = 5_000
_MOST_AT_ONCE = 100_000  # stops at the same time: more of them would have no end
_ROUNDS_BEFORE = 2  # of the loop: what clients have sent by now is served before time goes on
_STOPS_AT_ONCE = 50  # between which the control API is served


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
        """The clock runs on from where it stands; a move that is on its way comes to its end first."""
        self.frozen = False
        if not self._moves.locked():
            self._release()

    def reset(self) -> None:
        """It is the system's time again, for timestamps. Intervals go on from where they are."""
        self._hold()
        self.clock.set_wall(self.clock.system_wall())
        self.resume()

    async def advance(self, ms: int) -> None:
        """Move both times on by that much."""
        async with self._moves:
            await self._move(ms)

    async def set_wall(self, wall: int) -> None:
        """It is that time. If it is later than before, all that falls due on the way is done; if it is earlier, only
        the time that goes into records goes back, and no deadline comes later.
        """
        async with self._moves:
            self._hold()
            if wall > self.clock.wall:
                await self._move(wall - self.clock.wall)
            else:
                self.clock.set_wall(wall)
                self._release()

    async def _move(self, ms: int) -> None:
        turns = self._running.turns
        for _ in range(_ROUNDS_BEFORE):
            await asyncio.sleep(0)
        self._hold()
        turns.pause()
        try:
            await self._go_to(self.clock.now + ms)
            self._running.server.look_now()
            await self._go_to(self.clock.now)
        finally:
            turns.resume()
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
        server, clock = self._running.server, self.clock
        way = _Way(clock.now, end)
        stops = at_once = 0
        while (stop := way.next_stop(server, clock.now)) <= end:
            at_once = at_once + 1 if stop <= clock.now else 0
            if at_once > _MOST_AT_ONCE:
                raise RuntimeError(f"something is due at {stop} however often it is done")
            clock.move(max(0, stop - clock.now))
            await self._do_due()
            stops += 1
            if stops % _STOPS_AT_ONCE == 0:
                await asyncio.sleep(0)
        clock.move(max(0, end - clock.now))

    async def _do_due(self) -> None:
        server, jobs = self._running.server, self._running.jobs
        server.do_due()
        if not jobs.is_idle:
            await jobs.all_done()
        if server.next_deadline() <= self.clock.now:
            await asyncio.sleep(0)  # what is due again at once waits for something that the loop has to do


class _Way:
    """Where to stop on it.

    Up to an hour that is at each deadline. On a longer way what comes back every few seconds (looking at logs for what
    is to be done, at connections for who is idle) is done a thousand times in all. Deadlines of groups, transactions
    and requests are exact for the first day; after that only what comes back time and again is left of them, and a
    five-thousandth part of the way matters little.
    """

    def __init__(self, begin: int, end: int) -> None:
        length = end - begin
        self._look_pause = length // _MOST_LOOKS if length > _HOUR_MS else 0
        self._pause = length // _MOST_STOPS
        self._exact_until = begin + 24 * _HOUR_MS

    def next_stop(self, server: Server, now: int) -> int:
        due, of_clients = server.next_deadline(), server.broker.next_deadline_of_clients()
        stop = max(due, now + self._look_pause)
        if of_clients is None:
            return stop
        return min(stop, of_clients if now < self._exact_until else max(of_clients, now + self._pause))
