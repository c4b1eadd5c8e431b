"""The codecs of record batches. Rule: a library loads on first use, and output is bounded before it is allocated.

What is written is what Java's clients write and read: gzip with one member, snappy in the framing of snappy-java
("xerial"), lz4 frames of independent 64 KiB blocks, zstd frames. What is read is anything that the formats allow,
raw snappy included. Damaged input is a `CorruptBatch`, and so is input that would grow beyond `max_bytes`.
"""

from __future__ import annotations

import struct
import zlib

from pykafka_broker.records.crc import Buffer
from pykafka_broker.records.errors import CorruptBatch

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

MAX_DECOMPRESSED = 128 << 20  # a request has 100 MiB at most; what grows beyond this is a bomb

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version and the oldest one that can read it
_XERIAL_BLOCK = 32 << 10
_SNAPPY_MAX_RATIO = 22  # 64 bytes from a copy of 3

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FAST_LEVEL = 9  # Kafka's default means lz4's fast compressor, every other level the high compressor

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50  # and the 15 after it
_ZSTD_BLOCK = 128 << 10
_ZSTD_DEFAULT_LEVEL = 3


def codec_by_name(name: str) -> int:
    """The codec of a `compression.type`; "uncompressed" is the topic config's word for none."""
    if name == "uncompressed":
        return NONE
    if name not in CODEC_NAMES:
        raise ValueError(f"compression type {name!r}")
    return CODEC_NAMES.index(name)


def compress(codec: int, data: Buffer, level: int | None = None, *, broken_lz4_checksum: bool = False) -> bytes:
    """`level` is that of `compression.gzip.level`, `compression.lz4.level` or `compression.zstd.level`.

    `broken_lz4_checksum`: as message format v0 has it, see KIP-57.
    """
    if codec == GZIP:
        compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()
    if codec == SNAPPY:
        return _compress_snappy(data)
    if codec == LZ4:
        return _compress_lz4(data, level, broken_lz4_checksum)
    if codec == ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(level=_ZSTD_DEFAULT_LEVEL if level is None else level).compress(data)
    if codec == NONE:
        return bytes(data)
    raise ValueError(f"compression codec {codec}")


def decompress(
    codec: int, data: Buffer, max_bytes: int = MAX_DECOMPRESSED, *, broken_lz4_checksum: bool = False
) -> bytes:
    if codec == GZIP:
        return _decompress_gzip(data, max_bytes)
    if codec == SNAPPY:
        return _decompress_snappy(memoryview(data), max_bytes)
    if codec == LZ4:
        return _decompress_lz4(_with_right_checksum(data) if broken_lz4_checksum else data, max_bytes)
    if codec == ZSTD:
        return _decompress_zstd(memoryview(data), max_bytes)
    if codec == NONE:
        if len(data) > max_bytes:
            raise _too_large("records", max_bytes)
        return bytes(data)
    raise CorruptBatch(f"compression codec {codec}")


def _too_large(codec_name: str, max_bytes: int) -> CorruptBatch:
    return CorruptBatch(f"{codec_name} grows beyond {max_bytes} bytes")


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    while data or not parts:
        decompressor = zlib.decompressobj(31)
        try:
            part = decompressor.decompress(data, left + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        left -= len(part)
        if left < 0:
            raise _too_large("gzip", max_bytes)
        if not decompressor.eof:
            raise CorruptBatch("gzip: the stream is cut short")
        parts.append(part)
        data = decompressor.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress_snappy(data: Buffer) -> bytes:
    import snappy

    view = memoryview(data)
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK])
        pieces += (len(block).to_bytes(4, "big"), block)
    return b"".join(pieces)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, max_bytes)
    if len(data) < len(_XERIAL_HEADER):
        raise CorruptBatch("snappy: the header is cut short")
    pieces = []
    position = len(_XERIAL_HEADER)
    left = max_bytes
    while position < len(data):
        if bytes(data[position : position + 8]) == _XERIAL_MAGIC:  # streams may follow each other
            position += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(data[position : position + 4], "big")
        start, position = position + 4, position + 4 + size
        if position > len(data):
            raise CorruptBatch(f"snappy: a block of {size} bytes is cut short")
        pieces.append(_decompress_snappy_block(data[start:position], left))
        left -= len(pieces[-1])
    if position > len(data):
        raise CorruptBatch("snappy: the header is cut short")
    return b"".join(pieces)


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    import snappy

    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > max_bytes:
        raise _too_large("snappy", max_bytes)
    if size > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptBatch(f"snappy: {size} bytes can't come from {len(block)}")
    try:
        data: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise CorruptBatch(f"snappy: {error.__cause__ or error}") from None
    return data


