"""Readers of partitions, and committers of offsets.

Rule: a reader begins at 0 and goes on where it has come to. Where its position is gone, it goes on at the start of the
log, as far as the run deletes anything: elsewhere that is a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from pykafka_broker.peers import LinkError, Versions
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.fetch_response import AbortedTransaction, PartitionData
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pykafka_broker.protocol.messages.offset_delete_response import OffsetDeleteResponse
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.memberships import BEHIND, GONE, GROUP, Membership
from tests.simulation.producers import OF

FETCH_MS = 300
EARLIEST = -2
Found = list[tuple[int, bytes]]


class OutOfRange(Exception):
    """The position was deleted. start: the log's start offset, as the leader tells it."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


def fetch(
    client: SimClient, partition: PartitionKey, offset: int, *, committed: bool
) -> Generator[Ask | Wait, Any, PartitionData | None]:
    """Return the records from `offset` on; None: try again. Raises OutOfRange where records may go."""
    topic, number = partition
    place, epoch = yield from client.leader(partition)
    follower = client.preferred(partition)
    request = FetchRequest(max_wait_ms=FETCH_MS, min_bytes=1, max_bytes=1 << 20, isolation_level=int(committed))
    request.rack_id = client.rack
    request.topics = [
        FetchTopic(topic, partitions=[FetchPartition(number, epoch, offset, partition_max_bytes=1 << 20)])
    ]
    answer = yield Ask(follower or place, request, (12, 12))
    if not isinstance(answer, LinkError):
        found: PartitionData = answer.responses[0].partitions[0]
        if found.error_code == ErrorCode.NONE:
            if found.preferred_read_replica >= 0:
                client.prefer(partition, found.preferred_read_replica)
            client.history.rare["read from a follower"] += follower is not None and bool(found.records)
            return found
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and follower is not None:
            client.history.did["OFFSET_OUT_OF_RANGE of a follower"] += 1  # the leader knows better
        elif found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and may_be_gone(client, partition):
            yield from _follow(client, partition, offset)
        else:
            client.expect(found.error_code, f"Fetch of {partition} at {offset}, epoch {epoch}")
    client.prefer(partition, -1)
    client.forget_leader(partition)
    yield client.backoff()
    return None


def may_be_gone(client: SimClient, partition: PartitionKey) -> bool:
    """Return whether a reader may be told that its position is out of range."""
    lossy = partition[0] == client.history.topic and client.history.keeping.lossy
    return client.history.deletes(partition) or lossy


def _follow(client: SimClient, partition: PartitionKey, offset: int) -> Script:
    """Ask the leader for the start of the log; raise OutOfRange with it if `offset` lies below."""
    found = yield from list_offset(client, partition, EARLIEST)
    if found is not None and (found.offset > offset or client.history.keeping.lossy):
        client.history.rare["OFFSET_OUT_OF_RANGE followed"] += 1
        starts = client.history.seen_starts
        starts[partition] = max(found.offset, starts.get(partition, 0))
        raise OutOfRange(found.offset)


def list_offset(
    client: SimClient, partition: PartitionKey, timestamp: int, *, committed: bool = False
) -> Generator[Ask | Wait, Any, ListOffsetsPartitionResponse | None]:
    """Ask the leader once; return None without an answer, or after a retriable error."""
    place, epoch = yield from client.leader(partition)
    topic = ListOffsetsTopic(partition[0], [ListOffsetsPartition(partition[1], epoch, timestamp)])
    answer = yield Ask(place, ListOffsetsRequest(-1, int(committed), [topic], 1_000), (11, 11))
    if not isinstance(answer, LinkError):
        found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
        if found.error_code == ErrorCode.NONE:
            return found
        client.expect(found.error_code, f"ListOffsets of {partition} for {timestamp}")
    client.forget_leader(partition)
    yield client.backoff()
    return None


