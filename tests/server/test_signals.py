"""Signals, sent to this process itself; a handler runs before the next line."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pykafka_broker.platform import STOP_SIGNALS
from pykafka_broker.server.signals import StopSignals


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    yield
    for number, handler in zip(STOP_SIGNALS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_the_first_one_stops_and_the_others_are_ignored(number: signal.Signals) -> None:
    stopped: list[str] = []
    signals = StopSignals()
    signals.hand_to(lambda: stopped.append("once"))
    for each in (number, *STOP_SIGNALS):
        signal.raise_signal(each)
    assert stopped == ["once"]


def test_one_that_comes_before_there_is_anything_to_stop_is_not_forgotten() -> None:
    stopped: list[str] = []
    signals = StopSignals()
    assert not signals.asked
    signal.raise_signal(signal.SIGTERM)
    assert signals.asked
    signals.hand_to(lambda: stopped.append("at once"))
    assert stopped == ["at once"]


def test_after_the_end_there_is_nothing_to_stop() -> None:
    stopped: list[str] = []
    signals = StopSignals()
    signals.hand_to(lambda: stopped.append("never"))
    signals.ignore()
    signal.raise_signal(signal.SIGINT)
    assert stopped == []


@pytest.mark.posix("Windows has no SIGHUP")
def test_nohup_stays_in_force() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals = StopSignals()
    signal.raise_signal(signal.SIGHUP)
    assert not signals.asked
