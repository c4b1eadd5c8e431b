"""Time under the control of a test: a clock to stop and to move, and the work due on the way.

Rule: `now` never goes back, and a stopped clock never ticks. A move stops at each deadline on the way, in order, and
does the work of that time, with the jobs that follow from it, before it goes on. At the end logs and idle connections
are looked at once more. Clients are not served during a move, as if all clients had been silent for the time. A long
move does not stop at every deadline: see `_Way`.
"""

from __future__ import annotations

import asyncio

from pykafka_broker.server.event_loop import SystemClock
from pykafka_broker.server.server import Server
from pykafka_broker.server.serving import Running


class MovableClock(SystemClock):
    """A clock running with the system's clocks at a distance, ahead after moves, behind after stops.

    held: stopped until `release`.
    """

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
        """Stop the clock now."""
        self.tick()
        self.held = True

    def move(self, ms: int) -> None:
        """Move both times on by `ms`, which is not negative; the clock is held."""
        self.set(self.now + ms, self.wall + ms)

    def set_wall(self, wall: int) -> None:
        """Set the time for timestamps; deadlines stay in place. The clock is held."""
        self.wall = wall

    def system_wall(self) -> int:
        """Return the system's wall-clock time."""
        system = SystemClock()
        system.tick()
        return system.wall

    def release(self) -> None:
        """Run on from the present time, where it is held."""
        if not self.held:
            return
        now, wall = self.now, self.wall
        super().tick()
        self._ahead, self._wall_ahead = now - self.now, wall - self.wall
        self.held = False
        self.set(now, wall)


_HOUR_MS = 3_600_000
_MOST_LOOKS = 1_000
_MOST_STOPS = 5_000
_MOST_AT_ONCE = 100_000  # stops at the same time; more would never end
_ROUNDS_BEFORE = 2  # rounds of the loop, which serve requests sent by now before time goes on
_STOPS_AT_ONCE = 50  # the control API is served after as many stops


class MovingTime:
    """The clock of a process, moved together with all time-dependent work."""

    def __init__(self, running: Running, clock: MovableClock) -> None:
        self.clock = clock
        self._running = running
        self._moves = asyncio.Lock()
        self._was_reset = False  # in the present move
        self.frozen = False

    def freeze(self) -> None:
        """Stop the clock until the next move or `resume`."""
        self.frozen = True
        self._hold()

    def resume(self) -> None:
        """Let the clock run on; a move under way ends first."""
        self.frozen = False
        if not self._moves.locked():
            self._release()

    def reset(self) -> None:
        """Set timestamps to the system's time again. Intervals continue unchanged, those of a move under way too."""
        self._was_reset = True
        self._hold()
        self.clock.set_wall(self.clock.system_wall())
        self.resume()

    async def advance(self, ms: int) -> None:
        """Move both times on by `ms`."""
        async with self._moves:
            await self._move(ms)

    async def set_wall(self, wall: int) -> None:
        """Set the time.

        Forwards, everything that falls due on the way is done; backwards, only the time for records goes back, and no
        deadline comes later.
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
        self._was_reset = False
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
        while (stop := way.next_stop(server, clock.now, stops)) <= end:
            at_once = at_once + 1 if stop <= clock.now else 0
            if at_once > _MOST_AT_ONCE:
                raise RuntimeError(f"something is due at {stop} however often it is done")
            self._go_on(max(0, stop - clock.now))
            await self._do_due()
            stops += 1
            if stops % _STOPS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._go_on(max(0, end - clock.now))

    def _go_on(self, ms: int) -> None:
        """Move the clock; after a reset the time for timestamps stays the system's."""
        wall = self.clock.wall
        self.clock.move(ms)
        if self._was_reset:
            self.clock.set_wall(wall)

    async def _do_due(self) -> None:
        server, jobs = self._running.server, self._running.jobs
        server.do_due()
        if not jobs.is_idle:
            await jobs.all_done()
        if server.next_deadline() <= self.clock.now:
            await asyncio.sleep(0)  # a step that is due again at once waits for work of the loop


class _Way:
    """The stops on a way through time.

    Up to an hour there is one at each deadline. On a longer way, periodic checks (logs for maintenance, connections for
    idleness) are done a thousand times in all. Deadlines of groups, transactions and requests are exact for the first
    day, and for the first five thousand stops, as a node of a cluster has two each second. After that only periodic
    ones are left, and a five-thousandth part of the way matters little.
    """

    def __init__(self, begin: int, end: int) -> None:
        length = end - begin
        self._look_pause = length // _MOST_LOOKS if length > _HOUR_MS else 0
        self._pause = length // _MOST_STOPS if length > _HOUR_MS else 0
        self._exact_until = begin + 24 * _HOUR_MS

    def next_stop(self, server: Server, now: int, stops: int) -> int:
        due, of_clients = server.next_deadline(), server.broker.next_deadline_of_clients()
        stop = max(due, now + self._look_pause)
        if of_clients is None:
            return stop
        is_exact = now < self._exact_until and stops < _MOST_STOPS
        return min(stop, of_clients if is_exact else max(of_clients, now + self._pause))
