"""Records of the common form, passed over many in a row.

Rule: a record that is passed here is sound beyond doubt and within the topic's limits; any other is left to
`RecordCheck`, which reads single records. The common form: lengths that agree and are not long, and offset deltas that
are the numbers from 0 on. Most records have it.

Records next to each other often have one shape as well: the same lengths, and varints of the same width. Then the
same byte of all of them is one slice of the data, and a few comparisons of such slices replace a loop over the
records, at a tenth of its time.

Up to the length of the key every field stands at a place that depends on a few widths only: one call reads all of
them, a second one reads the length of the value, and tables tell what the bytes of a varint mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from pykafka_broker.records.compression import ANY_SIZE
from pykafka_broker.records.header import HEADER_SIZE, LOG_APPEND_TIME_BIT, NO_TIMESTAMP, BatchHeader, Buffer
from pykafka_broker.records.record import wrap_int64

Bytes = bytes | bytearray
LOOKS_A_STEP = 2_000  # a millisecond
NEVER = -(1 << 63)
_ANY_TIME = (NEVER, 1 << 62)
NO_TIME = (1, 0)
_LOW = bytes(range(128))  # the last byte of a varint
_HIGH = bytes(range(128, 256))  # the others
_EVEN_HIGH = bytes(range(128, 256, 2))  # the first byte of a varint that is not negative
_SIGNED = bytes((value >> 1 ^ -(value & 1)) + 64 for value in range(128)) + bytes(128)  # from -64 on
_NOT_NEGATIVE = bytes(range(64, 128))
_UP_TO = [bytes(range(value + 1)) for value in range(128)]
_FEWEST = 4  # fewer records are not worth slices
_BLOCK = 8192  # offset deltas that differ in their lowest fourteen bits only
_DELTA_COLUMNS = (
    bytes(value << 1 & 0x7E for value in range(64)),
    bytes(value << 1 & 0x7E | 0x80 for value in range(_BLOCK)),
    bytes(value >> 6 for value in range(_BLOCK)),
)  # of 2 * value, seven bits a byte
_DELTA_MIDDLE = bytes(value | 0x80 for value in _DELTA_COLUMNS[2])
Passed = tuple[int, int, int, int]  # position, number, greatest time delta, looks that are left
_FIRST_RUN, _LONGEST_RUN = 16, 256  # records before the shape is compared again
_ENOUGH = 20  # fewer records are not worth the comparison
_NOWHERE = -(1 << 40)
_NO_DELTA = -(1 << 70)  # below every topic's limit
_ONE_BYTE, _TWO_BYTES, _THREE_BYTES = 1 << 6, 1 << 13, 1 << 20  # smaller numbers have varints of so many bytes
_FIELDS = ("", "B", "H", "3s", "4s", "5s")  # by width
_PAIR = Struct("<H").unpack_from


class RecordLimits(NamedTuple):
    """A topic's limits for records at the time `now`."""

    now: int
    before_max_ms: int
    after_max_ms: int
    append_time: bool  # records get the log's append time
    key_required: bool
    max_record_bytes: int = ANY_SIZE  # of a record that is decompressed, without its length
    is_measured: bool = False  # a decompressed record whose length makes no sense is refused, as since Kafka 4.4

    @property
    def takes_any_size(self) -> bool:
        return self.max_record_bytes >= ANY_SIZE and not self.is_measured

    def allow(self, timestamp: int) -> bool:
        """Return whether a timestamp is allowed, in the int64 arithmetic of Java."""
        if timestamp == NO_TIMESTAMP or self.append_time:
            return True
        before, after = wrap_int64(self.now - timestamp), wrap_int64(timestamp - self.now)
        return before <= self.before_max_ms and after <= self.after_max_ms


