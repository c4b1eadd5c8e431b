"""The records of all kinds of groups: taking them over, and taking a whole group back.

Rule: a record goes to the kind of group that knows its type.
"""

from __future__ import annotations

from pykafka_broker.coordinators.groups import consumer_group
from pykafka_broker.coordinators.groups.classic import ClassicProtocol
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup, group_tombstone
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup, consumer_replay
from pykafka_broker.coordinators.groups.group import Group, GroupTable
from pykafka_broker.coordinators.groups.offsets import NO_PRODUCER_ID, OffsetStore
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.share import share_group
from pykafka_broker.coordinators.share.share_group import ShareGroup
from pykafka_broker.coordinators.streams import group as streams_group
from pykafka_broker.coordinators.streams.group import StreamsGroup, streams_replay
from pykafka_broker.protocol.stored.group_metadata_key import GroupMetadataKey
from pykafka_broker.protocol.stored.legacy_offset_commit_key import LegacyOffsetCommitKey
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey

_OFFSET_KEYS = (OffsetCommitKey, LegacyOffsetCommitKey)


class GroupReplay:
    """Takes over records of `__consumer_offsets`."""

    def __init__(self, table: GroupTable, offsets: OffsetStore, classic: ClassicProtocol) -> None:
        self._table = table
        self._offsets = offsets
        self._classic = classic
        self._kinds = (consumer_replay(table), streams_replay(table), share_group.share_replay(table))

    def replay(
        self,
        record: CoordinatorRecord,
        now: int,
        log_offset: int = -1,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Apply one record to the state, right after its append and at a load alike.

        Args:
            log_offset: The record's offset in its log.
            producer_id: The producer of the transaction that the record belongs to.
        """
        key, value, _ = record
        if isinstance(key, _OFFSET_KEYS):
            if value is not None and key.group not in self._table.groups:
                # Committing is enough to be a group, a simple one.
                self._table.groups[key.group] = ClassicGroup(key.group, now, wall_at=self._table.wall_at)
            self._offsets.replay(key.group, key.topic, key.partition, value, log_offset, producer_id)
        elif isinstance(key, GroupMetadataKey):
            self._classic.replay(key.group, value, now)
        else:
            for kind in self._kinds:
                if kind.takes(key):
                    kind.replay(key, value)


def group_tombstones(group: Group) -> list[CoordinatorRecord]:
    """All records of a group but its offsets."""
    if isinstance(group, StreamsGroup):
        return streams_group.group_tombstones(group)
    if isinstance(group, ConsumerGroup):
        return consumer_group.group_tombstones(group)
    if isinstance(group, ShareGroup):
        return share_group.group_tombstones(group)
    return [group_tombstone(group.group_id)]
