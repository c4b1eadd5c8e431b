"""The parts that a broker is built on: settings that may change, and subscribers to the metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from tests.broker.support import LightBroker


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path, log_retention_ms="1000")


def configure(broker: LightBroker, kind: int, name: str, key: str, value: str | None) -> None:
    broker.commit_metadata([ApiMessageAndVersion(ConfigRecord(kind, name, key, value), 0)])


def test_dynamic_settings_lie_over_the_static_ones_everywhere(broker: LightBroker) -> None:
    node = broker.whole.node
    static = node.config
    configure(broker, ConfigResourceType.BROKER, "1", "log.retention.ms", "7")
    assert node.config is node.logs.config is node.led_metadata.controller.config
    assert (node.config.topic_defaults.retention_ms, static.topic_defaults.retention_ms) == (7, 1000)
    assert node.static_config.topic_defaults.retention_ms == 1000
    configure(broker, ConfigResourceType.BROKER, "1", "log.retention.ms", None)
    assert node.config.topic_defaults.retention_ms == 1000


def test_a_topics_settings_lie_over_those_of_the_broker(broker: LightBroker) -> None:
    node = broker.whole.node
    broker.add("t", retention_ms="5")
    broker.add("u")
    assert [node.topic_config(name).retention_ms for name in "tu"] == [5, 1000]


def test_settings_that_nobody_here_can_read_are_left_out(broker: LightBroker) -> None:
    broker.add("t", retention_ms="5", message_format_version="2.8")
    assert broker.whole.node.topic_overrides("t") == {"retention.ms": "5"}


def test_subscribers_hear_in_the_order_in_which_they_came(broker: LightBroker) -> None:
    heard: list[str] = []
    broker.subscribe(lambda delta: heard.append("first"))
    broker.subscribe(lambda delta: heard.append("second"))
    broker.add("t")
    assert heard[:2] == ["first", "second"]
    assert heard == ["first", "second"] * (len(heard) // 2)


def test_a_subscriber_finds_logs_and_settings_as_they_are_now(broker: LightBroker) -> None:
    found: list[tuple[bool, int]] = []
    broker.subscribe(lambda delta: found.append((broker.logs.exists("t", 0), broker.topic_config("t").retention_ms)))
    broker.add("t", retention_ms="5")
    assert found[0] == (True, 5)


class Machine:
    """A part of a broker that is always due."""

    def __init__(self, defect: Exception | None = None) -> None:
        self.turns = 0
        self._defect = defect

    def next_deadline(self) -> int:
        return 0

    def on_deadline(self, now: int) -> None:
        self.turns += 1
        if self._defect is not None:
            raise self._defect


def test_a_part_with_a_defect_keeps_no_other_from_its_deadline(broker: LightBroker) -> None:
    first, second, sound = Machine(RuntimeError("first")), Machine(RuntimeError("second")), Machine()
    broker.whole.timed[:] = [first, second, sound]
    with pytest.raises(RuntimeError, match="first"):
        broker.whole.on_deadline()
    assert [each.turns for each in (first, second, sound)] == [1, 1, 1]
