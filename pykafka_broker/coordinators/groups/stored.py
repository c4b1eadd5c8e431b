"""The records of `__consumer_offsets`, in the versions that Kafka 4.3 writes.

Rule: here and nowhere else classic groups and committed offsets become records. Groups of other kinds have modules of
their own for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.protocol.stored.group_metadata_key import GroupMetadataKey
from pykafka_broker.protocol.stored.group_metadata_value import GroupMetadataValue, MemberMetadata
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey
from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue

if TYPE_CHECKING:
    from pykafka_broker.coordinators.groups.classic_group import ClassicGroup

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1  # the last one that carries an expiry time of its own


def nothing(group: str) -> CoordinatorRecord:
    """A record that changes nothing, here or in Kafka: no such offset is ever committed."""
    return CoordinatorRecord(OffsetCommitKey(group, "", -1), None)


def offset_commit(group: str, topic: str, partition: int, value: OffsetCommitValue | None) -> CoordinatorRecord:
    """Return the record of a committed offset, or its tombstone. A value with an expiry time of its own is written in
    the last version that has one, which knows neither leader epoch nor topic id.
    """
    key = OffsetCommitKey(group, topic, partition)
    if value is None:
        return CoordinatorRecord(key, None)
    expires = value.expire_timestamp != -1
    return CoordinatorRecord(key, value, OFFSET_COMMIT_VERSION_WITH_EXPIRY if expires else OFFSET_COMMIT_VERSION)


def group_metadata(group: ClassicGroup, assignments: dict[str, bytes]) -> CoordinatorRecord:
    """A classic group with its members and what each is assigned."""
    members = [
        MemberMetadata(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(group.protocol_name),
            assignments[member.member_id],
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        group.protocol_type, group.generation, group.protocol_name, group.leader, _since(group), members
    )
    return CoordinatorRecord(GroupMetadataKey(group.group_id), value, GROUP_METADATA_VERSION)


def empty_group_metadata(group: ClassicGroup) -> CoordinatorRecord:
    """A classic group that has just come to be: no protocol, no member, generation 0."""
    value = GroupMetadataValue("", 0, None, None, _since(group), [])
    return CoordinatorRecord(GroupMetadataKey(group.group_id), value, GROUP_METADATA_VERSION)


def group_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group_id), None)


def _since(group: ClassicGroup) -> int:
    return -1 if group.state_since is None else group.state_since
