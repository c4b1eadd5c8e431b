"""Long answers written in steps: the bytes are the same, and no step writes more than its share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.protocol import splitting
from pykafka_broker.protocol.cutting import PART_ITEMS
from pykafka_broker.protocol.messages.share_fetch_response import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from pykafka_broker.protocol.splitting import written
from tests.protocol.test_round_trip import struct_values
from tests.protocol.values import examples, message_class, messages

ANSWERS = [
    "AddPartitionsToTxnResponse",
    "CreateTopicsResponse",
    "DeleteTopicsResponse",
    "DescribeLogDirsResponse",
    "DescribeTopicPartitionsResponse",
    "ListTransactionsResponse",
    "ShareAcknowledgeResponse",
    "ShareFetchResponse",
    "WriteTxnMarkersResponse",
]


def steps_and_bytes(answer: Any, version: int) -> tuple[int, bytes]:
    work = written(answer, version)
    steps = 0
    while True:
        try:
            next(work)
            steps += 1
        except StopIteration as end:
            pieces: list[Any] = []
            end.value.write(version, pieces.append)
            return steps, b"".join(pieces)


def without_nulls(struct: Any) -> None:
    """No list of an answer that is written so is null."""
    for name in struct.__match_args__:
        value = getattr(struct, name)
        if value is None and isinstance(getattr(type(struct)(), name), list):
            setattr(struct, name, [])
        for element in value if isinstance(value, list) else ():
            if hasattr(element, "__match_args__"):
                without_nulls(element)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_long_answer_has_the_bytes_that_it_would_have_in_one_go(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "PART_ITEMS", 2)
    monkeypatch.setattr(splitting, "_FEW", 1)
    message = messages()[name]
    kind = message_class(message)

    @examples(60)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(list(message.versions)))
        answer = data.draw(struct_values(message, message.root, version))
        without_nulls(answer)
        body = answer.encode(version)
        assert steps_and_bytes(kind.decode(body, version), version)[1] == body

    check()


def test_a_topic_with_very_many_partitions_is_written_some_at_a_time() -> None:
    partitions = [PartitionData(number, records=b"") for number in range(10_000)]
    answer = ShareFetchResponse(responses=[ShareFetchableTopicResponse(b"1" * 16, partitions)])
    whole = answer.encode(1)
    assert steps_and_bytes(answer, 1) == (10_000 // PART_ITEMS, whole)
    assert not partitions


def test_a_short_answer_is_given_back() -> None:
    answer = ShareFetchResponse(responses=[ShareFetchableTopicResponse(b"1" * 16, [PartitionData(1, records=b"")])])
    assert [*written(answer, 1)] == []
    assert answer.responses[0].partitions
