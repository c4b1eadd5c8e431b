"""The base of the generated messages. Rule: a length from outside is checked before it is used.

Buffers are bytes-like with items of one byte. Errors are `DecodeError` and `EncodeError`, whatever went wrong inside.
"""

from __future__ import annotations

import builtins
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn, Self, TypeAlias, TypeVar
from uuid import uuid4

Buffer: TypeAlias = bytes | bytearray | memoryview
Records: TypeAlias = Any  # a memoryview when read; anything with a length when written
Write: TypeAlias = Callable[[Any], object]
Pieces: TypeAlias = list[Any]
TaggedPieces: TypeAlias = list[tuple[int, Pieces]]

ZERO_UUID = bytes(16)
NO_TAGS = b"\0"
NULL = b"\0"  # a compact string, array, ... that is null
new = object.__new__  # for readers, which fill in all fields themselves
EMPTY: Any = ()  # default of arguments that get a new list or the shared default of their struct
UVARINT = [bytes((number,)) for number in range(128)]
INT32_PACK = [struct.Struct(f">{count}i").pack for count in range(16)]
INT32_UNPACK = [struct.Struct(f">{count}i").unpack_from for count in range(16)]

_INT8, _INT16, _INT32 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i")
_MAX_STRING = 32767
_UNBOUNDED = 1 << 62
# The bounds on the elements of all arrays and tagged sections of one request, so that its turn takes about 250 ms of
# CPU at most; the lower one is for requests whose elements take longer.
MOST_ELEMENTS = 1 << 16
FEWER_ELEMENTS = 1 << 15
# The bound on the tagged fields of one section, of a header or a struct, as in Kafka 4.4.
MOST_TAGGED_FIELDS = 10_000


class DecodeError(ValueError):
    """The bytes aren't a message of the type and version."""


class EncodeError(ValueError):
    """The version of the message has no room for a value."""


class VersionLacksField(EncodeError):
    """The version of the message lacks a field that is set, or the null in it: another version may have it."""


class Fields:
    """Equality and text by field, for structs and messages."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fields) or not (isinstance(other, type(self)) or isinstance(self, type(other))):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__match_args__)})"


def leaves(struct: Fields) -> Iterator[tuple[Any, str, Any]]:
    """Yield the fields of a struct and of all structs in it that hold no structs themselves, in the schema's order.

    Returns:
        The struct that has the field, the field's name, and its value.
    """
    for name in struct.__match_args__:
        value = getattr(struct, name)
        if isinstance(value, Fields):
            yield from leaves(value)
        elif isinstance(value, list) and value and isinstance(value[0], Fields):
            for each in value:
                yield from leaves(each)
        else:
            yield struct, name, value


class Message(Fields):
    """A message, written to and read from bytes in any version."""

    __slots__ = ()
    API_KEY: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int | None]
    _WRITERS: ClassVar[Mapping[int, Callable[[Any, Write], None]]]
    _READERS: ClassVar[Mapping[int, Callable[[Buffer, int], tuple[Any, int]]]]

    def write(self, version: int, w: Write) -> None:
        """Hand the message's bytes to `w`, piece by piece; the value of a `records` field is handed over unchanged."""
        writer = self._WRITERS.get(version)
        if writer is None:
            raise EncodeError(f"{type(self).__name__} has no version {version}")
        try:
            writer(self, w)
        except EncodeError as error:
            raise type(error)(f"{type(self).__name__} version {version}: {error}") from None
        except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
            raise EncodeError(f"{type(self).__name__} version {version}: {error}") from error

    def encode(self, version: int) -> bytes:
        """Return the message as bytes."""
        pieces: list[Any] = []
        self.write(version, pieces.append)
        return b"".join(pieces)

    @classmethod
    def read(cls, buffer: Buffer, offset: int, version: int) -> tuple[Self, int]:
        """Return the message at `offset`, and the offset after the message."""
        reader = cls._READERS.get(version)
        if reader is None:
            raise DecodeError(f"{cls.__name__} has no version {version}")
        try:
            return reader(buffer, offset)
        except DecodeError as error:
            raise DecodeError(f"{cls.__name__} version {version}: {error}") from None
        except (struct.error, IndexError) as error:
            raise DecodeError(f"{cls.__name__} version {version} ends too early") from error
        except UnicodeDecodeError as error:
            raise DecodeError(f"{cls.__name__} version {version}: {error.reason} in a string") from error

    @classmethod
    def failed(cls, request: Any, code: int, message: str | None, version: int) -> Self:
        """Return the response to a request that fails as a whole: with the error in every field for errors.

        Args:
            request: None where it could not be read; then only the response's own fields can say so.
            version: of the response; a few fields depend on it.
        """
        answer = cls()
        if request is not None:
            answer.add_failed(request, code, message)
        return answer

    def add_failed(self, request: Any, code: int, message: str | None = None) -> None:
        """Add an answer with the error for each item of the request; responses without such lists have none to add."""

    @classmethod
    def decode(cls, buffer: Buffer, version: int) -> Self:
        """Return the message in `buffer`, and refuse trailing bytes."""
        message, end = cls.read(buffer, 0, version)
        if end != len(buffer):
            raise DecodeError(f"{cls.__name__} version {version}: {len(buffer) - end} bytes too many")
        return message


