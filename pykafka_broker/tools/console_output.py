"""Output of the console consumers: formatters, deserializers, their flags, and the printing of records.

Rule: a formatter is chosen by the name of Kafka's class. Properties are those of Kafka's DefaultMessageFormatter:
`print.key` and its like say which parts are printed, with `key.separator` between them. Bytes go to standard output as
they are, unless a deserializer gives them a meaning.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.properties import integer, long
from pykafka_broker.config.values import format_value
from pykafka_broker.coordinators.transactions.transaction import TransactionState
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.runtime import ZERO_UUID, DecodeError, Fields, uuid_text
from pykafka_broker.protocol.specs import RecordSpec
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS
from pykafka_broker.records.record import BatchRecord, header_name
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.progress import INVISIBLE, Bar

# -- text of bytes


_JAVA = "org.apache.kafka.common.serialization."
_TIMES = ("CreateTime", "LogAppendTime")
_UUID = re.compile(rb"[0-9a-fA-F]{1,16}(-[0-9a-fA-F]{1,16}){4}")
_LONGEST_UUID = 36
Meaning = Callable[[bytes], bytes]


class Consumed(NamedTuple):
    """A record with the partition. deliveries: None outside share groups."""

    partition: TopicPartition
    record: BatchRecord
    timestamp_type: int
    leader_epoch: int
    deliveries: int | None = None


class RecordFormatter:
    """The text of a record (Kafka: DefaultMessageFormatter). Raises ClientError if a deserializer refuses the bytes."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        shown = {name.removeprefix("print."): value for name, value in properties.items() if name.startswith("print.")}
        self._shown = {name for name, value in shown.items() if value.strip().lower() == "true"}
        if shown.get("value", "true").strip().lower() == "true":
            self._shown.add("value")
        self._separator = _encoded(properties.get("key.separator", "\t"))
        self._end = _encoded(properties.get("line.separator", "\n"))
        self._between_headers = _encoded(properties.get("headers.separator", ","))
        self._null = _encoded(properties.get("null.literal", "null"))
        self._key = _meaning(properties, "key")
        self._value = _meaning(properties, "value")
        self._header = _meaning(properties, "headers")

    def text(self, consumed: Consumed) -> bytes:
        record, shown = consumed.record, self._shown
        columns = []
        if "timestamp" in shown:
            told = f"{_TIMES[consumed.timestamp_type]}:{record.timestamp}"
            oldest = record.timestamp < 0 and consumed.leader_epoch < 0  # a message of Kafka before 0.10
            columns.append(b"NO_TIMESTAMP" if oldest else told.encode())
        if "partition" in shown:
            columns.append(b"Partition:%d" % consumed.partition.partition)
        if "offset" in shown:
            columns.append(b"Offset:%d" % record.offset)
        if "delivery" in shown:
            columns.append(b"Delivery:%d" % consumed.deliveries if consumed.deliveries else b"Delivery:NOT_PRESENT")
        if "epoch" in shown:
            columns.append(b"Epoch:NOT_PRESENT")  # Kafka's script does not hand the epoch to the formatter
        if "headers" in shown:
            columns.append(self._headers(record))
        if "key" in shown:
            columns.append(self._part(record.key, self._key))
        if "value" in shown:
            columns.append(self._part(record.value, self._value))
        return self._separator.join(columns) + self._end if columns else b""

    def _part(self, data: bytes | None, meaning: Meaning) -> bytes:
        return meaning(self._null if data is None else data)  # as in Kafka's formatter

    def _headers(self, record: BatchRecord) -> bytes:
        pairs = [
            name.encode("utf-8", "surrogateescape") + b":" + self._part(value, self._header)
            for name, value in record.headers
        ]
        return self._between_headers.join(pairs) if pairs else b"NO_HEADERS"


def _encoded(text: str) -> bytes:
    """Return the bytes of a property: those of the command line, or `?` for half a letter, as in Java."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _meaning(properties: Mapping[str, str], part: str) -> Meaning:
    """Return the deserializer of a part of the record.

    Its own properties stand behind the part's name: `key.deserializer.NAME`.
    """
    own = f"{part}.deserializer."
    kind = "key" if part == "key" else "value"
    encoding = properties.get(f"{own}{kind}.deserializer.encoding") or properties.get(f"{own}deserializer.encoding")
    return deserializer(properties.get(f"{part}.deserializer"), encoding)


def deserializer(name: str | None, encoding: str | None = None) -> Meaning:
    """Return the function of Java's class `name` from bytes to text.

    Bytes stay as they are for an unknown class or encoding, as with Kafka's script.
    """
    short = (name or "").removeprefix(_JAVA)
    if encoding is None or short not in ("StringDeserializer", "UUIDDeserializer"):
        return _DESERIALIZERS.get(short, bytes)
    known = "utf-16-be" if encoding.upper() == "UTF-16" else encoding  # Java's, unless the bytes say otherwise
    try:
        b"\0".decode(known, "replace")
    except (LookupError, UnicodeError):  # UnicodeError: Python alone has a codec of this name, for host names
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
    """Return the shortest decimal number for a float of 32 bits: 3.14, not the exact value."""
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
    """Return a UUID as Java reads it: numbers may be short, and their upper digits are dropped."""
    if not _UUID.fullmatch(data) or len(data) > _LONGEST_UUID:
        raise ClientError("Error parsing data into UUID")
    parts = zip(data.split(b"-"), (8, 4, 4, 4, 12), strict=True)
    return "-".join(f"{int(part, 16):0{digits}x}"[-digits:] for part, digits in parts).encode()


def _buffer(data: bytes) -> bytes:
    """Return Java's text for a ByteBuffer, which does not show the content."""
    return f"java.nio.HeapByteBuffer[pos=0 lim={len(data)} cap={len(data)}]".encode()


