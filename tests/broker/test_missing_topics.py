"""Topics that nobody asked to create."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.metadata.metadata_source import MetadataLeader
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from tests.broker.support import LightBroker

CONFIG = {
    "num_partitions": "3",
    "offsets_topic_num_partitions": "4",
    "transaction_state_log_num_partitions": "5",
    "share_coordinator_state_topic_num_partitions": "6",
}


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path, **CONFIG)


def test_internal_topics_have_their_own_settings(broker: LightBroker) -> None:
    names = [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, "t"]
    broker.whole.node.create_missing_topics(names)
    assert [len(broker.image.topics[name].partitions) for name in names] == [4, 5, 6, 3]
    assert broker.topic_config(CONSUMER_OFFSETS).cleanup_policy == ["compact"]
    assert broker.topic_config("t").cleanup_policy == ["delete"]


def test_all_of_them_lead_here(broker: LightBroker) -> None:
    broker.whole.node.create_missing_topics(["t"])
    assert {(each.leader, each.isr) for each in broker.image.topics["t"].partitions.values()} == {(1, (1,))}


def test_what_exists_stays_as_it_is(broker: LightBroker) -> None:
    topic_id, end = broker.add("t"), broker.metadata.applied_offset
    broker.whole.node.create_missing_topics(["t"])
    assert (broker.image.topic_id("t"), broker.metadata.applied_offset) == (topic_id, end)


def test_a_name_that_can_be_no_topic_stays_missing(broker: LightBroker) -> None:
    broker.whole.node.create_missing_topics(["not a topic", "t"])
    assert list(broker.image.topics) == ["t"]


def test_a_disk_that_refuses_is_told_to_the_log_alone(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*arguments: Any) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")

    monkeypatch.setattr(MetadataLeader, "commit", refuse)
    broker.whole.node.create_missing_topics(["t", "u"])
    assert list(broker.image.topics) == []
    assert "Could not create t, u: KAFKA_STORAGE_ERROR: No space left on device" in caplog.text
