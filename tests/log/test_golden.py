"""Logs of a real 4.4.0 broker: they are served, and the same batches give the same bytes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pykafka_broker.config import BrokerConfig, TopicConfig
from pykafka_broker.log.checkpoints import read_partition_metadata
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.scan import scan
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from tests.log.support import NOW, ClockedLogs, kafka_data, kafkas_dump, needs_kafka, topic_config

TOPICS = ("plain", "codecs", "idempotent", "transactions")
ENDS = {"plain": 80, "codecs": 300, "idempotent": 60, "transactions": 95, "compacted": 600}
LEFT_BY_COMPACTION = 181  # records
ABORTED = [0, 18, 27, 36, 54, 63, 72]  # first offsets
FS = OsFileSystem()


def config(topic: str) -> TopicConfig:
    return topic_config(segment_bytes=16384, index_interval_bytes=1024)


def manager(path: Path) -> LogManager:
    settings = BrokerConfig({"log.dirs": str(path), "node.id": "1", "log.index.interval.bytes": "1024"})
    return ClockedLogs(FS, settings, new_uuid=lambda: os.urandom(16), topic_config=config)


def write_again(source: Path, target: Path, topics: tuple[str, ...] = TOPICS) -> None:
    """Append the batches of Kafka's directory to logs of ours."""
    logs = manager(target)
    logs.start(NOW)
    for topic in topics:
        folder = source / f"{topic}-0"
        log = logs.create(topic, 0, read_partition_metadata(FS, f"{folder}/partition.metadata") or bytes(16), NOW)
        for file in sorted(folder.glob("*.log")):
            for found in scan(FS.open(str(file)), str(file), 0, file.stat().st_size, verify=True):
                info = log.append(bytearray(found.data), NOW, leader_epoch=found.header.partition_leader_epoch)
                assert info.base_offset == found.header.base_offset
    logs.shutdown(NOW)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_batches_give_the_same_files(tmp_path: Path, topic: str) -> None:
    kafka = kafka_data(tmp_path / "kafka")
    write_again(kafka, tmp_path / "ours", (topic,))
    theirs, ours = kafka / f"{topic}-0", tmp_path / "ours" / f"{topic}-0"
    names = sorted(file.name for file in theirs.iterdir())
    assert sorted(file.name for file in ours.iterdir()) == names
    assert len([name for name in names if name.endswith(".log")]) > 1 or topic == "codecs"
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name


@pytest.mark.parametrize("crashed", [False, True])
def test_we_serve_what_kafka_wrote(tmp_path: Path, crashed: bool) -> None:
    kafka = kafka_data(tmp_path)
    if crashed:
        (kafka / ".kafka_cleanshutdown").unlink()
        (kafka / "recovery-point-offset-checkpoint").unlink()
    logs = manager(kafka)
    logs.start(NOW)
    for topic, end in ENDS.items():
        log = logs.get(topic, 0)
        assert log.log_end_offset == end
        offset, count = 0, 0
        while (read := log.read(offset, 1 << 14, log.high_watermark)) is not None:
            for header, data in iter_batches(read.records.read()):
                count += len(list(iter_records(data, header)))
            offset = read.end_offset
        assert count == (end if topic != "compacted" else LEFT_BY_COMPACTION)
        assert offset == end
    transactions = logs.get("transactions", 0)
    assert transactions.last_stable_offset == 90
    assert [aborted.first_offset for aborted in transactions.aborted_transactions(0, 95)] == ABORTED
    assert logs.cluster_id == "DlucevI8RBOIwwbz5AzpFA"


def test_recovery_rebuilds_what_kafka_had_written(tmp_path: Path) -> None:
    """Indexes, transaction indexes and the newest snapshot, byte for byte, from nothing but the batches."""
    kafka = kafka_data(tmp_path / "kafka")
    ours = shutil.copytree(kafka, tmp_path / "ours")
    (ours / ".kafka_cleanshutdown").unlink()
    (ours / "recovery-point-offset-checkpoint").unlink()
    for file in ours.glob("*-0/*"):
        if file.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            file.unlink()
    logs = manager(ours)
    logs.start(NOW)
    logs.shutdown(NOW)
    for topic in TOPICS:
        for file in (kafka / f"{topic}-0").iterdir():
            assert (ours / f"{topic}-0" / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.whole
@pytest.mark.java
@needs_kafka
def test_kafkas_dump_tool_is_content_with_what_we_wrote(tmp_path: Path) -> None:
    kafka = kafka_data(tmp_path / "kafka")
    ours = tmp_path / "ours"
    write_again(kafka, ours)
    files = sorted(map(str, ours.glob("*-0/0*")))
    for mode in ("--deep-iteration", "--index-sanity-check", "--verify-index-only"):
        shown = kafkas_dump(mode, "--files", ",".join(files))
        for complaint in ("Mismatch", "Found", "corrupt", "Exception", "isvalid: false", "out of order"):
            assert complaint not in shown, shown[-2000:]
