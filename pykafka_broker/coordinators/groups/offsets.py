"""Committed offsets: their store, their records, and OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete.

Rule: only `replay` and `replay_end_txn` change what is committed, live and at load alike. An offset of a transaction is
pending until the marker comes; of two commits the one that stands later in the log wins, whenever its marker came.
Each partition of a request is answered by itself. A partition that the cluster does not have is refused before the
group is asked; a refusal by the group holds for all other partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from pykafka_broker.coordinators.groups.classic_group import PREPARING_REBALANCE, STABLE, ClassicGroup
from pykafka_broker.coordinators.groups.group import AnyGroup, GroupTable
from pykafka_broker.coordinators.groups.topics import ClusterTopic, java_length
from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition
from pykafka_broker.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pykafka_broker.protocol.messages.offset_delete_request import OffsetDeleteRequest
from pykafka_broker.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from pykafka_broker.protocol.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
)
from pykafka_broker.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.protocol.stored.legacy_offset_commit_value import LegacyOffsetCommitValue
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey
from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue
from pykafka_broker.records.record import wrap_int64

NO_PRODUCER_ID = -1
LAST_OFFSET = 2**63 - 1
_ANSWER: tuple[Any, Any, Any] = OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition
_TXN_ANSWER: tuple[Any, Any, Any] = (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
    TxnOffsetCommitResponsePartition,
)


class CommittedOffset:
    """A committed offset of a partition; `log_offset` is the offset of the record in the log."""

    __slots__ = ("commit_timestamp", "expire_timestamp", "leader_epoch", "log_offset", "metadata", "offset", "topic_id")

    def __init__(self, value: OffsetCommitValue | LegacyOffsetCommitValue, log_offset: int) -> None:
        self.offset = value.offset
        self.metadata = value.metadata
        self.commit_timestamp = value.commit_timestamp
        self.log_offset = log_offset
        if isinstance(value, OffsetCommitValue):
            self.leader_epoch = value.leader_epoch
            self.expire_timestamp = value.expire_timestamp
            self.topic_id = bytes(value.topic_id)
        else:
            self.leader_epoch = self.expire_timestamp = -1
            self.topic_id = ZERO_UUID


class GroupOffsets:
    """The offsets of a group, committed and pending."""

    __slots__ = ("committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[str, dict[int, CommittedOffset]] = {}
        # Offsets of open transactions: partition -> producer id -> offset.
        self.pending: dict[PartitionKey, dict[int, CommittedOffset]] = {}


class OffsetStore:
    def __init__(self) -> None:
        self.groups: dict[str, GroupOffsets] = {}
        self._transactions: dict[int, set[str]] = {}  # producer id -> groups with pending offsets of the producer

    # Committed offsets

    def committed(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        """Return the offsets of a group by topic and partition, empty for an unknown group. Read only."""
        group = self.groups.get(group_id)
        return {} if group is None else group.committed

    def partitions(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self.committed(group_id).items():
            for partition, offset in partitions.items():
                yield topic, partition, offset

    def pending(self, group_id: str) -> Mapping[PartitionKey, Mapping[int, CommittedOffset]]:
        """Return the offsets of a group in open transactions, which may still change. Read only."""
        group = self.groups.get(group_id)
        return {} if group is None else group.pending

    # Hard state

    def replay(
        self,
        group_id: str,
        topic: str,
        partition: int,
        value: OffsetCommitValue | LegacyOffsetCommitValue | None,
        log_offset: int,
        producer_id: int,
    ) -> None:
        """Apply a record."""
        group = self.groups.get(group_id)
        if value is None:
            if group is not None:
                self._forget(group_id, group, topic, partition)
            return
        if group is None:
            group = self.groups[group_id] = GroupOffsets()
        offset = CommittedOffset(value, log_offset)
        if producer_id == NO_PRODUCER_ID:
            group.committed.setdefault(topic, {})[partition] = offset
        else:
            group.pending.setdefault((topic, partition), {})[producer_id] = offset
            self._transactions.setdefault(producer_id, set()).add(group_id)

    def replay_end_txn(self, producer_id: int, committed: bool, owns: Callable[[str], bool]) -> None:
        """Commit or drop the pending offsets of an ended transaction.

        Args:
            owns: Whether a group belongs to the log with the transaction's marker.
        """
        affected = self._transactions.get(producer_id, set())
        for group_id in [group_id for group_id in affected if owns(group_id)]:
            affected.discard(group_id)
            group = self.groups[group_id]
            for (topic, partition), offsets in list(group.pending.items()):
                offset = offsets.pop(producer_id, None)
                if not offsets:
                    del group.pending[topic, partition]
                if offset is not None and committed:
                    self._commit_pending(group, topic, partition, offset)
            self._drop_if_empty(group_id, group)
        if not affected:
            self._transactions.pop(producer_id, None)

    def _commit_pending(self, group: GroupOffsets, topic: str, partition: int, offset: CommittedOffset) -> None:
        partitions = group.committed.setdefault(topic, {})
        existing = partitions.get(partition)
        # Compaction keeps the later record: so must we, or a restart would change the answer.
        if existing is None or offset.log_offset > existing.log_offset:
            partitions[partition] = offset

    def forget_group(self, group_id: str) -> None:
        """Forget the offsets of a group of another node."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            for producer_id in {producer_id for offsets in group.pending.values() for producer_id in offsets}:
                self._leave_transaction(producer_id, group_id)

    def _leave_transaction(self, producer_id: int, group_id: str) -> None:
        groups = self._transactions[producer_id]
        groups.discard(group_id)
        if not groups:
            del self._transactions[producer_id]

    def _forget(self, group_id: str, group: GroupOffsets, topic: str, partition: int) -> None:
        """Apply a tombstone: pending offsets from before the tombstone go, too."""
        for producer_id in group.pending.pop((topic, partition), {}):
            if not any(producer_id in offsets for offsets in group.pending.values()):
                self._leave_transaction(producer_id, group_id)
        partitions = group.committed.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del group.committed[topic]
        self._drop_if_empty(group_id, group)

    def _drop_if_empty(self, group_id: str, group: GroupOffsets) -> None:
        if not group.committed and not group.pending:
            del self.groups[group_id]


