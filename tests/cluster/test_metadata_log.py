"""The metadata log on disk: the first records of a new log, epochs, snapshots, damage."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.bootstrap import bootstrap_records, first_records, format_records
from pykafka_broker.cluster.controller import Controller
from pykafka_broker.cluster.features import SUPPORTED, bootstrap_levels
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.metadata_log import MetadataLog, read_quorum_epoch
from pykafka_broker.cluster.records import ApiMessageAndVersion, MetadataError
from pykafka_broker.cluster.snapshot import (
    BOOTSTRAP_FILE,
    MetadataSnapshot,
    Voters,
    control_batch,
    control_type,
    snapshot_name,
    snapshot_pieces,
    snapshot_records,
    write_snapshot,
)
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.manager import LogManager
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.protocol.stored.abort_transaction_record import AbortTransactionRecord
from pykafka_broker.protocol.stored.begin_transaction_record import BeginTransactionRecord
from pykafka_broker.protocol.stored.end_transaction_record import EndTransactionRecord
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.kraft_version_record import KRaftVersionRecord
from pykafka_broker.records.control import ControlType
from pykafka_broker.records.header import MAGIC_OFFSET, iter_batches
from pykafka_broker.records.record import iter_records

DATA = Path(__file__).with_name("data")
NOW = 1_700_000_000_000
OF_4_3 = 30  # the metadata.version of the Kafka 4.3.1 that wrote bootstrap.checkpoint: kafka-storage of 4.4 writes none
FS = OsFileSystem()


def encoded(records: list[ApiMessageAndVersion], **more: Any) -> bytes:
    return b"".join(snapshot_pieces(records, **more))


class Node:
    """The metadata log of one directory, opened as a start does it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.folder = directory / "__cluster_metadata-0"
        self.open()

    def open(self) -> None:
        ids = itertools.count(1)
        config = BrokerConfig({"log.dirs": str(self.directory), "node.id": "1"})
        self.logs = LogManager(FS, config, clock=Clock(NOW), new_uuid=lambda: next(ids).to_bytes(16, "big"))
        self.logs.start(NOW)
        self.image = MetadataImage()
        self.controller = Controller(self.image, config, 1, lambda: next(ids).to_bytes(16, "big"))
        self.log = MetadataLog(self.logs.metadata_log(NOW), FS, 1, b"d" * 16)
        self.delta = self.log.load(self.image)

    def reopen(self) -> None:
        self.logs.shutdown(NOW)
        self.open()

    def append(self, *messages: Any) -> None:
        self.log.append([ApiMessageAndVersion(message, 0) for message in messages], NOW)

    @property
    def bytes(self) -> bytes:
        return (self.folder / f"{0:020d}.log").read_bytes()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_new_log_begins_with_the_bytes_of_kafkas(node: Node) -> None:
    recorded = (DATA / "kafka.log").read_bytes()
    (first, leader_change), (second, bootstrap) = itertools.islice(iter_batches(recorded), 2)
    node.log.lead(first.base_timestamp)
    node.log.append(first_records(node.controller, format_records()), second.base_timestamp)
    assert node.bytes == bytes(leader_change) + bytes(bootstrap)


def test_bootstrap_checkpoint_is_what_format_writes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = bootstrap_levels(OF_4_3)
    monkeypatch.setitem(SUPPORTED, "metadata.version", (7, OF_4_3))
    recorded = (DATA / "bootstrap.checkpoint").read_bytes()
    written = bootstrap_records(FS, str(node.directory), NOW, node.controller.config)
    assert {record.message.name: record.message.feature_level for record in written} == levels
    ours = (node.directory / BOOTSTRAP_FILE).read_bytes()
    assert [header.size for header, _ in iter_batches(ours)] == [header.size for header, _ in iter_batches(recorded)]
    assert list(snapshot_records(FS, str(DATA / "bootstrap.checkpoint"))) == written


def test_the_first_snapshot_is_what_format_writes(node: Node) -> None:
    node.folder.mkdir(exist_ok=True)
    shutil.copy(DATA / "formatted.checkpoint", node.folder / snapshot_name(0, 0))
    assert bootstrap_records(FS, str(node.directory), NOW, node.controller.config) == format_records()


def test_what_format_left_is_honoured(node: Node) -> None:
    left = [ApiMessageAndVersion(FeatureLevelRecord("metadata.version", 20), 0)]
    write_snapshot(FS, str(node.directory / BOOTSTRAP_FILE), left, now=NOW)
    assert bootstrap_records(FS, str(node.directory), NOW, node.controller.config) == left
    # Without eligible leader replicas there is no min.insync.replicas of the cluster's own.
    kinds = [type(record.message).__name__ for record in first_records(node.controller, left)]
    assert kinds == ["BeginTransactionRecord", "FeatureLevelRecord", "EndTransactionRecord"]
    old = [ApiMessageAndVersion(FeatureLevelRecord("metadata.version", 12), 0)]
    assert first_records(node.controller, old) == old, "which knows no transactions"


