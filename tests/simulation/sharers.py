"""Members of a share group (KIP-932): they are given records, process them, and accept them.

Rule: a record that was accepted, and whose member was told so, is given to nobody again; every record is given to
somebody. A member that hears nothing, or of an error, begins a new session: what it has had comes again. A group
without members can be told to begin elsewhere (`Rewinding`): it is given all records from there on, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from pykafka_broker.coordinators.share.state import UNINITIALIZED
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
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
from pykafka_broker.testing.simulation.network import HostPort
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.history import Place as Key
from tests.simulation.memberships import GONE, GROUP, HEARTBEAT_MS
from tests.simulation.operators import SET, ask

GROUP_RESOURCE = 32
FETCH_MS, MOST_RECORDS, ACCEPT = 100, 20, 1
FINAL_EPOCH = -1
LEAST_STINT_MS, MOST_STINT_MS = 300, 2_000  # of a member of a group that is rewound
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
    """Let a group without members begin at the start of every partition."""
    configs = [AlterableConfig(name, SET, value) for name, value in SETTINGS.items()]
    while True:
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, configs)])
        answer = yield from ask(client, request, (1, 1))
        if answer.responses[0].error_code == ErrorCode.NONE:
            return
        yield client.backoff()


_MOST_UNREAD = 20


class Sharer:
    """A member of a share group, until the client stops and the group has been given all records."""

    def __init__(self, client: SimClient, group: str, topic: str) -> None:
        self.client = client
        self.group = group
        self.topic = topic
        self.member_id = uuid_text(client.random.randbytes(16))
        self.epoch = 0
        self._assigned: list[PartitionKey] = []
        self._due = 0
        self._sessions: dict[HostPort, int] = {}  # the epoch of the next request there
        self.left_open: set[HostPort] = set()  # where a session, and its locks, may be there for a while

    def kinds(self, first: int, last: int) -> list[int]:
        """Return the types of acknowledgement of these records: one for all, or one for each."""
        return [ACCEPT]

    def script(self) -> Script:
        client = self.client
        yield from self.live(lambda: client.stopping and client.history.is_shared_out(self.group))

    def live(self, is_over: Callable[[], bool]) -> Script:
        """Work as a member until `is_over` says so, then close the sessions and leave."""
        client = self.client
        while not is_over():
            if client.clock.now >= self._due:
                yield from self._beat()
            if not self._assigned:
                yield Wait(50)
                continue
            yield from self._take(client.random.choice(self._assigned))
        for place in [*self._sessions]:  # one that hears nothing of it sees the connection end
            answer = yield Ask(place, ShareAcknowledgeRequest(self.group, self.member_id, FINAL_EPOCH), (1, 1))
            if isinstance(answer, LinkError):
                self.left_open.add(place)
            elif answer.error_code:
                client.expect(answer.error_code, "the end of a session", *_OVER)
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

    def _take(self, partition: PartitionKey) -> Script:
        """Fetch records through the session with the partition's leader, and accept them at once."""
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
            AcknowledgePartition(
                number, [AcknowledgementBatch(first, last, self.kinds(first, last)) for first, last in ranges]
            )
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
        if given and min(given) < history.beginnings.get(key, 0):
            history.violation(f"{key[0]} was given {min(given)} of {key[1]}, and begins at {history.beginnings[key]}")
        history.processed[key] |= given
        history.did["shared"] += len(given)

    def _ask(
        self, place: HostPort, partition: PartitionKey, request: ShareFetchRequest | ShareAcknowledgeRequest
    ) -> Generator[Ask | Wait, Any, list[Any]]:
        """Return the answer's partitions; after an error none, and the next request opens a new session."""
        answer = yield Ask(place, request, (1, 1))
        if not isinstance(answer, LinkError):
            told = [each for topic in answer.responses for each in topic.partitions]
            codes = [answer.error_code, *(each.error_code for each in told)]
            code = next((each for each in codes if each), 0)
            if not code:
                self._sessions[place] = self._sessions.get(place, 0) + 1
                self.left_open.discard(place)
                return told
            self.client.expect(code, type(request).__name__, *_OVER)
        self.left_open.add(place)
        self._sessions.pop(place, None)
        self.client.forget_leader(partition)
        yield self.client.backoff()
        return []


