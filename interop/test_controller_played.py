"""A controller of ours as a process, among brokers that are played: it answers and writes what Kafka's did.

The requests are those that were asked of a real controller (`tests/cluster/recorder/`). Topic ids and where records lie
in the log are each cluster's own; all else is compared.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from interop.kafka_cluster import OURS
from pykafka_broker.cluster.records import RecordType
from pykafka_broker.protocol.runtime import Fields
from tests.cluster.recorded import Step, steps
from tests.cluster.recorder.scripts import SECTIONS
from tests.cluster.recorder.stage import Stage

OF_EACH = ("incarnation_id", "broker_epoch", "configs", "features", "end_points")


@pytest.mark.parametrize(
    "section", ["alter_partition", "unregistration", "features_of_brokers", "minimum", "old_metadata_3.6-IV0"]
)
def test_it_does_as_kafka_did(section: str) -> None:
    script, settings = SECTIONS[section]
    lines: list[str] = []
    with Stage(section, settings, lines, OURS) as stage:
        script(stage)
    theirs = [step for step in steps() if step.section == section]
    for ours, expected in zip(seen(list(steps(lines))), seen(theirs), strict=True):
        assert ours == expected


def seen(of_section: list[Step]) -> list[Any]:
    names: dict[bytes, str] = {}
    found = []
    for step in of_section:
        for record in step.records:
            if record.message.API_KEY == RecordType.TOPIC:
                names[record.message.topic_id] = record.message.name
        records = [
            [type(record.message).__name__, record.version, plain(record.message, names)] for record in step.records
        ]
        found.append((step.what, plain(step.answer, names), sorted(records, key=json.dumps)))
    return found


def plain(value: Any, names: dict[bytes, str]) -> Any:
    if isinstance(value, Fields):
        return {name: plain(getattr(value, name), names) for name in value.__match_args__ if name not in OF_EACH}
    if isinstance(value, list):
        return [plain(item, names) for item in value]
    return names.get(value, value.hex()) if isinstance(value, bytes) else value
