"""The records of Kafka's own topics in words: metadata, groups, transactions, share groups; and control records.

Rule: a record that can't be decoded is shown as text or in hexadecimal, with the reason, and the decoding continues.
Passwords and the secrets of SCRAM are hidden in decoded records.

A single unreadable record keeps its whole coordinator out of service; in the metadata log, it keeps the node from
reading the metadata. A coordinator's log is repaired by taking such records out: every other record stays at its
offset, and the original segment is kept aside.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pykafka_broker.config.describe import is_secret
from pykafka_broker.log.compaction.filter import empty_batch, rewrite
from pykafka_broker.log.compaction.latest import iter_spans, kept_spans, records_bytes
from pykafka_broker.log.filesystem import Buffer, FileSystem
from pykafka_broker.log.log_directory import METADATA_TOPIC
from pykafka_broker.log.scan import ScannedBatch, scan
from pykafka_broker.protocol.runtime import DecodeError, Fields, Message, read_uvarint, uuid_text
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS, METADATA_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS
from pykafka_broker.records.control import CONTROL_KEY
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.record import iter_records

_KEYED = {
    "__consumer_offsets": GROUP_RECORDS,
    "__transaction_state": TRANSACTION_RECORDS,
    "__share_group_state": SHARE_RECORDS,
}
_INT16 = struct.Struct(">h")
_CONTROL_TYPES = ("ABORT", "COMMIT", "LeaderChange", "SnapshotHeader", "SnapshotFooter", "KRaftVersion", "KRaftVoters")
_FRAME_VERSION = 1
_NEVER_REMOVED = "__share_group_state", "ShareUpdate"  # an update is removed with its snapshot, never by a tombstone
_TRANSACTION_STATES = range(8)
_HIDDEN = "[hidden]"
_CONFIG = ("value",)
_SECRETS = {"ConfigRecord": _CONFIG, "UserScramCredentialRecord": ("salt", "stored_key", "server_key")}


def decode(topic: str, key: bytes | None, value: bytes | None) -> dict[str, object] | None:
    """Return the record of an internal topic in words; None for other topics."""
    try:
        if topic == METADATA_TOPIC:
            message, version = decode_metadata(value or b"")
            return {"record": type(message).__name__, "version": version, "value": _without_secrets(message)}
        if topic not in _KEYED:
            return None
        kind, decoded_key, decoded_value = _decode_keyed(topic, key or b"", value)
        if decoded_key is None:
            raise DecodeError(kind)
        return {"record": kind, "key": plain(decoded_key), "value": plain(decoded_value)}
    except DecodeError as error:
        return {"undecodable": str(error), "key": text(key), "value": text(value)}


def is_kept_for(topic: str) -> bool:
    """Return whether the broker itself keeps records in the topic: the metadata, or the state of a coordinator."""
    return topic == METADATA_TOPIC or topic in _KEYED


def unreadable(topic: str, key: bytes | None, value: bytes | None) -> str | None:
    """Return why a coordinator can't read a record; None for a readable record.

    A coordinator passes over a key of an unknown type, which belongs to a newer release.
    """
    try:
        if topic == METADATA_TOPIC:
            decode_metadata(value or b"")
        elif topic in _KEYED:
            name, decoded_key, decoded_value = _decode_keyed(topic, key or b"", value)
            if (topic, name) == _NEVER_REMOVED and decoded_key is not None and value is None:
                raise DecodeError("a tombstone of an update, which is never written")
            state = getattr(decoded_value, "transaction_status", 0)
            if state not in _TRANSACTION_STATES:
                raise DecodeError(f"a transaction in state {state}")
    except DecodeError as error:
        return str(error)
    return None


def _decode_keyed(topic: str, key: bytes, value: bytes | None) -> tuple[str, Message | None, Message | None]:
    """Return kind, key and value of a coordinator's record; for an unknown type its number and no key."""
    if len(key) < _INT16.size:
        raise DecodeError(f"a key of {len(key)} bytes")
    kind = _INT16.unpack_from(key)[0]
    spec = _KEYED[topic].get(kind)
    if spec is None:
        return str(kind), None, None
    name = spec.value_name.removesuffix("Value")
    decoded_key = spec.key_class().read(key, _INT16.size, 0)[0]
    if value is None:
        return name, decoded_key, None
    if len(value) < _INT16.size:
        raise DecodeError(f"a value of {len(value)} bytes")
    return name, decoded_key, spec.value_class().read(value, _INT16.size, _INT16.unpack_from(value)[0])[0]