class Rewinding:
    """A share group with one member at a time, whose start offsets are altered between two members.

    A lost answer leaves two things unknown: whether the request will alter the offsets later, and whether the last
    member's session has ended. Then another group takes the place of this one.
    """

    def __init__(self, client: SimClient, partitions: list[PartitionKey]) -> None:
        self._client = client
        self._partitions = partitions
        self._number = 0
        self._group = ""
        self._sure = True

    def script(self) -> Script:
        """Rewind the group until the client stops; then the last member reads everything."""
        client, random = self._client, self._client.random
        yield from self._another()
        while not client.stopping:
            if not self._sure:
                yield from self._another()
            for partition in random.sample(self._partitions, random.randrange(1, len(self._partitions) + 1)):
                yield from self._rewind(partition)
            if self._sure:
                until = client.clock.now + random.randrange(LEAST_STINT_MS, MOST_STINT_MS)
                member = self._member()
                yield from member.live(partial(self._is_over, until))
                self._sure = not member.left_open  # else a leader keeps what it knows, as Kafka's does
        if not self._sure:
            yield from self._another()
        yield from self._member().script()

    def _is_over(self, until: int) -> bool:
        return self._client.stopping or self._client.clock.now >= until

    def _member(self) -> Sharer:
        return Sharer(self._client, self._group, self._partitions[0][0])

    def _another(self) -> Script:
        history = self._client.history
        history.shared.discard(self._group)
        for noted in (history.processed, history.accepted):
            for key in [key for key in noted if key[0] == self._group]:
                del noted[key]
        self._number += 1
        self._group, self._sure = f"{self._client.name}{self._number}", True
        history.shared.add(self._group)
        yield from from_the_beginning(self._client, self._group)

    def _rewind(self, partition: PartitionKey) -> Script:
        """Set the group's start offset of the partition at random, and check that the group begins there."""
        client, history, key = self._client, self._client.history, (self._group, partition)
        offset = client.random.randrange(history.known_end(partition) + 1)
        before = history.beginnings.get(key, 0)
        history.beginnings[key] = min(before, offset)
        history.rare["share group told to begin at what it had accepted"] += offset in history.accepted[key]
        history.accepted[key] = set()
        topic = AlterShareGroupOffsetsRequestTopic(
            partition[0], [AlterShareGroupOffsetsRequestPartition(partition[1], offset)]
        )
        request = AlterShareGroupOffsetsRequest(self._group, [topic])
        while (code := (yield from self._code_of(request))) != ErrorCode.NONE:
            if code == ErrorCode.NON_EMPTY_GROUP:  # the member before has not left in time
                history.rare["share group with a member was not rewound"] += 1
                yield client.backoff()
        if self._sure:
            history.beginnings[key], history.processed[key] = offset, set()
            history.did["share group rewound"] += 1
            yield from self._check(partition, offset)

    def _code_of(self, request: AlterShareGroupOffsetsRequest) -> Generator[Ask | Wait, Any, int]:
        """Ask the coordinator once; return the error code, or -1 if the request is to be tried again."""
        place = yield from self._client.coordinator(GROUP, self._group)
        answer = yield Ask(place, request, (0, 0))
        if isinstance(answer, LinkError):
            self._sure = False
        else:
            code = answer.error_code or answer.responses[0].partitions[0].error_code
            if code in (ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP):
                return code
            self._client.expect(code, "AlterShareGroupOffsets")
        self._client.forget_coordinator(GROUP, self._group)
        yield self._client.backoff()
        return -1

    def _check(self, partition: PartitionKey, offset: int) -> Script:
        """Describe the start offset until it is answered, and compare it.

        A state that the broker can't read looks like none, as with Kafka; such an answer is asked again a few times.
        """
        client, unread = self._client, 0
        while True:
            place = yield from client.coordinator(GROUP, self._group)
            wanted = DescribeShareGroupOffsetsRequestTopic(partition[0], [partition[1]])
            group = DescribeShareGroupOffsetsRequestGroup(self._group, [wanted])
            answer = yield Ask(place, DescribeShareGroupOffsetsRequest([group]), (1, 1))
            if not isinstance(answer, LinkError):
                told = answer.groups[0]
                one = told.topics[0].partitions[0] if told.topics else None
                code = told.error_code or (one.error_code if one is not None else 0)
                if code == ErrorCode.NONE:
                    found = None if one is None else one.start_offset
                    if found == UNINITIALIZED and unread < _MOST_UNREAD:
                        unread += 1
                        yield client.backoff()
                        continue
                    if found != offset:
                        client.history.violation(f"{self._group} begins at {found} of {partition}, not at {offset}")
                    return
                client.expect(code, "DescribeShareGroupOffsets")
            client.forget_coordinator(GROUP, self._group)
            yield client.backoff()