FieldsT = TypeVar("FieldsT", bound=Fields)


def _refuse_change(self: Fields, name: str, value: object) -> NoReturn:
    raise AttributeError(
        f"this {type(self).__name__} is a default that messages share: assign a new one to the field instead"
    )


def shared_default(value: FieldsT) -> FieldsT:
    """Return an unchangeable copy of `value`, shared by structs with the field unset."""
    frozen = type(type(value).__name__, (type(value),), {"__slots__": (), "__setattr__": _refuse_change})
    copy: FieldsT = object.__new__(frozen)
    for name in value.__match_args__:
        object.__setattr__(copy, name, getattr(value, name))
    return copy


def refuse_field(name: str) -> NoReturn:
    raise VersionLacksField(f"{name} is set, and this version can't carry it")


def refuse_null(name: str) -> NoReturn:
    raise VersionLacksField(f"{name} is null, and this version doesn't let it be")


def refuse_length(name: str, length: int, left: int) -> NoReturn:
    raise DecodeError(f"{name} has length {length}, and {left} bytes are left")


def refuse_count(name: str, count: int, left: int, elements_left: int = 0) -> NoReturn:
    if elements_left < 0 <= count <= left:
        refuse_elements()
    raise DecodeError(f"{name} has {count} elements, and {left} bytes are left")


def refuse_elements() -> NoReturn:
    raise DecodeError("more elements and tagged fields than one request may have")


def count_tags(count: int, elements_left: int) -> int:
    """Return the number of elements left to a request after a section of `count` tagged fields."""
    if count > MOST_TAGGED_FIELDS:
        raise DecodeError(f"{count} tagged fields in one section; {MOST_TAGGED_FIELDS} are the most")
    if count > elements_left:
        refuse_elements()
    return elements_left - count


def refuse_tag(name: str, at: int, end: int) -> NoReturn:
    raise DecodeError(f"tagged field {name} ends at {at} and not at {end} as it says")