def common_times(header: BatchHeader, limits: RecordLimits) -> tuple[int, int]:
    """Return the range of time deltas without need for a second look."""
    if header.attributes & LOG_APPEND_TIME_BIT:
        fine = not limits.append_time and header.max_timestamp != NO_TIMESTAMP
        return _ANY_TIME if fine and limits.allow(header.max_timestamp) else NO_TIME
    if limits.append_time:
        return _ANY_TIME
    now = limits.now - header.base_timestamp
    return now - limits.before_max_ms, now + limits.after_max_ms


def sound_at_once(batch: Buffer, header: BatchHeader, limits: RecordLimits) -> int | None:
    """Return the greatest timestamp of plainly sound uncompressed records, all of the common form and within the
    limits.

    None where that is not plain within about a millisecond.
    """
    data = bytes(batch)
    times, count, keyed = common_times(header, limits), header.count, limits.key_required
    if count == 1:
        position, high = pass_one(data, HEADER_SIZE, times, keyed=keyed)
    else:
        position, index, high, _ = pass_common(
            data, HEADER_SIZE, 0, count, times, NEVER, LOOKS_A_STEP, keyed=keyed, counted=False
        )
        if index < count:
            return None
    if position != len(data):
        return None
    newest = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else header.base_timestamp + high
    return newest if newest > NO_TIMESTAMP else NO_TIMESTAMP


class Shape(NamedTuple):
    """The shape of a record: the places of fields, from the record's begin."""

    size: int
    time: int
    offset: int
    after_offset: int
    lengths: tuple[tuple[int, Bytes], ...]  # and the count of headers: the same bytes in all records of this shape


