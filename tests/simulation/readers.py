"""Readers of partitions, and committers of offsets."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.fetch_response import AbortedTransaction, PartitionData
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pykafka_broker.records.control import read_end_transaction_marker
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.simulation.client import Ask, Script, SimClient, Wait
from tests.simulation.history import TopicPartition
from tests.simulation.memberships import BEHIND, GONE, GROUP, Membership
from tests.simulation.producers import OF

FETCH_MS = 300
Found = list[tuple[int, bytes]]


def fetch(
    client: SimClient, partition: TopicPartition, offset: int, *, committed: bool
) -> Generator[Ask | Wait, Any, PartitionData | None]:
    """What is there from `offset` on; None: try again."""
    topic, number = partition
    place, epoch = yield from client.leader(partition)
    request = FetchRequest(max_wait_ms=FETCH_MS, min_bytes=1, max_bytes=1 << 20, isolation_level=int(committed))
    request.topics = [
        FetchTopic(topic, partitions=[FetchPartition(number, epoch, offset, partition_max_bytes=1 << 20)])
    ]
    answer = yield Ask(place, request, (12, 12))
    if not isinstance(answer, LinkError):
        found: PartitionData = answer.responses[0].partitions[0]
        if found.error_code == ErrorCode.NONE:
            return found
        client.expect(found.error_code, f"Fetch of {partition} at {offset}, epoch {epoch}")
    client.forget_leader(partition)
    yield client.backoff()
    return None


def records_of(found: PartitionData, offset: int, *, committed: bool) -> tuple[Found, int]:
    """The records that a reader hands on, and where it goes on."""
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


def reader(client: SimClient, partition: TopicPartition, *, committed: bool) -> Script:
    """Everything from the beginning on, as it comes."""
    offset = 0
    while not client.stopping:
        found = yield from fetch(client, partition, offset, committed=committed)
        if found is None:
            continue
        records, offset = records_of(found, offset, committed=committed)
        for at, value in records:
            client.history.note_read(partition, at, value, committed=committed)
        yield Wait(client.random.randrange(30))


def read_whole(
    client: SimClient, partition: TopicPartition, found: dict[int, bytes], *, committed: bool
) -> Generator[Ask | Wait, Any, int]:
    """All that is there, up to the high watermark or the last stable offset, which is told."""
    offset = 0
    while True:
        part = yield from fetch(client, partition, offset, committed=committed)
        if part is None:
            continue
        end = part.last_stable_offset if committed else part.high_watermark
        records, offset = records_of(part, offset, committed=committed)
        found.update(records)
        if offset >= end:
            return end


def committer(client: SimClient, group: str) -> Script:
    """Offsets of a group without members, one higher each time; now and then they are asked for."""
    history = client.history
    offset = 0
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
        if client.random.random() < 0.3:
            yield from committed_offset(client, group, OF)
        yield Wait(client.random.randrange(60))


def committed_offset(
    client: SimClient, group: str, partition: TopicPartition, member: Membership | None = None
) -> Generator[Ask | Wait, Any, int | None]:
    """What is committed: no less than what anybody was promised when it was asked, no more than what was ever sent.
    None: `member` is none any more, or its epoch has changed.
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
                if not lowest <= found <= highest:
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