def uvarint(number: int) -> bytes:
    """Return an unsigned varint of 32 bits, as in Kafka's compact lengths and tags."""
    if number < 0x80:
        if number < 0:
            raise EncodeError(f"{number} is negative")
        return UVARINT[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number >= 1 << 32:
        raise EncodeError(f"{number} has more than 32 bits")
    return varint_bytes(number)


def varint_bytes(number: int) -> bytes:
    """Return an unsigned varint of any size."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    """Return a zigzag varint of 32 bits, as in records."""
    if not -(1 << 31) <= number < 1 << 31:
        raise EncodeError(f"{number} has more than 32 bits")
    return varint_bytes((number << 1) ^ (number >> 31))


def varlong(number: int) -> bytes:
    """Return a zigzag varint of 64 bits, as in records."""
    if not -(1 << 63) <= number < 1 << 63:
        raise EncodeError(f"{number} has more than 64 bits")
    return varint_bytes((number << 1) ^ (number >> 63))


def _read_unsigned(buffer: Buffer, offset: int, bits: int) -> tuple[int, int]:
    number = shift = 0
    try:
        while True:
            byte = buffer[offset]
            offset += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits:
                raise DecodeError(f"a varint has more than {bits} bits")
    except IndexError:
        raise DecodeError("a varint ends too early") from None
    if number >> bits:
        raise DecodeError(f"a varint has more than {bits} bits")
    return number, offset


def read_uvarint(buffer: Buffer, offset: int) -> tuple[int, int]:
    """Return the unsigned varint of 32 bits at `offset`, and the next offset."""
    return _read_unsigned(buffer, offset, 32)


def read_varint(buffer: Buffer, offset: int) -> tuple[int, int]:
    """Return the zigzag varint of 32 bits at `offset`, and the next offset."""
    number, offset = _read_unsigned(buffer, offset, 32)
    return (number >> 1) ^ -(number & 1), offset


def read_varlong(buffer: Buffer, offset: int) -> tuple[int, int]:
    """Return the zigzag varint of 64 bits at `offset`, and the next offset."""
    number, offset = _read_unsigned(buffer, offset, 64)
    return (number >> 1) ^ -(number & 1), offset


def uvarint_rest(buffer: Buffer, at: int, first: int) -> tuple[int, int]:
    """Return the varint before a compact value after a first byte of 128 or more; two bytes are by far the most
    frequent. Above 2^31 it stands for a number below 0, and so for null.
    """
    second = buffer[at]
    if second < 0x80:
        return first & 0x7F | second << 7, at + 1
    count, at = _read_unsigned(buffer, at - 1, 32)
    return count if count <= 1 << 31 else count - (1 << 32), at


def string_length(count: int) -> bytes:
    """Return the varint before a compact string; `count` is the length plus 1."""
    if count > _MAX_STRING + 1:
        raise EncodeError(f"a string of {count - 1} bytes is too long")
    return uvarint(count)


def classic_string(text: str) -> bytes:
    """Return the length as int16, then UTF-8."""
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def classic_nullable_string(text: str | None) -> bytes:
    """Return the same, and -1 for null."""
    return b"\xff\xff" if text is None else classic_string(text)


def compact_nullable_string(text: str | None) -> bytes:
    """Return the compact form of `text`, and 0 for null."""
    return NULL if text is None else compact_string(text)


def compact_string(text: str) -> bytes:
    """Return the length plus 1 as varint, then UTF-8."""
    raw = text.encode()
    count = len(raw) + 1
    return (UVARINT[count] if count < 128 else string_length(count)) + raw


def join_uuids(uuids: list[bytes]) -> bytes:
    joined = b"".join(uuids)
    if len(joined) != 16 * len(uuids):
        raise EncodeError("a uuid has 16 bytes")
    return joined


def write_tags(w: Write, tagged: TaggedPieces) -> None:
    """Write the tagged section: the count, then number, size and bytes of each field."""
    if not tagged:
        w(NO_TAGS)
        return
    w(UVARINT[len(tagged)])
    for tag, pieces in tagged:
        size = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
        w((UVARINT[tag] if tag < 128 else uvarint(tag)) + (UVARINT[size] if size < 128 else uvarint(size)))
        for piece in pieces:
            w(piece)


def read_tag(buffer: Buffer, at: int) -> tuple[int, int, int]:
    """Return number, start and end of the tagged field with the header at `at`."""
    tag, at = read_uvarint(buffer, at)
    length, at = read_uvarint(buffer, at)
    if at + length > len(buffer):
        refuse_length(f"tagged field {tag}", length, len(buffer) - at)
    return tag, at, at + length


def skip_tags(buffer: Buffer, at: int) -> int:
    """Return the offset after a tagged section of unknown fields."""
    count, at = read_uvarint(buffer, at)
    for _ in range(count):  # each takes two bytes or more, so a wrong count soon runs into the end
        _, _, at = read_tag(buffer, at)
    return at


def skip_counted_tags(buffer: Buffer, at: int, elements_left: int) -> tuple[int, int]:
    """Return the offset after an unknown tagged section of a request, and the number of elements left."""
    count, _ = read_uvarint(buffer, at)
    elements_left = count_tags(count, elements_left)
    return skip_tags(buffer, at), elements_left


class MessageReader:
    """A position in a buffer, moved on by each value read. (Kafka: Readable)

    Every length is compared with the bytes that are left before anything is sliced or allocated. elements_left: how
    many elements and tagged fields the message may still have; only requests are bounded.
    """

    __slots__ = ("at", "buffer", "elements_left", "size")

    def __init__(self, buffer: Buffer, at: int, elements_left: int = _UNBOUNDED) -> None:
        self.buffer = buffer
        self.at = at
        self.size = len(buffer)
        self.elements_left = elements_left

    def fixed(self, structure: struct.Struct) -> tuple[Any, ...]:
        """Return the values of a fixed format."""
        values = structure.unpack_from(self.buffer, self.at)
        self.at += structure.size
        return values

    def marker(self) -> int:
        """Return the int8 before a nullable struct."""
        marker: int = self.fixed(_INT8)[0]
        return marker

    def short_length(self) -> int:
        """Return the int16 before a string; below 0 is null."""
        length: int = self.fixed(_INT16)[0]
        return length

    def length(self) -> int:
        """Return the int32 before bytes or an array; below 0 is null."""
        length: int = self.fixed(_INT32)[0]
        return length

    def compact_length(self) -> int:
        """Return the length before a compact value; below 0 is null."""
        count = self.buffer[self.at]
        self.at += 1
        if count > 127:
            count, self.at = uvarint_rest(self.buffer, self.at, count)
        return count - 1

    def string(self, length: int, name: str) -> str:
        """Return the UTF-8 text of `length` bytes in the field `name`."""
        start, stop = self.at, self.at + length
        if length < 0 or stop > self.size or length > _MAX_STRING:
            refuse_length(name, length, self.size - start)
        self.at = stop
        return str(self.buffer[start:stop], "utf-8")

    def nullable_string(self, length: int, name: str) -> str | None:
        return None if length < 0 else self.string(length, name)

    def _slice(self, length: int, name: str) -> Buffer:
        start, stop = self.at, self.at + length
        if length < 0 or stop > self.size:
            refuse_length(name, length, self.size - start)
        self.at = stop
        return self.buffer[start:stop]

    def bytes(self, length: int, name: str) -> builtins.bytes:
        return bytes(self._slice(length, name))

    def nullable_bytes(self, length: int, name: str) -> builtins.bytes | None:
        return None if length < 0 else self.bytes(length, name)

    def records(self, length: int, name: str) -> Records:
        """Return a view of the records, which are not copied."""
        start = self.at
        self._slice(length, name)
        return memoryview(self.buffer)[start : self.at]

    def _claim(self, count: int, name: str, least: int) -> None:
        """Refuse an array of more elements than the message may have, or than fit at `least` bytes each."""
        self.elements_left -= count
        left = self.size - self.at
        if count < 0 or self.elements_left < 0 or count * least > left:
            refuse_count(name, count, left, self.elements_left)

    def structs(self, count: int, name: str, least: int, read: Callable[[MessageReader], FieldsT]) -> list[FieldsT]:
        """Return an array of structs, each of at least `least` bytes and made by `read`."""
        self._claim(count, name, least)
        return [read(self) for _ in range(count)]

    def nullable_structs(
        self, count: int, name: str, least: int, read: Callable[[MessageReader], FieldsT]
    ) -> list[FieldsT] | None:
        return None if count < 0 else self.structs(count, name, least, read)

    def classic_strings(self, count: int, name: str) -> list[str]:
        self._claim(count, name, 2)
        return [self.string(self.short_length(), name) for _ in range(count)]

    def nullable_classic_strings(self, count: int, name: str) -> list[str] | None:
        return None if count < 0 else self.classic_strings(count, name)

    def compact_strings(self, count: int, name: str) -> list[str]:
        self._claim(count, name, 1)
        return [self.string(self.compact_length(), name) for _ in range(count)]

    def nullable_compact_strings(self, count: int, name: str) -> list[str] | None:
        return None if count < 0 else self.compact_strings(count, name)

    def uuids(self, count: int, name: str) -> list[builtins.bytes]:
        self._claim(count, name, 16)
        start, self.at = self.at, self.at + count * 16
        return [bytes(self.buffer[at : at + 16]) for at in range(start, self.at, 16)]

    def nullable_uuids(self, count: int, name: str) -> list[builtins.bytes] | None:
        return None if count < 0 else self.uuids(count, name)

    def numbers(self, count: int, name: str, size: int, letter: str) -> list[Any]:
        """Return an array of numbers, each of `size` bytes and of the struct format `letter`."""
        self._claim(count, name, size)
        values = struct.unpack_from(f">{count}{letter}", self.buffer, self.at)
        self.at += count * size
        return list(values)

    def nullable_numbers(self, count: int, name: str, size: int, letter: str) -> list[Any] | None:
        return None if count < 0 else self.numbers(count, name, size, letter)

    def skip_tags(self) -> None:
        """Move over a tagged section of unknown fields."""
        self.at += 1
        if self.buffer[self.at - 1]:
            self.at, self.elements_left = skip_counted_tags(self.buffer, self.at - 1, self.elements_left)

    def tags(self) -> Iterator[tuple[int, int]]:
        """Yield number and end of each tagged field, in any order, unknown fields included. The last of duplicates
        counts.
        """
        count, self.at = read_uvarint(self.buffer, self.at)
        self.elements_left = count_tags(count, self.elements_left)
        for _ in range(count):
            tag, self.at, end = read_tag(self.buffer, self.at)
            yield tag, end
            self.at = end

    def end_tag(self, name: str, end: int) -> None:
        """Refuse the tagged field `name` if the content does not fill the announced size."""
        if self.at != end:
            refuse_tag(name, self.at, end)


def new_uuid() -> bytes:
    """Return a random uuid as Kafka draws them: never reserved, and with no dash at the beginning of the text, which
    tools would take for an option.
    """
    while True:
        drawn = uuid4().bytes
        if drawn[0] >> 2 != 0b111110:  # the base64 letter "-"
            return drawn


def uuid_text(uuid: bytes) -> str:
    """Return Kafka's text form of a uuid: URL-safe base64 without padding."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def parse_uuid_text(text: str) -> bytes:
    """Return the 16 bytes of a uuid in Kafka's text form."""
    try:
        uuid = urlsafe_b64decode(text + "==") if len(text) == 22 else b""
    except ValueError:
        uuid = b""
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a uuid in URL-safe base64")
    return uuid
