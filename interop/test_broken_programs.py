"""Broken applications in Java, Go and Node are found with the right verdict, and right ones are not accused.

One mistake of each language is made in every run, the others and the right applications with `--slow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop import broken_applications, broken_programs
from interop.broken_programs import LANGUAGES
from interop.replayed import places, replayed
from pykafka_broker.control.history.application import Guarantee
from pykafka_broker.testing import KafkaBroker

pytestmark = pytest.mark.ours_only

MISTAKES: dict[str, tuple[set[str], Guarantee, set[str]]] = {
    # anomalies of the broker's history, guarantee, what the application has done
    "commits_first": (set(), "at_least_once", {"lost"}),
    "retries_without_idempotence": ({"duplicate"}, "exactly_once", {"doubled"}),
    "swallows_errors": (set(), "at_least_once", {"lost"}),
    "reads_uncommitted": ({"aborted read"}, "exactly_once", {"invented"}),
}
UNSEEN = {("node", "retries_without_idempotence")}  # KafkaJS makes a new batch for each attempt
ALWAYS = {("java", "reads_uncommitted"), ("go", "commits_first"), ("node", "retries_without_idempotence")}
CASES = [(language, name) for language in LANGUAGES for name in MISTAKES]


def case(language: str, name: str, *, always: bool) -> Any:
    return pytest.param(language, name, marks=[] if always else pytest.mark.slow, id=f"{language}-{name}")


@pytest.fixture(scope="module")
def whole_run() -> Iterator[KafkaBroker]:
    with KafkaBroker(history=True) as broker:
        yield broker


@pytest.fixture
def broker(whole_run: KafkaBroker) -> KafkaBroker:
    whole_run.reset()
    broken_applications.fill(whole_run)
    whole_run.start_recording()
    return whole_run


def run(language: str, name: str, broker: KafkaBroker, *, right: bool) -> None:
    """Run an application under the fault with which its mistake shows."""
    broker.faults.add(api="Produce", times=1, **broken_programs.FAULTS[name])
    broken_programs.run(language, name, broker, right)


@pytest.mark.parametrize(("language", "name"), [case(*each, always=each in ALWAYS) for each in CASES])
def test_a_mistake_is_found_and_found_again_when_the_run_is_played(
    broker: KafkaBroker, language: str, name: str, tmp_path: Path
) -> None:
    anomalies, guarantee, verdict = MISTAKES[name]
    run(language, name, broker, right=False)
    assert {each.anomaly for each in broker.check(raises=False)} == (set() if (language, name) in UNSEEN else anomalies)
    found = broker.check(input="orders", output="billed", guarantee=guarantee, raises=False)
    assert {each.anomaly for each in found} == verdict, [each.lines for each in found]
    assert all("biller" in "".join(each.way) or each.anomaly == "lost" for each in found)
    with replayed(broker, tmp_path / "run.jsonl") as (again, differences):
        assert list(map(str, differences)) == []
        assert places(again.check(raises=False)) == places(broker.check(raises=False))
        repeated = again.check(input="orders", output="billed", guarantee=guarantee, raises=False)
        assert places(repeated) == places(found)


@pytest.mark.slow
@pytest.mark.parametrize(("language", "name"), CASES)
def test_the_right_application_is_not_accused(broker: KafkaBroker, language: str, name: str, tmp_path: Path) -> None:
    run(language, name, broker, right=True)
    with replayed(broker, tmp_path / "run.jsonl") as (again, differences):
        assert list(map(str, differences)) == []
        for each in (broker, again):
            each.check()
            each.check(input="orders", output="billed", order="key")
