"""Metadata records as bytes (KIP-631).

Rule: a frame is `1, api key, version` as unsigned varints and then the body, nothing more.

The generated classes are imported when their type is first seen: a start reads only the few that its log holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from pykafka_broker.protocol.runtime import DecodeError, Message, read_uvarint
from pykafka_broker.protocol.stored_keys import METADATA_RECORDS

FRAME_VERSION = 1


class RecordType(IntEnum):
    """The api keys of Kafka's metadata records."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    BROKER_REGISTRATION_CHANGE = 17
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    NO_OP = 20
    ZK_MIGRATION_STATE = 21
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28
    UNREGISTER_CONTROLLER = 29


class MetadataError(Exception):
    """The metadata log has an impossible record: the broker must not start."""


class ApiMessageAndVersion(NamedTuple):
    """A metadata record and the version for writing."""

    message: Any
    version: int


Records = list[ApiMessageAndVersion]
RecordIterator = Iterator[ApiMessageAndVersion]

_CLASSES: dict[int, type[Message]] = {}


def record_class(api_key: int) -> type[Message]:
    """Return the generated class of a metadata record type; imported at the first call."""
    found = _CLASSES.get(api_key)
    if found is None:
        spec = METADATA_RECORDS.get(api_key)
        if spec is None:
            raise MetadataError(f"a metadata record of the unknown type {api_key}")
        found = _CLASSES[api_key] = spec.value_class()
    return found


def encode_record(record: ApiMessageAndVersion) -> bytes:
    """Return the value of a record in the metadata log."""
    message, version = record
    pieces: list[Any] = [bytes((FRAME_VERSION, message.API_KEY, version))]  # all below 128: one byte each as varints
    message.write(version, pieces.append)
    return b"".join(pieces)


def decode_record(value: bytes | memoryview) -> Any:
    """Return the message in the value of a record of the metadata log."""
    return decode_versioned(value).message


def decode_versioned(value: bytes | memoryview) -> ApiMessageAndVersion:
    """Return the message in the value of a record of the metadata log, with the record's version."""
    if len(value) < 3:
        raise MetadataError(f"a metadata record of {len(value)} bytes has no frame")
    try:
        frame_version, position = read_uvarint(value, 0)
        api_key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except DecodeError as error:
        raise MetadataError(f"the frame of a metadata record does not decode: {error}") from None
    if frame_version != FRAME_VERSION:
        raise MetadataError(f"a metadata record with frame version {frame_version}")
    message_class = record_class(api_key)
    if version > message_class.MAX_VERSION:
        raise MetadataError(f"{message_class.__name__} version {version} is newer than this broker knows")
    try:
        message, end = message_class.read(value, position, version)
    except DecodeError as error:
        raise MetadataError(f"a {message_class.__name__} does not decode: {error}") from None
    if end != len(value):
        raise MetadataError(f"a {message_class.__name__} with {len(value) - end} bytes after its end")
    return ApiMessageAndVersion(message, version)