# Records


OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1  # the last version with an expiry time of its own


def no_change_record(group: str) -> CoordinatorRecord:
    """Return a record without effect, in Kafka too: the tombstone of a partition without any commit."""
    return CoordinatorRecord(OffsetCommitKey(group, "", -1), None)


def offset_record(group: str, topic: str, partition: int, value: OffsetCommitValue | None) -> CoordinatorRecord:
    """Return the record of a committed offset, or the tombstone.

    A value with an expiry time of its own is written in the last version that has one, which knows neither leader epoch
    nor topic id.
    """
    key = OffsetCommitKey(group, topic, partition)
    if value is None:
        return CoordinatorRecord(key, None)
    expires = value.expire_timestamp != -1
    return CoordinatorRecord(key, value, OFFSET_COMMIT_VERSION_WITH_EXPIRY if expires else OFFSET_COMMIT_VERSION)


# Requests


TOPIC_IDS_FROM = 10
# From this version on a missing group and a stale epoch have errors of their own, which older clients don't know.
CONSUMER_PROTOCOL_FROM = 9
TXN_TOPIC_IDS_FROM = 6  # TxnOffsetCommit: topic ids, and the errors of the consumer protocol (KIP-1319)
NO_OFFSET = -1
_NO_RETENTION = -1  # the request has no retention: the broker's counts
MS_PER_MINUTE = 60_000
# Constants of the module, since each use of an enum's member is a look-up.
_NONE, _UNKNOWN, _UNKNOWN_TOPIC_ID = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID


