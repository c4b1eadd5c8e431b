"""The measured events with a few brokers instead of a hundred: one dies, one leaves, the controller is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.many_brokers import ManyBrokers

pytestmark = pytest.mark.posix("measures the memory of its process")

SESSION_S = 9


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    return {what: figure for what, figure, _ in ManyBrokers(tmp_path_factory.mktemp("many"), 6, 2_000).rows()}


def after(measured: dict[str, float], beginning: str) -> float:
    (found,) = (figure for what, figure in measured.items() if what.startswith(beginning))
    return found


def test_a_broker_that_dies_is_replaced_when_its_session_is_over(measured: dict[str, float]) -> None:
    assert SESSION_S - 3 < after(measured, "a broker dies") < SESSION_S + 2


def test_one_that_leaves_in_order_is_replaced_at_once(measured: dict[str, float]) -> None:
    assert after(measured, "one leaves in order") < 4


def test_nobody_waits_long_for_a_controller_that_is_back(measured: dict[str, float]) -> None:
    assert after(measured, "the controller comes back") < 4


@pytest.mark.skipif("not config.getoption('--slow', default=False)")
def test_a_hundred_brokers_have_two_hundred_thousand_partitions(tmp_path: Path) -> None:
    rows = {what: figure for what, figure, _ in ManyBrokers(tmp_path, 100, 200_000).rows()}
    assert after(rows, "a broker dies") < SESSION_S + 2
    assert rows["the controller when nothing happens"] < 10
