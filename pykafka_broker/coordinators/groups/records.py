"""The records of all kinds of groups: taking them over, and taking a whole group back.

Rule: a record goes to the machine that knows its type; one of a type that nobody knows stays in the log for a newer
release.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.effects import KeyValue
from pykafka_broker.coordinators.groups import consumer_stored, stored
from pykafka_broker.coordinators.groups.classic import ClassicProtocol
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup
from pykafka_broker.coordinators.groups.consumer_replay import consumer_replay
from pykafka_broker.coordinators.groups.group import Group, GroupTable
from pykafka_broker.coordinators.groups.offsets import NO_PRODUCER_ID, OffsetStore
from pykafka_broker.coordinators.share import group_records as share_records
from pykafka_broker.coordinators.share.share_group import ShareGroup
from pykafka_broker.coordinators.streams import stored as streams_stored
from pykafka_broker.coordinators.streams.group import StreamsGroup
from pykafka_broker.coordinators.streams.replay import streams_replay
from pykafka_broker.protocol.runtime import Buffer
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
        self._kinds = (consumer_replay(table), streams_replay(table), share_records.share_replay(table))

    def replay(
        self,
        key: Buffer,
        value: Buffer | None,
        now: int,
        log_offset: int = -1,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Take over one record, live or at load. `producer_id` is set for a record of a transaction."""
        messages = stored.read_record(key, value)
        if messages is not None:
            self.take_over(*messages, now, log_offset, producer_id)

    def take_over(
        self, key_message: Any, value_message: Any, now: int, log_offset: int, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """The same for a record that has been read."""
        if isinstance(key_message, _OFFSET_KEYS):
            if value_message is not None and key_message.group not in self._table.groups:
                # Committing is enough to be a group, a simple one.
                self._table.groups[key_message.group] = ClassicGroup(
                    key_message.group, now, wall_at=self._table.wall_at
                )
            self._offsets.replay(
                key_message.group, key_message.topic, key_message.partition, value_message, log_offset, producer_id
            )
        elif isinstance(key_message, GroupMetadataKey):
            self._classic.replay(key_message.group, value_message, now)
        else:
            for kind in self._kinds:
                if kind.takes(key_message):
                    kind.replay(key_message, value_message)


def group_tombstones(group: Group) -> list[KeyValue]:
    """All records of a group but its offsets."""
    if isinstance(group, StreamsGroup):
        return streams_stored.group_tombstones(group)
    if isinstance(group, ConsumerGroup):
        return consumer_stored.group_tombstones(group)
    if isinstance(group, ShareGroup):
        return share_records.group_tombstones(group)
    return [stored.group_metadata_tombstone(group.group_id)]
