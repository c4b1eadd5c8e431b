"""Compressed records read piece by piece.

Rule: what Java's readers take is taken and what they refuse is refused, whatever a frame's own checker would say; and
one piece takes well under a millisecond and about `PIECE_BYTES`, however far the input grows. So whoever must not be
held up stops between two pieces. Pieces may be empty. Damage is a `CorruptBatch` where it is reached.

What differs from the formats: after a gzip member, bytes that begin no other one are passed over, and up to 18 bytes
are not looked at; a zstd frame that is cut is the end if another has ended shortly before it; of lz4 see `lz4_frame`.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Generator, Iterator
from struct import Struct
from struct import error as StructError
from typing import Any

from pykafka_broker.records.crc import Buffer
from pykafka_broker.records.errors import CorruptBatch

PIECE_BYTES = 64 << 10
_FED_BYTES = 4 << 10  # what is not used up is copied each time
_FRAMES_IN_PASSING = 100  # that are empty

_UINT32 = Struct("<I").unpack_from
_UINT32_BE = Struct(">I").unpack_from

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE = 16
_SNAPPY_MAX_RATIO = 22  # 64 bytes from a copy of 3

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50  # and the 15 after it
_ZSTD_BLOCK = 128 << 10
_ZSTD_SOURCE = _ZSTD_BLOCK + 3  # what Java's reader takes in at once


# -- gzip

_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_FIXED = 10
_GZIP_TRAILER = 8
_GZIP_NOT_LOOKED_AT = 18
_GZIP_HEADER_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 2, 4, 8, 16


def gzip_pieces(data: memoryview) -> Iterator[bytes]:
    position, members = _gzip_header(data, 0), 0
    while True:
        position = yield from _gzip_member(data, position)
        if len(data) - position <= _GZIP_NOT_LOOKED_AT:
            return
        try:
            position = _gzip_header(data, position)
        except CorruptBatch:
            return
        members += 1
        if not members % _FRAMES_IN_PASSING:
            yield b""


def _gzip_header(data: memoryview, start: int) -> int:
    """Where the deflated data of the member at `start` begins. Flags that are reserved are not looked at."""
    position = start + _GZIP_FIXED
    if position > len(data) or data[start : start + 3] != _GZIP_MAGIC:
        raise CorruptBatch("gzip: no member")
    flags = data[start + 3]
    try:
        if flags & _GZIP_EXTRA:
            position += 2 + data[position] + (data[position + 1] << 8)
        for text in (_GZIP_NAME, _GZIP_COMMENT):
            if flags & text:
                while data[position]:
                    position += 1
                position += 1
        if flags & _GZIP_HEADER_CRC:
            wanted = data[position] + (data[position + 1] << 8)
            if zlib.crc32(data[start:position]) & 0xFFFF != wanted:
                raise CorruptBatch("gzip: the header's checksum is wrong")
            position += 2
    except IndexError:
        raise CorruptBatch("gzip: the header is cut short") from None
    return position


def _gzip_member(data: memoryview, position: int) -> Generator[bytes, None, int]:
    """Returns where its trailer ends."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    crc = size = 0
    parts: list[bytes] = []
    ready = 0
    rest = b""
    while not inflater.eof:
        if not rest:
            fed: Buffer = data[position : position + _FED_BYTES]
            position += len(fed)
        else:
            fed = rest
        try:
            part = inflater.decompress(fed, PIECE_BYTES)
        except zlib.error as error:
            yield b"".join(parts)  # Java's reader gives these before it stumbles
            raise CorruptBatch(f"gzip: {error}") from None
        rest = inflater.unconsumed_tail
        if part:
            crc = zlib.crc32(part, crc)
            size += len(part)
            parts.append(part)
            ready += len(part)
        elif not fed:
            yield b"".join(parts)
            raise CorruptBatch("gzip: the stream is cut short")
        if ready >= PIECE_BYTES:
            yield b"".join(parts)
            parts, ready = [], 0
    position -= len(inflater.unused_data)
    if ready:
        yield b"".join(parts)
    if position + _GZIP_TRAILER > len(data):
        raise CorruptBatch("gzip: the stream is cut short")
    if (crc, size & 0xFFFFFFFF) != (_UINT32(data, position)[0], _UINT32(data, position + 4)[0]):
        raise CorruptBatch("gzip: the checksum or the size is wrong")
    return position + _GZIP_TRAILER