def records_of(found: PartitionData, offset: int, *, committed: bool) -> tuple[Found, int]:
    """Return the records that a reader hands on, and the offset at which it goes on."""
    aborted = sorted(found.aborted_transactions or [], key=lambda each: each.first_offset) if committed else []
    gone: set[int] = set()
    records: Found = []
    for header, batch in iter_batches(bytes(found.records or b"")):
        _begin(aborted, header.last_offset, gone)
        if header.is_control:
            marker = read_end_transaction_marker(batch)
            if marker is not None and not marker.commit:
                gone.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in gone):
            records += [
                (each.offset, bytes(each.value or b"")) for each in iter_records(batch, header) if each.offset >= offset
            ]
        offset = max(offset, header.next_offset)
    return records, offset


def _begin(aborted: list[AbortedTransaction], last_offset: int, gone: set[int]) -> None:
    while aborted and aborted[0].first_offset <= last_offset:
        gone.add(aborted.pop(0).producer_id)


def reader(client: SimClient, partition: PartitionKey, *, committed: bool) -> Script:
    """Read the partition from its beginning, and go on with new records until the client stops."""
    offset = 0
    while not client.stopping:
        try:
            found = yield from fetch(client, partition, offset, committed=committed)
        except OutOfRange as gone:
            offset = gone.start
            continue
        if found is None:
            continue
        records, offset = records_of(found, offset, committed=committed)
        for at, value in records:
            client.history.note_read(partition, at, value, committed=committed)
        yield Wait(client.random.randrange(30))


def read_whole(
    client: SimClient, partition: PartitionKey, found: dict[int, bytes], *, committed: bool
) -> Generator[Ask | Wait, Any, int]:
    """Read everything up to the high watermark, or the last stable offset, and return that bound."""
    offset = 0
    while True:
        try:
            part = yield from fetch(client, partition, offset, committed=committed)
        except OutOfRange as gone:
            offset = gone.start
            continue
        if part is None:
            continue
        client.history.starts[partition] = part.log_start_offset
        end = part.last_stable_offset if committed else part.high_watermark
        records, offset = records_of(part, offset, committed=committed)
        found.update(records)
        if offset >= end:
            return end


def committer(client: SimClient, group: str, *, asking: float = 0.3) -> Script:
    """Commit offsets of a group without members, one higher each time. asking: the probability of a fetch after it."""
    history = client.history
    offset = max(0, history.asked_offsets.get((group, OF), 0))
    while not client.stopping:
        offset += 1
        topic = OffsetCommitRequestTopic(OF[0], partitions=[OffsetCommitRequestPartition(OF[1], offset)])
        while True:
            place = yield from client.coordinator(GROUP, group)
            known = history.note_asked(group, OF, offset)
            answer = yield Ask(place, OffsetCommitRequest(group, -1, "", topics=[topic]), (8, 8))
            if not isinstance(answer, LinkError):
                code = answer.topics[0].partitions[0].error_code
                if code == ErrorCode.NONE:
                    break
                client.expect(code, "OffsetCommit")
            client.forget_coordinator(GROUP, group)
            yield client.backoff()
        history.note_committed(group, OF, offset, known)
        history.did["commit"] += 1
        if client.random.random() < asking:
            yield from committed_offset(client, group, OF)
        yield Wait(client.random.randrange(60))


def committed_offset(
    client: SimClient, group: str, partition: PartitionKey, member: Membership | None = None
) -> Generator[Ask | Wait, Any, int | None]:
    """Return the group's committed offset, and check its bounds.

    The offset must not be lower than the last commit acknowledged before the request, nor higher than any commit sent.
    None: `member` has lost its membership, or its epoch has changed.
    """
    history = client.history
    lowest = history.committed_offsets.get((group, partition), -1)
    while member is None or member.epoch >= 0:
        place = yield from client.coordinator(GROUP, group)
        wanted = OffsetFetchRequestGroup(
            group, topics=[OffsetFetchRequestTopics(partition[0], partition_indexes=[partition[1]])]
        )
        if member is not None:
            wanted.member_id, wanted.member_epoch = member.as_told
        answer = yield Ask(place, OffsetFetchRequest(groups=[wanted], require_stable=True), (9, 9))
        if not isinstance(answer, LinkError):
            told = answer.groups[0]
            one = told.topics[0].partitions[0] if told.topics else None
            code = ErrorCode(told.error_code or (one.error_code if one is not None else 0))
            if code is ErrorCode.NONE:
                found = -1 if one is None else one.committed_offset
                highest = history.asked_offsets.get((group, partition), -1)
                if not lowest <= found <= highest and not history.keeping.lossy:
                    history.violation(
                        f"{group} has {found} committed of {partition}, which is not {lowest} to {highest}"
                    )
                return found
            if not client.expect(code, "OffsetFetch", *((*GONE, *BEHIND) if member is not None else ())):
                if member is not None:
                    member.refused(code)
                return None
        client.forget_coordinator(GROUP, group)
        yield client.backoff()
    return None


