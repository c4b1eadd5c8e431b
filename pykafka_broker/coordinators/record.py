"""A record of a coordinator's log, the bytes of the record there, and the result of a decision, which has records.

Rule: a record holds messages on its whole way, from a decision to the append and from a load to the replay; only the
log has bytes. A key is its type as int16 and then the key message in version 0; a value is its version as int16 and
then the value message; no value is a tombstone. A message never changes after a record holds it: an append encodes the
message, and a replay of the same record reads the message afterwards.

A coordinator decides and hands back a `CoordinatorResult`; the host appends `records` as one batch, replays them into
the coordinator, waits until they are committed, and only then releases `reply` and `completions`. If the append fails
nothing has changed and every waiting request gets the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

from pykafka_broker.protocol.runtime import Buffer, DecodeError, Message
from pykafka_broker.protocol.specs import RecordSpec
from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey

_INT16 = Struct(">h")
Token = Any  # opaque to the coordinator: the host's handle for a request that may have to wait
R = TypeVar("R")


class CoordinatorRecord(NamedTuple):
    """A key message, a value message or None for a tombstone, and the version of the written value. (Kafka:
    CoordinatorRecord)
    """

    key: Any
    value: Any
    version: int = 0


def encode(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record as bytes for the log. (Kafka: CoordinatorRecordSerde)"""
    key, value, version = record
    if type(key) is OffsetCommitKey:
        key_bytes = _offset_key(key.group, key.topic, key.partition)
    else:
        key_bytes = _framed(key.API_KEY, key, 0)
    return key_bytes, None if value is None else _framed(version, value, version)


@lru_cache(maxsize=4096)
def _offset_key(group: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset, from a cache.

    Groups commit the same keys again and again, and to encode a key takes longer than to encode its value.
    """
    return _framed(OffsetCommitKey.API_KEY, OffsetCommitKey(group, topic, partition), 0)


def _framed(prefix: int, message: Message, version: int) -> bytes:
    pieces = [_INT16.pack(prefix)]
    message.write(version, pieces.append)
    return b"".join(pieces)


def decode(key: Buffer, value: Buffer | None, types: Mapping[int, RecordSpec]) -> CoordinatorRecord | None:
    """Return the record for a key and a value of the log.

    Args:
        types: The types of this log, by the number in the key.

    Returns:
        None for a type that this release does not know: the record stays in the log for a newer release. Bytes behind a
            message are left alone, as in Kafka.

    Raises:
        DecodeError: The bytes stand for no record.
    """
    if len(key) < _INT16.size:
        raise DecodeError(f"a coordinator key of {len(key)} bytes")
    spec = types.get(_INT16.unpack_from(key)[0])
    if spec is None:
        return None
    key_class, value_class = _classes(spec)
    key_message, _ = key_class.read(key, _INT16.size, 0)
    if value is None:
        return CoordinatorRecord(key_message, None)
    if len(value) < _INT16.size:
        raise DecodeError(f"a {value_class.__name__} of {len(value)} bytes")
    version = _INT16.unpack_from(value)[0]
    value_message, _ = value_class.read(value, _INT16.size, version)
    return CoordinatorRecord(key_message, value_message, version)


@cache
def _classes(spec: RecordSpec) -> tuple[type[Message], type[Message]]:
    return spec.key_class(), spec.value_class()


# The result of a decision


class CoordinatorResult(Generic[R]):
    """The outcome of a call. (Kafka: CoordinatorResult)

    records: To append, in this order, as one batch.
    reply: The answer to the caller, released once the records are committed. A request that may wait under its token
        has `CoordinatorResult[Response | None]`, and None while it waits; other requests fill the reply in before they
        hand the result back.
    completions: Answers to requests that waited under these tokens, released with the same records.
    take_back: Undoes what the call has changed besides the records; to be called if the log refuses the records.
    later: Long work that begins once the log has the records. Yields None where others may have their turn, and results
        of its own.
    key: The group id or transactional id that the call is about; its hash names the log for the records.
    """

    __slots__ = ("completions", "key", "later", "records", "reply", "take_back")

    def __init__(self, reply: R | None = None, records: list[CoordinatorRecord] | None = None, key: str = "") -> None:
        self.reply: R = reply  # type: ignore[assignment]  # as the docstring says
        self.records = [] if records is None else records
        self.completions: list[tuple[Token, Any]] = []
        self.key = key
        self.take_back: Callable[[], None] | None = None
        self.later: Iterator[CoordinatorResult[None] | None] | None = None

    def complete(self, token: Token, reply: Any) -> None:
        self.completions.append((token, reply))

    def __repr__(self) -> str:
        return (
            f"CoordinatorResult({self.key!r}, reply={self.reply!r}, records={self.records!r}, "
            f"completions={self.completions!r})"
        )