def _void(data: bytes) -> bytes:
    raise ClientError("Data should be null for a VoidDeserializer.")


def _escaped(data: bytes) -> bytes:
    r"""Return the text of `Bytes.toString`: printable bytes unchanged, all others as \x00."""
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


# -- records of Kafka's own topics, as JSON objects without line ends


_INT16 = struct.Struct(">h")
_STATES = {state.value: state.title for state in TransactionState}
_SPELT: dict[str, Callable[[Any], str]] = {  # all other names ending in `_id` are text
    "topic_id": uuid_text,
    "transaction_status": lambda status: _STATES.get(status, str(status)),
}
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


# A field is printed if the record's version has it, a tagged field only if it differs from its default. Records of
# another kind than the formatter's are skipped. An unreadable record is an error: the topic is another one.
def _internal(specs: dict[int, RecordSpec], types: tuple[int, ...]) -> Callable[[Consumed], bytes]:
    def text(consumed: Consumed) -> bytes:
        record = consumed.record
        if record.key is None:
            return b""
        try:
            kind = _kind_of(record.key)
            if kind not in specs:
                return b""
            key = _plain(_decoded(specs[kind].key_class(), record.key, 0), 0)
            value = None if record.value is None else _value_of(specs[kind], record.value)
        except DecodeError as error:
            raise ClientError(f"Could not read record at offset {record.offset} due to: {error}") from None
        if kind not in types:
            return b""
        told = {"key": {"type": kind, "data": key}, "value": value}
        return json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()

    return text


def _kind_of(data: bytes) -> int:
    """Return the kind of a key, or the version of a value."""
    if len(data) < _INT16.size:
        raise DecodeError(f"{len(data)} bytes are too few")
    return int(_INT16.unpack_from(data)[0])


