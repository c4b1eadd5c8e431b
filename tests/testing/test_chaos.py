"""Chaos in tests: lines to paste, and failures cut down."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from pykafka_broker.testing.answers import ChaosHit
from pykafka_broker.testing.chaos import ChaosRun, ChaosSpec, Verdict, line_of, shrunk

NOTHING: dict[str, Any] = {"error": None, "delay_ms": 0, "drop": None, "throttle_ms": 0, "event": None}


def hit(nth: int, **does: Any) -> ChaosHit:
    given: Any = {"client_id": "shop", "api": "Produce", "nth": nth, **NOTHING, **does}
    return given


HITS = [hit(number, delay_ms=number) for number in range(1, 41)]


def test_a_fault_is_a_line_to_paste() -> None:
    told = line_of(hit(7, drop="after"), "kafka_broker")
    assert told == 'kafka_broker.faults.add(client_id="shop", api="Produce", nth=7, drop="after")'
    named: Any = {**hit(1, drop="before"), "client_id": 'the "shop" \\ 1'}
    assert line_of(named, "b") == 'b.faults.add(client_id="the \\"shop\\" \\\\ 1", api="Produce", nth=1, drop="before")'
    of_a_cluster: Any = {**hit(2, error="NOT_CONTROLLER", client_id=None), "node_id": 3}
    told = line_of(of_a_cluster, "kafka_cluster")
    assert told == 'kafka_cluster.faults.on(3).add(api="Produce", nth=2, error="NOT_CONTROLLER")'


class RecordedFaults:
    """A stand-in for a cluster's faults that only notes what is added."""

    def __init__(self) -> None:
        self.added: list[tuple[int, int]] = []
        self.faults = self
        self._broker = 0

    def on(self, broker: int) -> RecordedFaults:
        self._broker = broker
        return self

    def add(self, **given: Any) -> RecordedFaults:
        self.added.append((self._broker, given["nth"]))
        assert not {"start", "node_id"} & given.keys()
        return self


def test_a_fault_of_a_broker_that_was_started_again_is_added_after_that_start() -> None:
    later: Any = {**hit(2, drop="after"), "node_id": 3, "start": 1}
    assert line_of(later, "kafka_cluster").endswith(")  # after start 1 of this broker by the trouble")
    first: Any = {**hit(7, drop="after"), "node_id": 3}
    elsewhere: Any = {**hit(9, drop="after"), "node_id": 1, "start": 1}
    cluster: Any = RecordedFaults()
    run = ChaosRun(ChaosSpec(trouble=["kill"]), 1, [first, later, elsewhere])
    run.begin("kafka_cluster", cluster, cluster)
    assert cluster.added == [(3, 7)]
    run._count_start(3)
    assert cluster.added == [(3, 7), (3, 2)]
    run._count_start(3)
    assert cluster.added == [(3, 7), (3, 2)]


@pytest.mark.parametrize("enough", [{5}, {1, 40}, {3, 17, 31}, {2, 3, 4, 39}], ids=str)
def test_a_failure_is_cut_down_to_what_is_enough(enough: set[int]) -> None:
    runs = 0

    def fails(faults: Sequence[ChaosHit]) -> bool:
        nonlocal runs
        runs += 1
        return enough <= {each["nth"] for each in faults}

    assert {each["nth"] for each in shrunk(HITS, fails, 500)} == enough
    assert runs <= 7 * len(enough)


@pytest.mark.parametrize("seed", range(20))
def test_without_any_one_of_what_is_left_the_test_passes(seed: int) -> None:
    draw = random.Random(seed)
    causes = [set(draw.sample(range(1, 41), draw.randint(1, 4))) for _ in range(draw.randint(1, 3))]

    def fails(faults: Sequence[ChaosHit]) -> bool:
        there = {each["nth"] for each in faults}
        return any(cause <= there for cause in causes)

    left = shrunk(HITS, fails, 1000)
    assert fails(left)
    assert not any(fails([each for each in left if each is not without]) for without in left)


def test_a_fault_that_hides_another_one_is_not_left() -> None:
    def fails(faults: Sequence[ChaosHit]) -> bool:
        there = {each["nth"] for each in faults}
        return 5 in there and (3 not in there or 30 in there)

    assert shrunk(HITS, fails, 100) == [HITS[4]]


def test_runs_have_an_end_and_what_is_left_fails() -> None:
    def fails(faults: Sequence[ChaosHit]) -> bool:
        return {3, 30} <= {each["nth"] for each in faults}

    left = shrunk(HITS, fails, 8)
    assert fails(left)
    assert 2 < len(left) < len(HITS)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seeds": 0}, "seeds must be a number from 1 on"),
        ({"seeds": ["a"]}, "seeds must be a number from 1 on"),
        ({"rate": 0}, "rate is a share of all requests"),
        ({"rate": 1.5}, "rate is a share of all requests"),
        ({"rate": 0, "trouble": ["kill"], "topic": "orders"}, "limit the faults of a rate; trouble is of processes"),
    ],
    ids=str,
)
def test_a_chaos_that_makes_no_sense_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ChaosSpec(**given)


def test_what_is_known_of_a_failure_is_told() -> None:
    run = ChaosRun(ChaosSpec(seeds=[9], events=True), 9)
    assert "is not known" in Verdict(run, 0, None).text()
    run.met = []
    assert "no request met a fault" in Verdict(run, 0, None).text()
    run.met = HITS
    assert "did not fail again within 1 runs" in Verdict(run, 1, None).text()
    assert Verdict(run, 1, None).text().count("faults.add(") == 20
    assert "and 20 more" in Verdict(run, 1, None).text()
    assert "fails without any fault as well" in Verdict(run, 2, []).text()
    text = Verdict(run, 12, HITS[:2]).text()
    assert "seed 9 at rate 0.05 failed; 2 of 40 faults are enough (12 runs):" in text
    assert "the same chaos: @pytest.mark.kafka_chaos(seeds=[9], rate=0.05, events=True)" in text


def test_the_limits_of_a_chaos_are_in_its_marker() -> None:
    run = ChaosRun(ChaosSpec(seeds=[9], api=["Produce", "Fetch"], client_id="shop", topic="orders", group=None), 9)
    run.met = HITS
    marker = '(seeds=[9], rate=0.05, api=["Produce", "Fetch"], client_id="shop", topic="orders")'
    assert Verdict(run, 1, None).text().endswith(marker)
