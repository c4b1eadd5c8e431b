"""Others are served while one client's giant request is being answered, and its large answer arrives whole."""

from __future__ import annotations

import select

from interop.raw import RawClient, framed, request_bytes
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_groups_response import DescribeGroupsResponse
from pykafka_broker.testing import KafkaBroker

GROUPS = 300_000


def test_others_are_answered_between_the_slices_of_a_giant_request() -> None:
    giant = framed(request_bytes(DescribeGroupsRequest([f"g{number}" for number in range(GROUPS)]), 5))
    with KafkaBroker() as broker:
        at = f"{broker.host}:{broker.port}"
        with RawClient(at) as other, RawClient(at, timeout_s=120) as hostile:
            other.call(ApiVersionsRequest("a", "1"), 3)
            hostile.send_bytes(giant)
            for _ in range(20):
                assert other.call(ApiVersionsRequest("a", "1"), 3).error_code == 0
            assert not select.select([hostile.socket], [], [], 0)[0], "the giant was answered first"
            answer = DescribeGroupsResponse.decode(hostile.receive_frame()[5:], 5)
    assert len(answer.groups) == GROUPS
    assert answer.groups[-1].group_id == f"g{GROUPS - 1}"


def test_a_client_that_leaves_in_the_middle_of_its_giant_is_no_trouble() -> None:
    giant = framed(request_bytes(DescribeGroupsRequest(["g"] * GROUPS), 5))
    with KafkaBroker() as broker:
        at = f"{broker.host}:{broker.port}"
        with RawClient(at) as other:
            for _ in range(3):
                with RawClient(at) as hostile:
                    hostile.send_bytes(giant)
            assert other.call(ApiVersionsRequest("a", "1"), 3).error_code == 0
