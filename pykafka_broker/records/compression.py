"""The codecs of record batches: gzip, snappy, lz4, zstd.

Rule: a library loads on first use, and output is bounded before it is allocated. Written is what Java's clients write
and read: gzip with one member, snappy in the framing of snappy-java ("xerial"), one lz4 frame of independent 64 KiB
blocks with the header's checksum alone, zstd frames. Damaged input is a `CorruptBatch` where the damage is reached;
output that would grow beyond `max_bytes` is a `GrowsTooLarge`.

Input that Java's readers take is taken and input that they refuse is refused, whatever a frame's own checker would say.
Compressed records are read piece by piece: one piece takes well under a millisecond and about `PIECE_BYTES`, however
far the input grows, so that a reader on the event loop can stop between two pieces. Pieces may be empty.

Differences to the formats: after a gzip member, bytes that begin no other one are passed over, and up to 18 bytes are
not looked at; a zstd frame that is cut is the end if another has ended shortly before it; of lz4 the first frame (LZ4
Frame Format 1.6) is the only one, its blocks stand for themselves, and a checksum of its content is not compared. The
lz4 library is asked for blocks only, since that bounds the output.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka_broker.records.errors import CorruptBatch, GrowsTooLarge
from pykafka_broker.records.header import Buffer
from pykafka_broker.steps import at_once

if TYPE_CHECKING:
    from pykafka_broker.config import TopicConfig

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
_AT_ONCE = 64 << 10
_PIECES_A_STEP = 256 << 10  # uncompressed bytes
MAX_DECOMPRESSED = 128 << 20  # a request has 100 MiB at most; more uncompressed bytes mean a bomb
ANY_SIZE = (1 << 31) - 9  # the default of max.decompressed.message.bytes: Java's largest array
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE = 16
_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version and the oldest version that can read it
_XERIAL_BLOCK = 32 << 10
_ZSTD_DEFAULT_LEVEL = 3
PIECE_BYTES = 64 << 10
_FED_BYTES = 4 << 10  # unused input is copied each time
_FRAMES_IN_PASSING = 100  # that are empty
_UINT32 = struct.Struct("<I").unpack_from
_UINT32_BE = struct.Struct(">I").unpack_from
_SNAPPY_MAX_RATIO = 22  # 64 bytes from a copy of 3
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50  # and the 15 after it
_ZSTD_BLOCK = 128 << 10
_ZSTD_SOURCE = _ZSTD_BLOCK + 3  # input that Java's reader takes at once
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_FIXED = 10
_GZIP_TRAILER = 8
_GZIP_NOT_LOOKED_AT = 18
_GZIP_HEADER_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 2, 4, 8, 16
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_RAW_BLOCK = 0x80000000
_BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x10, 0x08, 0x04
_END = bytes(4)
BLOCK_BYTES = 64 << 10
_WRITTEN = b"\x60\x40"  # version 1, independent blocks; of 64 KiB
_OF_A_FRAME = 7  # bytes of a header without a content size
_FAST_LEVEL = 9  # Kafka's default means lz4's fast compressor, every other level the high compressor
_LOWEST_HIGH_LEVEL = 3


def codec_by_name(name: str) -> int:
    """Return the codec of a `compression.type`; "uncompressed" is the topic config's word for none."""
    if name == "uncompressed":
        return NONE
    if name not in CODEC_NAMES:
        raise ValueError(f"compression type {name!r}")
    return CODEC_NAMES.index(name)


def level_of(config: TopicConfig) -> int | None:
    """Return the level of a topic's `compression.type`, None for a type without levels."""
    gzip, lz4, zstd = config.compression_gzip_level, config.compression_lz4_level, config.compression_zstd_level
    return {"gzip": gzip, "lz4": lz4, "zstd": zstd}.get(config.compression_type)


def compress(codec: int, data: Buffer, level: int | None = None, *, broken_lz4_checksum: bool = False) -> bytes:
    """Compress some bytes.

    Args:
        level: `compression.gzip.level`, `compression.lz4.level` or `compression.zstd.level`.
        broken_lz4_checksum: as message format v0 has it, see KIP-57.
    """
    if codec == GZIP:
        compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()
    if codec == SNAPPY:
        return _compress_snappy(data)
    if codec == LZ4:
        return lz4_frame(data, level, broken_checksum=broken_lz4_checksum)
    if codec == ZSTD:
        frame: bytes = zstd_library().compress(data, _ZSTD_DEFAULT_LEVEL if level is None else level)
        return frame
    if codec == NONE:
        return bytes(data)
    raise ValueError(f"compression codec {codec}")


