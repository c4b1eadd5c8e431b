"""Plausibility checks of `bench.capacity`'s figures: all brokers serve, all partitions exist, one broker goes."""

from __future__ import annotations

import pytest

from bench.capacity import LED_BY_ONE, OF_A_TOPIC, Capacity

BROKERS, PARTITIONS = 4, 5_000


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, str]]:
    rows = Capacity(tmp_path_factory.mktemp("capacity"), BROKERS, PARTITIONS).rows()
    return {what: (figure, unit) for what, figure, unit in rows}


@pytest.mark.whole
def test_everything_costs_something(measured: dict[str, tuple[float, str]]) -> None:
    assert all(figure > 0 for what, (figure, unit) in measured.items() if "in the image" not in what)


def test_a_partition_is_some_hundred_bytes(measured: dict[str, tuple[float, str]]) -> None:
    assert 80 < measured["a record of the metadata, in the log"][0] < 200
    assert 20 < measured["a change of a partition, in the log"][0] < 100


def test_every_partition_of_the_broker_that_goes_is_changed(measured: dict[str, tuple[float, str]]) -> None:
    (fencing,) = (what for what in measured if what.startswith("a broker fenced"))
    held = int(fencing.split()[-3].replace(",", ""))
    assert held >= LED_BY_ONE * OF_A_TOPIC
    assert measured["records of that"][0] == held + 1  # and the broker itself
