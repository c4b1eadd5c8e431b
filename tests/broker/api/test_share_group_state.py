"""The state of share partitions: what the recorded answers don't show."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from pykafka_broker.protocol.messages.initialize_share_group_state_request import PartitionData as Initialized
from pykafka_broker.protocol.messages.write_share_group_state_request import (
    PartitionData,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from tests.broker.api.real_broker import RealBroker


# As a real 4.4.0 broker answered.
@pytest.mark.parametrize(
    ("count", "code", "message"),
    [
        (50_000, ErrorCode.NONE, None),
        (
            55_000,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            (
                "Unable to write share group state: The request included a message larger than the max message size "
                "the server will accept."
            ),
        ),
    ],
)
def test_more_than_a_record_can_hold_is_refused(tmp_path: Path, count: int, code: int, message: str | None) -> None:
    node = RealBroker(tmp_path, **{"share.coordinator.state.topic.num.partitions": "1"})
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    topic_id = node.broker.image.topics["t"].id
    node.call(InitializeShareGroupStateRequest("g", [InitializeStateData(topic_id, [Initialized(0, 0, 0)])]), 0)
    batches = [StateBatch(2 * number, 2 * number, 2, 1) for number in range(count)]
    asked = WriteStateData(topic_id, [PartitionData(0, 0, 0, 0, state_batches=batches)])
    (answered,) = node.call(WriteShareGroupStateRequest("g", [asked]), 0).results[0].partitions
    assert (answered.error_code, answered.error_message) == (code, message)
