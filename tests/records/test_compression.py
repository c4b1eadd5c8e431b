"""Every codec: round trips, other writers' output, damage refused, growth bounded; and lz4's frames as Java's reader
takes them.
"""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import tracemalloc
from contextlib import suppress

import kafka.codec
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka_broker.records.compression import (
    BLOCK_BYTES,
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    codec_by_name,
    compress,
    decompress,
    decompress_in_steps,
    lz4_begin,
    lz4_block,
    lz4_frame,
    lz4_pieces,
)
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.steps import at_once

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
NOISE = os.urandom(70_000)
SAMPLES = [b"", b"x", b"ab" * 100_000, NOISE, NOISE + bytes(200_000)]
LEVELS = {GZIP: [1, -1, 9], LZ4: [9, 1, 17], ZSTD: [-7, 1, 22]}  # the fastest first, the smallest last
their_encode = {
    GZIP: kafka.codec.gzip_encode,
    SNAPPY: kafka.codec.snappy_encode,
    LZ4: kafka.codec.lz4_encode,
    ZSTD: kafka.codec.zstd_encode,
}
their_decode = {
    GZIP: kafka.codec.gzip_decode,
    SNAPPY: kafka.codec.snappy_decode,
    LZ4: kafka.codec.lz4_decode,
    ZSTD: kafka.codec.zstd_decode,
}
INCOMPRESSIBLE = bytes(range(256))
TEXT = b"".join(b"order %d is for %x apples\n" % (number, number * 7919) for number in range(20_000))


def test_names_are_those_of_the_topic_config() -> None:
    assert [codec_by_name(name) for name in CODEC_NAMES] == [NONE, *CODECS]
    assert codec_by_name("uncompressed") == NONE
    with pytest.raises(ValueError, match="brotli"):
        codec_by_name("brotli")


@pytest.mark.parametrize("codec", [NONE, *CODECS])
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_round_trip_from_any_kind_of_buffer(codec: int, data: bytes) -> None:
    for source in (data, bytearray(data), memoryview(data)):
        packed = compress(codec, source)
        assert type(packed) is bytes
        for kind in (bytes, bytearray, memoryview):
            plain = decompress(codec, kind(packed))
            assert plain == data
            assert type(plain) is bytes


@pytest.mark.parametrize("codec", LEVELS)
def test_levels(codec: int) -> None:
    data = b"".join(b"%d," % (i * i) for i in range(20_000))
    packed = [compress(codec, data, level) for level in LEVELS[codec]]
    assert [decompress(codec, frame) for frame in packed] == [data] * 3
    assert len(packed[0]) > len(packed[-1])


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(min_size=1, max_size=5_000).map(lambda data: data * 20))
@settings(max_examples=30)
def test_a_second_opinion_both_ways(codec: int, data: bytes) -> None:
    assert their_decode[codec](compress(codec, data)) == data
    assert decompress(codec, their_encode[codec](data)) == data


def test_snappy_blocks_streams_and_raw() -> None:
    data = b"snappy " * 20_000
    framed = compress(SNAPPY, data)
    assert framed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    first = int.from_bytes(framed[16:20], "big")
    assert snappy.uncompress(framed[20 : 20 + first]) == data[: 32 << 10]
    assert decompress(SNAPPY, snappy.compress(data)) == data
    assert decompress(SNAPPY, framed + compress(SNAPPY, b"more")) == data + b"more"
    for cut in (7, 12, 20, len(framed) - 1):
        with pytest.raises(CorruptBatch):
            decompress(SNAPPY, framed[:cut])
    with pytest.raises(CorruptBatch):
        decompress(SNAPPY, framed + framed[:10])


def test_gzip_members_follow_each_other() -> None:
    assert decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_lz4_frames_of_other_writers() -> None:
    data = NOISE * 3 + bytes(100_000)
    for options in (
        {"store_size": True, "block_linked": False},
        {"block_linked": False, "block_size": lz4.frame.BLOCKSIZE_MAX4MB},
        {"content_checksum": True, "block_checksum": True, "block_linked": False},
    ):
        assert decompress(LZ4, lz4.frame.compress(data, **options)) == data


def test_the_broken_lz4_checksum_of_message_format_v0() -> None:
    """Kafka 0.8 hashed the magic number too; 0x1a and 0x82 are the two checksums of the header that Java writes."""
    right, broken = compress(LZ4, NOISE), compress(LZ4, NOISE, broken_lz4_checksum=True)
    assert right[:7] == bytes.fromhex("04224d18604082")
    assert broken[:7] == bytes.fromhex("04224d1860401a")
    assert right[7:] == broken[7:]
    for frame in (right, broken, lz4.frame.compress(NOISE, store_size=True)):
        assert at_once(decompress_in_steps(LZ4, frame, 1 << 20, broken_lz4_checksum=True)) == NOISE
    with pytest.raises(CorruptBatch, match="lz4"):
        decompress(LZ4, broken)


