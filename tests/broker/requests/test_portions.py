"""Answers that are encoded while they grow."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.broker.requests import encoded_reply
from pykafka_broker.broker.requests.encoded_reply import EncodedReply, Portions
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import (
    consumer_group_describe_response,
    delete_share_group_state_response,
    describe_configs_response,
    describe_delegation_token_response,
    describe_groups_response,
    describe_producers_response,
    describe_share_group_offsets_response,
    describe_transactions_response,
    initialize_share_group_state_response,
    offset_fetch_response,
    read_share_group_state_response,
    read_share_group_state_summary_response,
    share_group_describe_response,
    streams_group_describe_response,
    write_share_group_state_response,
)
from pykafka_broker.protocol.runtime import Message

# Responses, their arrays, the element of it, and the first version.
KINDS: list[tuple[type[Message], str, Any, int]] = [
    (
        describe_configs_response.DescribeConfigsResponse,
        "results",
        describe_configs_response.DescribeConfigsResult(),
        0,
    ),
    (describe_groups_response.DescribeGroupsResponse, "groups", describe_groups_response.DescribedGroup(), 0),
    (
        describe_delegation_token_response.DescribeDelegationTokenResponse,
        "tokens",
        describe_delegation_token_response.DescribedDelegationToken(),
        1,
    ),
    (offset_fetch_response.OffsetFetchResponse, "groups", offset_fetch_response.OffsetFetchResponseGroup("g", []), 8),
]
KINDS += [
    (response, "groups", module.DescribedGroup(group_id="g"), response.MIN_VERSION)
    for module, response in (
        (consumer_group_describe_response, consumer_group_describe_response.ConsumerGroupDescribeResponse),
        (share_group_describe_response, share_group_describe_response.ShareGroupDescribeResponse),
        (streams_group_describe_response, streams_group_describe_response.StreamsGroupDescribeResponse),
    )
]
KINDS += [
    (
        describe_transactions_response.DescribeTransactionsResponse,
        "transaction_states",
        describe_transactions_response.TransactionState(),
        0,
    ),
    (describe_producers_response.DescribeProducersResponse, "topics", describe_producers_response.TopicResponse(), 0),
    (
        describe_share_group_offsets_response.DescribeShareGroupOffsetsResponse,
        "groups",
        describe_share_group_offsets_response.DescribeShareGroupOffsetsResponseGroup("g"),
        0,
    ),
]
KINDS += [
    (response, "results", element, 0)
    for response, element in (
        (
            initialize_share_group_state_response.InitializeShareGroupStateResponse,
            initialize_share_group_state_response.InitializeStateResult(),
        ),
        (
            read_share_group_state_response.ReadShareGroupStateResponse,
            read_share_group_state_response.ReadStateResult(),
        ),
        (
            write_share_group_state_response.WriteShareGroupStateResponse,
            write_share_group_state_response.WriteStateResult(),
        ),
        (
            delete_share_group_state_response.DeleteShareGroupStateResponse,
            delete_share_group_state_response.DeleteStateResult(),
        ),
        (
            read_share_group_state_summary_response.ReadShareGroupStateSummaryResponse,
            read_share_group_state_summary_response.ReadStateSummaryResult(),
        ),
    )
]


def bytes_of(reply: Any, version: int) -> bytes:
    pieces: list[bytes] = []
    reply.write(version, pieces.append)
    return b"".join(pieces)


@pytest.mark.parametrize(("kind", "field", "element", "first"), KINDS, ids=[each[0].__name__ for each in KINDS])
def test_portions_together_are_the_whole(kind: type[Message], field: str, element: Any, first: int) -> None:
    for version in range(first, kind.MAX_VERSION + 1):
        for count in (0, 3, 300):
            behind = 4 if kind is describe_delegation_token_response.DescribeDelegationTokenResponse else 0
            portions = Portions(kind, field, version, behind)
            yields = sum(portions.add(element, 100) for _ in range(count))
            reply = portions.response()
            assert yields == count // 4
            assert isinstance(reply, EncodedReply) == (yields > 0), "an answer of one portion stays a message"
            assert bytes_of(reply, version) == kind(**{field: [element] * count}).encode(version)


def test_an_answer_may_be_as_long_as_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_reply, "MOST_ANSWER_BYTES", 10_000)
    portions = Portions(offset_fetch_response.OffsetFetchResponse, "groups", 8)
    group = offset_fetch_response.OffsetFetchResponseGroup("g" * 100, [])
    added = [portions.add(group, 100) for _ in range(95)]
    assert sum(added) == 23
    portions.add(group, 4)
    with pytest.raises(ApiError) as refused:
        portions.add(group, 400)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
