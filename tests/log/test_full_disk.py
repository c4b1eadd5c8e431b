"""A small file system runs full: nothing acknowledged is lost, reads go on, and so do appends when there is room."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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
        offset = read.end_offset
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


@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
def test_a_start_on_a_disk_that_is_still_full(small: Path, tmp_path: Path) -> None:
    """The full directory is offline and says why, the others serve; with room again nothing is missing."""
    dirs: dict[str, Any] = {"log_dirs": f"{small}/logs,{tmp_path}/roomy"}

    def started() -> LogManager:
        logs = manager(tmp_path, **dirs)
        logs.topic_config = lambda topic: topic_config(segment_bytes=100_000, index_interval_bytes=2000)
        logs.start(NOW)
        return logs

    logs = started()
    made = [logs.create("t", partition, TOPIC_ID, NOW) for partition in (0, 1)]
    (full,) = (log for log in made if log.directory.startswith(str(small)))
    (other,) = (log for log in made if log is not full)
    other.append(batch(), NOW)
    acknowledged = 0
    with suppress(ApiError):
        while True:
            full.append(batch(1, 3000, producer_id=1, epoch=0, sequence=acknowledged), NOW)
            acknowledged += 1
    use_up(small / "filler")
    for directory in logs.directories:
        directory.release()
    logs = started()
    assert [directory.online for directory in logs.directories] == [False, True]
    assert "No space left on device" in str(logs.directories[0].error)
    with pytest.raises(ApiError) as caught:
        logs.get("t", full.partition)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get("t", other.partition).append(batch(), NOW).base_offset == 1
    logs.shutdown(NOW)
    (small / "filler").unlink()
    subprocess.run(["mount", "-o", f"remount,size={2 * SIZE_KB}k", str(small)], check=True)
    logs = started()
    log = logs.get("t", full.partition)
    assert log.log_end_offset == acknowledged
    again = batch(1, 3000, producer_id=1, epoch=0, sequence=acknowledged)
    assert log.append(again, NOW).base_offset == acknowledged
    assert logs.get("t", other.partition).log_end_offset == 2


def use_up(filler: Path) -> None:
    """Fill the file system until not a byte is left."""
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(512))
            except OSError:
                return
