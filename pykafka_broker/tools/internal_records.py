"""Records of Kafka's own topics as its formatters print them: JSON objects without line ends.

Rule: a field is printed if the record's version has it, a tagged field only if it differs from its default. Records of
another kind than the formatter's are skipped. An unreadable record is an error: the topic is another one. This module
is imported when a formatter asks for it, with all stored messages.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from pykafka_broker.client.errors import ClientError
from pykafka_broker.protocol.runtime import ZERO_UUID, DecodeError, Fields, uuid_text
from pykafka_broker.protocol.specs import RecordSpec
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS
from pykafka_broker.tools.console_output import Consumed

_INT16 = struct.Struct(">h")
_IDS = {"topic_id"}  # all other names ending in `_id` are text
_LAST = 1 << 15
_VERSIONS = {  # of fields which some versions lack
    ("OffsetCommitValue", "leader_epoch"): (3, _LAST),
    ("OffsetCommitValue", "expire_timestamp"): (1, 1),
    ("GroupMetadataValue", "current_state_timestamp"): (2, _LAST),
    ("MemberMetadata", "group_instance_id"): (3, _LAST),
    ("MemberMetadata", "rebalance_timeout"): (1, _LAST),
}
_TAGGED = {
    ("OffsetCommitValue", "topic_id"): ZERO_UUID,
    ("TransactionLogValue", "previous_producer_id"): -1,
    ("TransactionLogValue", "next_producer_id"): -1,
    ("TransactionLogValue", "next_producer_epoch"): -1,
    ("TransactionLogValue", "client_transaction_version"): 0,
    ("ShareGroupTargetAssignmentMetadataValue", "assignment_timestamp"): 0,
    ("ShareSnapshotValue", "delivery_complete_count"): -1,
    ("ShareUpdateValue", "delivery_complete_count"): -1,
}


def _formatter(specs: dict[int, RecordSpec], types: tuple[int, ...]) -> Callable[[Consumed], bytes]:
    def text(consumed: Consumed) -> bytes:
        record = consumed.record
        if record.key is None:
            return b""
        try:
            kind = _number(record.key)
            if kind not in specs:
                return b""
            key = _plain(_decoded(specs[kind].key_class(), record.key, 0), 0)
            value = None if record.value is None else _value(specs[kind], record.value)
        except DecodeError as error:
            raise ClientError(f"Could not read record at offset {record.offset} due to: {error}") from None
        if kind not in types:
            return b""
        told = {"key": {"type": kind, "data": key}, "value": value}
        return json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()

    return text


def _number(data: bytes) -> int:
    """Return the kind of a key, or the version of a value."""
    if len(data) < _INT16.size:
        raise DecodeError(f"{len(data)} bytes are too few")
    return int(_INT16.unpack_from(data)[0])


def _value(spec: RecordSpec, value: bytes) -> dict[str, Any]:
    version = _number(value)
    return {"version": version, "data": _plain(_decoded(spec.value_class(), value, version), version)}


def _decoded(kind: Any, data: bytes, version: int) -> Fields:
    if not kind.MIN_VERSION <= version <= kind.MAX_VERSION:
        raise DecodeError(f"{kind.__name__} has no version {version}")
    found: Fields = kind.read(data, _INT16.size, version)[0]
    return found


def _plain(value: Any, version: int) -> Any:
    if isinstance(value, Fields):
        kind = type(value).__name__
        return {
            _camel(name): uuid_text(at) if name in _IDS else _plain(at, version)
            for name, at in ((name, getattr(value, name)) for name in value.__match_args__)
            if _stands(kind, name, at, version)
        }
    if isinstance(value, list):
        return [_plain(each, version) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    return value


def _stands(kind: str, name: str, value: Any, version: int) -> bool:
    lowest, highest = _VERSIONS.get((kind, name), (0, _LAST))
    return lowest <= version <= highest and ((kind, name) not in _TAGGED or value != _TAGGED[kind, name])


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


FORMATTERS: dict[str, Callable[[Consumed], bytes]] = {
    "OffsetsMessageFormatter": _formatter(GROUP_RECORDS, (0, 1)),
    "GroupMetadataMessageFormatter": _formatter(GROUP_RECORDS, (2,)),
    "ShareGroupMessageFormatter": _formatter(GROUP_RECORDS, (10, 11, 12, 13, 14, 15)),
    "TransactionLogMessageFormatter": _formatter(TRANSACTION_RECORDS, (0,)),
    "group.share.ShareGroupStateMessageFormatter": _formatter(SHARE_RECORDS, (0, 1)),
}
