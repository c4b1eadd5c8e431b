"""Coordinators of groups and of transactions, as a recording tells of them.

Rule: clients are told a coordinator by FindCoordinator, and hear from the old one that it is none any more. The node of
a coordinator leads a partition of its kind's topic, so a coordinator moves with that leader.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.control.traffic.exchange import error_codes
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import COORDINATOR, Recorded

QUESTIONS = {int(CoordinatorType.GROUP): "group", int(CoordinatorType.TRANSACTION): "transactional_id"}
OF_COORDINATORS = {
    int(CoordinatorType.GROUP): "__consumer_offsets",
    int(CoordinatorType.TRANSACTION): "__transaction_state",
}
_OF_GROUPS = frozenset(
    {
        *(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT),
        *(ApiKey.OFFSET_FETCH, ApiKey.TXN_OFFSET_COMMIT, ApiKey.CONSUMER_GROUP_HEARTBEAT),
        *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT),
    }
)
_OF_TRANSACTIONS = frozenset(
    {ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN}
)


class Coordinated(NamedTuple):
    """A group, or a transactional id. kind: a `CoordinatorType`."""

    kind: int
    key: str

    def place(self, partitions: int) -> TopicPartition:
        """Return the partition whose leader is the coordinator. partitions: those of the topic."""
        return TopicPartition(OF_COORDINATORS[self.kind], partition_for(self.key, partitions))

    def moved(self, at: int, node: int) -> Recorded:
        """Return the event that a node becomes the coordinator."""
        body = json.dumps({QUESTIONS[self.kind]: self.key, "leader": node})
        return Recorded(at, at, 0, b"", None, (COORDINATOR, f"/{node}", body))


def moved_coordinator(event: Recorded) -> tuple[Coordinated, int]:
    """Return what an event of `Coordinated.moved` is about, and its new coordinator."""
    assert event.call is not None
    told = json.loads(event.call[2])
    kind = next(kind for kind, name in QUESTIONS.items() if name in told)
    return Coordinated(kind, told[QUESTIONS[kind]]), told["leader"]


def told_coordinators(event: Recorded) -> Iterator[tuple[Coordinated, int]]:
    """Yield the coordinators that a client looked for, and their nodes, -1 for one that it was not told."""
    message = RecordedMessages(event)
    request, response = message.request, message.response
    if message.api_key == ApiKey.FIND_COORDINATOR and request is not None:
        nodes = {} if response is None else {each.key: each.node_id for each in response.coordinators}
        alone = -1 if response is None or response.coordinators else response.node_id
        for key in request.coordinator_keys or [request.key]:
            yield Coordinated(request.key_type, key), nodes.get(key, alone)


def asked_coordinators(event: Recorded) -> Iterator[tuple[Coordinated, bool]]:
    """Yield the groups and transactional ids that a coordinator was asked about, and whether it was theirs."""
    message = RecordedMessages(event)
    request, response = message.request, message.response
    if request is None or response is None:
        return
    is_theirs = ErrorCode.NOT_COORDINATOR not in error_codes(response)
    if message.api_key in _OF_GROUPS:
        for group in getattr(request, "groups", None) or [request]:
            yield Coordinated(int(CoordinatorType.GROUP), group.group_id), is_theirs
    elif message.api_key in _OF_TRANSACTIONS:
        for each in getattr(request, "transactions", None) or [request]:
            key = getattr(each, "transactional_id", None) or getattr(each, "v3_and_below_transactional_id", None)
            if key:
                yield Coordinated(int(CoordinatorType.TRANSACTION), key), is_theirs


def coordinators(events: Iterable[Recorded], found_at_once: bool = False) -> dict[Coordinated, int]:
    """Return the node of each coordinator that clients look for: the first one that they were told, -1 where they were
    told none. The first question to one of a kind makes a broker create the topic for it.

    Args:
        found_at_once: only those of kinds that were there when the first client asked.
    """
    found: dict[Coordinated, int] = {}
    late: set[int] = set()
    for event in events:
        for one, node in told_coordinators(event):
            if found.get(one, -1) < 0:
                found[one] = node
            if ErrorCode.COORDINATOR_NOT_AVAILABLE in error_codes(RecordedMessages(event).response):
                late.add(one.kind)
    return {one: node for one, node in found.items() if not (found_at_once and one.kind in late)}
