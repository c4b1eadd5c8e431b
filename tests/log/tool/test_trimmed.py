"""Verify, repair and dump over logs whose start lies inside a batch, in an aborted transaction, or in a gap."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.tool.command import dump
from pykafka_broker.log.tool.repair import repair
from pykafka_broker.log.tool.verify import verify
from tests.log.support import NOW, TOPIC_ID, batch, manager, marker

FS = OsFileSystem()


def plain(log: PartitionLog) -> None:
    """Write four batches of ten, the middle ones by an idempotent producer."""
    log.append(batch(10), NOW)
    for number in range(2):
        log.append(batch(10, producer_id=5, epoch=0, sequence=10 * number), NOW)
    log.append(batch(10), NOW)


def aborted(log: PartitionLog) -> None:
    """Write 0-4 and 10-14 of a transaction that is aborted at 15, one that is committed, and one that stays open."""
    log.append(batch(5, producer_id=1, epoch=0, sequence=0, transactional=True), NOW)
    log.append(batch(5), NOW)
    log.append(batch(5, producer_id=1, epoch=0, sequence=5, transactional=True), NOW)
    log.append(marker(1, 0, commit=False), NOW, origin=Origin.COORDINATOR)
    log.append(batch(4, producer_id=2, epoch=0, sequence=0, transactional=True), NOW)
    log.append(marker(2, 0, commit=True), NOW, origin=Origin.COORDINATOR)
    log.append(batch(4, producer_id=3, epoch=0, sequence=0, transactional=True), NOW)


def with_gaps(log: PartitionLog) -> None:
    """Write what a cleaning leaves: batches at 0-4, 20-24 and 40-44."""
    for base in (0, 20, 40):
        data = batch(5)
        data[:8] = base.to_bytes(8, "big")
        log.append(data, NOW, origin=Origin.REPLICATION)


FORMS: list[tuple[Callable[[PartitionLog], None], int]] = [
    (plain, 4),
    (plain, 15),
    (plain, 20),
    (plain, 39),
    (plain, 40),
    (aborted, 2),
    (aborted, 7),
    (aborted, 12),
    (aborted, 15),
    (aborted, 18),
    (aborted, 20),
    (with_gaps, 3),
    (with_gaps, 10),
    (with_gaps, 22),
    (with_gaps, 30),
]


def written(path: Path, form: Callable[[PartitionLog], None], start: int, *, rolls: bool) -> None:
    """Leave a log of that form and start behind."""
    logs = manager(path)
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    form(log)
    if rolls:
        log.roll(NOW)
        log.append(batch(1), NOW)
    log.high_watermark = log.log_end_offset
    log.delete_records_before(start)
    logs.shutdown(NOW)


def known(path: Path) -> tuple[object, ...]:
    """Return what a broker knows of the log after a start."""
    logs = manager(path)
    logs.start(NOW)
    log = logs.get("t", 0)
    log.high_watermark = log.log_end_offset
    start, end = log.log_start_offset, log.log_end_offset
    producers = {id: (each.last_sequence, each.epoch) for id, each in log.producers.entries.items()}
    found = (start, end, log.last_stable_offset, log.aborted_transactions(start, end), producers, log.epochs.entries)
    logs.shutdown(NOW)
    return found


def findings(path: Path) -> list[object]:
    return [row for row in verify(FS, str(path / "logs")) if row["type"] != "partition"]


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize(("form", "start"), FORMS)
def test_a_start_anywhere(form: Callable[[PartitionLog], None], start: int, rolls: bool, tmp_path: Path) -> None:
    written(tmp_path, form, start, rolls=rolls)
    assert findings(tmp_path) == []
    before = known(shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-copy")))
    assert before[0] == start
    rows = list(dump(FS, str(tmp_path / "logs/t-0"), records=True))
    [row] = repair(FS, str(tmp_path / "logs/t-0"), NOW)
    assert (row["type"], row["log_end_offset"]) == ("whole", before[1])
    assert findings(tmp_path) == []
    shown = [row for row in rows if row["type"] in ("batch", "record", "marker", "aborted transaction")]
    again = [row for row in dump(FS, str(tmp_path / "logs/t-0"), records=True) if row in shown]
    assert again == shown
    assert known(tmp_path) == before


@pytest.mark.parametrize(("form", "start"), FORMS)
def test_a_start_anywhere_after_a_crash(form: Callable[[PartitionLog], None], start: int, tmp_path: Path) -> None:
    """The checkpoints of a crash are older than the log: everything is read again."""
    written(tmp_path, form, start, rolls=True)
    before = known(shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-copy")))
    (tmp_path / "logs/.kafka_cleanshutdown").unlink()
    (tmp_path / "logs/recovery-point-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    assert findings(tmp_path) == []
    assert known(tmp_path) == before
    assert findings(tmp_path) == []
