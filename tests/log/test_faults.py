"""A disk that refuses any operation at any time: an append is whole or not there, now and after a restart."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import Origin
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.header import check_crc, iter_batches
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, batch, manager, marker, new_log, topic_config


class MoodyFileSystem(FailingFileSystem):
    """A file system short of room or descriptors now and then; syncs and the undoing of failed writes succeed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = Random(seed)
        self.mood = 0.0
        self.refused = 0

    def _check(self, operation: str, path: str) -> None:
        if operation in ("write", "open", "rename") and self.random.random() < self.mood:
            self.refused += 1
            number = errno.EMFILE if operation == "open" and os.path.exists(path) else errno.ENOSPC
            raise OSError(number, os.strerror(number), path)


def started(path: Path, fs: FailingFileSystem) -> LogManager:
    logs = manager(path, fs)
    logs.topic_config = lambda topic: topic_config(segment_bytes=3000, index_interval_bytes=100)
    logs.start(NOW)
    return logs


def read(logs: LogManager) -> dict[int, bytes]:
    log, found, offset = logs.get("t", 0), {}, 0
    while (part := log.read(offset, 1 << 16, log.high_watermark)) is not None:
        for header, data in iter_batches(part.records.read()):
            check_crc(data, header)
            assert header.base_offset == offset
            found[header.base_offset] = bytes(data)[61:]
            offset = header.next_offset
    assert offset == log.log_end_offset
    return found


@pytest.mark.parametrize("seed", range(15))
def test_nothing_acknowledged_is_lost_and_nothing_refused_appears(tmp_path: Path, seed: int) -> None:
    fs = MoodyFileSystem(seed)
    logs = started(tmp_path, fs)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    taken: dict[int, bytes] = {}
    sequence = 0
    for step in range(300):
        fs.mood = 0.2 if fs.random.random() < 0.7 else 0.0
        kind = fs.random.randrange(10)
        try:
            if kind < 7:
                data = batch(
                    1, fs.random.randrange(300), timestamp=NOW + step, producer_id=1, epoch=0, sequence=sequence
                )
                taken[log.append(data, NOW).base_offset] = bytes(data)[61:]
                sequence += 1
            elif kind == 7:
                data = batch(1, 9, timestamp=NOW + step, producer_id=2, epoch=0, transactional=True)
                taken[log.append(data, NOW, origin=Origin.COORDINATOR).base_offset] = bytes(data)[61:]
            elif kind == 8:
                data = marker(2, 0, commit=step % 2 == 0, timestamp=NOW + step)
                taken[log.append(data, NOW, origin=Origin.COORDINATOR).base_offset] = bytes(data)[61:]
            else:
                fs.mood = 0.0
                logs.flush(log, NOW)
        except ApiError:
            continue
    assert fs.refused > 20
    fs.mood = 0.0
    assert read(logs) == taken
    aborted = log.aborted_transactions(0, log.log_end_offset)
    if seed % 2:
        logs.shutdown(NOW)
    else:
        logs.directories[0].release()
    again = started(tmp_path, FailingFileSystem())
    assert read(again) == taken
    log = again.get("t", 0)
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    assert log.producers.entries[1].last_sequence == sequence - 1


def test_a_log_start_that_finds_no_room_is_refused_as_storage_is(tmp_path: Path) -> None:
    """Whoever asks for it, a request or a deadline, hears an answer and no error of the disk."""
    fs = FailingFileSystem()
    log = new_log(tmp_path, fs)
    for _ in range(3):
        log.append(batch(), NOW)
    fs.failures = {"rename leader-epoch": errno.ENOSPC, "write leader-epoch": errno.ENOSPC}
    with pytest.raises(ApiError) as caught:
        log.delete_records_before(2)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    fs.failures = {}
    log.delete_records_before(3)
    assert log.log_start_offset == 3