def pass_alike(
    data: Bytes, start: int, index: int, end: int, shape: Shape, times: tuple[int, int], *, counted: bool
) -> tuple[int, int]:
    """Return how many records from `start` on have the shape of the record before, and the greatest time delta."""
    size = shape.size
    count = min(_same_width(index, end), (len(data) - start) // size)
    stop = start + count * size
    for at, byte in shape.lengths:
        column = data[start + at : stop : size]
        if column != byte * len(column):
            count = min(count, len(column) - len(column.lstrip(byte)))
            if count < _FEWEST:
                return 0, 0
    columns = [data[start + at : start + count * size : size] for at in range(shape.time, shape.after_offset)]
    time_columns = columns[: shape.offset - shape.time]
    offset_columns = columns[shape.offset - shape.time :]
    count = _widths(offset_columns, count, _HIGH)
    count = _widths(time_columns, count, _EVEN_HIGH)
    if counted:
        count = _numbered(offset_columns, index, count)
    if count < _FEWEST:
        return 0, 0
    low, top = _extremes([column[:count] for column in time_columns])
    if low < times[0] or top > times[1]:
        return 0, 0
    return count, top


def _same_width(index: int, end: int) -> int:
    """Return how many offset deltas from `index` on take as many bytes, and differ only where `_DELTA_COLUMNS` does."""
    if index < 64:
        return min(end, 64) - index
    return min(end, (index // _BLOCK + 1) * _BLOCK) - index


def _widths(columns: list[Bytes], count: int, first: bytes) -> int:
    """Return how many of the first `count` varints have one byte in each column."""
    allowed = [first, *[_HIGH] * len(columns)][: len(columns) - 1]
    for column, bytes_allowed in zip(columns, allowed, strict=False):
        if column.translate(None, bytes_allowed):
            count = min(count, len(column) - len(column.lstrip(bytes_allowed)))
    if not columns[-1].isascii():
        count = min(count, len(columns[-1]) - len(columns[-1].lstrip(_LOW)))
    return count


def _numbered(columns: list[Bytes], index: int, count: int) -> int:
    """Return how many of the first `count` offset deltas are the numbers from `index` on."""
    at = index % _BLOCK
    if len(columns) == 1:
        wanted = [_DELTA_COLUMNS[0]]
    elif len(columns) == 2:
        wanted = [_DELTA_COLUMNS[1], _DELTA_COLUMNS[2]]
    else:
        wanted = [_DELTA_COLUMNS[1], _DELTA_MIDDLE, bytes((index >> 13,)) * _BLOCK]
    for column, numbers in zip(columns, wanted, strict=True):
        right = numbers[at : at + count]
        if column[:count] != right:
            count = next((i for i, (one, other) in enumerate(zip(column, right, strict=False)) if one != other), 0)
    return count


def _extremes(columns: list[Bytes]) -> tuple[int, int]:
    """Return the least and the greatest time delta; deltas of a single byte may be negative."""
    if len(columns) == 1:
        signed = columns[0].translate(_SIGNED)
        top = signed[-1]
        if signed.translate(None, _UP_TO[top]):
            top = max(signed)
        low = min(signed) if signed.translate(None, _NOT_NEGATIVE) else 64
        return low - 64, top - 64
    first, *others = columns
    if all(column == column[:1] * len(column) for column in others):
        above = tuple(column[0] for column in reversed(others))
        return _joined((*above, min(first))), _joined((*above, max(first)))
    backwards = columns[::-1]
    return _joined(min(zip(*backwards, strict=True))), _joined(max(zip(*backwards, strict=True)))


def _joined(parts: tuple[int, ...]) -> int:
    """Return the number, not negative, of a varint with the given bytes from the last on."""
    value = 0
    for part in parts:
        value = value << 7 | part & 0x7F
    return value >> 1


def _extents() -> list[int]:
    """Return a table from the first two bytes of a length to the bytes of length and content. Null is -1."""
    short = [_NOWHERE] * 128
    short[0::2] = range(1, 65)
    short[1] = 1
    extents: list[int] = []
    for second in range(128):
        long = [_NOWHERE] * 128
        long[0::2] = range(64 * second + 2, 64 * second + 66)
        extents += short
        extents += long
    return extents + [*short, *[_NOWHERE] * 128] * 128


_EXTENTS = _extents()
_SHORT_EXTENTS = [*_EXTENTS[:128], *[_NOWHERE] * 128]
_DELTAS = [value >> 1 ^ -(value & 1) for value in range(128)] + [_NO_DELTA] * 128  # of one byte
_LONG_EXTENTS = [_NOWHERE if pair & 0x80 == 0 else extent for pair, extent in enumerate(_EXTENTS)]


class Form(NamedTuple):
    """Records with first varints of the given widths. Positions count from the byte before a record."""

    head: Callable[
        [Bytes, int], tuple[Any, ...]
    ]  # reads the byte before, size, time delta, offset delta, length of the key
    extents: list[int]  # by the size that was read
    values: list[int]  # by the length of the key as read: the distance to the length of the value
    size_bytes: int
    time_bytes: int
    offset_bytes: int
    end: int  # offset deltas of the form are below


@cache
def _form(size_bytes: int, time_bytes: int, offset_bytes: int, keyed: bool) -> Form:
    head = Struct(f"<B{_FIELDS[size_bytes]}x{_FIELDS[time_bytes]}{_FIELDS[offset_bytes]}B")
    values = [_NOWHERE] * 256
    values[0:128:2] = range(head.size, head.size + 64)
    if not keyed:
        values[1] = head.size
    extents = _SHORT_EXTENTS if size_bytes == 1 else _LONG_EXTENTS
    end = (_ONE_BYTE, _TWO_BYTES, _THREE_BYTES)[offset_bytes - 1]
    return Form(head.unpack_from, extents, values, size_bytes, time_bytes, offset_bytes, end)


def pass_common(
    data: Bytes,
    position: int,
    index: int,
    end: int,
    times: tuple[int, int],
    high: int,
    looks: int,
    *,
    keyed: bool,
    counted: bool,
) -> Passed:
    """Pass as many records as have the common form, from number `index` on and not beyond `end` or the given `looks`.

    A look is worth about a third of a microsecond. The data may end in the middle of a record; bytes at its begin that
    belong to no record are not looked at.

    times: what a time delta may be. keyed: a key must not be null. counted: offset deltas must be the numbers, also
    where they are compared by columns.
    """
    position -= 1
    run = pause = _FIRST_RUN
    retry = index
    try:
        while index < end and looks > 0 <= position:
            form = _form_at(data, position, index, keyed)
            if form is None:
                break
            stop = end if end < form.end else form.end
            one_shape = stop - index >= _ENOUGH and index >= retry and _seem_alike(data, position)
            if one_shape:
                stop = index + 1
            elif stop - index > run or stop - index > looks:
                stop = index + min(run, looks)
            start, first = position, index
            position, index, high = _run(data, position, index, stop, form, times, high)
            if index == first:
                break
            looks -= index - first
            run = min(2 * run, _LONGEST_RUN)
            if one_shape:
                shape = _shape(data, start, form)
                alike, top = pass_alike(data, position + 1, index, end, shape, times, counted=counted)
                looks -= 10 + alike // 32
                if alike:
                    position += alike * shape.size
                    index += alike
                    high = max(high, top)
                    run = pause = _FIRST_RUN
                else:
                    retry = index + pause
                    pause = min(2 * pause, _LONGEST_RUN)
    except (IndexError, StructError):
        pass
    return position + 1, index, high, looks


def pass_one(data: Bytes, position: int, times: tuple[int, int], *, keyed: bool) -> tuple[int, int]:
    """Return the end and the time delta of a record alone in a batch; -1 and any number without the common form.

    To read it costs less than to find its form, which pays for those that follow.
    """
    try:
        size = data[position]
        stop = position + _EXTENTS[size | data[position + 1] << 8]
        at = start = position + (2 if size < 128 else 3)  # after the attributes
        delta = _DELTAS[data[at]]
        at += 1
        if delta == _NO_DELTA:
            while data[at] > 127:
                at += 1
            at += 1
            delta = _delta(data[start:at])
        key = _DELTAS[data[at + 1]]  # negative, or no common length
        if data[at] or key < (0 if keyed else -1) or at - start > 5 or not times[0] <= delta <= times[1]:
            return -1, delta
        at += 2 + key if key > 0 else 2
        at += _EXTENTS[data[at] | data[at + 1] << 8]
        if (data[at] or at + 1 != stop) and _headers_end(data, at) != stop:
            return -1, delta
    except IndexError:
        return -1, 0
    return stop, delta


def _form_at(data: Bytes, position: int, index: int, keyed: bool) -> Form | None:
    """Return the form of the record after `position`, if common."""
    size_bytes = 1 if data[position + 1] < 128 else 2
    at = position + size_bytes + 2
    time_bytes = 1
    while data[at] > 127:
        at += 1
        time_bytes += 1
    if time_bytes > 5 or index >= _THREE_BYTES:
        return None
    return _form(size_bytes, time_bytes, 1 if index < _ONE_BYTE else 2 if index < _TWO_BYTES else 3, keyed)


def _seem_alike(data: Bytes, position: int) -> bool:
    """Return whether three records have the same size."""
    (size,) = _PAIR(data, position + 1)
    extent = _EXTENTS[size]
    at = position + 1 + extent
    return extent > 0 and all(size == _PAIR(data, other)[0] for other in (at, at + extent))


def _run(
    data: Bytes, position: int, index: int, end: int, form: Form, times: tuple[int, int], high: int
) -> tuple[int, int, int]:
    """Pass records in a row; return position and number after the last sound record, and the greatest time delta.

    A record with a last byte of zero is sound if its value ends right before that; it is compared with the next record.
    """
    first, mistaken = index, -1
    before = no_zero = position  # the record before; a last byte that need not be zero
    time: int | bytes = -1
    lowest, highest = times
    pair, all_extents = _PAIR, _EXTENTS
    try:
        while index < end:
            head, extents, values, size_bytes, time_bytes, offset_bytes, _ = form
            doubled = range(2 * index, 2 * end, 2)
            numbers = enumerate(doubled if offset_bytes == 1 else _numbers(index, end, offset_bytes), index)
            for index, number in numbers:  # noqa: B007 (where it stopped is needed below)
                last_byte, size, delta, offset, key = head(data, position)
                if last_byte and position != no_zero:
                    break
                after = position + extents[size]
                value_at = position + values[key]
                if offset != number:
                    break
                value_end = value_at + all_extents[pair(data, value_at)[0]]
                if value_end != after:
                    if _headers_end(data, value_end) != after + 1:
                        break
                    no_zero = after
                if delta != time:
                    time = delta
                    delta = _DELTAS[delta] if time_bytes == 1 else _delta(delta)
                    if not lowest <= delta <= highest:
                        break
                    if delta > high:
                        high = delta
                before = position
                position = after
            else:
                index = end
                break
            if (data[position + 1] < 128) == (size_bytes == 1) or index == mistaken:
                break
            mistaken = index
            form = _form(3 - size_bytes, time_bytes, offset_bytes, values[1] < 0)
    except (IndexError, StructError):
        pass
    if index > first and (position >= len(data) or (data[position] and position != no_zero)):
        return before, index - 1, high
    return position, index, high


def _numbers(index: int, end: int, width: int) -> Sequence[int | bytes]:
    """Return offset deltas of more than a byte, as read."""
    if width == 2:
        return _two_byte_numbers()[index:end]
    doubled = range(2 * index, 2 * end, 2)
    return [bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14)) for value in doubled]


@cache
def _two_byte_numbers() -> list[int]:
    return [value & 0x7F | 0x80 | value >> 7 << 8 for value in range(0, 2 * _TWO_BYTES, 2)]


def _delta(read: int | Bytes) -> int:
    """Return a time delta of more than a byte; none if narrower than the bytes read."""
    parts = (read & 0xFF, read >> 8) if isinstance(read, int) else read
    value = shift = 0
    for part in parts:
        value |= (part & 0x7F) << shift
        shift += 7
    if parts[-1] > 127 or min(parts[:-1]) < 128:
        return _NO_DELTA
    return value >> 1 ^ -(value & 1)


def _headers_end(data: Bytes, position: int) -> int:
    """Return the end of the headers counted at `position`; -1 if a header's varint is longer than common."""
    if position < 0:
        return -1
    count = data[position]
    position += 1
    if count & 1 or count > 127:
        return -1
    for _ in range(count >> 1):
        key = data[position]
        position += 1 + (key >> 1)
        value = data[position]
        position += 1
        if key & 1 or key > 127 or value > 127:
            return -1
        if not value & 1:
            position += value >> 1
        elif value > 1:
            return -1
    return position


def _shape(data: Bytes, position: int, form: Form) -> Shape:
    """Return the shape of the sound record after `position`."""
    _, size, _, _, key = form.head(data, position)
    start = position + 1
    value_at = position + form.values[key]
    (value,) = _PAIR(data, value_at)
    at = value_at + _EXTENTS[value]
    doubled = data[at]
    widths = form.size_bytes, form.time_bytes, form.offset_bytes
    shape = _shape_without_headers(widths, size, key, value_at - start, value, doubled)
    if not doubled:
        return shape
    lengths = []
    for _ in range(doubled):  # keys and values
        at += 1
        lengths.append((at - start, data[at : at + 1]))
        at += max(_DELTAS[data[at]], 0)
    return shape._replace(lengths=(*shape.lengths, *lengths))


@lru_cache(1024)
def _shape_without_headers(
    widths: tuple[int, int, int], size: int, key: int, value_at: int, value: int, headers: int
) -> Shape:
    """Return the shape of a record with lengths up to the count of headers."""
    time_at = widths[0] + 1
    offset_at = time_at + widths[1]
    key_at = offset_at + widths[2]
    lengths = [(0, size & 0xFF), (key_at, key), (value_at, value & 0xFF), (value_at + _EXTENTS[value], headers)]
    if widths[0] == 2:
        lengths.append((1, size >> 8))
    if value & 0x80:
        lengths.append((value_at + 1, value >> 8))
    places = tuple([(at, bytes((byte,))) for at, byte in lengths])
    return Shape(_EXTENTS[size], time_at, offset_at, key_at, places)
