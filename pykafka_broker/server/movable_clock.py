"""The clock of a process whose control API is open: it can be stopped and moved.

Rule: moved or not, `now` never goes back. While it is held nothing ticks, and who holds it moves it.
"""

from __future__ import annotations

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
