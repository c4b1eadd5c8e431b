"""Records of one shape, many at once.

Rule: what is passed here is beyond doubt. Records next to each other often have one shape: the same lengths, and
varints of the same width. Then the same byte of all of them is one slice of the data, and a few comparisons of such
slices are worth a loop over the records, at a tenth of its time.
"""

from __future__ import annotations

from typing import NamedTuple

_LOW = bytes(range(128))  # the last byte of a varint
_HIGH = bytes(range(128, 256))  # the others
_EVEN_HIGH = bytes(range(128, 256, 2))  # the first byte of a varint that is not negative
_SIGNED = bytes((value >> 1 ^ -(value & 1)) + 64 for value in range(128)) + bytes(128)  # from -64 on
_NOT_NEGATIVE = bytes(range(64, 128))
_UP_TO = [bytes(range(value + 1)) for value in range(128)]
_FEWEST = 4  # records, for which slices are worth it
_BLOCK = 8192  # offset deltas of which differ in their lowest fourteen bits only
_DELTAS = (
    bytes(value << 1 & 0x7E for value in range(64)),
    bytes(value << 1 & 0x7E | 0x80 for value in range(_BLOCK)),
    bytes(value >> 6 for value in range(_BLOCK)),
)  # of 2 * value, seven bits a byte
_DELTAS_MIDDLE = bytes(value | 0x80 for value in _DELTAS[2])
Bytes = bytes | bytearray


class Shape(NamedTuple):
    """Of a record: where what stands in it, counted from its begin."""

    size: int
    time: int
    offset: int
    after_offset: int
    lengths: tuple[tuple[int, Bytes], ...]  # and the count of headers: the same bytes in all records of this shape


def pass_alike(
    data: Bytes, start: int, index: int, end: int, shape: Shape, times: tuple[int, int], *, counted: bool
) -> tuple[int, int]:
    """How many records from `start` on have the shape of the one before them, and their greatest time delta."""
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