def compressed(codec: int, data: Buffer, level: int | None = None) -> Iterator[bytes]:
    """Yield the result of `compress`, or an equivalent, in pieces of about a millisecond."""
    view = memoryview(data)
    if len(view) <= _AT_ONCE or codec == NONE:
        yield compress(codec, view, level)
        return
    parts = [view[start : start + _AT_ONCE] for start in range(0, len(view), _AT_ONCE)]
    if codec == SNAPPY:
        for number, part in enumerate(parts):
            yield _compress_snappy(part)[len(_XERIAL_HEADER) if number else 0 :]
        return
    begin, one, end = _compressor(codec, level)
    yield begin
    for part in parts:
        yield one(part)
    yield end()


def _compressor(codec: int, level: int | None) -> tuple[bytes, Callable[[memoryview], bytes], Callable[[], bytes]]:
    """Return the beginning, a function compressing a part, and a function giving the end."""
    if codec == GZIP:
        deflater = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return b"", deflater.compress, deflater.flush
    if codec == ZSTD:
        packer = zstd_library().ZstdCompressor(_ZSTD_DEFAULT_LEVEL if level is None else level)
        return b"", packer.compress, packer.flush
    return lz4_begin(), partial(lz4_block, level=level), lambda: _END


def decompress(codec: int, data: Buffer, max_bytes: int = MAX_DECOMPRESSED) -> bytes:
    """Decompress everything at once; see `decompress_in_steps`."""
    return at_once(decompress_in_steps(codec, data, max_bytes))


def decompress_in_steps(
    codec: int, data: Buffer, max_bytes: int, *, broken_lz4_checksum: bool = False
) -> Generator[None, None, bytes]:
    """Decompress in steps of about a millisecond. `broken_lz4_checksum`: format v0 has wrong lz4 headers (KIP-57)."""
    parts: list[bytes] = []
    left, pause = max_bytes, max_bytes - _PIECES_A_STEP
    for piece in decompressed(codec, data, check_lz4_header=not broken_lz4_checksum):
        left -= len(piece)
        if left < 0:
            raise GrowsTooLarge(f"{CODEC_NAMES[codec]} grows beyond {max_bytes} bytes")
        parts.append(piece)
        if left < pause or not piece:
            pause = left - _PIECES_A_STEP
            yield
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decompressed(codec: int, data: Buffer, *, check_lz4_header: bool = True) -> Iterator[bytes]:
    """Yield the uncompressed bytes piece by piece. Raises CorruptBatch if damage is reached."""
    view = memoryview(data)
    if codec == GZIP:
        return gzip_pieces(view)
    if codec == SNAPPY:
        return snappy_pieces(view)
    if codec == LZ4:
        return lz4_pieces(view, check_header=check_lz4_header)
    if codec == ZSTD:
        return zstd_pieces(view)
    if codec == NONE:
        return iter((bytes(view),))
    raise CorruptBatch(f"compression codec {codec}")


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        pieces += (len(block).to_bytes(4, "big"), block)
    return b"".join(pieces)


# -- gzip, piece by piece


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
    """Return the position of the deflated data of the member at `start`. Reserved flags are not looked at."""
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
    """Yield the pieces of a member, and return the end of the trailer."""
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
            yield b"".join(parts)  # Java's reader returns these before it fails
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
    """Yield the pieces in the framing of snappy-java ("xerial"), or of a bare block."""
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
    """Return the zstd module of the standard library, or before Python 3.14 the package."""
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
        except struct.error:
            source = (len(data) - 1) // _ZSTD_SOURCE * _ZSTD_SOURCE
            if position > source:
                return
            raise CorruptBatch("zstd: the frame is cut short") from None


def _zstd_frame(data: memoryview, start: int) -> Generator[bytes, None, int]:
    """Yield the pieces of a frame, and return the frame's end (RFC 8878).

    The frame is handed to the library block by block: one has 128 KiB at most, however few bytes it takes.

    Raises:
        struct.error: the frame is cut short.
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
        raise struct.error
    descriptor = data[start + 4]
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    return 6 - single_segment + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes


def _last_block(data: memoryview, position: int) -> int:
    """Return the header of a block at the end of the data, as an empty last block has."""
    if position + 3 > len(data):
        raise struct.error
    return int.from_bytes(data[position : position + 3], "little")


def _within(end: int, data: memoryview) -> int:
    if end > len(data):
        raise struct.error
    return end


# -- lz4


def lz4_frame(data: Buffer, level: int | None = None, *, broken_checksum: bool = False) -> bytes:
    """Compress into a frame. `level` is `compression.lz4.level`; `broken_checksum`: over the magic too, see KIP-57."""
    view = memoryview(data)
    blocks = (lz4_block(view[start : start + BLOCK_BYTES], level) for start in range(0, len(view), BLOCK_BYTES))
    return b"".join((lz4_begin(broken_checksum=broken_checksum), *blocks, _END))


def lz4_begin(*, broken_checksum: bool = False) -> bytes:
    """Return the beginning of a frame, up to the first block."""
    checked = _LZ4_MAGIC + _WRITTEN if broken_checksum else _WRITTEN
    return _LZ4_MAGIC + _WRITTEN + bytes((xxh32_short(checked) >> 8 & 0xFF,))


def lz4_block(data: memoryview, level: int | None) -> bytes:
    """Return a block of at most 64 KiB behind the block's size, uncompressed if compression would not help."""
    from cramjam import lz4

    block: Buffer
    if level in (None, _FAST_LEVEL):
        block = bytes(lz4.compress_block(data, store_size=False))
    else:  # the library has the high compressor for frames only
        frame = bytes(lz4.compress(data, level=max(level, _LOWEST_HIGH_LEVEL)))
        (size,) = _UINT32(frame, _OF_A_FRAME)
        block = data if size & _RAW_BLOCK else frame[_OF_A_FRAME + 4 : _OF_A_FRAME + 4 + size]
    if len(block) < len(data):
        return b"".join((len(block).to_bytes(4, "little"), block))
    return b"".join(((len(data) | _RAW_BLOCK).to_bytes(4, "little"), data))