def _compress_lz4(data: Buffer, level: int | None, broken_checksum: bool) -> bytes:
    import lz4.frame

    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level in (None, _LZ4_FAST_LEVEL) else max(level, lz4.frame.COMPRESSIONLEVEL_MINHC),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,  # Java's reader knows independent blocks only
        store_size=False,
    )
    if broken_checksum:
        return frame[:6] + bytes((_xxh32_short(frame[:6]) >> 8 & 0xFF,)) + frame[7:]
    return frame


def _decompress_lz4(data: Buffer, max_bytes: int) -> bytes:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    left = max_bytes
    step = max(4 * len(data), 64 << 10)
    while not decompressor.eof:
        if pieces and decompressor.needs_input:
            raise CorruptBatch("lz4: the frame is cut short")
        try:
            piece = decompressor.decompress(b"" if pieces else data, max_length=min(step, left + 1))
        except RuntimeError as error:
            raise CorruptBatch(f"lz4: {error}") from None
        pieces.append(piece)
        left -= len(piece)
        step *= 2
        if left < 0:
            raise _too_large("lz4", max_bytes)
    if decompressor.unused_data:
        raise CorruptBatch(f"lz4: {len(decompressor.unused_data)} bytes follow the frame")
    return b"".join(pieces)


def _with_right_checksum(data: Buffer) -> bytes:
    """The lz4 frame with the header checksum that the frame format asks for.

    Kafka 0.8 and 0.9 computed it over the magic number too, and message format v0 kept that (KIP-57). Readers of v0
    don't check it, so neither a wrong nor a right one is refused here.
    """
    frame = bytes(data)
    if len(frame) < 7 or not frame.startswith(_LZ4_MAGIC):
        raise CorruptBatch("lz4: no frame header")
    flags = frame[4]
    checksum_at = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    right = _xxh32_short(frame[4:checksum_at]) >> 8 & 0xFF
    return frame[:checksum_at] + bytes((right,)) + frame[checksum_at + 1 :]


def _xxh32_short(data: bytes) -> int:
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


def _decompress_zstd(data: memoryview, max_bytes: int) -> bytes:
    import zstandard

    pieces = []
    left = max_bytes
    position = 0
    while position < len(data) or not position:
        end, bound = _zstd_frame(data, position)
        if bound is not None:
            frame = data[position:end]
            allowed = min(bound, left)
            try:
                if zstandard.frame_content_size(frame) > allowed:
                    raise _too_large("zstd", allowed)
                piece = zstandard.ZstdDecompressor().decompress(frame, max_output_size=max(allowed, 1))
            except zstandard.ZstdError as error:
                raise CorruptBatch(f"zstd, at most {allowed} bytes: {error}") from None
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise _too_large("zstd", max_bytes)
        position = end
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _zstd_frame(data: memoryview, start: int) -> tuple[int, int | None]:
    """Where the frame at `start` ends and the most that its blocks can hold (RFC 8878); None for a skippable frame.

    Java's writer leaves the content size out, and the library needs a size to allocate.
    """
    try:
        magic, descriptor = struct.unpack_from("<IB", data, start)
        if magic & ~0xF == _ZSTD_SKIPPABLE:
            end = start + 8 + struct.unpack_from("<I", data, start + 4)[0]
            return _within(end, data), None
        if magic != _ZSTD_MAGIC:
            raise CorruptBatch(f"zstd: no frame at byte {start}")
        single_segment = descriptor >> 5 & 1
        content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
        position = start + 6 - single_segment + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
        bound = last = 0
        while not last:
            low, high = struct.unpack_from("<HB", data, position)
            block = low | high << 16
            last, kind, size = block & 1, block >> 1 & 3, block >> 3
            bound += _ZSTD_BLOCK if kind == 2 else size
            position += 4 if kind == 1 else 3 + size  # a run has one byte, however long it is
    except struct.error:
        raise CorruptBatch("zstd: the frame is cut short") from None
    return _within(position + (4 if descriptor & 4 else 0), data), bound


def _within(end: int, data: memoryview) -> int:
    if end > len(data):
        raise CorruptBatch("zstd: the frame is cut short")
    return end
