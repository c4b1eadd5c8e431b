"""Giant messages in parts.

Rule: a part is a message of its own, with a few hundred of the whole one's elements, and what would be cut through is
begun again in the next part: its plain fields repeated, its lists empty so far. So parts are read by the ordinary
readers, and `merge` makes the whole one of them again. Unknown tagged fields are left out. What comes after the cut is
zero or empty in a part; only the last one has it.

`Cutter.parts` is a generator that has done about a millisecond of work whenever it yields, a part or None.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from pykafka_broker.protocol.runtime import DecodeError, Fields, read_tag, read_uvarint, refuse_count, uvarint

PART_ITEMS = 200
PART_BYTES = 256 << 10
_TAGS_A_STEP = 2000
_SMALL_TAG_BYTES = 4096
_INT16 = Struct(">h")
_INT32 = Struct(">i")

Shape = Any  # of a struct: its fields, and its tagged fields by number or None where a version has none
Steps = Generator["Part | None", None, int]


class Part(NamedTuple):
    """goes_on: the lists and structs, outermost first, in whose last element the part before was cut."""

    message: bytes
    goes_on: tuple[str, ...]


def shape_of(message: str, version: int) -> Shape:
    """That of a request or a response, by its name."""
    from pykafka_broker.protocol.shapes import SHAPES  # 25 ms that few brokers need

    return next(shape for versions, shape in SHAPES[message] if version in versions)


class _Frame:
    """A struct that is being read: what the part has of it, and what is to be said when it goes on in the next one."""

    __slots__ = ("again", "compact", "count", "elements", "fields", "index", "live", "marker", "name", "tags")

    def __init__(self, shape: Shape) -> None:
        self.fields, self.tags = shape
        self.index = 0
        self.live = bytearray()
        self.again = bytearray()
        self.name = ""  # of the list or struct in it that is being read
        self.compact = False
        self.marker = b""  # before a struct that may be null
        self.count = -1  # of a list's elements in this part; -1 for a struct
        self.elements = bytearray()

    def so_far(self, inner: bytes | None) -> bytes:
        """As a struct of its own; `inner` is so much as there is of the struct in it."""
        rest = b"".join(map(_default, self.fields[self.index + 1 :])) + (b"" if self.tags is None else b"\0")
        if self.count < 0:
            return b"".join((self.live, self.marker, inner or b"", rest))
        begun = inner is not None
        return b"".join((self.live, count_bytes(self.count + begun, self.compact), self.elements, inner or b"", rest))

    def begin_again(self) -> None:
        self.live = bytearray(self.again)
        if self.count > 0:
            self.count = 0
            self.elements.clear()


class Cutter:
    """Cuts the message in `buffer` from `at` on, into parts of so many elements. What is in lists deeper than `depth`
    counts little.
    """

    def __init__(self, buffer: bytes, at: int, shape: Shape, items: int = PART_ITEMS, depth: int = 99) -> None:
        self._buffer = buffer
        self._at = at
        self.end = at  # of the message, once its last part is there
        self._shape = shape
        self._weight = max(1, PART_ITEMS // items)  # of an element that counts
        self._most = self._weight * items
        self._depth = depth
        self._stack: list[_Frame] = []
        self._filled = 0  # the weight of the elements in this part
        self._goes_on: tuple[str, ...] = ()

    def parts(self) -> Generator[Part | None, None, None]:
        """Raises DecodeError where there is no such message; what else is wrong with a part its reader finds."""
        try:
            root = _Frame(self._shape)
            self.end = yield from self._struct(root, self._at)
            yield Part(bytes(root.live), self._goes_on)
        except (IndexError, StructError):
            raise DecodeError("a message ends too early") from None

    def _flush(self) -> Part:
        inner: bytes | None = None
        for frame in reversed(self._stack):
            inner = frame.so_far(inner)
        for frame in self._stack:
            frame.begin_again()
        part = Part(inner or b"", self._goes_on)
        self._goes_on = tuple(frame.name for frame in self._stack[:-1])
        self._filled = 0
        return part

    def _struct(self, frame: _Frame, at: int) -> Steps:
        self._stack.append(frame)
        for index, field in enumerate(frame.fields):
            frame.index = index
            if not isinstance(field, tuple):
                end = self._scalar(field, at)
                self._keep(frame, at, end)
                at = end
            elif field[0] == "[":
                at = yield from self._list(frame, field, at)
            else:
                at = yield from self._inline(frame, field, at)
        self._stack.pop()
        if frame.tags is not None:
            at = yield from self._tags(frame.live, frame.tags, at)
        return at

    def _keep(self, frame: _Frame, at: int, end: int) -> None:
        if end > len(self._buffer):
            raise DecodeError("a message ends too early")
        piece = self._buffer[at:end]
        frame.live += piece
        frame.again += piece

    def _list(self, frame: _Frame, field: Any, at: int) -> Steps:
        _, name, compact, element = field
        count, first = self._count(compact, at)
        if count <= 0:
            self._keep(frame, at, first)
            return first
        if count > len(self._buffer) - first:
            refuse_count(name, count, len(self._buffer) - first)
        frame.name, frame.compact, frame.count = name, compact, 0
        at, is_flat = first, _is_flat(element)
        weight = self._weight if len(self._stack) <= self._depth else 1
        while count:
            if self._filled >= self._most or len(frame.elements) >= PART_BYTES:
                yield self._flush()
            most = min(count, -((self._filled - self._most) // weight))
            end, done = self._run(element, at, most) if is_flat else (at, 0)
            frame.elements += self._buffer[at:end]
            at = end
            if not done:
                child = _Frame(element)
                at = yield from self._struct(child, at)
                frame.elements += child.live
                done = 1
            frame.count += done
            self._filled += done * weight
            count -= done
        frame.live += count_bytes(frame.count, compact) + frame.elements
        frame.again += count_bytes(0, compact)
        frame.name, frame.count, frame.elements = "", -1, bytearray()
        return at

    def _inline(self, frame: _Frame, field: Any, at: int) -> Steps:
        kind, name, _, shape = field
        start = at
        if kind == "?":
            at += 1
            if self._buffer[start] > 127:
                self._keep(frame, start, at)
                return at
        frame.name, frame.marker = name, self._buffer[start:at]
        child = _Frame(shape)
        at = yield from self._struct(child, at)
        frame.live += frame.marker + child.live
        frame.again += frame.marker + child.again + (b"" if child.tags is None else b"\0")
        frame.name, frame.marker = "", b""
        return at

    def _tags(self, live: bytearray, known: dict[int, Any], at: int) -> Steps:
        buffer, kept = self._buffer, dict[int, bytes]()
        count, at = read_uvarint(buffer, at)
        for number in range(1, count + 1):
            tag, start, at = read_tag(buffer, at)
            field = known.get(tag)
            if field is not None:
                kept[tag] = buffer[start:at]
                if at - start > _SMALL_TAG_BYTES and isinstance(field, tuple) and field[0] == "(":
                    kept[tag] = yield from self._without_tags(field[3], start)
            if not number % _TAGS_A_STEP:
                yield None
        live += uvarint(len(kept))
        for tag, value in sorted(kept.items()):
            live += uvarint(tag) + uvarint(len(value)) + value
        return at

    def _without_tags(self, shape: Shape, at: int) -> Generator[Part | None, None, bytes]:
        """A struct in a tagged field, of plain fields, of which only unknown tagged fields can be long."""
        start = at
        for field in shape[0]:
            at = self._scalar(field, at)
        plain = bytearray(self._buffer[start:at])
        yield from self._tags(plain, shape[1], at)
        return bytes(plain)

    # -- where something is

    def find(self, path: Sequence[str]) -> tuple[int, int, bool]:
        """Begin and end of the count of the list that the path leads to, and whether it is compact. Every list that it
        leads through has one element, and those before them are short.
        """
        at, shape, place = self._at, self._shape, (0, 0, False)
        for name in path:
            for field in shape[0]:
                if isinstance(field, tuple) and field[1] == name:
                    break
                at = self._end_of(field, at)
            _, first = self._count(field[2], at)
            place, at, shape = (at, first, field[2]), first, field[3]
        return place

    def _end_of(self, field: Any, at: int) -> int:
        if not isinstance(field, tuple):
            return self._scalar(field, at)
        if field[0] == "[":
            count, at = self._count(field[2], at)
            for _ in range(count):
                at = (
                    self._end_of(field[3], at) if not isinstance(field[3], tuple) else self._end_of_struct(field[3], at)
                )
            return at
        if field[0] == "?":
            at += 1
            if self._buffer[at - 1] > 127:
                return at
        return self._end_of_struct(field[3], at)

    def _end_of_struct(self, shape: Shape, at: int) -> int:
        for field in shape[0]:
            at = self._end_of(field, at)
        if shape[1] is not None:
            count, at = read_uvarint(self._buffer, at)
            for _ in range(count):
                _, _, at = read_tag(self._buffer, at)
        return at

    def _count(self, compact: bool, at: int) -> tuple[int, int]:
        if compact:
            count, at = read_uvarint(self._buffer, at)
            return count - 1, at
        return _INT32.unpack_from(self._buffer, at)[0], at + 4

    def _scalar(self, field: int | str, at: int) -> int:
        length: int
        if isinstance(field, int):
            return at + field
        if field == "s":
            (length,) = _INT16.unpack_from(self._buffer, at)
            return at + 2 + (length if length > 0 else 0)
        if field == "b":
            (length,) = _INT32.unpack_from(self._buffer, at)
            return at + 4 + (length if length > 0 else 0)
        length, at = read_uvarint(self._buffer, at)
        return at + (length - 1 if length else 0)

    def _run(self, element: Any, at: int, most: int) -> tuple[int, int]:
        """The end of the next so many elements, and how many there are before one that has tagged fields."""
        buffer = self._buffer
        if isinstance(element, int):
            at += element * most
        elif element == "S":
            for _ in range(most):
                length = buffer[at]
                at = at + (length or 1) if length < 128 else self._scalar(element, at)
        elif isinstance(element, str):
            for _ in range(most):
                at = self._scalar(element, at)
        else:
            fields, tags = element
            for done in range(most):
                start = at
                for field in fields:
                    at = at + field if field.__class__ is int else self._scalar(field, at)
                if tags is not None:
                    if buffer[at]:
                        return start, done
                    at += 1
        if at > len(buffer):
            raise DecodeError("a message ends too early")
        return at, most


def _is_flat(element: Any) -> bool:
    """Whether it has neither lists nor structs in it."""
    return not isinstance(element, tuple) or not any(isinstance(field, tuple) for field in element[0])


def count_bytes(count: int, compact: bool) -> bytes:
    return uvarint(count + 1) if compact else _INT32.pack(count)


def _default(field: Any) -> bytes:
    """A field that is still to come."""
    if isinstance(field, int):
        return bytes(field)
    if isinstance(field, str):
        return {"s": b"\0\0", "b": bytes(4), "S": b"\1", "B": b"\1"}[field]
    if field[0] == "[":
        return count_bytes(0, field[2])
    if field[0] == "?":
        return b"\xff"
    fields, tags = field[3]
    return b"".join(map(_default, fields)) + (b"" if tags is None else b"\0")


def merge(whole: Any, part: Any, goes_on: tuple[str, ...]) -> None:
    """Make `part` the end of `whole`, which are both messages or structs."""
    for name in whole.__match_args__:
        value = getattr(part, name)
        if goes_on and name == goes_on[0]:
            mine = getattr(whole, name)
            if isinstance(mine, Fields):
                merge(mine, value, goes_on[1:])
            else:
                merge(mine[-1], value[0], goes_on[1:])
                mine += value[1:]
        elif isinstance(value, list):
            getattr(whole, name).extend(value)
        elif isinstance(value, Fields) and _has_lists(mine := getattr(whole, name)):
            merge(mine, value, ())
        else:
            setattr(whole, name, value)


def _has_lists(struct: Any) -> bool:
    return isinstance(struct, Fields) and any(isinstance(getattr(struct, name), list) for name in struct.__match_args__)


__all__ = ["PART_ITEMS", "Cutter", "Part", "count_bytes", "merge", "shape_of"]
