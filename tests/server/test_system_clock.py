"""The clock that is set from the system's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pykafka_broker.server.event_loop import SystemClock


def test_it_stands_still_until_it_ticks_and_goes_on_steadily_whatever_becomes_of_the_wall_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall, steady = 1_700_000_000.0, 5.0
    monkeypatch.setattr(
        "pykafka_broker.server.event_loop.time", SimpleNamespace(time=lambda: wall, monotonic=lambda: steady)
    )
    clock = SystemClock()
    assert (clock.now, clock.wall) == (1_700_000_000_000, 1_700_000_000_000)
    wall, steady = wall - 1200, steady + 0.5
    assert (clock.now, clock.wall) == (1_700_000_000_000, 1_700_000_000_000)
    assert clock.tick() == 1_700_000_000_500
    assert (clock.now, clock.wall) == (1_700_000_000_500, 1_699_998_800_000)