def _value_of(spec: RecordSpec, value: bytes) -> dict[str, Any]:
    version = _kind_of(value)
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
            _camel(name): _SPELT[name](at) if name in _SPELT else _plain(at, version)
            for name, at in ((name, getattr(value, name)) for name in value.__match_args__)
            if _stands(kind, name, at, version)
        }
    if isinstance(value, list):
        return [_plain(each, version) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


def _stands(kind: str, name: str, value: Any, version: int) -> bool:
    lowest, highest = _VERSIONS.get((kind, name), (0, _LAST))
    return lowest <= version <= highest and ((kind, name) not in _TAGGED or value != _TAGGED[kind, name])


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


FORMATTERS: dict[str, Callable[[Consumed], bytes]] = {
    "OffsetsMessageFormatter": _internal(GROUP_RECORDS, (0, 1)),
    "GroupMetadataMessageFormatter": _internal(GROUP_RECORDS, (2,)),
    "ShareGroupMessageFormatter": _internal(GROUP_RECORDS, (10, 11, 12, 13, 14, 15)),
    "TransactionLogMessageFormatter": _internal(TRANSACTION_RECORDS, (0,)),
    "group.share.ShareGroupStateMessageFormatter": _internal(SHARE_RECORDS, (0, 1)),
}


# -- records


_TOOLS = "org.apache.kafka.tools.consumer."
DEFAULT = f"{_TOOLS}DefaultMessageFormatter"
_PROPERTIES = (
    "print.timestamp, print.key, print.offset, print.epoch, print.partition, print.headers, print.value (true or "
    "false), print.delivery, key.separator, line.separator, headers.separator, null.literal, key.deserializer, "
    "value.deserializer, headers.deserializer"
)
_FOR_EVER_MS = 2**31
Text = Callable[[Consumed], bytes]
Chunk = TypeVar("Chunk")


def add_formatter(parser: ToolParser) -> None:
    parser.option("--formatter CLASS", f"how records are printed: a class of {_TOOLS.rstrip('.')}", default=DEFAULT)
    parser.option("--formatter-config FILE", "properties of the formatter")
    parser.option("--formatter-property NAME=VALUE ...", _PROPERTIES)
    parser.option("--property NAME=VALUE ...", "the same (deprecated)")
    parser.option("--key-deserializer CLASS", "class that decodes keys")
    parser.option("--value-deserializer CLASS", "class that decodes values")
    parser.option("--max-messages NUMBER", "end after this many records", type=integer)
    parser.option("--timeout-ms MS", "end when no record comes for this time", type=long)
    parser.option("--enable-systest-events", "print events of start and end, too")


def formatter_of(tool: Tool) -> Text:
    """Return the formatter of the flags. Raises ToolUsageError and ClientError."""
    properties = tool.properties("formatter_config", pairs=("formatter_property", "property"))
    tool.deprecated("property", "formatter-property")
    for flag in ("key_deserializer", "value_deserializer"):
        if (name := getattr(tool.options, flag)) is not None:
            properties[flag.replace("_", ".")] = name
    before, package, name = tool.options.formatter.rpartition(_TOOLS)
    if before or not package:
        raise ToolUsageError(f"there is no formatter {tool.options.formatter}")
    if name in ("DefaultMessageFormatter", "LoggingMessageFormatter"):
        return RecordFormatter(properties).text
    if name == "NoOpMessageFormatter":
        return lambda _: b""
    try:
        return FORMATTERS[name]
    except KeyError:
        raise ToolUsageError(f"there is no formatter {tool.options.formatter}") from None


def group_of(tool: Tool, properties: Mapping[str, str]) -> str | None:
    """Return the group of `--group` or the properties, None for no group. Raises ToolUsageError."""
    groups = {each for each in (tool.options.group, properties.get("group.id")) if each is not None}
    if len(groups) > 1:
        raise ToolUsageError(f"The group ids provided in different places do not match: {', '.join(sorted(groups))}")
    return next(iter(groups), None)


class Output:
    """The printing and counting of records.

    Args:
        most: the number of records to print, None for no end.

    Raises:
        ClientError: a record can't be printed, and `--skip-message-on-error` is not given.
    """

    def __init__(self, tool: Tool, *, skip_errors: bool = False) -> None:
        self.count = 0
        most = tool.options.max_messages
        self.most: int | None = None if most in (None, -1) else max(0, most)
        self._tool = tool
        self._text = formatter_of(tool)
        self._skip_errors = skip_errors
        self._bar: Bar = INVISIBLE

    @property
    def left(self) -> int:
        """Return how many more records to poll."""
        return 500 if self.most is None else min(500, self.most - self.count)

    @property
    def full(self) -> bool:
        return self.most is not None and self.count >= self.most

    def print(self, consumed: Consumed) -> bool:
        """Print and count a record; returns whether the record could be printed."""
        self.count += 1
        self._bar.update()
        if self._tool.options.json:
            print(json.dumps(as_data(consumed), ensure_ascii=False))
            return True
        try:
            text = self._text(consumed)
        except ClientError as error:
            if not self._skip_errors:
                raise
            self._tool.warn(f"Error processing message, skipping this message: {error}")
            return False
        write(text)
        return True

    async def polled(self, poll: Callable[[int, int], Awaitable[list[Chunk]]], who: str) -> AsyncIterator[Chunk]:
        """Yield records until `most` have come, or none has come for `--timeout-ms`.

        Args:
            poll: called with the time to wait in milliseconds and the most records to return.
            who: the name of the consumer in the text of an error that ends the records.
        """
        timeout_ms = self._tool.options.timeout_ms
        wait_ms = _FOR_EVER_MS if timeout_ms is None or timeout_ms < 0 else timeout_ms
        while not self.full:
            sys.stdout.flush()  # a program behind a pipe has all records before the next wait
            try:
                found = await poll(wait_ms, self.left)
            except ClientError as error:
                self._tool.warn(f"Error processing message, terminating {who} process: {error}")
                return
            if not found and wait_ms != _FOR_EVER_MS:
                return
            for each in found:
                yield each

    @contextmanager
    def running(self) -> Iterator[None]:
        """Print a line at the end, and show a progress bar unless records are printed on the same screen."""
        try:
            if sys.stdout.isatty():
                yield
            else:
                with self._tool.progress("reading", self.most, "record") as self._bar:
                    yield
        finally:
            self._bar = INVISIBLE
            if self._tool.options.enable_systest_events:
                self._tool.print("shutdown_complete")
            sys.stdout.flush()
            self._tool.warn(f"Processed a total of {self.count} messages")


def write(data: bytes) -> None:
    """Write bytes to standard output, or text if a test has replaced standard output."""
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(data.decode("utf-8", "replace"))
    else:
        binary.write(data)


def as_data(consumed: Consumed) -> dict[str, Any]:
    """Return a record for JSON, with `{"base64": ...}` for bytes other than text."""
    record = consumed.record
    found: dict[str, Any] = {
        "topic": consumed.partition.topic,
        "partition": consumed.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": _TIMES[consumed.timestamp_type],
        "leader_epoch": consumed.leader_epoch,
        "key": _shown(record.key),
        "value": _shown(record.value),
        "headers": [{"key": header_name(name), "value": _shown(value)} for name, value in record.headers],
    }
    if consumed.deliveries is not None:
        found["delivery_count"] = consumed.deliveries
    return found


def _shown(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
