"""Others are served beside a client that asks for as much as a request can, or for more, and its answer comes whole."""

from __future__ import annotations

import pytest

from interop.raw import Closed, RawClient, framed, request_bytes
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_groups_response import DescribeGroupsResponse
from pykafka_broker.protocol.runtime import FEWER_ELEMENTS
from pykafka_broker.testing import KafkaBroker


def describe_groups(count: int) -> bytes:
    return framed(request_bytes(DescribeGroupsRequest([f"g{number}" for number in range(count)]), 5))


def test_as_much_as_a_request_can_ask_for_is_answered_whole() -> None:
    with KafkaBroker() as broker:
        at = f"{broker.host}:{broker.port}"
        with RawClient(at) as other, RawClient(at, timeout_s=120) as greedy:
            greedy.send_bytes(describe_groups(FEWER_ELEMENTS))
            assert other.call(ApiVersionsRequest("a", "1"), 3).error_code == 0
            answer = DescribeGroupsResponse.decode(greedy.receive_frame()[5:], 5)
    assert [group.group_id for group in answer.groups] == [f"g{number}" for number in range(FEWER_ELEMENTS)]


def test_more_closes_the_connection_and_the_log_says_why() -> None:
    with KafkaBroker() as broker:
        at = f"{broker.host}:{broker.port}"
        with RawClient(at) as other:
            with RawClient(at) as greedy:
                greedy.send_bytes(describe_groups(FEWER_ELEMENTS + 1))
                with pytest.raises(Closed):
                    greedy.receive_frame()
            assert other.call(ApiVersionsRequest("a", "1"), 3).error_code == 0
        assert "more elements and tagged fields than one request may have" in broker.log


def test_a_client_that_leaves_before_its_large_answer_is_no_trouble() -> None:
    with KafkaBroker() as broker:
        at = f"{broker.host}:{broker.port}"
        with RawClient(at) as other:
            for _ in range(3):
                with RawClient(at) as greedy:
                    greedy.send_bytes(describe_groups(FEWER_ELEMENTS))
            assert other.call(ApiVersionsRequest("a", "1"), 3).error_code == 0
