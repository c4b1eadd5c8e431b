"""Compressed records read piece by piece.

Rule: what Java's readers take is taken and what they refuse is refused, whatever a frame's own checker would say; and
one piece takes well under a millisecond and about `PIECE_BYTES`, however far the input grows. So whoever must not be
held up stops between two pieces. Pieces may be empty. Damage is a `CorruptBatch` where it is reached.

What differs from the formats: after a gzip member, bytes that begin no other one are passed over, and up to 18 bytes
are not looked at; an lz4 frame is the only one, its blocks stand for themselves, and a checksum of its content is not
compared; a zstd frame that is cut is the end if another has ended shortly before it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator, Iterator
from struct import Struct
from struct import error as StructError

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

LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_RAW_BLOCK = 0x80000000
_LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM = 0x10, 0x08, 0x04

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
    import snappy

    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptBatch(f"snappy: {size} bytes can't come from {len(block)}")
    try:
        data: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise CorruptBatch(f"snappy: {error.__cause__ or error}") from None
    return data


# -- lz4


def lz4_pieces(data: memoryview, *, check_header: bool = True) -> Iterator[bytes]:
    """`check_header`: its checksum, which message format v0 has over the wrong bytes (KIP-57)."""
    import lz4.block

    flags, largest, position = _lz4_header(data, check_header)
    unpack: Callable[..., bytes] = lz4.block.decompress
    try:
        while True:
            (size,) = _UINT32(data, position)
            position += 4
            raw, size = size & _LZ4_RAW_BLOCK, size & ~_LZ4_RAW_BLOCK
            if not size:
                break
            end = position + size
            if size > largest or end > len(data):
                raise CorruptBatch(f"lz4: a block of {size} bytes at byte {position}")
            block, position = data[position:end], end
            if flags & _LZ4_BLOCK_CHECKSUM:
                _check_lz4_block(block, data[end : end + 4])
                position += 4
            yield bytes(block) if raw else unpack(block, uncompressed_size=largest)
        if flags & _LZ4_CONTENT_CHECKSUM:
            _UINT32(data, position)
    except StructError:
        raise CorruptBatch("lz4: the frame is cut short") from None
    except lz4.block.LZ4BlockError as error:
        raise CorruptBatch(f"lz4: {error}") from None


def _lz4_header(data: memoryview, check_header: bool) -> tuple[int, int, int]:
    """Flags, the size of the largest block, and where the first one begins."""
    if len(data) < 7 or data[:4] != LZ4_MAGIC:
        raise CorruptBatch("lz4: no frame header")
    flags, descriptor = data[4], data[5]
    checksum_at = 6 + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    if flags >> 6 != 1 or flags & 0x03 or descriptor & 0x8F or descriptor >> 4 < 4 or checksum_at >= len(data):
        raise CorruptBatch(f"lz4: a frame header with {flags:#04x} and {descriptor:#04x}")
    if check_header and data[checksum_at] != xxh32_short(bytes(data[4:checksum_at])) >> 8 & 0xFF:
        raise CorruptBatch("lz4: the header's checksum is wrong")
    return flags, 1 << (2 * (descriptor >> 4) + 8), checksum_at + 1


def _check_lz4_block(block: memoryview, checksum: memoryview) -> None:
    """The library checks blocks of frames only, so it gets a frame with this one, as if it were not compressed."""
    import lz4.frame

    header = b"\x70\x70"  # version 1, independent blocks, block checksums; blocks of 4 MiB
    size = (len(block) | _LZ4_RAW_BLOCK).to_bytes(4, "little")
    frame = (LZ4_MAGIC, header, bytes([xxh32_short(header) >> 8 & 0xFF]), size, block, checksum, bytes(4))
    try:
        lz4.frame.decompress(b"".join(frame))
    except RuntimeError as error:
        raise CorruptBatch(f"lz4: {error}") from None


def xxh32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of less than 16 bytes, as long as a frame header is."""
    mask = 0xFFFFFFFF
    value = (374761393 + len(data)) & mask
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = (value + word * 3266489917) & mask
        value = ((value << 17 | value >> 15) * 668265263) & mask
    for byte in data[whole:]:
        value = (value + byte * 374761393) & mask
        value = ((value << 11 | value >> 21) * 2654435761) & mask
    value = ((value ^ value >> 15) * 2246822519) & mask
    value = ((value ^ value >> 13) * 3266489917) & mask
    return value ^ value >> 16


# -- zstd


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
    import zstandard

    (magic,) = _UINT32(data, start)
    if magic & ~0xF == _ZSTD_SKIPPABLE:
        end: int = start + 8 + _UINT32(data, start + 4)[0]
        return _within(end, data)
    if magic != _ZSTD_MAGIC:
        raise CorruptBatch(f"zstd: no frame at byte {start}")
    position = start + _zstd_header_size(data, start)
    frame = zstandard.ZstdDecompressor().decompressobj()
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
        except zstandard.ZstdError as error:
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