def test_zstd_frames_with_and_without_their_size() -> None:
    data = NOISE * 3 + bytes(500_000)
    sizeless = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(data)
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    assert decompress(ZSTD, sizeless) == data
    assert decompress(ZSTD, sizeless + skippable + zstandard.compress(b"end")) == data + b"end"
    assert decompress(ZSTD, sizeless + skippable[:-1]) == data  # as Java's reader sees it
    with pytest.raises(CorruptBatch, match="cut short"):
        decompress(ZSTD, sizeless[:-1])


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_refused(codec: int) -> None:
    packed = compress(codec, NOISE[:300] + bytes(300))
    for cut in range(len(packed)):
        if (codec == SNAPPY and 16 <= cut < 20) or (codec == ZSTD and not cut):
            continue  # a header without blocks is the form of no data, and nothing at all is for zstd
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:cut])


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("codec", [NONE, *CODECS, 5, 6, 7])
@given(noise=st.binary(max_size=200))
def test_noise_is_refused_or_decoded(codec: int, broken: bool, noise: bytes) -> None:
    starts = {
        SNAPPY: compress(SNAPPY, b"")[:16],
        ZSTD: b"\x28\xb5\x2f\xfd",
        LZ4: b"\x04\x22\x4d\x18",
        GZIP: b"\x1f\x8b\x08",
    }
    for data in (noise, starts.get(codec, b"") + noise):
        with suppress(CorruptBatch):
            assert len(at_once(decompress_in_steps(codec, data, 10_000, broken_lz4_checksum=broken))) <= 10_000


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
@settings(max_examples=150)
def test_a_changed_byte_never_does_more_than_corrupt(codec: int, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"some text, some noise " * 20 + NOISE[:50]))
    position = data.draw(st.integers(0, len(packed) - 1))
    packed[position] ^= data.draw(st.integers(1, 255))
    with suppress(CorruptBatch):
        assert len(decompress(codec, packed, 10_000)) <= 10_000


@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_the_bound_is_exact(codec: int) -> None:
    for size in (1, 1000, 400_000):
        packed = compress(codec, bytes(size))
        assert decompress(codec, packed, size) == bytes(size)
        with pytest.raises(CorruptBatch):
            decompress(codec, packed, size - 1)


def zstd_bomb() -> bytes:
    """Return a zstd frame with a window of 1 MiB and 20,000 runs of 128 KiB: 80 kB that become 2.6 GB."""
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x50" + block * 20_000 + b"\x01\x00\x00"


def test_bombs_do_not_go_off() -> None:
    bombs = [
        (GZIP, gzip.compress(bytes(64 << 20))),
        (SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100)),
        (LZ4, lz4.frame.compress(bytes(64 << 20), store_size=False)),
        (LZ4, lz4.frame.compress(bytes(64 << 20), store_size=True)),
        (ZSTD, zstandard.compress(bytes(64 << 20))),
        (ZSTD, zstd_bomb()),
    ]
    for codec, packed in bombs:
        tracemalloc.start()
        with pytest.raises(CorruptBatch):
            decompress(codec, packed, 1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 << 20


def test_no_library_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, pykafka_broker.records.conversion, pykafka_broker.records.control\n"
        "print(sorted({'lz4', 'snappy', 'zstandard', 'cramjam'} & {name.split('.')[0] for name in sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("level", [None, 1, 9, 12, 17])
@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES + 7])
def test_lz4_itself_reads_what_is_written(size: int, level: int | None) -> None:
    data = TEXT[:size]
    frame = lz4_frame(data, level)
    assert lz4.frame.decompress(frame) == data
    assert b"".join(lz4_pieces(memoryview(frame))) == data
    info = lz4.frame.get_frame_info(frame)
    assert (info["block_size"], info["block_linked"], info["content_checksum"]) == (BLOCK_BYTES, False, False)


def test_what_does_not_get_smaller_is_kept_as_it_is() -> None:
    block = lz4_block(memoryview(INCOMPRESSIBLE), None)
    assert block[4:] == INCOMPRESSIBLE
    assert int.from_bytes(block[:4], "little") == len(INCOMPRESSIBLE) | 1 << 31
    assert lz4.frame.decompress(lz4_begin() + block + bytes(4)) == INCOMPRESSIBLE


def test_the_high_compressor_is_worth_its_time() -> None:
    data = TEXT[:BLOCK_BYTES]
    assert len(lz4_frame(data, 12)) < len(lz4_frame(data))


def test_the_checksum_of_format_0_is_over_other_bytes() -> None:
    broken = lz4_frame(b"value" * 100, broken_checksum=True)
    with pytest.raises(CorruptBatch, match="header's checksum"):
        list(lz4_pieces(memoryview(broken)))
    assert b"".join(lz4_pieces(memoryview(broken), check_header=False)) == b"value" * 100


def test_the_end_of_a_block_may_say_more_than_fits() -> None:
    frame = lz4.frame.compress(bytes(4 * BLOCK_BYTES), block_size=lz4.frame.BLOCKSIZE_MAX256KB, store_size=False)
    small = frame[:5] + b"\x40" + frame[6:]  # says that its blocks are of 64 KiB
    with pytest.raises(CorruptBatch):
        list(lz4_pieces(memoryview(small), check_header=False))
