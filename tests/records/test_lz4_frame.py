"""Frames of lz4: a second opinion, and what Java's reader makes of them."""

import lz4.frame
import pytest

from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.lz4_frame import BLOCK_BYTES, lz4_begin, lz4_block, lz4_end, lz4_frame, lz4_pieces

INCOMPRESSIBLE = bytes(range(256))
TEXT = b"".join(b"order %d is for %x apples\n" % (number, number * 7919) for number in range(20_000))


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
    assert lz4.frame.decompress(lz4_begin() + block + lz4_end()) == INCOMPRESSIBLE


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