def test_every_start_leads_a_new_epoch(node: Node) -> None:
    for epoch in (1, 2, 3):
        node.log.lead(NOW)
        assert node.log.epoch == epoch
        node.append(FeatureLevelRecord("f", epoch))
        node.reopen()
    assert node.image.features == {"f": 3}
    epochs = [header.partition_leader_epoch for header, _ in iter_batches(node.bytes)]
    assert epochs == [1, 1, 2, 2, 3, 3]
    assert (node.folder / "leader-epoch-checkpoint").read_text() == "0\n3\n1 0\n2 2\n3 4\n"


def test_quorum_state_is_kafkas(node: Node) -> None:
    node.log.lead(NOW)
    node.log.lead(NOW)
    assert (node.folder / "quorum-state").read_bytes() == (DATA / "quorum-state").read_bytes()


def test_an_epoch_that_only_the_log_knows_counts(node: Node) -> None:
    node.log.lead(NOW)
    node.log.lead(NOW)
    (node.folder / "quorum-state").unlink()
    node.reopen()
    node.log.lead(NOW)
    assert node.log.epoch == 3


@pytest.mark.parametrize("text", ["", "{", "{}", '{"leaderEpoch":"x"}', '{"leaderEpoch":-4}', "[]"])
def test_a_damaged_quorum_state_is_refused(node: Node, text: str) -> None:
    (node.folder / "quorum-state").write_text(text)
    with pytest.raises(MetadataError, match="quorum-state is damaged"):
        node.log.lead(NOW)


def test_dynamic_voters_stand_in_the_log(node: Node) -> None:
    node.log.lead(NOW)
    node.log.append_encoded(control_batch([(ControlType.KRAFT_VERSION, KRaftVersionRecord(0, 1).encode(0))], NOW), NOW)
    assert node.log.voter_directory_id == ZERO_UUID
    node.reopen()
    assert node.log.kraft_version == 1
    assert node.log.voter_directory_id == b"d" * 16
    node.log.lead(NOW)
    state = json.loads((node.folder / "quorum-state").read_text())
    assert (state["data_version"], state["leaderEpoch"]) == (1, 2)
    assert read_quorum_epoch(FS, str(node.folder / "quorum-state")) == 2


def test_what_stands_between_begin_and_end_waits_for_the_end(node: Node) -> None:
    node.log.lead(NOW)
    node.append(BeginTransactionRecord("x"), FeatureLevelRecord("f", 1))
    node.reopen()
    assert node.image.features == {}
    node.log.lead(NOW)
    node.append(AbortTransactionRecord())
    node.append(BeginTransactionRecord("y"), FeatureLevelRecord("g", 1))
    node.append(EndTransactionRecord())
    node.reopen()
    assert node.image.features == {"g": 1}


def test_a_new_leader_aborts_a_transaction_that_was_left_open(node: Node) -> None:
    node.log.lead(NOW)
    node.append(BeginTransactionRecord("x"), FeatureLevelRecord("f", 1))
    node.reopen()
    node.log.lead(NOW)
    node.append(FeatureLevelRecord("g", 1))
    end = node.log.log.log_end_offset
    node.reopen()
    assert node.image.features == {"g": 1}
    node.log.lead(NOW)
    assert node.log.log.log_end_offset == end + 1, "nothing is left to be aborted"


def test_a_real_directory_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    shutil.copy(DATA / "kafka.log", folder / f"{0:020d}.log")
    shutil.copy(DATA / "quorum-state", folder)
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    node = Node(tmp_path)
    assert list(node.image.topics) == ["one"]
    assert [topic.name for topic in node.delta.deleted] == ["gone"]
    node.log.lead(NOW)
    assert node.log.epoch == 3


def put_snapshot(node: Node, end_offset: int, *records: Any) -> Path:
    path = node.folder / snapshot_name(end_offset, 1)
    path.write_bytes(encoded([ApiMessageAndVersion(record, 0) for record in records], now=NOW, epoch=1))
    return path


def test_a_snapshot_ahead_of_its_log_is_refused(node: Node) -> None:
    node.log.lead(NOW)
    put_snapshot(node, 100)
    with pytest.raises(MetadataError, match="ahead of its log"):
        node.reopen()


