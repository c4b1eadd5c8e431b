"""Committed offsets, and those of open transactions.

Rule: only `replay` and `replay_end_txn` change what is committed, live and at load alike. An offset of a transaction is
pending until the marker comes; of two commits the one that stands later in the log wins, whenever its marker came.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.protocol.stored.legacy_offset_commit_value import LegacyOffsetCommitValue
from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue

NO_PRODUCER_ID = -1
Partition = tuple[str, int]  # topic name and index


class CommittedOffset:
    """What a group has committed for one partition. `log_offset` is where its record stands."""

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
    """The offsets of one group."""

    __slots__ = ("committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[str, dict[int, CommittedOffset]] = {}
        # What open transactions will commit here: partition -> producer id -> offset.
        self.pending: dict[Partition, dict[int, CommittedOffset]] = {}


class OffsetStore:
    """The offsets of all groups."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupOffsets] = {}
        self._transactions: dict[int, set[str]] = {}  # producer id -> groups that it has pending offsets in

    # What is committed

    def committed(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        """By topic and partition; empty if there is nothing. Not to be changed by the caller."""
        group = self.groups.get(group_id)
        return {} if group is None else group.committed

    def partitions(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Everything that the group has committed."""
        for topic, partitions in self.committed(group_id).items():
            for partition, offset in partitions.items():
                yield topic, partition, offset

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may still change this offset."""
        group = self.groups.get(group_id)
        return group is not None and (topic, partition) in group.pending

    def has_pending(self, group_id: str) -> bool:
        group = self.groups.get(group_id)
        return group is not None and bool(group.pending)

    def pending_partitions(self, group_id: str) -> list[Partition]:
        group = self.groups.get(group_id)
        return [] if group is None else list(group.pending)

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
        """Take over one record."""
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

    def replay_end_txn(self, producer_id: int, committed: bool, group_ids: frozenset[str] | None = None) -> None:
        """A transaction has ended: its pending offsets become committed or are dropped. `group_ids` limits it to the
        groups of the log that the marker stands in."""
        affected = self._transactions.get(producer_id, set())
        for group_id in list(affected) if group_ids is None else [g for g in affected if g in group_ids]:
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
        """This node does not own the group any more."""
        self.groups.pop(group_id, None)
        for producer_id, groups in list(self._transactions.items()):
            groups.discard(group_id)
            if not groups:
                del self._transactions[producer_id]

    def _forget(self, group_id: str, group: GroupOffsets, topic: str, partition: int) -> None:
        """A tombstone: also what open transactions have written before it is gone."""
        for producer_id in group.pending.pop((topic, partition), {}):
            if not any(producer_id in offsets for offsets in group.pending.values()):
                self._transactions[producer_id].discard(group_id)
        partitions = group.committed.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del group.committed[topic]
        self._drop_if_empty(group_id, group)

    def _drop_if_empty(self, group_id: str, group: GroupOffsets) -> None:
        if not group.committed and not group.pending:
            del self.groups[group_id]
