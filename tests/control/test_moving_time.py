"""Moves of the clock: where they stop and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from pykafka_broker.control import moving_time
from pykafka_broker.control.moving_time import MovableClock, MovingTime

SECOND_MS, HOUR_MS, DAY_MS = 1_000, 3_600_000, 86_400_000
NEVER = 1 << 60


class Server:
    """A fake server with deadlines of clients and of logs; it stands for the broker and the jobs too.

    done: what was done, each with the ms since the start.
    """

    is_idle = True

    def __init__(self, clock: MovableClock, clients: list[int], logs_every_ms: int = NEVER) -> None:
        self.clock, self.broker, self.begin = clock, self, clock.now
        self.clients = [self.begin + ms for ms in clients]
        self.logs_every_ms = logs_every_ms
        self.logs = self.begin + logs_every_ms
        self.done: list[tuple[str, int]] = []
        self.held = self.resting = False
        self.at_due: Callable[[], object] = lambda: None

    def next_deadline_of_clients(self) -> int | None:
        return self.clients[0] if self.clients else None

    def next_deadline(self) -> int:
        return min([*self.clients[:1], self.logs])

    def do_due(self) -> None:
        assert self.held
        assert self.resting
        now = self.clock.now
        while self.clients and self.clients[0] <= now:
            self.done.append(("client", now - self.begin))
            self.clients.pop(0)
        if self.logs <= now:
            self.done.append(("logs", now - self.begin))
            self.logs = now + self.logs_every_ms
        self.at_due()

    def look_now(self) -> None:
        self.logs = self.clock.now

    def hold_timer(self) -> None:
        self.held = True

    def release_timer(self) -> None:
        self.held = False

    def pause(self) -> None:
        self.resting = True

    def resume(self) -> None:
        self.resting = False


class Running:
    def __init__(self, server: Server) -> None:
        self.server = self.turns = self.jobs = server


def moving(server: Server, clock: MovableClock) -> MovingTime:
    return MovingTime(cast(Any, Running(server)), clock)


def moved(server: Server, ms: int) -> MovingTime:
    time = moving(server, server.clock)
    asyncio.run(time.advance(ms))
    return time


@pytest.fixture
def clock() -> MovableClock:
    clock = MovableClock()
    clock.hold()
    return clock


def server_of(clock: MovableClock, *clients: int, **logs: int) -> Server:
    server = Server(clock, list(clients), **logs)
    server.held = True
    return server


def test_what_is_due_is_done_at_its_own_time_and_in_order(clock: MovableClock) -> None:
    server = server_of(clock, 10, 10, 25, 101, logs_every_ms=20)
    moved(server, 100)
    assert [each for each in server.done if each[0] == "client"] == [("client", 10), ("client", 10), ("client", 25)]
    assert [at for what, at in server.done if what == "logs"] == [20, 40, 60, 80, 100, 100]
    assert server.done == sorted(server.done, key=lambda each: each[1])


def test_where_a_move_ends_logs_are_looked_at(clock: MovableClock) -> None:
    server = server_of(clock)
    moved(server, 7)
    assert server.done == [("logs", 7)]


def test_on_a_long_way_what_comes_back_all_the_time_is_done_a_thousand_times(clock: MovableClock) -> None:
    server = server_of(clock, 45 * SECOND_MS, 23 * HOUR_MS, logs_every_ms=SECOND_MS)
    moved(server, 300 * DAY_MS)
    assert [each for each in server.done if each[0] == "client"] == [
        ("client", 45 * SECOND_MS),
        ("client", 23 * HOUR_MS),
    ]
    assert 900 < len(server.done) < 1_100
    assert server.done[-1] == ("logs", 300 * DAY_MS)


def test_after_the_first_day_deadlines_of_clients_are_late_by_little(clock: MovableClock) -> None:
    every_minute = range(60 * SECOND_MS, 30 * DAY_MS, 60 * SECOND_MS)
    server = server_of(clock, *every_minute)
    moved(server, 30 * DAY_MS)
    done = [at for what, at in server.done if what == "client"]
    assert done[: 24 * 60] == list(every_minute)[: 24 * 60]
    assert max(at - due for at, due in zip(done, every_minute, strict=True)) <= 30 * DAY_MS // 5_000
    assert len(set(done)) < 24 * 60 + 5_000


def test_deadlines_twice_a_second_are_exact_for_five_thousand_stops(clock: MovableClock) -> None:
    """A controller has such deadlines, and a move of days would take minutes."""
    way = 2 * HOUR_MS
    twice_a_second = range(500, way, 500)
    server = server_of(clock, *twice_a_second)
    moved(server, way)
    done = [at for what, at in server.done if what == "client"]
    assert done[:5_000] == list(twice_a_second)[:5_000]
    assert max(at - due for at, due in zip(done, twice_a_second, strict=True)) <= way // 5_000
    assert len(set(done)) < 10_000


def test_what_is_due_without_end_ends_the_move(clock: MovableClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_time, "_MOST_AT_ONCE", 20)
    server = server_of(clock, 5)
    server.at_due = lambda: server.clients.append(0)
    with pytest.raises(RuntimeError, match="something is due at 0 however often it is done"):
        moved(server, 10)
    assert not server.resting
    assert not server.held


@pytest.mark.parametrize("step", [MovingTime.resume, MovingTime.reset])
def test_in_the_middle_of_a_move_the_clock_does_not_run(clock: MovableClock, step: Callable[[Any], None]) -> None:
    server = server_of(clock, 10, 20)
    time = moving(server, clock)
    time.frozen = True
    server.at_due = lambda: step(time)
    asyncio.run(time.advance(100))
    assert server.done == [("client", 10), ("client", 20), ("logs", 100)]
    assert clock.now >= server.begin + 100
    assert not clock.held


def test_after_a_reset_in_the_middle_of_a_move_timestamps_are_the_systems(clock: MovableClock) -> None:
    server = server_of(clock, 10, 20 * DAY_MS)
    time = moving(server, clock)
    wall = clock.wall
    server.at_due = lambda: time.reset() if len(server.done) == 1 else None
    asyncio.run(time.advance(30 * DAY_MS))
    assert clock.wall - wall < DAY_MS
    assert clock.now >= server.begin + 30 * DAY_MS
    asyncio.run(time.advance(30 * DAY_MS))
    assert clock.wall - wall >= 30 * DAY_MS