class Vacillating:
    """A client that commits offsets of groups without members, deletes offsets or groups, and fetches the rest.

    Nobody else has to do with such a group, so each answer is known: what was committed last, or nothing. A request
    whose answer was lost may still be on its way; from then on nothing is known of its group.
    """

    def __init__(self, client: SimClient) -> None:
        self._client = client
        self._group = ""
        self._sure = True

    def script(self) -> Script:
        """Serve one group after the other until the client stops."""
        client, number = self._client, 0
        while not client.stopping:
            number += 1
            self._group, self._sure = f"group-{client.name}{number}", True
            yield from self._commit(number)
            yield from self._check_left(number)
            yield from self._delete()
            yield from self._check_left(-1)
            client.history.did["offset deleted"] += 1
            yield Wait(client.random.randrange(300))

    def _commit(self, offset: int) -> Script:
        topic = OffsetCommitRequestTopic(OF[0], partitions=[OffsetCommitRequestPartition(OF[1], offset)])
        request = OffsetCommitRequest(self._group, -1, "", topics=[topic])
        yield from self._until_done(request, (8, 8), lambda told: told.topics[0].partitions[0].error_code)

    def _delete(self) -> Script:
        if self._client.random.random() < 0.5:
            whole = DeleteGroupsRequest([self._group])
            yield from self._until_done(whole, (2, 2), lambda told: told.results[0].error_code)
        else:
            topic = OffsetDeleteRequestTopic(OF[0], [OffsetDeleteRequestPartition(OF[1])])
            yield from self._until_done(OffsetDeleteRequest(self._group, [topic]), (0, 0), _code_of_deletion)

    def _until_done(self, request: Message, versions: Versions, code_of: Callable[[Any], int]) -> Script:
        while True:
            answer = yield from self._ask(request, versions)
            if answer is not None:
                code = code_of(answer)
                if code == ErrorCode.NONE or (code == ErrorCode.GROUP_ID_NOT_FOUND and not self._sure):
                    return
                self._client.expect(code, type(request).__name__)
                self._sure = False  # what was refused as not done in time may be done all the same
                yield from self._again()

    def _check_left(self, expected: int) -> Script:
        """Fetch the offset until there is an answer, and compare it; -1: no offset is expected."""
        while True:
            wanted = OffsetFetchRequestGroup(
                self._group, topics=[OffsetFetchRequestTopics(OF[0], partition_indexes=[OF[1]])]
            )
            answer = yield from self._ask(OffsetFetchRequest(groups=[wanted], require_stable=True), (9, 9))
            if answer is None:
                continue
            told = answer.groups[0]
            one = told.topics[0].partitions[0] if told.topics else None
            code = told.error_code or (one.error_code if one is not None else 0)
            if code == ErrorCode.NONE:
                found = -1 if one is None else one.committed_offset
                if found != expected and self._sure and not self._client.history.keeping.lossy:
                    self._client.history.violation(
                        f"{self._group} has {found} committed, and {expected} was the last that was done"
                    )
                return
            self._client.expect(code, "OffsetFetch")
            yield from self._again()

    def _ask(self, request: Message, versions: Versions) -> Generator[Ask | Wait, Any, Any]:
        """Ask the coordinator once; return None without an answer."""
        place = yield from self._client.coordinator(GROUP, self._group)
        answer = yield Ask(place, request, versions)
        if not isinstance(answer, LinkError):
            return answer
        self._sure = False
        yield from self._again()
        return None

    def _again(self) -> Script:
        self._client.forget_coordinator(GROUP, self._group)
        yield self._client.backoff()


def _code_of_deletion(told: OffsetDeleteResponse) -> int:
    return told.error_code or told.topics[0].partitions[0].error_code
