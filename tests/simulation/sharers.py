"""Members of a share group (KIP-932): they are given records, process them, and accept them.

Rule: a record that was accepted, and whose member was told so, is given to nobody again; every record is given to
somebody. A member that hears nothing, or of an error, begins a new session: what it has had comes again.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.runtime import uuid_text
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.history import Place as Key
from tests.simulation.history import TopicPartition
from tests.simulation.memberships import GONE, GROUP, HEARTBEAT_MS
from tests.simulation.network import Place
from tests.simulation.operators import SET, ask

GROUP_RESOURCE = 32
FETCH_MS, MOST_RECORDS, ACCEPT = 100, 20, 1
SETTINGS = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000"}
# Of a session, or of a record that is no longer this member's.
_OVER = (
    *GONE,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.INVALID_REQUEST,  # acknowledgements for a session that has just begun
)


def from_the_beginning(client: SimClient, group: str) -> Script:
    """Before the group has members."""
    configs = [AlterableConfig(name, SET, value) for name, value in SETTINGS.items()]
    while True:
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, configs)])
        answer = yield from ask(client, request, (1, 1))
        if answer.responses[0].error_code == ErrorCode.NONE:
            return
        yield client.backoff()


class Sharer:
    """One member, until the client stops and the group has been given everything."""

    def __init__(self, client: SimClient, group: str, topic: str) -> None:
        self.client = client
        self.group = group
        self.topic = topic
        self.member_id = uuid_text(client.random.randbytes(16))
        self.epoch = 0
        self._assigned: list[TopicPartition] = []
        self._due = 0
        self._sessions: dict[Place, int] = {}  # the epoch of the next request there

    def script(self) -> Script:
        client = self.client
        while not (client.stopping and client.history.is_shared_out(self.group)):
            if client.clock.now >= self._due:
                yield from self._beat()
            if not self._assigned:
                yield Wait(50)
                continue
            yield from self._take(client.random.choice(self._assigned))
        self.epoch = -1
        yield from self._beat()

    def _beat(self) -> Script:
        client = self.client
        while self.topic not in client.topic_ids:
            yield from client.refresh(self.topic)
        place = yield from client.coordinator(GROUP, self.group)
        request = ShareGroupHeartbeatRequest(self.group, self.member_id, self.epoch, None, [self.topic])
        answer = yield Ask(place, request, (1, 1))
        self._due = client.clock.now + HEARTBEAT_MS
        if isinstance(answer, LinkError):
            client.forget_coordinator(GROUP, self.group)
            yield client.backoff()
        elif answer.error_code:
            self._due = 0
            if not client.expect(answer.error_code, "ShareGroupHeartbeat", *GONE):
                self.epoch, self._assigned = 0, []
            client.forget_coordinator(GROUP, self.group)
            yield client.backoff()
        else:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                parts = answer.assignment.topic_partitions
                self._assigned = sorted((self.topic, number) for each in parts for number in each.partitions)

    def _take(self, partition: TopicPartition) -> Script:
        """Some records, which are accepted at once, of all partitions that are read there."""
        accepted = {key: set(offsets) for key, offsets in self.client.history.accepted.items()}
        place, _ = yield from self.client.leader(partition)
        topic_id = self.client.topic_ids[self.topic]
        epoch = self._sessions.get(place, 0)
        fetch = ShareFetchRequest(self.group, self.member_id, epoch, FETCH_MS, 1, 1 << 20, MOST_RECORDS, MOST_RECORDS)
        fetch.topics = [FetchTopic(topic_id, [FetchPartition(partition[1])])]
        given = {
            told.partition_index: [(each.first_offset, each.last_offset) for each in told.acquired_records]
            for told in (yield from self._ask(place, partition, fetch))
            if told.acquired_records
        }
        for number, ranges in given.items():
            self._note((self.group, (self.topic, number)), ranges, accepted)
        if not given:
            return
        partitions = [
            AcknowledgePartition(number, [AcknowledgementBatch(first, last, [ACCEPT]) for first, last in ranges])
            for number, ranges in given.items()
        ]
        topics = [AcknowledgeTopic(topic_id, partitions)]
        request = ShareAcknowledgeRequest(self.group, self.member_id, self._sessions.get(place, 0), topics=topics)
        for told in (yield from self._ask(place, partition, request)):
            taken = self.client.history.accepted[self.group, (self.topic, told.partition_index)]
            taken.update(*(range(first, last + 1) for first, last in given[told.partition_index]))

    def _note(self, key: Key, ranges: list[tuple[int, int]], accepted: dict[Key, set[int]]) -> None:
        history = self.client.history
        given = {offset for first, last in ranges for offset in range(first, last + 1)}
        again = given & accepted.get(key, set())
        if again:
            history.violation(f"{key[0]} was given {sorted(again)} of {key[1]}, which it has accepted")
        history.processed[key] |= given
        history.did["shared"] += len(given)

    def _ask(
        self, place: Place, partition: TopicPartition, request: ShareFetchRequest | ShareAcknowledgeRequest
    ) -> Generator[Ask | Wait, Any, list[Any]]:
        """What is told of partitions; nothing, and a new session, where an error is among it."""
        answer = yield Ask(place, request, (1, 1))
        if not isinstance(answer, LinkError):
            told = [each for topic in answer.responses for each in topic.partitions]
            codes = [answer.error_code, *(each.error_code for each in told)]
            code = next((each for each in codes if each), 0)
            if not code:
                self._sessions[place] = self._sessions.get(place, 0) + 1
                return told
            self.client.expect(code, type(request).__name__, *_OVER)
        self._sessions.pop(place, None)
        self.client.forget_leader(partition)
        yield self.client.backoff()
        return []