# -- snappy


def snappy_pieces(data: memoryview) -> Iterator[bytes]:
    """The framing of snappy-java ("xerial"), or one bare block."""
    if data[:8] != XERIAL_MAGIC:
        yield snappy_block(data)
        return
    position = XERIAL_HEADER_SIZE
    if len(data) < position:
        raise CorruptBatch("snappy: the header is cut short")
    while position + 4 <= len(data):
        if data[position : position + 8] == XERIAL_MAGIC:  # streams may follow each other
            position += XERIAL_HEADER_SIZE
            continue
        start = position + 4
        position = start + _UINT32_BE(data, position)[0]
        if position > len(data):
            raise CorruptBatch(f"snappy: a block of {position - start} bytes is cut short")
        yield snappy_block(data[start:position])
    if position > len(data):
        raise CorruptBatch("snappy: the header is cut short")


def snappy_block(block: memoryview) -> bytes:
    from cramjam import DecompressionError, snappy

    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptBatch(f"snappy: {size} bytes can't come from {len(block)}")
    try:
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as error:
        raise CorruptBatch(str(error)) from None


# -- zstd


def zstd_library() -> Any:
    """The module of the standard library, or what gives it to a Python that is older than 3.14."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def zstd_pieces(data: memoryview) -> Iterator[bytes]:
    position = frames = 0
    while position < len(data):
        frames += 1
        if not frames % _FRAMES_IN_PASSING:
            yield b""
        try:
            position = yield from _zstd_frame(data, position)
        except StructError:
            source = (len(data) - 1) // _ZSTD_SOURCE * _ZSTD_SOURCE
            if position > source:
                return
            raise CorruptBatch("zstd: the frame is cut short") from None


def _zstd_frame(data: memoryview, start: int) -> Generator[bytes, None, int]:
    """Returns where it ends (RFC 8878). It is handed to the library block by block: one has 128 KiB at most, however
    few bytes it takes. Raises StructError where it is cut short.
    """
    zstd = zstd_library()
    (magic,) = _UINT32(data, start)
    if magic & ~0xF == _ZSTD_SKIPPABLE:
        end: int = start + 8 + _UINT32(data, start + 4)[0]
        return _within(end, data)
    if magic != _ZSTD_MAGIC:
        raise CorruptBatch(f"zstd: no frame at byte {start}")
    position = start + _zstd_header_size(data, start)
    frame = zstd.ZstdDecompressor()
    last, fed = 0, start
    while not last:
        held = 0
        while not last and held < PIECE_BYTES:
            block = _UINT32(data, position)[0] & 0xFFFFFF if position + 4 <= len(data) else _last_block(data, position)
            last, kind, size = block & 1, block >> 1 & 3, block >> 3
            held += _ZSTD_BLOCK if kind == 2 else size
            position = _within(position + (4 if kind == 1 else 3 + size), data)  # a run has one byte
        if last and data[start + 4] & 4:
            position = _within(position + 4, data)  # the checksum
        try:
            piece = frame.decompress(data[fed:position])
        except (zstd.ZstdError, EOFError) as error:
            raise CorruptBatch(f"zstd: {error}") from None
        fed = position
        yield piece
    return position


def _zstd_header_size(data: memoryview, start: int) -> int:
    if start + 5 > len(data):
        raise StructError
    descriptor = data[start + 4]
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    return 6 - single_segment + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes


def _last_block(data: memoryview, position: int) -> int:
    """A block header with nothing after it, as an empty last block has."""
    if position + 3 > len(data):
        raise StructError
    return int.from_bytes(data[position : position + 3], "little")


def _within(end: int, data: memoryview) -> int:
    if end > len(data):
        raise StructError
    return end
