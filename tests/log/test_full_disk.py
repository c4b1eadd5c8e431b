"""A small file system runs full: nothing acknowledged is lost, reads go on, and so do appends when there is room."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.manager import LogManager
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.header import check_crc, iter_batches
from tests.log.support import NOW, TOPIC_ID, batch, manager, topic_config

SIZE_KB = 1024


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a megabyte."""
    mount = tmp_path / "small"
    mount.mkdir()
    options = f"size={SIZE_KB}k,nr_inodes=200"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mount)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=False)


def started(path: Path) -> LogManager:
    logs = manager(path)
    logs.topic_config = lambda topic: topic_config(segment_bytes=100_000, index_interval_bytes=2000)
    logs.start(NOW)
    return logs


def offsets(logs: LogManager) -> list[int]:
    log, found, offset = logs.get("t", 0), [], 0
    while (read := log.read(offset, 1 << 16, log.high_watermark)) is not None:
        for header, data in iter_batches(read.records.read()):
            check_crc(data, header)
            found.append(header.base_offset)
        offset = read.end_offset()
    return found


@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
@pytest.mark.parametrize("clean", [True, False])
def test_a_full_disk(small: Path, clean: bool) -> None:
    logs = started(small)
    filler = small / "filler"
    filler.write_bytes(bytes(600 * 1024))
    log = logs.create("t", 0, TOPIC_ID, NOW)
    acknowledged = 0

    def produce() -> None:
        nonlocal acknowledged
        data = batch(1, 3000, producer_id=1, epoch=0, sequence=acknowledged)
        assert log.append(data, NOW).base_offset == acknowledged
        acknowledged += 1

    def fill() -> None:
        while True:
            produce()

    for _ in range(3):
        with pytest.raises(ApiError) as caught:
            fill()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert acknowledged > 50
    assert offsets(logs) == list(range(acknowledged))
    assert logs.directories[0].online
    filler.unlink()
    for _ in range(50):
        produce()
    logs.flush(log, NOW)
    assert offsets(logs) == list(range(acknowledged))
    if clean:
        logs.shutdown(NOW)
    else:
        logs.directories[0].release()
    logs = started(small)
    assert offsets(logs) == list(range(acknowledged))
    assert logs.get("t", 0).producers.entries[1].last_sequence == acknowledged - 1


def test_no_room_for_a_new_log(small: Path) -> None:
    logs = started(small)
    (small / "filler").write_bytes(bytes((SIZE_KB - 200) * 1024))
    made = 0

    def fill() -> None:
        nonlocal made
        while made < 1000:
            logs.create("t", made, TOPIC_ID, NOW)
            made += 1

    with pytest.raises(ApiError) as caught:
        fill()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not logs.exists("t", made)
    assert logs.directories[0].online
    for partition in range(made):
        logs.delete("t", partition, NOW)
    logs.on_deadline(NOW + 60_000)
    (small / "filler").unlink()
    assert logs.create("t", made, TOPIC_ID, NOW).append(batch(), NOW).base_offset == 0
