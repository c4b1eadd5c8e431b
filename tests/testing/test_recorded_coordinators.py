"""Coordinators as clients were told of them, and as they answered."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from pykafka_broker.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.heartbeat_response import HeartbeatResponse
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from pykafka_broker.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.testing.recorded_coordinators import (
    Coordinated,
    asked_coordinators,
    coordinators,
    moved_coordinator,
    told_coordinators,
)
from pykafka_broker.testing.recording import Recorded, Recording, lines_of, read_recording

GROUP, TRANSACTION = 0, 1
NOT_COORDINATOR = int(ErrorCode.NOT_COORDINATOR)


def exchange(request: Message, response: Message, version: int) -> Recorded:
    frame = b"".join(encode_request(request, version, 1, "shop"))[4:]
    header = (1).to_bytes(4, "big") + b"\0" * SPECS[ApiKey(request.API_KEY)].response_header_version(version)
    return Recorded.exchange(0, 1, 1, frame, header + response.encode(version))


def found(node: int, version: int, key: str = "billing", kind: int = GROUP) -> Recorded:
    if version < 4:
        return exchange(FindCoordinatorRequest(key, kind), FindCoordinatorResponse(node_id=node), version)
    answer = FindCoordinatorResponse(coordinators=[Coordinator(key, node)])
    return exchange(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), answer, version)


@pytest.mark.parametrize("version", [1, 4])
def test_clients_are_told_of_coordinators(version: int) -> None:
    assert list(told_coordinators(found(2, version))) == [(Coordinated(GROUP, "billing"), 2)]
    events = [found(-1, version), found(2, version), found(1, version), found(3, version, "shop", TRANSACTION)]
    assert coordinators(events) == {Coordinated(GROUP, "billing"): 2, Coordinated(TRANSACTION, "shop"): 3}


HEARTBEAT = HeartbeatRequest("billing", 1, "member")
OFFSETS = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("billing"), OffsetFetchRequestGroup("mailing")])
ADDED = AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction("shop", 1, 0)])


@pytest.mark.parametrize(
    ("event", "asked"),
    [
        (exchange(HEARTBEAT, HeartbeatResponse(), 4), [(GROUP, "billing", True)]),
        (exchange(HEARTBEAT, HeartbeatResponse(0, NOT_COORDINATOR), 4), [(GROUP, "billing", False)]),
        (
            exchange(OFFSETS, OffsetFetchResponse(groups=[OffsetFetchResponseGroup("billing")]), 8),
            [(GROUP, "billing", True), (GROUP, "mailing", True)],
        ),
        (
            exchange(ADDED, AddPartitionsToTxnResponse(error_code=NOT_COORDINATOR), 4),
            [(TRANSACTION, "shop", False)],
        ),
        (found(2, 4), []),
    ],
)
def test_coordinators_are_asked(event: Recorded, asked: list[tuple[Any, ...]]) -> None:
    assert [(*one, theirs) for one, theirs in asked_coordinators(event)] == asked


def test_a_move_is_an_event_of_a_recording() -> None:
    one = Coordinated(TRANSACTION, "shop")
    text = [*lines_of(Recording([], [one.moved(7, 2)]))]
    (event,) = read_recording(text).events
    assert (moved_coordinator(event), event.at) == ((one, 2), 7)
    assert one.place(50).topic == "__transaction_state"