@pytest.mark.parametrize("damage", ["a bit", "the footer"])
def test_a_damaged_snapshot_gives_way_to_what_was_before(
    node: Node, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    node.log.lead(NOW)
    for level in (1, 2, 3):
        node.append(FeatureLevelRecord("f", level))
    put_snapshot(node, 2, FeatureLevelRecord("f", 1), FeatureLevelRecord("only.in.the.snapshot", 1))
    path = put_snapshot(node, 3, FeatureLevelRecord("f", 2))
    whole = path.read_bytes()
    path.write_bytes(whole[:150] + bytes((whole[150] ^ 1,)) + whole[151:] if damage == "a bit" else whole[:-77])
    node.reopen()
    assert node.image.features == {"f": 3, "only.in.the.snapshot": 1}
    assert f"{path} is damaged" in caplog.text


def test_without_what_came_before_a_damaged_snapshot_is_refused(node: Node) -> None:
    node.log.lead(NOW)
    put_snapshot(node, 0).write_bytes(b"\0" * 100)
    with pytest.raises(MetadataError, match="is damaged"):
        node.reopen()


@pytest.mark.parametrize("damage", [MAGIC_OFFSET, 8], ids=["magic", "length"])
def test_a_header_that_the_disk_has_broken_is_told(node: Node, damage: int) -> None:
    """A broken header is reported when it is read: a clean start looks at the end of the log alone."""
    node.log.lead(NOW)
    for level in range(1, 101):
        node.append(FeatureLevelRecord("f", level))
    node.logs.shutdown(NOW)
    path = node.folder / f"{0:020d}.log"
    second = next(iter_batches(path.read_bytes()))[0].size
    with path.open("r+b") as file:
        file.seek(second + damage)
        file.write(b"\x7f")
    with pytest.raises(MetadataError, match="__cluster_metadata-0: the records from offset 1 on are damaged"):
        node.open()


@pytest.mark.parametrize("name", ["kafka.checkpoint", "formatted.checkpoint", "standalone.checkpoint"])
def test_the_control_records_of_a_snapshot_have_kafkas_bytes(name: str) -> None:
    recorded = list(iter_batches((DATA / name).read_bytes()))
    (first, header), (last, footer) = recorded[0], recorded[-1]
    _, *values = [record.value or b"" for record in iter_records(header, first)]
    voters = Voters(1, values[1]) if values else Voters()
    timestamp = MetadataSnapshot(FS, str(DATA / name), 0, 0).timestamp
    ours = encoded(
        [],
        now=first.base_timestamp,
        epoch=first.partition_leader_epoch,
        last_contained_log_timestamp=timestamp,
        voters=voters,
    )
    assert ours.startswith(bytes(header))
    end = control_batch(
        [(ControlType.SNAPSHOT_FOOTER, bytes(3))],
        last.base_timestamp,
        offset=last.base_offset,
        epoch=last.partition_leader_epoch,
    )
    assert end == bytes(footer)


@pytest.fixture
def standalone(tmp_path: Path) -> Node:
    """A node with the files that `kafka-storage format --standalone` leaves, with kraft.version 1."""
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    shutil.copy(DATA / "standalone.checkpoint", folder / snapshot_name(0, 0))
    return Node(tmp_path)


def test_the_voters_of_a_formatted_directory_go_into_the_log_as_kafka_puts_them(standalone: Node) -> None:
    (first, opening), (second, bootstrap) = iter_batches((DATA / "standalone.log").read_bytes())
    assert standalone.log.kraft_version == 1
    standalone.log.lead(first.base_timestamp)
    records = bootstrap_records(FS, str(standalone.directory), NOW, standalone.controller.config)
    standalone.log.append(first_records(standalone.controller, records), second.base_timestamp)
    assert standalone.bytes == bytes(opening) + bytes(bootstrap)


def test_records_of_the_first_snapshot_are_no_state_before_they_are_in_the_log(standalone: Node) -> None:
    first = standalone.folder / snapshot_name(0, 0)
    left = list(snapshot_records(FS, str(first)))
    assert left == format_records()
    assert (standalone.log.kraft_version, standalone.controller.image.features) == (1, {})
    assert bootstrap_records(FS, str(standalone.directory), NOW, standalone.controller.config) == left
    first.unlink()
    assert bootstrap_records(FS, str(standalone.directory), NOW, standalone.controller.config) == left


def test_voters_are_in_the_log_once_and_in_every_snapshot(standalone: Node) -> None:
    voters = standalone.log.voters
    for _ in range(2):
        standalone.log.lead(NOW)
        standalone.reopen()
        assert standalone.log.voters == voters
    control = [record for header, batch in iter_batches(standalone.bytes) for record in iter_records(batch, header)]
    assert [control_type(record) for record in control] == [2, 5, 6, 2]
    standalone.log.lead(NOW)
    path = standalone.folder / snapshot_name(standalone.log.log.log_end_offset, standalone.log.epoch)
    path.write_bytes(encoded([], now=NOW, epoch=standalone.log.epoch, voters=voters))
    (standalone.folder / snapshot_name(0, 0)).unlink()
    standalone.reopen()
    standalone.log.lead(NOW)
    assert (standalone.log.voters, standalone.log.log.log_end_offset) == (voters, 6)
