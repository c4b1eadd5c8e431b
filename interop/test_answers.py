"""Every answer that was recorded from a real Kafka, asked of the target again."""

import json

import pytest

from interop.answers.__main__ import RECORDED, SETTLE_S
from interop.answers.areas import AREAS
from interop.answers.script import differences, run, scenarios_of

pytestmark = pytest.mark.one_broker("that is what was asked when they were recorded")

ALL = [(area, name) for area, module in AREAS.items() for name in scenarios_of(module)]


@pytest.mark.parametrize(("area", "name"), ALL, ids=[f"{area}-{name}" for area, name in ALL])
def test_answers_are_those_of_kafka(area: str, name: str, bootstrap: str, target_name: str) -> None:
    expected = json.loads((RECORDED / f"{area}.json").read_text())[name]
    settle_s = 0.0 if target_name == "pykafka" else SETTLE_S
    found = run(name, scenarios_of(AREAS[area])[name], bootstrap, settle_s)
    assert [answer["ask"] for answer in found] == [answer["ask"] for answer in expected]
    different = [
        f"{ours['api']}, {ours['ask']}: {difference}"
        for ours, theirs in zip(found, expected, strict=True)
        for difference in differences(ours["answer"], theirs["answer"])
    ]
    assert not different, "\n".join(different)


def test_each_scenario_has_topics_of_its_own() -> None:
    """Each scenario has topics of its own, named after it: Kafka was asked all scenarios one after the other."""
    names = [name for _, name in ALL]
    assert len(names) == len(set(names))