def decode_metadata(value: bytes) -> tuple[Message, int]:
    """Return a record of the metadata log and the record's version: a frame of three varints, and the message."""
    frame, at = read_uvarint(value, 0)
    kind, at = read_uvarint(value, at)
    version, at = read_uvarint(value, at)
    if frame != _FRAME_VERSION or kind not in METADATA_RECORDS:
        raise DecodeError(f"type {kind} in frame version {frame}")
    message, end = METADATA_RECORDS[kind].value_class().read(value, at, version)
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes follow the {type(message).__name__}")
    return message, version


def control_type(key: bytes | None) -> str:
    """Return the name of a control record's type."""
    if key is None or len(key) < CONTROL_KEY.size:
        return "unknown"
    kind = CONTROL_KEY.unpack_from(key)[1]
    return _CONTROL_TYPES[kind] if 0 <= kind < len(_CONTROL_TYPES) else str(kind)


def plain(value: object) -> object:
    """Return a value for JSON: ids in Kafka's form, other bytes as text or in hexadecimal."""
    if isinstance(value, Fields):
        return {name: plain(getattr(value, name)) for name in value.__match_args__}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return uuid_text(bytes(value)) if len(value) == 16 else text(bytes(value))
    return value


def _without_secrets(message: Message) -> object:
    """Return a record of the metadata, with passwords and the secrets of SCRAM hidden."""
    hidden = _SECRETS.get(type(message).__name__, ())
    if hidden == _CONFIG and not is_secret(message.name):  # type: ignore[attr-defined] # of ConfigRecord
        hidden = ()
    return {
        name: _HIDDEN if name in hidden and getattr(message, name) else plain(getattr(message, name))
        for name in message.__match_args__
    }


def text(data: bytes | None) -> str | None:
    """Return the text in some bytes, or the bytes in hexadecimal."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "0x" + data.hex()


# -- records that their coordinator can't read


def unreadable_records(topic: str, batch: ScannedBatch) -> Iterator[tuple[int, str]]:
    """Yield the offset of each unreadable record, and the reason.

    A batch that can't be taken apart counts as a single record at its base offset.
    """
    header = batch.header
    if header.is_control:
        return
    try:
        for record in iter_records(batch.data, header):
            reason = unreadable(topic, record.key, record.value)
            if reason is not None:
                yield record.offset, reason
    except CorruptBatch as error:
        yield header.base_offset, str(error)


def without_unreadable(topic: str, batch: ScannedBatch) -> Buffer:
    """Return the batch with the readable records alone."""
    found = {offset for offset, _ in unreadable_records(topic, batch)}
    if not found:
        return batch.data
    header = batch.header
    try:
        data = records_bytes(batch.data, header)
        spans = list(iter_spans(data, header.count))
    except CorruptBatch:
        return empty_batch(header)
    kept = [span for span in spans if header.base_offset + span[2] not in found]
    return rewrite(header, kept_spans(data, kept), header.delete_horizon_ms) if kept else empty_batch(header)


def write_readable(fs: FileSystem, topic: str, source: str, target: str) -> None:
    """Write the readable records of a segment with whole batches to another file."""
    old, new = fs.open(source, writable=False), fs.open(target, create=True)
    written = 0
    for batch in scan(old, source, 0, old.size(), verify=False):
        data = without_unreadable(topic, batch)
        new.write_at(data, written)
        written += len(data)
    new.sync()
