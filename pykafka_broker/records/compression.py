"""The codecs of record batches. Rule: a library loads on first use, and output is bounded before it is allocated.

What is written is what Java's clients write and read: gzip with one member, snappy in the framing of snappy-java
("xerial"), lz4 frames of independent 64 KiB blocks, zstd frames. What is read is what Java reads (`decompression`).
Damaged input is a `CorruptBatch`; so is what would grow beyond `max_bytes`, a `GrowsTooLarge`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial

from pykafka_broker.records.crc import Buffer
from pykafka_broker.records.decompression import (
    XERIAL_MAGIC,
    gzip_pieces,
    snappy_pieces,
    zstd_library,
    zstd_pieces,
)
from pykafka_broker.records.errors import CorruptBatch, GrowsTooLarge
from pykafka_broker.records.lz4_frame import lz4_begin, lz4_block, lz4_end, lz4_frame, lz4_pieces

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

_AT_ONCE = 64 << 10
_PIECES_A_STEP = 256 << 10  # bytes that come out
MAX_DECOMPRESSED = 128 << 20  # a request has 100 MiB at most; what grows beyond this is a bomb

_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version and the oldest one that can read it
_XERIAL_BLOCK = 32 << 10

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
        return lz4_frame(data, level, broken_checksum=broken_lz4_checksum)
    if codec == ZSTD:
        frame: bytes = zstd_library().compress(data, _ZSTD_DEFAULT_LEVEL if level is None else level)
        return frame
    if codec == NONE:
        return bytes(data)
    raise ValueError(f"compression codec {codec}")


def compressed(codec: int, data: Buffer, level: int | None = None) -> Iterator[bytes]:
    """What `compress` gives, or as good, in pieces that each take about a millisecond."""
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
    """What comes first, what makes a part of a part, and what comes last."""
    if codec == GZIP:
        deflater = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return b"", deflater.compress, deflater.flush
    if codec == ZSTD:
        packer = zstd_library().ZstdCompressor(_ZSTD_DEFAULT_LEVEL if level is None else level)
        return b"", packer.compress, packer.flush
    return lz4_begin(), partial(lz4_block, level=level), lz4_end


def decompress(
    codec: int, data: Buffer, max_bytes: int = MAX_DECOMPRESSED, *, broken_lz4_checksum: bool = False
) -> bytes:
    """All of it at once. `broken_lz4_checksum`: of the lz4 header, which readers of format v0 don't check (KIP-57)."""
    steps = decompress_in_steps(codec, data, max_bytes, broken_lz4_checksum=broken_lz4_checksum)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            whole: bytes = end.value
            return whole


def decompress_in_steps(
    codec: int, data: Buffer, max_bytes: int = MAX_DECOMPRESSED, *, broken_lz4_checksum: bool = False
) -> Generator[None, None, bytes]:
    """The same in steps of about a millisecond."""
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
    """Piece by piece, see `decompression`. Raises `CorruptBatch` where damage is reached."""
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
