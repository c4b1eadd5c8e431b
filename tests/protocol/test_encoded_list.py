"""Messages whose long list is encoded before them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.protocol.encoded_list import elements_in_steps, encode_with
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from pykafka_broker.protocol.stored.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from pykafka_broker.protocol.stored.share_snapshot_value import ShareSnapshotValue
from pykafka_broker.protocol.stored.share_update_value import ShareUpdateValue, StateBatch
from pykafka_broker.protocol.stored.streams_group_topology_value import StreamsGroupTopologyValue, Subtopology
from pykafka_broker.steps import at_once

NAMES = [f"topic-{number}" * (number % 30) for number in range(1000)]
RUNS = [StateBatch(number, number + 1, 2, 3) for number in range(1000)]
KINDS: list[tuple[Message, str, list[Any]]] = [
    (ConsumerGroupMemberMetadataValue("i", None, "c", "/h", [], "x" * 300), "subscribed_topic_names", NAMES),
    (ShareGroupMemberMetadataValue("r", "c", "/h"), "subscribed_topic_names", NAMES),
    (ShareUpdateValue(1, 2, 3, 4), "state_batches", RUNS),
    (ShareSnapshotValue(1, 2, 3, 4, 5, 6, 7), "state_batches", RUNS),
    (StreamsGroupTopologyValue(7), "subtopologies", [Subtopology(name, [name] * 3) for name in NAMES]),
]


@pytest.mark.parametrize(("message", "name", "items"), KINDS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("count", [0, 1, 126, 127, 400, 1000])
def test_the_bytes_are_those_of_the_whole_message(message: Message, name: str, items: list[Any], count: int) -> None:
    encoded = at_once(elements_in_steps(type(message)(), 0, name, items[:count]))
    setattr(message, name, items[:count])
    assert encode_with(message, 0, name, encoded) == message.encode(0)
    assert getattr(message, name) == items[:count]


def test_very_many_are_encoded_in_steps() -> None:
    assert len([*elements_in_steps(ShareUpdateValue(), 0, "state_batches", RUNS * 4)]) == 10
