"""Batches as a client may send them, sound and broken in one place each.

Rule: bytes are put together here by hand, so that our own builder never judges itself. A kind is a name, the topic it
goes to and its bytes; `record.py` asks a real Kafka about all of them, `../test_produced_like_kafka.py` asks ours.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import crc32c
import lz4.block
import lz4.frame
import snappy
import zstandard

BASE_TIME = 1_600_000_000_000
HOUR = 3_600_000
FAR = 1 << 52  # later than any clock that this is recorded with
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "timed": {"message.timestamp.before.max.ms": str(HOUR)},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "gzip": {"compression.type": "gzip"},
    "uncompressed": {"compression.type": "uncompressed"},
    "lz4": {"compression.type": "lz4"},
    "compacted-gzip": {"compression.type": "gzip", "cleanup.policy": "compact"},
    "small": {"compression.type": "uncompressed", "max.message.bytes": "1000"},
}
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


class Kind(NamedTuple):
    name: str
    topic: str
    data: bytes


def varint(value: int, size: int = 1, bits: int = 64) -> bytes:
    """Encode a zigzag varint that is at least `size` bytes long."""
    unsigned = ((value << 1) ^ (value >> 63)) & ((1 << bits) - 1)
    result = bytearray()
    while unsigned > 127 or len(result) + 1 < size:
        result.append(unsigned & 127 | 128)
        unsigned >>= 7
    result.append(unsigned)
    return bytes(result)


TOO_LONG = b"\xff" * 10 + b"\x01"  # eleven bytes, for a varlong; the sixth is one too many for a varint
TOO_LONG_5 = b"\x80\x80\x80\x80\x80\x00"
WIDE = b"\xfe\xff\xff\xff\x7f"  # five bytes with bits beyond 32


def counted(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    number: int = 0,
    *,
    attributes: int = 0,
    time: bytes | int = 0,
    offset: bytes | int | None = None,
    key: bytes = counted(b"key"),
    value: bytes = counted(b"value"),
    headers: bytes = b"\x00",
    after: bytes = b"",
    length: bytes | None = None,
    longer: int = 0,
) -> bytes:
    """Build a record. A field given as bytes is taken over unchanged."""
    delta = offset if isinstance(offset, bytes) else varint(number if offset is None else offset)
    body = bytes([attributes]) + (time if isinstance(time, bytes) else varint(time)) + delta + key + value + headers
    body += after
    return (varint(len(body) + longer) if length is None else length) + body


def squeezed(codec: int, data: bytes) -> bytes:
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec == SNAPPY:
        block: bytes = snappy.compress(data)
        return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
    if codec == LZ4:
        return lz4_frame(data)
    return zstandard.ZstdCompressor().compress(data) if codec == ZSTD else data


def batch(
    payload: bytes,
    count: int = 3,
    *,
    codec: int = NONE,
    compressed: bytes | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_time: int = BASE_TIME,
    max_time: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    base_offset: int = 0,
) -> bytes:
    last = count - 1 if last_offset_delta is None else last_offset_delta
    body = struct.pack(
        ">hiqqqhii", attributes | codec, last, base_time, base_time if max_time is None else max_time, *producer, count
    )
    body += squeezed(codec, payload) if compressed is None else compressed
    return struct.pack(">qiibI", base_offset, len(body) + 9, -1, 2, crc32c.crc32c(body)) + body


def three(**second: object) -> bytes:
    """Build three records; the arguments shape the one in the middle."""
    return record(0) + record(1, **second) + record(2)  # type: ignore[arg-type]


# -- what is independent of the codec

HEADER = counted(b"h") + counted(b"v")


def header(key: bytes = counted(b"h"), value: bytes = counted(b"v"), count: bytes = varint(1)) -> bytes:
    return count + key + value


PAYLOADS: dict[str, tuple[bytes, int] | bytes] = {
    "sound": three(),
    "sound, wide varints": three(
        time=varint(1, 3), offset=varint(1, 4), key=varint(3, 2) + b"key", value=varint(5, 5) + b"value"
    ),
    "null key and value": three(key=varint(-1), value=varint(-1)),
    "empty key and value": three(key=counted(b""), value=counted(b"")),
    "attributes": three(attributes=0x7F),
    "length one too small": three(longer=-1),
    "length one too great": three(longer=1),
    "length 0": three(length=varint(0)),
    "length -1": three(length=varint(-1)),
    "length -2147483648": three(length=varint(-(1 << 31))),
    "length 2147483647": three(length=varint((1 << 31) - 1)),
    "length 5": three(length=varint(5)),
    "length with a sixth byte": three(length=TOO_LONG_5),
    "length of more than 32 bits": three(length=WIDE),
    "length in two bytes more": three(length=varint(len(record(1)) - 1, 3)),
    "last length one too great": record(0) + record(1) + record(2, longer=1),
    "last length one too small": record(0) + record(1) + record(2, longer=-1),
    "time delta of eleven bytes": three(time=TOO_LONG),
    "time delta of ten bytes": three(time=varint(0, 10)),
    "time delta -1": three(time=-1),
    "time delta wraps": three(time=(1 << 63) - 1),
    "offset delta with a sixth byte": three(offset=TOO_LONG_5),
    "offset delta of more than 32 bits": three(offset=WIDE),
    "offset delta 0 twice": three(offset=0),
    "offset delta 2 twice": three(offset=2),
    "offset delta -1": three(offset=-1),
    "offset delta 2147483647": three(offset=(1 << 31) - 1),
    "offset deltas from 1": record(1) + record(2) + record(3),
    "offset deltas all 0": record(0) * 3,
    "offset deltas falling": record(2) + record(1) + record(0),
    "offset deltas with a gap": record(0) + record(1) + record(5),
    "last offset delta wrong": record(0) + record(1) + record(1),
    "key length -2": three(key=varint(-2)),
    "key length beyond the record": three(key=varint(100) + b"key"),
    "key length 2147483647": three(key=varint((1 << 31) - 1) + b"key"),
    "key length to the end of the batch": record(0) + record(1) + record(2, key=varint(9) + b"key"),
    "key length with a sixth byte": three(key=TOO_LONG_5 + b"key"),
    "value length -2": three(value=varint(-2)),
    "value length beyond the record": three(value=varint(100) + b"value"),
    "value length into the next record": three(value=varint(7) + b"value"),
    "value length one too small": three(value=varint(4) + b"value"),
    "value length 2147483647": three(value=varint((1 << 31) - 1) + b"value"),
    "value length with a sixth byte": three(value=TOO_LONG_5 + b"value"),
    "header": three(headers=header()),
    "header without value": three(headers=header(value=varint(-1))),
    "header value length -2": three(headers=header(value=varint(-2))),
    "header value beyond the record": three(headers=header(value=varint(100) + b"v")),
    "header key empty": three(headers=header(key=varint(0))),
    "header key null": three(headers=header(key=varint(-1))),
    "header key length -2": three(headers=header(key=varint(-2))),
    "header key beyond the record": three(headers=header(key=varint(100) + b"h")),
    "header key not UTF-8": three(headers=header(key=counted(b"\xff\xfe"))),
    "header key with a sixth byte": three(headers=header(key=TOO_LONG_5 + b"h")),
    "header count -1": three(headers=varint(-1)),
    "header count 1, no header": three(headers=varint(1)),
    "header count 2, one header": three(headers=header(count=varint(2))),
    "header count 2147483647": three(headers=varint((1 << 31) - 1)),
    "header count with a sixth byte": three(headers=TOO_LONG_5),
    "bytes after the headers": three(after=b"xyz"),
    "no header count": three(headers=b""),
    "only attributes": record(0) + b"\x02\x00" + record(2),
    "a byte after the records": three() + b"\x00",
    "bytes after the records": three() + b"trailing",
    "a record after the records": three() + record(3),
    "one record too few": record(0) + record(1),
    "cut in the last record": three()[:-4],
    "cut in the last length": three()[: -len(record(2))] + b"\x80",
    "empty": b"",
    "zeros": bytes(60),
    "ones": b"\xff" * 60,
}

TIMES: dict[str, tuple[bytes, dict[str, int]]] = {
    "header's max time too low": (three(time=1000), {}),
    "header's max time too high": (three(time=1000), {"max_time": BASE_TIME + 2000}),
    "header's max time in the far future": (three(time=1000), {"max_time": FAR}),
    "header's max time is -1": (three(time=1000), {"max_time": -1}),
    "far future": (three(time=FAR - BASE_TIME), {"max_time": FAR}),
    "far future, header denies it": (three(time=FAR - BASE_TIME), {}),
    "all without time": (three(), {"base_time": -1, "max_time": -1}),
    "negative times": (three(time=1), {"base_time": -1000, "max_time": -999}),
    "one without time": (three(time=-BASE_TIME - 1), {}),
    "one before time": (three(time=-BASE_TIME - 2), {}),
}


def by_codec(name: str, codec: int) -> Iterator[Kind]:
    for title, payload in PAYLOADS.items():
        yield Kind(f"{name}: {title}", "plain", batch(payload, codec=codec))  # type: ignore[arg-type]
    for title, (payload, fields) in TIMES.items():
        yield Kind(f"{name}: {title}", "plain", batch(payload, codec=codec, **fields))  # type: ignore[arg-type]
    for count, last in ((0, -1), (0, 2), (-1, -2), (-1, 2), (2, 1), (4, 3), (2, 2), (3, 5), (3, -1), (1 << 30, 2)):
        data = batch(three(), count, codec=codec, last_offset_delta=last)
        yield Kind(f"{name}: count {count}, last offset delta {last}", "plain", data)
    yield Kind(f"{name}: count {1 << 30} and as many offsets", "plain", batch(three(), 1 << 30, codec=codec))
    yield Kind(f"{name}: count 0 of nothing", "plain", batch(b"", 0, codec=codec))
    yield Kind(f"{name}: base offset 5", "plain", batch(three(), codec=codec, base_offset=5))
    for bit, title in ((8, "LogAppendTime"), (0x20, "control"), (0x40, "delete horizon"), (0x80, "unknown")):
        yield Kind(f"{name}: attribute {title}", "plain", batch(three(), codec=codec, attributes=bit))
    yield Kind(f"{name}: LogAppendTime of -1", "plain", batch(three(), codec=codec, attributes=8, max_time=-1))
    yield Kind(f"{name}: producer without sequence", "plain", batch(three(), codec=codec, producer=(4711, 0, -1)))
    yield Kind(f"{name}: sequence without producer", "plain", batch(three(), codec=codec, producer=(-1, -1, 5)))
    for topic in ("append-time", "timed"):
        for title, (payload, fields) in TIMES.items():
            yield Kind(f"{topic}, {name}: {title}", topic, batch(payload, codec=codec, **fields))  # type: ignore[arg-type]
        stamped = batch(three(), codec=codec, attributes=8)
        yield Kind(f"{topic}, {name}: attribute LogAppendTime", topic, stamped)
        for title in ("offset delta 0 twice", "value length one too small", "bytes after the records"):
            yield Kind(f"{topic}, {name}: {title}", topic, batch(PAYLOADS[title], codec=codec))  # type: ignore[arg-type]
    for key, title in ((counted(b""), "empty key"), (varint(-1), "null key"), (varint(-2), "key length -2")):
        yield Kind(f"compacted, {name}: {title}", "compacted", batch(three(key=key), codec=codec))
    both = record(0, key=varint(-1)) + record(1, time=FAR) + record(2, key=varint(-1), time=FAR)
    yield Kind(f"compacted, {name}: null keys and bad times", "compacted", batch(both, codec=codec, max_time=FAR))
    broken = record(0, key=varint(-1)) + record(1, longer=1) + record(2)
    yield Kind(f"compacted, {name}: null key before a broken record", "compacted", batch(broken, codec=codec))
    broken = record(0) + record(1, longer=1) + record(2, key=varint(-1))
    yield Kind(f"compacted, {name}: broken record before a null key", "compacted", batch(broken, codec=codec))
    for topic in ("gzip", "uncompressed", "lz4"):
        if TOPICS[topic]["compression.type"] not in (name, "uncompressed" if codec == NONE else ""):
            for title, payload in PAYLOADS.items():
                if topic == "gzip" or not title.startswith(("header ", "key ", "value ")):
                    yield Kind(f"{topic} topic, {name}: {title}", topic, batch(payload, codec=codec))  # type: ignore[arg-type]
    if codec not in (NONE, GZIP):
        data = batch(three(key=varint(-1)), codec=codec)
        yield Kind(f"compacted gzip topic, {name}: null key", "compacted-gzip", data)
    data = batch(record(value=counted(bytes(5000))), 1, codec=codec)
    yield Kind(f"small topic, {name}: grows", "small", data)


# -- frames


def xxh32(data: bytes) -> int:
    """Return the xxHash32 with seed 0, the checksum of LZ4 frames."""
    mask, p1, p2, p3, p4, p5 = 0xFFFFFFFF, 2654435761, 2246822519, 3266489917, 668265263, 374761393

    def turned(value: int, bits: int) -> int:
        value &= mask
        return (value << bits | value >> 32 - bits) & mask

    lanes, whole = [p1 + p2, p2, 0, -p1], len(data) & ~15
    for start in range(0, whole, 16):
        words = struct.unpack_from("<4I", data, start)
        lanes = [turned(lane + word * p2, 13) * p1 for lane, word in zip(lanes, words, strict=True)]
    mixed = sum(turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) if whole else p5
    mixed += len(data)
    words_end = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[whole:words_end]):
        mixed = turned(mixed + word * p3, 17) * p4
    for byte in data[words_end:]:
        mixed = turned(mixed + byte * p5, 11) * p1
    mixed &= mask
    mixed = (mixed ^ mixed >> 15) * p2 & mask
    mixed = (mixed ^ mixed >> 13) * p3 & mask
    return mixed ^ mixed >> 16


LZ4_MAGIC = b"\x04\x22\x4d\x18"


def lz4_frame(
    data: bytes,
    *,
    flags: int = 0x60,
    descriptor: int = 0x40,
    content_size: int | None = None,
    dictionary: int | None = None,
    header_checksum: int = 0,
    block_checksum: int = 0,
    content_checksum: int | None = None,
    block_size: int = 65536,
    raw: bool = False,
    end: bytes = bytes(4),
) -> bytes:
    """Build an LZ4 frame. A number given for a checksum is added to the right checksum."""
    fields = bytes([flags | (8 if content_size is not None else 0), descriptor])
    fields += b"" if content_size is None else struct.pack("<Q", content_size)
    if dictionary is not None:
        fields = bytes([fields[0] | 1]) + fields[1:] + struct.pack("<I", dictionary)
    frame = LZ4_MAGIC + fields + bytes([(xxh32(fields) >> 8 & 0xFF) + header_checksum & 0xFF])
    for start in range(0, len(data), block_size):
        piece = data[start : start + block_size]
        block = piece if raw else lz4.block.compress(piece, store_size=False)
        frame += struct.pack("<I", len(block) | (0x80000000 if raw else 0)) + block
        if flags & 0x10:
            frame += struct.pack("<I", xxh32(block) + block_checksum & 0xFFFFFFFF)
    frame += end
    if flags & 4:
        frame += struct.pack("<I", xxh32(data) + (content_checksum or 0) & 0xFFFFFFFF)
    return frame


def linked(data: bytes) -> bytes:
    return lz4.frame.compress(data, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB)


def lz4_frames() -> Iterator[tuple[str, bytes, bytes]]:
    sound, long = three(), three(value=counted(bytes(range(256)) * 1000))
    frame = lz4_frame(sound)
    yield "linked blocks, one", sound, linked(sound)
    yield "linked blocks, four", long, linked(long)
    yield "blocks of 4 MiB", long, lz4_frame(long, descriptor=0x70, block_size=4 << 20)
    yield "blocks of 256 KiB", long, lz4_frame(long, descriptor=0x50, block_size=256 << 10)
    yield "a block larger than it says", long, lz4_frame(long, block_size=128 << 10)
    yield "uncompressed blocks", sound, lz4_frame(sound, raw=True)
    yield "uncompressed blocks, four", long, lz4_frame(long, raw=True)
    yield "many blocks", long, lz4_frame(long, block_size=1000)
    yield "content size", sound, lz4_frame(sound, content_size=len(sound))
    yield "content size too small", sound, lz4_frame(sound, content_size=len(sound) - 1)
    yield "content size too great", sound, lz4_frame(sound, content_size=len(sound) + 1)
    yield "dictionary", sound, lz4_frame(sound, dictionary=1)
    yield "header checksum wrong", sound, lz4_frame(sound, header_checksum=1)
    yield "block checksum", sound, lz4_frame(sound, flags=0x70)
    yield "block checksum wrong", sound, lz4_frame(sound, flags=0x70, block_checksum=1)
    yield "content checksum", sound, lz4_frame(sound, flags=0x64)
    yield "content checksum wrong", sound, lz4_frame(sound, flags=0x64, content_checksum=1)
    yield "content checksum missing", sound, lz4_frame(sound, flags=0x64)[:-4]
    yield "reserved flag", sound, lz4_frame(sound, flags=0x62)
    yield "version 0", sound, lz4_frame(sound, flags=0x20)
    yield "version 2", sound, lz4_frame(sound, flags=0xA0)
    yield "reserved bits in the descriptor", sound, lz4_frame(sound, descriptor=0x41)
    yield "high bit in the descriptor", sound, lz4_frame(sound, descriptor=0xC0)
    yield "block size 0", sound, lz4_frame(sound, descriptor=0x00)
    yield "block size 3", sound, lz4_frame(sound, descriptor=0x30)
    yield "without end", sound, lz4_frame(sound, end=b"")
    yield "end cut", sound, lz4_frame(sound, end=b"\0\0")
    yield "bytes after the frame", sound, frame + b"trailing bytes"
    yield "two frames", sound, lz4_frame(record(0)) + lz4_frame(record(1) + record(2))
    yield "the second frame is not needed", sound, frame + frame
    yield "skippable frame first", sound, struct.pack("<II", 0x184D2A50, 4) + b"skip" + frame
    yield "skippable frame last", sound, frame + struct.pack("<II", 0x184D2A50, 4) + b"skip"
    yield "legacy frame", sound, b"\x02\x21\x4c\x18" + frame[7:]
    yield "wrong magic", sound, b"\x05" + frame[1:]
    yield "only the magic", sound, LZ4_MAGIC
    yield "header cut", sound, frame[:5]
    yield "block cut", sound, frame[:20]
    yield "block damaged", sound, frame[:12] + b"\xff\xff\xff" + frame[15:]
    yield "no block", sound, lz4_frame(b"")
    yield "an empty block", sound, frame[:7] + struct.pack("<I", 0x80000000) + frame[7:]
    yield "nothing", sound, b""


def gzip_frames() -> Iterator[tuple[str, bytes, bytes]]:
    sound = three()
    frame = gzip.compress(sound, mtime=0)
    named = frame[:3] + b"\x08" + frame[4:10] + b"name\0" + frame[10:]
    yield "bytes after the member", sound, frame + b"trailing bytes"
    yield "zeros after the member", sound, frame + bytes(20)
    yield "two members", sound, gzip.compress(record(0), mtime=0) + gzip.compress(record(1) + record(2), mtime=0)
    yield "an empty member first", sound, gzip.compress(b"", mtime=0) + frame
    yield "five empty members first", sound, gzip.compress(b"", mtime=0) * 5 + frame
    yield "an empty member last", sound, frame + gzip.compress(b"", mtime=0)
    yield "only empty members", sound, gzip.compress(b"", mtime=0) * 5
    yield "the second member is not needed", sound, frame + frame
    yield "a cut member last", sound, frame + frame[:15]
    yield "a broken member last", sound, frame + frame[:12] + b"\xff" * 10
    yield "checksum wrong", sound, frame[:-8] + b"\0\0\0\0" + frame[-4:]
    yield "size wrong", sound, frame[:-4] + b"\0\0\0\0"
    yield "trailer cut", sound, frame[:-3]
    yield "trailer missing", sound, frame[:-8]
    yield "data cut", sound, frame[:20]
    yield "header cut", sound, frame[:6]
    yield "with a name", sound, named
    yield "reserved flag", sound, frame[:3] + b"\x80" + frame[4:]
    yield "wrong magic", sound, b"\x1e" + frame[1:]
    yield "wrong method", sound, frame[:2] + b"\x07" + frame[3:]
    yield "zlib instead", sound, zlib.compress(sound)
    yield "raw deflate instead", sound, zlib.compress(sound)[2:-4]
    yield "damaged", sound, frame[:14] + b"\xff\xff\xff" + frame[17:]
    yield "nothing", sound, b""


def xerial(*blocks: bytes, version: int = 1, compatible: int = 1) -> bytes:
    parts = [b"\x82SNAPPY\x00", struct.pack(">ii", version, compatible)]
    for block in blocks:
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def snappy_frames() -> Iterator[tuple[str, bytes, bytes]]:
    sound = three()
    block: bytes = snappy.compress(sound)
    one, rest = snappy.compress(record(0)), snappy.compress(record(1) + record(2))
    yield "raw", sound, block
    yield "raw, length too great", sound, bytes([block[0] + 1]) + block[1:]
    yield "raw, length too small", sound, bytes([block[0] - 1]) + block[1:]
    yield "raw, bytes after it", sound, block + b"xyz"
    yield "raw, cut", sound, block[:-5]
    yield "raw, empty", sound, b"\0"
    yield "two blocks", sound, xerial(one, rest)
    yield "two streams", sound, xerial(one) + xerial(rest)
    yield "an empty block", sound, xerial(one, snappy.compress(b""), rest)
    yield "a block of no bytes", sound, xerial(one, b"", rest)
    yield "a block of no bytes last", sound, xerial(one, rest, b"")
    yield "version 2", sound, xerial(block, version=2)
    yield "version 0", sound, xerial(block, version=0, compatible=0)
    yield "compatible with 2 only", sound, xerial(block, version=2, compatible=2)
    yield "block cut", sound, xerial(block)[:-5]
    yield "block length cut", sound, xerial(block) + b"\0\0"
    yield "block length -1", sound, xerial(one, rest) + b"\xff\xff\xff\xff"
    yield "bytes after the blocks", sound, xerial(block) + b"trailing bytes"
    yield "zeros after the blocks", sound, xerial(block) + bytes(8)
    yield "a second stream, not needed", sound, xerial(block) + xerial(block)
    yield "a cut block, not needed", sound, xerial(block) + struct.pack(">i", 20) + b"x"
    yield "a broken block, not needed", sound, xerial(block) + struct.pack(">i", 3) + b"xyz"
    yield "header cut", sound, xerial()[:12]
    yield "no block", sound, xerial()
    yield "wrong magic", sound, b"\x83" + xerial(block)[1:]
    yield "block damaged", sound, xerial(block[:3] + b"\xff\xff\xff" + block[6:])
    yield "block says a gigabyte", sound, xerial(b"\x80\x80\x80\x80\x04" + block[1:])
    yield "nothing", sound, b""


def zstd_frames() -> Iterator[tuple[str, bytes, bytes]]:
    sound = three()
    plain = zstandard.ZstdCompressor()
    frame = plain.compress(sound)
    summed = zstandard.ZstdCompressor(write_checksum=True).compress(sound)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(sound)
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"skip"
    dictionary = zstandard.ZstdCompressionDict(b"value key header " * 50)
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=28, write_content_size=False)
    widest = zstandard.ZstdCompressionParameters.from_level(3, window_log=30, write_content_size=False)
    yield "without content size", sound, unsized
    yield "checksum", sound, summed
    yield "checksum wrong", sound, summed[:-4] + b"\0\0\0\0"
    yield "checksum cut", sound, summed[:-2]
    yield "two frames", sound, plain.compress(record(0)) + plain.compress(record(1) + record(2))
    yield "an empty frame first", sound, plain.compress(b"") + frame
    yield "an empty frame last", sound, frame + plain.compress(b"")
    yield "five empty frames first", sound, plain.compress(b"") * 5 + frame
    yield "the second frame is not needed", sound, frame + frame
    yield "skippable frame first", sound, skippable + frame
    yield "skippable frame last", sound, frame + skippable
    yield "only a skippable frame", sound, skippable
    yield "bytes after the frame", sound, frame + b"trailing bytes"
    yield "zeros after the frame", sound, frame + bytes(20)
    yield "a cut frame last", sound, frame + frame[:8]
    yield "cut", sound, frame[:-5]
    yield "header cut", sound, frame[:5]
    yield "wrong magic", sound, b"\x29" + frame[1:]
    yield "damaged", sound, frame[:12] + b"\xff\xff\xff" + frame[15:]
    yield "content size too small", sound, frame[:5] + bytes([frame[5] - 1]) + frame[6:]
    yield "content size too great", sound, frame[:5] + bytes([frame[5] + 1]) + frame[6:]
    yield "needs a dictionary", sound, zstandard.ZstdCompressor(dict_data=dictionary).compress(sound)
    yield "window of 256 MiB", sound, _flushed(wide, sound)
    yield "window of 1 GiB", sound, _flushed(widest, sound)
    yield "nothing", sound, b""


def _flushed(parameters: zstandard.ZstdCompressionParameters, data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return compressor.compress(data) + compressor.flush()


FRAMES: dict[str, Callable[[], Iterator[tuple[str, bytes, bytes]]]] = {
    "gzip": gzip_frames,
    "snappy": snappy_frames,
    "lz4": lz4_frames,
    "zstd": zstd_frames,
}
OTHERS = {"gzip": "lz4", "snappy": "gzip", "lz4": "gzip", "zstd": "gzip"}  # a topic that wants another codec


def frames() -> Iterator[Kind]:
    for codec, made in FRAMES.items():
        for title, payload, compressed in made():
            data = batch(payload, codec=CODECS[codec], compressed=compressed)
            yield Kind(f"{codec} frame: {title}", "plain", data)
            yield Kind(f"{OTHERS[codec]} topic, {codec} frame: {title}", OTHERS[codec], data)
    for unknown in (5, 6, 7):
        yield Kind(f"codec {unknown}", "plain", batch(three(), attributes=unknown))


def lots() -> Iterator[Kind]:
    """Return kinds of many records: one record wrong in a thousand, and contents that grow a thousandfold."""
    for codec, name in ((NONE, "none"), (LZ4, "lz4")):
        alike = [record(number) for number in range(9000)]
        squeeze = partial(batch, count=9000, codec=codec)
        yield Kind(f"{name}: 9000 records", "plain", squeeze(b"".join(alike)))
        for number in (63, 64, 65, 127, 128, 8191, 8192, 8999):
            for title, wrong in (
                ("offset", record(number, offset=number - 1)),
                ("value length", record(number, value=varint(4) + b"value")),
                ("headers", record(number, headers=b"\x01")),
            ):
                changed = b"".join([*alike[:number], wrong, *alike[number + 1 :]])
                yield Kind(f"{name}: 9000 records, {title} of {number} wrong", "plain", squeeze(changed))
        late = b"".join(record(number, time=number) for number in range(9000))
        yield Kind(f"{name}: 9000 times", "plain", squeeze(late, max_time=BASE_TIME + 8999))
        yield Kind(f"{name}: 9000 times, header denies it", "plain", squeeze(late))
    zeros = record(value=counted(bytes(40 << 20)))
    for name in ("gzip", "zstd"):
        yield Kind(f"{name}: 40 MiB of zeros", "plain", batch(zeros, 1, codec=CODECS[name]))
        broken = zeros + b"x"
        yield Kind(f"{name}: 40 MiB of zeros and a byte", "plain", batch(broken, 1, codec=CODECS[name]))
        empty = bytes(1 << 18)
        yield Kind(f"{name}: 256 KiB of records of length 0", "plain", batch(empty, 1 << 18, codec=CODECS[name]))


def kinds() -> Iterator[Kind]:
    for name, codec in CODECS.items():
        yield from by_codec(name, codec)
    yield from frames()
    yield from lots()
