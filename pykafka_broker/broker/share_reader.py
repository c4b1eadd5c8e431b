"""Reading share partitions for one share fetch.

Rule: what is read is handed out at once, so nothing is read before it is sure that it will be sent. Of a long log only
as much is read at a time as one answer is likely to hold. Partitions that can hand out records have equal parts of
`max_bytes`, and what one of them does not fill is not given to others (Kafka: PartitionMaxBytesStrategy.UNIFORM). An
answer exceeds the limits by its first batch alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import NamedTuple

from pykafka_broker.broker.share_partitions import NotYet, SharePartitions
from pykafka_broker.coordinators.share.sessions import Member, TopicIdPartition
from pykafka_broker.coordinators.share.share_partition import SharePartition
from pykafka_broker.coordinators.share.state import ShareKey, StateRun, coalesced
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_fetch_request import ShareFetchRequest
from pykafka_broker.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData

CHUNK_BYTES = 1 << 20
ACQUIRE_MODES = WHOLE_BATCHES, EXACTLY = 0, 1  # share_acquire_mode (KIP-1206)


class Refused(NamedTuple):
    """Why there is nothing of a partition; there may be very many, hence no struct for each."""

    error_code: int
    error_message: str | None

    @property
    def acquired_records(self) -> tuple[AcquiredRecords, ...]:
        return ()


Found = dict[TopicIdPartition, PartitionData | Refused]


class ShareReader:
    """Knows what a member wants and how much of it."""

    __slots__ = (
        "_batch_size",
        "_exactly",
        "_group_id",
        "_max_bytes",
        "_max_records",
        "_member_id",
        "_shares",
        "has_passed",
    )

    def __init__(self, shares: SharePartitions, most_bytes: int, member: Member, request: ShareFetchRequest) -> None:
        """`most_bytes`: `fetch.max.bytes`."""
        self._shares = shares
        self._group_id, self._member_id = member
        self._max_bytes = min(request.max_bytes, most_bytes)
        self._max_records = request.max_records if self._max_bytes > 0 else 0
        self._batch_size = request.batch_size
        self._exactly = request.share_acquire_mode == EXACTLY
        self.has_passed = False  # it has left behind what nobody gets, and there may be more

    def _key(self, partition: TopicIdPartition) -> ShareKey:
        return ShareKey(self._group_id, *partition)

    def watched(self, partitions: Iterable[TopicIdPartition]) -> list[object]:
        """What moves when there may be something to hand out."""
        keys: list[object] = []
        for partition in partitions:
            key = self._key(partition)
            keys.append(key)
            try:
                keys.append(self._shares.partition_of(key))
            except ApiError:
                continue
        return keys

    def has(self, partitions: Iterable[TopicIdPartition], min_bytes: int) -> bool:
        """Whether an answer of at least so many bytes can be had, or one that tells an error. Nothing is handed out."""
        limits = self._shares.limits(self._group_id)
        wanted = max(1, min(min_bytes, self._max_bytes))
        size = 0
        failed = True
        for topic_partition in partitions:
            key = self._key(topic_partition)
            try:
                partition = self._shares.get(key)
                failed = False
                if partition.can_acquire(limits):
                    size += min(self._shares.size(key, partition), self._max_bytes)
            except NotYet:
                failed = False
            except ApiError:
                continue
            if size >= wanted:
                return True
        return failed

    def _count_open(self, partitions: Collection[TopicIdPartition]) -> int:
        """Count the partitions that may hand out records, whether or not their logs have any."""
        if len(partitions) == 1 or self._max_bytes <= 0:
            return 1
        limits = self._shares.limits(self._group_id)
        count = 0
        for topic_partition in partitions:
            with suppress(NotYet, ApiError):
                count += self._shares.get(self._key(topic_partition)).can_acquire(limits)
        return count

    def read(self, partitions: Collection[TopicIdPartition], now: int) -> Found:
        """Hand out what there is; partitions without anything are left out."""
        left_bytes, left_records = self._max_bytes, self._max_records
        count = self._count_open(partitions)
        part_bytes = max(1, left_bytes // max(1, count))
        found: Found = {}
        is_first = True
        known: dict[Refused, Refused] = {}  # what many are refused for, once
        for topic_partition in partitions:
            try:
                data = self._read(topic_partition, min(part_bytes, left_bytes), left_records, is_first, now)
            except NotYet:
                continue
            except ApiError as error:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if _is_uninitialized(error) else error.code
                why = Refused(code, error.message)
                found[topic_partition] = known.setdefault(why, why)
                continue
            if data is not None:
                found[topic_partition] = data
                is_first = False
                left_bytes -= len(data.records)
                left_records -= sum(one.last_offset - one.first_offset + 1 for one in data.acquired_records)
                if left_bytes <= 0 or left_records <= 0:
                    break
        return found

    def _read(
        self, topic_partition: TopicIdPartition, max_bytes: int, max_records: int, is_first: bool, now: int
    ) -> PartitionData | None:
        """Hand out what there is of one partition. `is_first`: its first batch may be larger than `max_bytes`."""
        key = self._key(topic_partition)
        if max_records <= 0 or max_bytes <= 0:
            self._shares.partition_of(key)  # who wants nothing is told of what there is not, and of no state
            return None
        partition = self._shares.get(key)
        pieces: list[memoryview] = []
        acquired: list[StateRun] = []
        while max_records > 0 and max_bytes > 0:
            before = partition.next_fetch_offset
            got, size = self._step(key, partition, max_bytes, max_records, is_first and not acquired, pieces, now)
            acquired += got
            max_bytes -= size
            max_records -= sum(run.last - run.first + 1 for run in got)
            self.has_passed |= partition.next_fetch_offset > before
            # Go on where that was a whole chunk.
            if partition.next_fetch_offset <= before or size < CHUNK_BYTES // 2:
                break
        if not acquired:
            return None
        self._shares.acquired(partition)
        return PartitionData(
            topic_partition[1],
            records=b"".join(pieces) if len(pieces) > 1 else pieces[0],
            acquired_records=[AcquiredRecords(run.first, run.last, run.deliveries) for run in coalesced(acquired)],
        )

    def _step(
        self,
        key: ShareKey,
        partition: SharePartition,
        max_bytes: int,
        max_records: int,
        min_one: bool,
        pieces: list[memoryview],
        now: int,
    ) -> tuple[list[StateRun], int]:
        """One read of the log: what is handed out, and how much was read or, if anything is handed out, how much of
        that.
        """
        limits = self._shares.limits(self._group_id)
        if not partition.can_acquire(limits):
            return [], 0
        found = self._shares.read(key, partition, min(max_bytes, CHUNK_BYTES), min_one)
        if found is None and max_bytes > CHUNK_BYTES:  # a batch larger than a chunk
            found = self._shares.read(key, partition, max_bytes, min_one)
        if found is None:
            return [], 0
        got = partition.acquire(
            self._member_id, found.batches, max_records, self._batch_size, self._exactly, limits, now
        )
        if not got:
            return [], found.size
        pieces.append(found.between(got[0].first, got[-1].last))
        return got, len(pieces[-1])


def _is_uninitialized(error: ApiError) -> bool:
    """A group that has no state for the partition, or none any more: its members ask for metadata and try again."""
    return error.code is ErrorCode.INVALID_REQUEST