def lz4_pieces(data: memoryview, *, check_header: bool = True) -> Iterator[bytes]:
    """Yield the pieces of the first frame.

    Args:
        check_header: whether to check the header's checksum, which message format v0 has over the wrong bytes (KIP-57).
    """
    from cramjam import DecompressionError, lz4

    unpack = lz4.decompress_block_into
    flags, largest, position = _lz4_header(data, check_header)
    room = bytearray(largest)  # not a view of one, which the library does not write into on PyPy
    unpacked = memoryview(room)
    try:
        while True:
            (size,) = _UINT32(data, position)
            position += 4
            raw, size = size & _RAW_BLOCK, size & ~_RAW_BLOCK
            if not size:
                break
            end = position + size
            if size > largest or end > len(data):
                raise CorruptBatch(f"lz4: a block of {size} bytes at byte {position}")
            block, position = data[position:end], end
            if flags & _BLOCK_CHECKSUM:
                _check_lz4_block(block, data[end : end + 4])
                position += 4
            yield bytes(block) if raw else bytes(unpacked[: unpack(block, room)])
        if flags & _CONTENT_CHECKSUM:
            _UINT32(data, position)
    except struct.error:
        raise CorruptBatch("lz4: the frame is cut short") from None
    except DecompressionError as error:
        raise CorruptBatch(f"lz4: {error}") from None


def _lz4_header(data: memoryview, check_header: bool) -> tuple[int, int, int]:
    """Return the flags, the size of the largest block, and the position of the first block."""
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise CorruptBatch("lz4: no frame header")
    flags, descriptor = data[4], data[5]
    checksum_at = 6 + (8 if flags & _CONTENT_SIZE else 0)
    if flags >> 6 != 1 or flags & 0x03 or descriptor & 0x8F or descriptor >> 4 < 4 or checksum_at >= len(data):
        raise CorruptBatch(f"lz4: a frame header with {flags:#04x} and {descriptor:#04x}")
    if check_header and data[checksum_at] != xxh32_short(bytes(data[4:checksum_at])) >> 8 & 0xFF:
        raise CorruptBatch("lz4: the header's checksum is wrong")
    return flags, 1 << (2 * (descriptor >> 4) + 8), checksum_at + 1


def _check_lz4_block(block: memoryview, checksum: memoryview) -> None:
    """Check a block with the library, inside a made-up frame: the library checks blocks of frames only."""
    from cramjam import DecompressionError, lz4

    header = b"\x70\x70"  # version 1, independent blocks, block checksums; blocks of 4 MiB
    size = (len(block) | _RAW_BLOCK).to_bytes(4, "little")
    frame = (_LZ4_MAGIC, header, bytes([xxh32_short(header) >> 8 & 0xFF]), size, block, checksum, _END)
    try:
        lz4.decompress(b"".join(frame))
    except (DecompressionError, OSError) as error:
        raise CorruptBatch(f"lz4: {error}") from None


def xxh32_short(data: bytes) -> int:
    """Return xxHash32 with seed 0 of less than 16 bytes, the length of a frame header."""
    mask = 0xFFFFFFFF
    value = (374761393 + len(data)) & mask
    whole = len(data) & ~3
    for (word,) in struct.Struct("<I").iter_unpack(data[:whole]):
        value = (value + word * 3266489917) & mask
        value = ((value << 17 | value >> 15) * 668265263) & mask
    for byte in data[whole:]:
        value = (value + byte * 374761393) & mask
        value = ((value << 11 | value >> 21) * 2654435761) & mask
    value = ((value ^ value >> 15) * 2246822519) & mask
    value = ((value ^ value >> 13) * 3266489917) & mask
    return value ^ value >> 16
