"""A broken application is found with the right verdict, and the same application without the mistake is not accused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import broken_applications as broken
from interop.replayed import places, replayed
from pykafka_broker.control.history.application import Guarantee
from pykafka_broker.testing import KafkaBroker

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
