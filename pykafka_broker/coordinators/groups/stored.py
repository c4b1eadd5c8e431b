"""The records of `__consumer_offsets`, in the versions that Kafka 4.3 writes.

Rule: a key is its type as int16 and then the key message; a value is its version as int16 and then the value message;
no value is a tombstone. A type that we don't know is left to newer releases: `read_record` returns None and the
record stays where it is.
"""

from __future__ import annotations

from functools import cache, lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any

from pykafka_broker.coordinators.effects import KeyValue, Said
from pykafka_broker.protocol.runtime import Buffer, DecodeError, Message
from pykafka_broker.protocol.stored.group_metadata_key import GroupMetadataKey
from pykafka_broker.protocol.stored.group_metadata_value import GroupMetadataValue, MemberMetadata
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey
from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS

if TYPE_CHECKING:
    from pykafka_broker.coordinators.groups.classic_group import ClassicGroup

_TYPE = Struct(">h")
GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1  # the last one that carries an expiry time of its own


def key_bytes(key: Message) -> bytes:
    return _TYPE.pack(key.API_KEY) + key.encode(0)


def value_bytes(value: Message, version: int) -> bytes:
    return _TYPE.pack(version) + value.encode(version)


def record(key: Message, value: Message | None, version: int = 0) -> KeyValue:
    """A record, or a tombstone for None."""
    return KeyValue(key_bytes(key), None if value is None else value_bytes(value, version))


def said(key: Message, value: Message) -> Said:
    """A record that may be long; nobody changes these messages afterwards."""
    made = Said(key_bytes(key), value_bytes(value, 0))
    made.messages = key, value
    return made


def read_record(key: Buffer, value: Buffer | None) -> tuple[Any, Any] | None:
    """Key and value messages; None for a type that this release doesn't know. Raises DecodeError."""
    if len(key) < 2:
        raise DecodeError(f"a coordinator key of {len(key)} bytes")
    classes = _classes(_TYPE.unpack_from(key)[0])
    if classes is None:
        return None
    key_class, value_class = classes
    key_message, _ = key_class.read(key, 2, 0)
    if value is None:
        return key_message, None
    if len(value) < 2:
        raise DecodeError(f"a {value_class.__name__} of {len(value)} bytes")
    value_message, _ = value_class.read(value, 2, _TYPE.unpack_from(value)[0])
    return key_message, value_message


@cache
def _classes(record_type: int) -> tuple[type[Message], type[Message]] | None:
    spec = GROUP_RECORDS.get(record_type)
    return None if spec is None else (spec.key_class(), spec.value_class())


def nothing(group: str) -> KeyValue:
    """A record that changes nothing, here or in Kafka: no such offset is ever committed."""
    return record(OffsetCommitKey(group, "", -1), None)


@lru_cache(maxsize=4096)
def offset_key(group: str, topic: str, partition: int) -> tuple[OffsetCommitKey, bytes]:
    """The key of a committed offset, which is the same in each of its commits, and its bytes. Not to be changed."""
    key = OffsetCommitKey(group, topic, partition)
    return key, key_bytes(key)


def offset_commit(group: str, topic: str, partition: int, value: OffsetCommitValue | None) -> KeyValue:
    """A committed offset, or its tombstone."""
    return KeyValue(offset_key(group, topic, partition)[1], None if value is None else offset_value(value))


def offset_value(value: OffsetCommitValue) -> bytes:
    """A committed offset as bytes; what has an expiry time of its own has neither leader epoch nor topic id there."""
    return value_bytes(
        value, OFFSET_COMMIT_VERSION if value.expire_timestamp == -1 else OFFSET_COMMIT_VERSION_WITH_EXPIRY
    )


def group_metadata(group: ClassicGroup, assignments: dict[str, bytes]) -> KeyValue:
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
    return record(GroupMetadataKey(group.group_id), value, GROUP_METADATA_VERSION)


def empty_group_metadata(group: ClassicGroup) -> KeyValue:
    """A classic group that has just come to be: no protocol, no member, generation 0."""
    value = GroupMetadataValue("", 0, None, None, _since(group), [])
    return record(GroupMetadataKey(group.group_id), value, GROUP_METADATA_VERSION)


def group_metadata_tombstone(group_id: str) -> KeyValue:
    return record(GroupMetadataKey(group_id), None)


def _since(group: ClassicGroup) -> int:
    return -1 if group.state_since is None else group.state_since
