"""Frames of lz4 (LZ4 Frame Format 1.6), written and read block by block.

Rule: what is written is what Java's writer writes: one frame of independent blocks of 64 KiB, without checksums but
the header's. What is read is what Java's reader takes: the first frame is the only one, its blocks stand for
themselves, and a checksum of its content is not compared. The library is asked for blocks only, since that bounds what
comes out.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

from pykafka_broker.records.crc import Buffer
from pykafka_broker.records.errors import CorruptBatch

_UINT32 = Struct("<I").unpack_from
_MAGIC = b"\x04\x22\x4d\x18"
_RAW_BLOCK = 0x80000000
_BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x10, 0x08, 0x04
_END = bytes(4)

BLOCK_BYTES = 64 << 10
_WRITTEN = b"\x60\x40"  # version 1, independent blocks; of 64 KiB
_OF_A_FRAME = 7  # bytes of a header without a content size
_FAST_LEVEL = 9  # Kafka's default means lz4's fast compressor, every other level the high compressor
_LOWEST_HIGH_LEVEL = 3


def lz4_frame(data: Buffer, level: int | None = None, *, broken_checksum: bool = False) -> bytes:
    """`level` is that of `compression.lz4.level`; `broken_checksum`: over the magic too, see KIP-57."""
    view = memoryview(data)
    blocks = (lz4_block(view[start : start + BLOCK_BYTES], level) for start in range(0, len(view), BLOCK_BYTES))
    return b"".join((lz4_begin(broken_checksum=broken_checksum), *blocks, _END))


def lz4_begin(*, broken_checksum: bool = False) -> bytes:
    """What a frame begins with; its end is `lz4_end`."""
    checked = _MAGIC + _WRITTEN if broken_checksum else _WRITTEN
    return _MAGIC + _WRITTEN + bytes((xxh32_short(checked) >> 8 & 0xFF,))


def lz4_end() -> bytes:
    return _END


def lz4_block(data: memoryview, level: int | None) -> bytes:
    """One block of at most 64 KiB with its size before it; as it is, where it would not get smaller."""
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
    """`check_header`: its checksum, which message format v0 has over the wrong bytes (KIP-57)."""
    from cramjam import DecompressionError, lz4

    unpack = lz4.decompress_block_into
    flags, largest, position = _header(data, check_header)
    unpacked = memoryview(bytearray(largest))
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
                _check_block(block, data[end : end + 4])
                position += 4
            yield bytes(block) if raw else bytes(unpacked[: unpack(block, unpacked)])
        if flags & _CONTENT_CHECKSUM:
            _UINT32(data, position)
    except StructError:
        raise CorruptBatch("lz4: the frame is cut short") from None
    except DecompressionError as error:
        raise CorruptBatch(f"lz4: {error}") from None


def _header(data: memoryview, check_header: bool) -> tuple[int, int, int]:
    """Flags, the size of the largest block, and where the first one begins."""
    if len(data) < 7 or data[:4] != _MAGIC:
        raise CorruptBatch("lz4: no frame header")
    flags, descriptor = data[4], data[5]
    checksum_at = 6 + (8 if flags & _CONTENT_SIZE else 0)
    if flags >> 6 != 1 or flags & 0x03 or descriptor & 0x8F or descriptor >> 4 < 4 or checksum_at >= len(data):
        raise CorruptBatch(f"lz4: a frame header with {flags:#04x} and {descriptor:#04x}")
    if check_header and data[checksum_at] != xxh32_short(bytes(data[4:checksum_at])) >> 8 & 0xFF:
        raise CorruptBatch("lz4: the header's checksum is wrong")
    return flags, 1 << (2 * (descriptor >> 4) + 8), checksum_at + 1


def _check_block(block: memoryview, checksum: memoryview) -> None:
    """The library checks blocks of frames only, so it gets a frame with this one, as if it were not compressed."""
    from cramjam import DecompressionError, lz4

    header = b"\x70\x70"  # version 1, independent blocks, block checksums; blocks of 4 MiB
    size = (len(block) | _RAW_BLOCK).to_bytes(4, "little")
    frame = (_MAGIC, header, bytes([xxh32_short(header) >> 8 & 0xFF]), size, block, checksum, _END)
    try:
        lz4.decompress(b"".join(frame))
    except (DecompressionError, OSError) as error:
        raise CorruptBatch(f"lz4: {error}") from None


def xxh32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of less than 16 bytes, as long as a frame header is."""
    mask = 0xFFFFFFFF
    value = (374761393 + len(data)) & mask
    whole = len(data) & ~3
    for (word,) in Struct("<I").iter_unpack(data[:whole]):
        value = (value + word * 3266489917) & mask
        value = ((value << 17 | value >> 15) * 668265263) & mask
    for byte in data[whole:]:
        value = (value + byte * 374761393) & mask
        value = ((value << 11 | value >> 21) * 2654435761) & mask
    value = ((value ^ value >> 15) * 2246822519) & mask
    value = ((value ^ value >> 13) * 3266489917) & mask
    return value ^ value >> 16
