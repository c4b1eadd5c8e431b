"""Records of the common form, many at once.

Rule: what is passed here is beyond doubt; all else is left to whoever looks at single records. The common form is a
record whose lengths agree and are not long. Records next to each other
mostly have one shape: the same lengths, and varints of the same width. Then the same byte of all of them is one slice
of the data, and a few comparisons of such slices are worth a loop over the records, at a tenth of its time.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

_FOUR_BYTES = Struct("4B").unpack_from
_LOW = bytes(range(128))  # the last byte of a varint
_HIGH = bytes(range(128, 256))  # the others
_EVEN_HIGH = bytes(range(128, 256, 2))  # the first byte of a varint that is not negative
_SIGNED = bytes((value >> 1 ^ -(value & 1)) + 64 for value in range(128)) + bytes(128)  # from -64 on
_NOT_NEGATIVE = bytes(range(64, 128))
_UP_TO = [bytes(range(value + 1)) for value in range(128)]
_FEWEST = 4  # records, for which slices are worth it
_PAUSE, _LONGEST_PAUSE = 8, 256  # records until that is tried again in vain
_BLOCK = 8192  # offset deltas of which differ in their lowest fourteen bits only
_DELTAS = (
    bytes(value << 1 & 0x7E for value in range(64)),
    bytes(value << 1 & 0x7E | 0x80 for value in range(_BLOCK)),
    bytes(value >> 6 for value in range(_BLOCK)),
)  # of 2 * value, seven bits a byte
_DELTAS_MIDDLE = bytes(value | 0x80 for value in _DELTAS[2])
NEVER = -(1 << 63)
Bytes = bytes | bytearray


class Passed(NamedTuple):
    """The records below `number` are sound and end at `position`."""

    position: int
    number: int
    high: int  # the greatest time delta
    looks: int  # that are left; one is worth about half a microsecond


class Shape(NamedTuple):
    """Of a record: where what stands in it, counted from its begin."""

    size: int
    time: int
    offset: int
    after_offset: int
    lengths: tuple[int, ...]  # and the count of headers: the same in all records of this shape


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
    """As many records as are of the common form, from number `index` on and not beyond `end` or what `looks` allow; the
    data may end in the middle of one.

    times: what a time delta may be. keyed: a key must not be null. counted: offset deltas must be the numbers.
    """
    lowest, highest = times
    stop = len(data)
    size_before = 0
    retry, pause = index, _PAUSE
    start = position
    try:
        while index < end and looks > 0:
            looks -= 1
            size = data[position]
            if size < 128:
                position += 2
            else:
                second = data[position + 1]
                size += (second << 7) - 128
                position += 3
                if second > 127:
                    break
            last = position - 2 + (size >> 1)  # the record's last byte
            if size & 1 or last >= stop:
                break
            time_at = position
            delta, offset, key, after = _FOUR_BYTES(data, position)
            position += 1
            if delta > 127:
                delta += (offset << 7) - 128
                if offset > 127:
                    break
                position += 1
                offset, key, after = key, after, data[position + 2]
            offset_at = position
            position += 1
            if offset > 127:
                offset += (key << 7) - 128
                position += 1
                if key > 127:
                    offset += (after << 14) - 16384
                    position += 1
                    if after > 127:
                        break
                    key = data[position]
                else:
                    key = after
            key_at = position
            position += 1
            if key & 1:
                if key > 1 or keyed:
                    break
            elif key > 127:
                break
            else:
                position += key >> 1
            value_at = position
            value = data[position]
            position += 1
            if value > 127:
                second = data[position]
                value += (second << 7) - 128
                position += 1
                if second > 127:
                    break
            if not value & 1:
                position += value >> 1
            elif value > 1:
                break
            if position != last or data[last]:
                if position >= last or _headers_end(data, position) != last + 1:
                    break
                position = last
            delta = delta >> 1 ^ -(delta & 1)
            if not lowest <= delta <= highest or (counted and offset != index << 1):
                break
            if delta > high:
                high = delta
            position += 1
            index += 1
            if size == size_before and index >= retry and end - index >= _FEWEST:
                lengths = _lengths(data, start, time_at, key_at, value_at)
                shape = Shape(position - start, time_at - start, offset_at - start, key_at - start, lengths)
                alike, top = _alike(data, position, index, end, shape, times, counted=counted)
                looks -= 10 + alike // 32
                if alike:
                    position += alike * shape.size
                    index += alike
                    high = max(high, top)
                    pause = _PAUSE
                else:
                    retry = index + pause
                    pause = min(pause * 2, _LONGEST_PAUSE)
            size_before = size
            start = position
    except (IndexError, StructError):
        pass
    return Passed(start, index, high, looks)


def _headers_end(data: Bytes, position: int) -> int:
    """Where the headers end whose count stands there; -1 if a varint of theirs is longer than common."""
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


def _lengths(data: Bytes, start: int, time_at: int, key_at: int, value_at: int) -> tuple[int, ...]:
    """Where in the common record at `start` lengths stand, and the count of headers."""
    found = [*range(start, time_at - 1), key_at, value_at]
    value, position = data[value_at], value_at + 1
    if value > 127:
        found.append(position)
        value += (data[position] << 7) - 128
        position += 1
    position += 0 if value & 1 else value >> 1
    found.append(position)
    count, position = data[position] >> 1, position + 1
    for _ in range(2 * count):  # keys and values of headers
        found.append(position)
        size = data[position]
        position += 1 + (0 if size & 1 else size >> 1)
    return tuple(at - start for at in found)


def _alike(
    data: Bytes, start: int, index: int, end: int, shape: Shape, times: tuple[int, int], *, counted: bool
) -> tuple[int, int]:
    """How many records from `start` on have the shape of the one before them, and their greatest time delta."""
    size = shape.size
    count = min(_same_width(index, end), (len(data) - start) // size)
    like = start - size
    for at in shape.lengths:
        column = data[start + at : start + count * size : size]
        one = data[like + at : like + at + 1]
        if column != one * count:
            count -= len(column.lstrip(one))
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
    """How many offset deltas from that one on take as many bytes, and differ only where `_DELTAS` does."""
    if index < 64:
        return min(end, 64) - index
    return min(end, (index // _BLOCK + 1) * _BLOCK) - index


def _widths(columns: list[Bytes], count: int, first: bytes) -> int:
    """How many of the first `count` varints in these columns are as long as there are columns."""
    allowed = [first, *[_HIGH] * len(columns)][: len(columns) - 1]
    for column, bytes_allowed in zip(columns, allowed, strict=False):
        if column.translate(None, bytes_allowed):
            count = min(count, len(column) - len(column.lstrip(bytes_allowed)))
    if not columns[-1].isascii():
        count = min(count, len(columns[-1]) - len(columns[-1].lstrip(_LOW)))
    return count


def _numbered(columns: list[Bytes], index: int, count: int) -> int:
    """How many of the first `count` offset deltas are the numbers from `index` on."""
    at = index % _BLOCK
    if len(columns) == 1:
        wanted = [_DELTAS[0]]
    elif len(columns) == 2:
        wanted = [_DELTAS[1], _DELTAS[2]]
    else:
        wanted = [_DELTAS[1], _DELTAS_MIDDLE, bytes((index >> 13,)) * _BLOCK]
    for column, numbers in zip(columns, wanted, strict=True):
        right = numbers[at : at + count]
        if column[:count] != right:
            count = next((i for i, (one, other) in enumerate(zip(column, right, strict=False)) if one != other), 0)
    return count


def _extremes(columns: list[Bytes]) -> tuple[int, int]:
    """The least and the greatest time delta; those of one byte may be negative."""
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
    """The number, not negative, whose varint has these bytes from its last one on."""
    value = 0
    for part in parts:
        value = value << 7 | part & 0x7F
    return value >> 1
