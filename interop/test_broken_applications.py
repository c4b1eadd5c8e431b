"""A broken application is found with the right verdict, and the same application without the mistake is not accused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from interop import broken_applications as broken
from interop.replayed import places, replayed
from pykafka_broker.control.history.application import Guarantee
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.chaos import ChaosRun, ChaosSpec, shrunk

pytestmark = pytest.mark.ours_only

CATALOGUE: list[tuple[broken.Application, set[str], Guarantee, set[str]]] = [
    # application, anomalies of the broker's history, guarantee, what the application has done
    (broken.commits_first, set(), "exactly_once", {"lost"}),
    (broken.retries_without_idempotence, {"duplicate"}, "exactly_once", {"doubled"}),
    (broken.swallows_errors, set(), "exactly_once", {"lost"}),
    (broken.reads_uncommitted, {"aborted read"}, "exactly_once", {"invented"}),
    (broken.zombie, set(), "exactly_once", {"doubled"}),
    (broken.commits_the_end, {"commit ahead of fetch"}, "at_least_once", {"lost"}),
    (broken.rebalance_listener_forgets, set(), "at_least_once", {"lost"}),
    (broken.seeks_back, {"nonmonotonic poll"}, "exactly_once", {"doubled"}),
    (broken.commits_automatically, set(), "at_least_once", {"lost"}),
]
IDS = [each[0].__name__ for each in CATALOGUE]


@pytest.fixture(scope="module")
def whole_run() -> Iterator[KafkaBroker]:
    with KafkaBroker(history=True) as broker:
        yield broker


@pytest.fixture
def broker(whole_run: KafkaBroker) -> KafkaBroker:
    whole_run.reset()
    broken.fill(whole_run)
    whole_run.start_recording()
    return whole_run


def kinds(broker: KafkaBroker) -> set[str]:
    return {each.anomaly for each in broker.check(raises=False)}


@pytest.mark.parametrize(("application", "anomalies", "guarantee", "verdict"), CATALOGUE, ids=IDS)
def test_a_mistake_is_found_and_found_again_when_the_run_is_played(
    broker: KafkaBroker,
    application: broken.Application,
    anomalies: set[str],
    guarantee: Guarantee,
    verdict: set[str],
    tmp_path: Path,
) -> None:
    application(broker, False)
    assert kinds(broker) == anomalies
    found = broker.check(input="orders", output="billed", guarantee=guarantee, raises=False)
    assert {each.anomaly for each in found} == verdict, [each.lines for each in found]
    assert all(each.way for each in found)
    with replayed(broker, tmp_path / "run.jsonl") as (again, differences):
        assert list(map(str, differences)) == []
        assert kinds(again) == anomalies
        repeated = again.check(input="orders", output="billed", guarantee=guarantee, raises=False)
        assert places(repeated) == places(found)


@pytest.mark.parametrize("application", [each[0] for each in CATALOGUE], ids=IDS)
def test_the_right_application_is_not_accused(broker: KafkaBroker, application: broken.Application) -> None:
    application(broker, True)
    broker.check()
    broker.check(input="orders", output="billed")


def test_batches_behind_later_ones_are_out_of_order(broker: KafkaBroker, tmp_path: Path) -> None:
    broken.reorders(broker, right=False)
    (found,) = broker.check(raises=False)
    assert found.anomaly == "out of order"
    assert "before orders-0@20" in found.text
    assert "NOT_ENOUGH_REPLICAS" in found.text
    with replayed(broker, tmp_path / "run.jsonl") as (again, differences):
        assert list(map(str, differences)) == []
        assert places(again.check(raises=False)) == places([found])


def test_a_retry_that_keeps_the_order_is_not_accused(broker: KafkaBroker) -> None:
    broken.reorders(broker, right=True)
    broker.check()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nobody_is_accused_of_what_chaos_does(broker: KafkaBroker, seed: int) -> None:
    broker.chaos(seed, 0.05)
    broken.shares_its_work(broker)
    broker.faults.clear()
    broker.check(seen_by="billing")
    broker.check(input="orders", output="billed", guarantee="at_least_once")


class WithoutOwnFaults:
    """A broker that an application adds no faults to: those of the chaos are enough."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self.faults = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def add(self, **fault: Any) -> None:
        """Add nothing."""


RATE, SEEDS, MOST_FAULTS = 0.3, 20, 3
# The others make their mistake without any fault, or with the one that they add: nothing is left to be cut down.
OF_CHAOS: list[tuple[broken.Application, str, Guarantee | None]] = [
    (broken.retries_without_idempotence, "doubled", "exactly_once"),
    (broken.reorders, "out of order", None),
]


@pytest.mark.parametrize(
    ("application", "verdict", "guarantee"),
    [pytest.param(*each, marks=mark) for each, mark in zip(OF_CHAOS, ([pytest.mark.slow], []), strict=True)],
    ids=[each[0].__name__ for each in OF_CHAOS],
)
def test_chaos_shrinks_a_mistake_to_few_faults(
    whole_run: KafkaBroker, application: broken.Application, verdict: str, guarantee: Guarantee | None
) -> None:
    broker: Any = WithoutOwnFaults(whole_run)

    def met_by(seed: int, faults: Sequence[Any] | None = None) -> Sequence[Any] | None:
        """Run the application; return the faults that it met if the verdict is right, otherwise None."""
        whole_run.reset()
        broken.fill(whole_run)
        run = ChaosRun(ChaosSpec.of([seed], RATE), seed, faults)
        run.begin("kafka_broker", whole_run.faults)
        with suppress(Exception):  # chaos may end an application that can't recover
            application(broker, False)
        run.end()
        asked: dict[str, Any] = (
            {} if guarantee is None else {"input": "orders", "output": "billed", "guarantee": guarantee}
        )
        found = {each.anomaly for each in whole_run.check(**asked, raises=False)}
        return (faults if run.met is None else run.met) if verdict in found else None

    seed, met = next((seed, met) for seed in range(1, SEEDS + 1) if (met := met_by(seed)) is not None)
    assert met_by(seed, []) is None
    enough = shrunk(met, lambda faults: met_by(seed, faults) is not None, 40)
    assert 1 <= len(enough) <= MOST_FAULTS
    assert met_by(seed, enough) is not None