class OffsetRequests:
    """The rules for requests about offsets, over the table of groups and the store of offsets."""

    def __init__(self, table: GroupTable, store: OffsetStore, keep_alive: Callable[[ClassicGroup, str, int], None]):
        self._table = table
        self._store = store
        self._keep_alive = keep_alive  # a commit of a classic member counts as a heartbeat

    # OffsetCommit and TxnOffsetCommit

    def commit(
        self, request: OffsetCommitRequest | TxnOffsetCommitRequest, version: int, now: int
    ) -> CoordinatorResult[Any]:
        """Decide an OffsetCommit or a TxnOffsetCommit; generation -1 is for clients outside of the group protocol.

        The records of a TxnOffsetCommit go into the log under the producer's id and epoch, and count once the
        transaction's commit marker is there (KIP-447).
        """
        transactional, wall = isinstance(request, TxnOffsetCommitRequest), self._table.wall_at(now)
        by_ids = version >= (TXN_TOPIC_IDS_FROM if transactional else TOPIC_IDS_FROM)
        response_type, topic_type, partition_type = _TXN_ANSWER if transactional else _ANSWER
        value_of = partial(_value_in_transaction if transactional else _value, request, wall)
        verdict: ErrorCode | None = None  # the group is asked at the first existing partition
        topics, records = list[Any](), list[CoordinatorRecord]()
        for topic in request.topics:
            image = self._find(topic, by_ids)
            partitions = []
            for partition in topic.partitions:
                if image is None:
                    code = _UNKNOWN_TOPIC_ID if by_ids else _UNKNOWN
                elif partition.partition_index not in image.partitions:
                    code = _UNKNOWN
                else:
                    if verdict is None:
                        verdict = self._check_commit(
                            request.group_id,
                            request.generation_id_or_member_epoch,
                            request.member_id,
                            request.group_instance_id,
                            lambda: self._existing_partitions(request, by_ids),
                            version,
                            now,
                            transactional,
                        )
                    code = self._commit_error(verdict, partition.committed_metadata)
                    if code is _NONE:
                        value = value_of(topic.topic_id if transactional else image.id, partition)
                        records.append(offset_record(request.group_id, image.name, partition.partition_index, value))
                partitions.append(partition_type(partition.partition_index, code))
            topics.append(topic_type(topic.name, topic.topic_id, partitions))
        return CoordinatorResult(response_type(topics=topics), records, request.group_id)

    def commit_one(
        self,
        group_id: str,
        epoch: int,
        member_id: str,
        topic: str,
        topic_id: bytes,
        index: int,
        value: OffsetCommitValue,
        version: int,
        now: int,
    ) -> CoordinatorRecord | None:
        """Decide an OffsetCommit for one partition as `commit` does; return the record, None for a refusal.

        value: what is committed; time and topic are filled in here.
        """
        by_ids = version >= TOPIC_IDS_FROM
        topics = self._table.topics
        image = topics.topics_by_id.get(topic_id) if by_ids else topics.topics.get(topic)
        if image is None or index not in image.partitions:
            return None
        verdict = self._check_commit(group_id, epoch, member_id, None, lambda: [(image.id, index)], version, now, False)
        if self._commit_error(verdict, value.metadata) is not _NONE:
            return None
        value.commit_timestamp, value.topic_id = self._table.wall_at(now), image.id
        return offset_record(group_id, image.name, index, value)

    def _existing_partitions(
        self, request: OffsetCommitRequest | TxnOffsetCommitRequest, by_ids: bool
    ) -> list[tuple[bytes, int]]:
        return [
            (image.id, partition.partition_index)
            for topic in request.topics
            if (image := self._find(topic, by_ids)) is not None
            for partition in topic.partitions
            if partition.partition_index in image.partitions
        ]

    def _find(self, topic: Any, by_ids: bool) -> ClusterTopic | None:
        if by_ids:
            return self._table.topics.topics_by_id.get(topic.topic_id)
        return self._table.topics.topics.get(topic.name)

    def _check_commit(
        self,
        group_id: str,
        epoch: int,
        member_id: str,
        instance_id: str | None,
        partitions: Callable[[], list[tuple[bytes, int]]],
        version: int,
        now: int,
        transactional: bool,
    ) -> ErrorCode:
        group = self._table.groups.get(group_id)
        knows_epochs = version >= (TXN_TOPIC_IDS_FROM if transactional else CONSUMER_PROTOCOL_FROM)
        if group is None:
            if epoch < 0:
                return _NONE  # the record makes a simple group
            return ErrorCode.GROUP_ID_NOT_FOUND if knows_epochs else ErrorCode.ILLEGAL_GENERATION
        error = _verdict(group, partitions, member_id, instance_id, epoch, version, transactional)
        if error is ErrorCode.STALE_MEMBER_EPOCH and not knows_epochs:
            return ErrorCode.ILLEGAL_GENERATION if transactional else ErrorCode.UNSUPPORTED_VERSION
        if transactional:
            return error
        if error is _NONE and isinstance(group, ClassicGroup) and group.state in (STABLE, PREPARING_REBALANCE):
            self._keep_alive(group, member_id, now)
        return error

    def _commit_error(self, verdict: ErrorCode, metadata: str | None) -> ErrorCode:
        if verdict is _NONE and metadata:
            length = len(metadata) if metadata.isascii() else java_length(metadata)
            if length > self._table.config.offset_metadata_max_bytes:
                return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return verdict

    # OffsetFetch

    def fetch(self, request: OffsetFetchRequestGroup, require_stable: bool, version: int) -> OffsetFetchResponseGroup:
        """Return offsets of a group, in the form of version 8 and newer; topics None asks for all offsets."""
        group = self._table.groups.get(request.group_id)
        if group is not None:
            try:
                group.check_offset_fetch(request.member_id, request.member_epoch)
            except ApiError as error:
                return OffsetFetchResponseGroup(request.group_id, [], error.code)
        if request.topics is None:
            topics = self._fetch_all(request.group_id, require_stable, version)
        else:
            topics = [self._fetch_topic(request.group_id, topic, require_stable, version) for topic in request.topics]
        return OffsetFetchResponseGroup(request.group_id, topics)

    def _fetch_topic(
        self, group_id: str, topic: OffsetFetchRequestTopics, require_stable: bool, version: int
    ) -> OffsetFetchResponseTopics:
        name = topic.name
        if version >= TOPIC_IDS_FROM:
            image = self._table.topics.topics_by_id.get(topic.topic_id)
            if image is None:
                unknown = [_no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
                return OffsetFetchResponseTopics(name, topic.topic_id, unknown)
            name = image.name
        committed = self._store.committed(group_id).get(name, {})
        pending = self._store.pending(group_id) if require_stable else ()
        partitions = []
        for index in topic.partition_indexes:
            if (name, index) in pending:
                partitions.append(_no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                continue
            offset = committed.get(index)
            if offset is None or _of_another_topic(offset, topic.topic_id):
                partitions.append(_no_offset(index))
            else:
                partitions.append(_offset(index, offset))
        return OffsetFetchResponseTopics(name, topic.topic_id, partitions)

    def _fetch_all(self, group_id: str, require_stable: bool, version: int) -> list[OffsetFetchResponseTopics]:
        topics = []
        pending = self._store.pending(group_id) if require_stable else ()
        for name, offsets in self._store.committed(group_id).items():
            image = self._table.topics.topics.get(name)
            if image is None and version >= TOPIC_IDS_FROM:
                continue  # the topic is deleted, and an answer by id has no id for it
            partitions = [
                _no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                if (name, index) in pending
                else _offset(index, offset)
                for index, offset in offsets.items()
            ]
            topics.append(OffsetFetchResponseTopics(name, ZERO_UUID if image is None else image.id, partitions))
        return topics

    # OffsetDelete

    def delete(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Decide an OffsetDelete: topics without a reader in the group lose offsets (KIP-496)."""
        if not request.group_id:
            return CoordinatorResult(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        result: CoordinatorResult[OffsetDeleteResponse] = CoordinatorResult(key=request.group_id)
        try:
            group = self._table.existing(request.group_id)
            group.check_offset_delete()
        except ApiError as refused:
            result.reply = OffsetDeleteResponse(error_code=refused.code)
            return result
        read = group.read_among(frozenset(topic.name for topic in request.topics))
        topics = []
        for topic in request.topics:
            image = self._table.topics.topics.get(topic.name)
            committed = self._store.committed(request.group_id).get(topic.name, {})
            partitions = []
            for partition in topic.partitions:
                index, code = partition.partition_index, ErrorCode.NONE
                if image is None or index not in image.partitions:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif topic.name in read:
                    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif index in committed or (topic.name, index) in self._store.pending(request.group_id):
                    result.records.append(offset_record(request.group_id, topic.name, index, None))
                partitions.append(OffsetDeleteResponsePartition(index, code))
            if partitions or image is None:
                topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
        result.reply = OffsetDeleteResponse(topics=topics)
        return result

    # Expiry and removal

    def expired(self, group_id: str, now: int) -> tuple[list[CoordinatorRecord], bool]:
        """Return tombstones for expired offsets, and whether no offset of the group is left (KIP-211)."""
        group = self._table.groups[group_id]
        base, wall = group.expiry_base(), self._table.wall_at(now)
        tombstones: list[CoordinatorRecord] = []
        committed, pending = self._store.committed(group_id), self._store.pending(group_id)
        left = bool(pending)
        retention_ms = self._table.config.offsets_retention_minutes * MS_PER_MINUTE
        read = group.read_among(frozenset(committed))
        for topic, partitions in committed.items():
            if base is None or topic in read:
                left = True
                continue
            for partition, offset in partitions.items():
                if _is_expired(offset, base, retention_ms, wall) and (topic, partition) not in pending:
                    tombstones.append(offset_record(group_id, topic, partition, None))
                else:
                    left = True
        return tombstones, not left

    def tombstones(
        self, group_id: str, topics: Collection[str] | None = None, end: int = LAST_OFFSET
    ) -> list[CoordinatorRecord]:
        """Return tombstones for all offsets of a group, or of some topics, those of open transactions included.

        Args:
            end: the offset in the group's log from which on commits are spared.
        """
        committed, pending = self._store.committed(group_id), self._store.pending(group_id)
        names = committed if topics is None else [topic for topic in committed if topic in topics]
        known: dict[PartitionKey, list[CommittedOffset]] = {
            (topic, partition): [offset] for topic in names for partition, offset in committed[topic].items()
        }
        for key, offsets in pending.items():
            if topics is None or key[0] in topics:
                known.setdefault(key, []).extend(offsets.values())
        return [
            offset_record(group_id, *key, None)
            for key, offsets in known.items()
            if all(offset.log_offset < end for offset in offsets)
        ]


def _verdict(
    group: AnyGroup,
    partitions: Callable[[], list[tuple[bytes, int]]],
    member_id: str,
    instance_id: str | None,
    epoch: int,
    version: int,
    transactional: bool,
) -> ErrorCode:
    """Return the group's error for a commit of the member. A partition of another member spoils the whole request."""
    try:
        check = group.check_offset_commit(member_id, instance_id, epoch, version, transactional)
    except ApiError as refused:
        return refused.code
    if check is None:
        return _NONE
    return next((error for partition in partitions() if (error := check(*partition)) is not _NONE), _NONE)


def _value(request: Any, wall: int, topic_id: bytes, partition: OffsetCommitRequestPartition) -> OffsetCommitValue:
    """Return the value of a commit; one with a retention of its own has neither leader epoch nor topic id."""
    metadata = partition.committed_metadata or ""
    committed_at = wall if partition.commit_timestamp == -1 else partition.commit_timestamp
    expires_at = -1
    if request.retention_time_ms != _NO_RETENTION:
        expires_at = wrap_int64(wall + request.retention_time_ms)
    if expires_at == -1:
        epoch = partition.committed_leader_epoch
        return OffsetCommitValue(partition.committed_offset, epoch, metadata, committed_at, topic_id=topic_id)
    return OffsetCommitValue(partition.committed_offset, -1, metadata, committed_at, expires_at)


def _value_in_transaction(
    request: Any, wall: int, topic_id: bytes, partition: TxnOffsetCommitRequestPartition
) -> OffsetCommitValue:
    """Return the value of a commit in a transaction. topic_id: of the request, ZERO_UUID in versions without ids."""
    offset, epoch = partition.committed_offset, partition.committed_leader_epoch
    return OffsetCommitValue(offset, epoch, partition.committed_metadata or "", wall, topic_id=topic_id)


def _is_expired(offset: CommittedOffset, base: Callable[[int], int], retention_ms: int, wall: int) -> bool:
    if offset.expire_timestamp != -1:
        return wall >= offset.expire_timestamp
    return wall - base(offset.commit_timestamp) >= retention_ms


def _of_another_topic(offset: CommittedOffset, topic_id: bytes) -> bool:
    """Return whether the offset was committed for an earlier topic of the same name."""
    return topic_id != ZERO_UUID and offset.topic_id != ZERO_UUID and offset.topic_id != topic_id


def _no_offset(index: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(index, NO_OFFSET, -1, "", error)


def _offset(index: int, offset: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(index, offset.offset, offset.leader_epoch, offset.metadata)
