"""Records as `console-consumer` prints them: Kafka's DefaultMessageFormatter.

Rule: columns stand in the formatter's order (timestamp, partition, offset, delivery, epoch, headers, key, value) with
`key.separator` between them; bytes are printed as they are, unless a deserializer says what they mean.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykafka_broker.client.errors import ClientError
from pykafka_broker.config.values import format_value
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.records.record import Record

_JAVA = "org.apache.kafka.common.serialization."
_TIMES = ("CreateTime", "LogAppendTime")
Meaning = Callable[[bytes], bytes]


class Consumed(NamedTuple):
    """A record, and where it stood. `deliveries` None: it was not delivered by a share group."""

    partition: TopicPartition
    record: Record
    timestamp_type: int
    leader_epoch: int
    deliveries: int | None = None


class Formatter:
    """What a record looks like. Raises ClientError for bytes that a deserializer refuses."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        shown = {name.removeprefix("print."): value for name, value in properties.items() if name.startswith("print.")}
        self._shown = {name for name, value in shown.items() if value.strip().lower() == "true"}
        if shown.get("value", "true").strip().lower() == "true":
            self._shown.add("value")
        self._separator = properties.get("key.separator", "\t").encode()
        self._end = properties.get("line.separator", "\n").encode()
        self._between_headers = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._key = _meaning(properties, "key")
        self._value = _meaning(properties, "value")
        self._header = _meaning(properties, "headers")

    def text(self, consumed: Consumed) -> bytes:
        record, shown = consumed.record, self._shown
        columns = []
        if "timestamp" in shown:
            kind = _TIMES[consumed.timestamp_type]
            columns.append(b"NO_TIMESTAMP" if record.timestamp < 0 else f"{kind}:{record.timestamp}".encode())
        if "partition" in shown:
            columns.append(b"Partition:%d" % consumed.partition.partition)
        if "offset" in shown:
            columns.append(b"Offset:%d" % record.offset)
        if "delivery" in shown:
            columns.append(b"Delivery:%d" % consumed.deliveries if consumed.deliveries else b"Delivery:NOT_PRESENT")
        if "epoch" in shown:
            columns.append(b"Epoch:NOT_PRESENT")  # Kafka's script forgets it on the way to the formatter
        if "headers" in shown:
            columns.append(self._headers(record))
        if "key" in shown:
            columns.append(self._part(record.key, self._key))
        if "value" in shown:
            columns.append(self._part(record.value, self._value))
        return self._separator.join(columns) + self._end if columns else b""

    def _part(self, data: bytes | None, meaning: Meaning) -> bytes:
        return meaning(self._null if data is None else data)  # as Kafka's formatter has it

    def _headers(self, record: Record) -> bytes:
        pairs = [
            name.encode("utf-8", "surrogateescape") + b":" + self._part(value, self._header)
            for name, value in record.headers
        ]
        return self._between_headers.join(pairs) if pairs else b"NO_HEADERS"


def _meaning(properties: Mapping[str, str], part: str) -> Meaning:
    """Return the deserializer of a part; its own properties stand behind the part's name: `key.deserializer.NAME`."""
    own = f"{part}.deserializer."
    kind = "key" if part == "key" else "value"
    encoding = properties.get(f"{own}{kind}.deserializer.encoding") or properties.get(f"{own}deserializer.encoding")
    return deserializer(properties.get(f"{part}.deserializer"), encoding)


def deserializer(name: str | None, encoding: str | None = None) -> Meaning:
    """Return what Java's class of that name makes of bytes; they stay as they are where there is no such class or
    encoding, as with Kafka's script.
    """
    short = (name or "").removeprefix(_JAVA)
    if encoding is None or short not in ("StringDeserializer", "UUIDDeserializer"):
        return _DESERIALIZERS.get(short, bytes)
    known = "utf-16-be" if encoding.upper() == "UTF-16" else encoding  # Java's, unless the bytes say otherwise
    try:
        "".encode(known)
    except LookupError:
        return bytes
    meaning = _DESERIALIZERS[short]
    return lambda data: meaning(data.decode(known, "replace").encode())


def _number(form: str, kind: str) -> Meaning:
    wanted = struct.Struct(form)

    def read(data: bytes) -> bytes:
        if len(data) != wanted.size:
            raise ClientError(f"Size of data received by {kind}Deserializer is not {wanted.size}")
        number = wanted.unpack(data)[0]
        return (format_value(_fewest_digits(data) if form == ">f" else number) or "").encode()

    return read


def _fewest_digits(data: bytes) -> float:
    """The shortest number that is this one of 32 bits: 3.14, which it is not exactly."""
    number: float = struct.unpack(">f", data)[0]
    short = (float(f"{number:.{digits}g}") for digits in range(2, 10))
    return next((each for each in short if _packed(each) == data), number)


def _packed(number: float) -> bytes | None:
    try:
        return struct.pack(">f", number)
    except OverflowError:  # rounded up, and too large
        return None


def _boolean(data: bytes) -> bytes:
    if data not in (b"\0", b"\1"):
        raise ClientError("Unexpected byte received by BooleanDeserializer")
    return b"true" if data == b"\1" else b"false"


def _text(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


def _uuid(data: bytes) -> bytes:
    import uuid

    try:
        return str(uuid.UUID(data.decode())).encode()
    except ValueError:
        raise ClientError("Error parsing data into UUID") from None


def _buffer(data: bytes) -> bytes:
    """A ByteBuffer as Java prints it: not what is in it."""
    return f"java.nio.HeapByteBuffer[pos=0 lim={len(data)} cap={len(data)}]".encode()


def _void(data: bytes) -> bytes:
    raise ClientError("Data should be null for a VoidDeserializer.")


def _escaped(data: bytes) -> bytes:
    r"""As `Bytes.toString` shows them: printable ones as they are, all others as \x00."""
    return "".join(chr(each) if 0x20 <= each <= 0x7E and each != 0x5C else f"\\x{each:02X}" for each in data).encode()


_DESERIALIZERS: dict[str, Meaning] = {
    "StringDeserializer": _text,
    "ByteArrayDeserializer": bytes,
    "ByteBufferDeserializer": _buffer,
    "BytesDeserializer": _escaped,
    "IntegerDeserializer": _number(">i", "Integer"),
    "LongDeserializer": _number(">q", "Long"),
    "ShortDeserializer": _number(">h", "Short"),
    "FloatDeserializer": _number(">f", "Float"),
    "DoubleDeserializer": _number(">d", "Double"),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "VoidDeserializer": _void,
}
