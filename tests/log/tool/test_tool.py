"""Dump, verify and repair, over a directory that Kafka wrote and over what was done to it."""

from __future__ import annotations

import errno
import json
import struct
from pathlib import Path

import pytest

from pykafka_broker.log.filesystem import FileHandle, OsFileSystem
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.tool.command import dump, run
from pykafka_broker.log.tool.repair import repair
from pykafka_broker.log.tool.verify import verify
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.record import BatchRecord
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, batch, kafka_data, manager, marker, new_log

FS = OsFileSystem()


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    return kafka_data(tmp_path / "data")


def findings(path: Path) -> list[tuple[str, str]]:
    return [(str(row["type"]), str(row["file"])) for row in verify(FS, str(path)) if row["type"] != "partition"]


def test_what_kafka_wrote_is_found_whole(kafka: Path) -> None:
    assert findings(kafka) == []
    ends = {row["file"]: row["log_end_offset"] for row in verify(FS, str(kafka))}
    assert ends["plain-0"] == 80
    assert ends["compacted-0"] == 600
    assert len(ends) == 7


def test_dump_shows_every_batch_record_index_entry_and_producer(kafka: Path) -> None:
    rows = list(dump(FS, str(kafka / "transactions-0"), records=True))
    by_type: dict[object, int] = {}
    for row in rows:
        by_type[row["type"]] = by_type.get(row["type"], 0) + 1
    assert by_type["batch"] == 47
    assert by_type["record"] == 72
    assert by_type["marker"] == 23
    assert by_type["aborted transaction"] == 7
    assert by_type["producer"] >= 3
    sizes = sum(file.stat().st_size for file in (kafka / "transactions-0").glob("*.index"))
    assert by_type["offset index"] == sizes // 8
    (first,) = [row for row in rows if row["type"] == "batch" and row["base_offset"] == 0]
    assert first["codec"] == "none"
    assert first["transactional"] is True
    codecs = [row["codec"] for row in dump(FS, str(kafka / "codecs-0")) if row["type"] == "batch"]
    assert codecs == ["none", "gzip", "snappy", "lz4", "zstd"]


class ReadOnlyFiles(OsFileSystem):
    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FileHandle:
        if create or writable:
            raise OSError(errno.EROFS, "Read-only file system", path)
        return super().open(path, writable=False)


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_files_that_may_only_be_read_are_shown_and_checked(kafka: Path, command: str) -> None:
    wanted: list[str] = []
    assert run([command, str(kafka)], wanted.append, NOW) == 0
    shown: list[str] = []
    assert run([command, str(kafka)], shown.append, NOW, fs=ReadOnlyFiles()) == 0
    assert shown == wanted


def test_keys_and_values_that_are_no_text_are_shown_in_hexadecimal(kafka: Path) -> None:
    rows = [row for row in dump(FS, str(kafka / "codecs-0"), records=True) if row["type"] == "record"]
    assert rows[1]["value"] == "1 " * 20
    assert rows[1]["headers"] == {"h": "1"}
    plain = [row for row in dump(FS, str(kafka / "plain-0"), records=True) if row["type"] == "record"]
    assert any(str(row["value"]).startswith("0x") for row in plain)


def test_a_header_that_comes_twice_is_shown_twice(tmp_path: Path) -> None:
    headers = [("a", b"1"), ("b", None), ("a", b"2"), ("no text: \udcff", b"3")]
    log = new_log(tmp_path)
    log.append(build_batch([BatchRecord(0, NOW, None, None, headers)]), NOW)
    rows = dump(FS, log.directory, records=True)
    assert [row["headers"] for row in rows if row["type"] == "record"] == [
        {"a": ["1", "2"], "b": None, "no text: \ufffd": "3"}
    ]


def newest(path: Path, suffix: str) -> Path:
    return sorted(file for file in path.glob(f"*{suffix}") if file.stat().st_size)[-1]


@pytest.mark.parametrize(
    ("suffix", "severity"),
    [(".log", "error"), (".index", "warning"), (".timeindex", "warning"), (".snapshot", "warning")],
)
def test_a_flipped_byte_is_found(kafka: Path, suffix: str, severity: str) -> None:
    file = newest(kafka / "plain-0" if suffix != ".snapshot" else kafka / "idempotent-0", suffix)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x40
    file.write_bytes(data)
    assert (severity, f"{file.parent.name}/{file.name}") in findings(kafka)
    shown: list[str] = []
    assert run(["verify", str(kafka)], shown.append, NOW) == int(severity == "error")
    assert any(f"{file.name}: {severity}" in line for line in shown)


def test_missing_and_stray_files_are_found(kafka: Path) -> None:
    (kafka / "plain-0/00000000000000000000.index").unlink()
    (kafka / "plain-0/leader-epoch-checkpoint").unlink()
    (kafka / "plain-0/partition.metadata").unlink()
    (kafka / "plain-0/00000000000000000007.timeindex").write_bytes(b"")
    (kafka / "transactions-0/00000000000000000009.txnindex").unlink()
    assert sorted(findings(kafka), key=str) == [
        ("error", "transactions-0/00000000000000000009.txnindex"),
        ("warning", "plain-0/00000000000000000000.index"),
        ("warning", "plain-0/00000000000000000007.timeindex"),
        ("warning", "plain-0/leader-epoch-checkpoint"),
        ("warning", "plain-0/partition.metadata"),
    ]


ENTRY = struct.Struct(">hqqqq")  # version, producer, first, last and last stable offset


@pytest.fixture
def aborted(tmp_path: Path) -> PartitionLog:
    """A closed log without its beginning: nobody can know which transactions were open there."""
    log = new_log(tmp_path, segment_bytes=900)
    for turn in range(8):
        for producer_id in (1, 2):
            log.append(
                batch(1, 50, producer_id=producer_id, epoch=0, transactional=True), NOW, origin=Origin.COORDINATOR
            )
        for producer_id in (1, 2):
            log.append(marker(producer_id, 0, commit=turn % 2 == 0), NOW, origin=Origin.COORDINATOR)
    log.close()
    for file in (tmp_path / "t-0").glob(f"{0:020d}.*"):
        file.unlink()
    return log


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ((1, 7), "names an abort of producer 9 at"),
        ((2, 1), "begins at"),
        ((3, 1), "names an abort of producer"),
        ((4, 1), "but it was only up to"),
        (None, "does not name the abort of producer"),
    ],
)
def test_a_transaction_index_is_held_against_the_markers(
    aborted: PartitionLog, change: tuple[int, int] | None, problem: str
) -> None:
    """Also where nobody can tell any more what came before. No broker would notice, and repair corrects it."""
    folder = Path(aborted.directory)
    assert not [row for row in verify(FS, str(folder)) if row["type"] == "error"]
    (file, *_) = [each for each in sorted(folder.glob("*.txnindex")) if each.stat().st_size]
    right = file.read_bytes()
    rows = [list(row) for row in ENTRY.iter_unpack(right)]
    if change is None:
        rows.pop()
    else:
        rows[-1][change[0]] += change[1]
    file.write_bytes(b"".join(ENTRY.pack(*row) for row in rows))
    (found,) = [row for row in verify(FS, str(folder)) if row["type"] == "error"]
    assert found["file"] == f"t-0/{file.name}"
    assert problem in str(found["problem"])
    (done,) = repair(FS, str(folder), NOW)
    assert (done["type"], done["corrected"]) == ("repaired", [file.name])
    assert file.read_bytes() == right
    (done,) = repair(FS, str(folder), NOW)
    assert (done["type"], done["corrected"]) == ("whole", [])


def test_a_log_that_lost_its_end_is_found(kafka: Path) -> None:
    newest(kafka / "idempotent-0", ".log").unlink()
    assert ("error", "idempotent-0/idempotent-0") in findings(kafka)


def test_repair_keeps_what_it_cuts_and_a_broker_starts(kafka: Path, tmp_path: Path) -> None:
    file = sorted((kafka / "plain-0").glob("*.log"))[1]
    whole = file.read_bytes()
    position, count = 0, 0
    while count < 5:
        position += 12 + struct.unpack_from(">i", whole, position + 8)[0]
        count += 1
    damaged = bytearray(whole)
    damaged[position + 70] ^= 1
    file.write_bytes(damaged)
    last = newest(kafka / "plain-0", ".log")
    after = last.read_bytes()
    rows = {row["file"]: row for row in repair(FS, str(kafka), NOW)}
    end = int(file.stem) + 5
    assert rows["plain-0"]["log_end_offset"] == end
    assert rows["plain-0"]["put_aside"] == [f"{file.name}.damaged", f"{last.name}.damaged"]
    assert rows["codecs-0"]["type"] == "whole"
    assert file.read_bytes() == whole[:position]
    assert Path(f"{file}.damaged").read_bytes() == bytes(damaged[position:])
    assert Path(f"{last}.damaged").read_bytes() == after
    assert findings(kafka) == []
    logs = manager(tmp_path, log_dirs=str(kafka))
    logs.start(NOW)
    assert logs.get("plain", 0).log_end_offset == end
    assert logs.get("transactions", 0).log_end_offset == 95


def test_what_was_put_aside_before_stays(kafka: Path) -> None:
    file = sorted((kafka / "plain-0").glob("*.log"))[0]
    aside = []
    for position in (-10, -200):
        data = bytearray(file.read_bytes())
        data[position] ^= 1
        file.write_bytes(data)
        (row,) = repair(FS, str(kafka / "plain-0"), NOW)
        assert isinstance(row["put_aside"], list)
        aside += row["put_aside"][:1]
    assert aside == [f"{file.name}.damaged", f"{file.name}.2.damaged"]
    assert all((file.parent / name).stat().st_size for name in aside)
    assert [row["type"] for row in repair(FS, str(kafka / "plain-0"), NOW)] == ["whole"]


def test_a_segment_that_is_there_twice_is_put_aside(kafka: Path, tmp_path: Path) -> None:
    second = sorted((kafka / "plain-0").glob("*.log"))[1]
    copy = second.with_name(f"{int(second.stem) - 1:020d}.log")
    copy.write_bytes(second.read_bytes())
    (row,) = repair(FS, str(kafka / "plain-0"), NOW)
    assert row["put_aside"] == [f"{copy.name}.damaged"]
    assert row["log_end_offset"] == 80
    assert findings(kafka) == []


def test_repair_keeps_the_producers_of_records_that_are_gone(kafka: Path, tmp_path: Path) -> None:
    folder = kafka / "idempotent-0"
    end = next(row["log_end_offset"] for row in verify(FS, str(folder)))
    for file in folder.glob("*.log"):
        file.unlink()  # as retention does
    (folder / f"{end:020d}.log").touch()
    before = newest(folder, ".snapshot").read_bytes()
    (row,) = repair(FS, str(folder), NOW)
    assert row["type"] == "whole"
    assert newest(folder, ".snapshot").read_bytes() == before


def test_a_log_that_lost_all_its_segments_goes_on_behind_them(kafka: Path, tmp_path: Path) -> None:
    for file in (kafka / "plain-0").glob("*.log"):
        file.unlink()
    (row,) = repair(FS, str(kafka / "plain-0"), NOW)
    assert row["type"] == "repaired"
    assert row["problem"] == "it ended at 0, but had been synced up to 80"
    logs = manager(tmp_path, log_dirs=str(kafka))
    logs.start(NOW)
    assert logs.get("plain", 0).append(batch(), NOW).base_offset == 80


def test_checkpoints_that_are_ahead_of_the_log(kafka: Path, tmp_path: Path) -> None:
    (kafka / "log-start-offset-checkpoint").write_text("0\n1\nplain 0 9999\n")
    assert findings(kafka) == [("error", "plain-0/plain-0")]
    (row,) = repair(FS, str(kafka / "plain-0"), NOW)
    assert row["problem"] == "it ended at 80, but its checkpointed start was 9999"
    assert findings(kafka) == []
    logs = manager(tmp_path, log_dirs=str(kafka))
    logs.start(NOW)
    assert logs.get("plain", 0).log_start_offset == 0


def test_what_indexes_and_epochs_leave_out_is_found(kafka: Path) -> None:
    stamps = sorted((kafka / "plain-0").glob("*.timeindex"))[0]
    stamps.write_bytes(stamps.read_bytes()[:-12])
    (kafka / "codecs-0/leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    (kafka / "idempotent-0/leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 5000\n")
    assert sorted(findings(kafka)) == [
        ("warning", "codecs-0/leader-epoch-checkpoint"),
        ("warning", "idempotent-0/leader-epoch-checkpoint"),
        ("warning", f"plain-0/{stamps.name}"),
    ]


def test_epochs_from_the_logs_start_on_are_enough(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.start(NOW)
    log = logs.create("t", 0, bytes(range(16)), NOW)
    for epoch in range(4):
        log.epochs.current = epoch
        log.append(batch(5), NOW)
    log.delete_records_before(12)
    assert log.epochs.entries == [(2, 12), (3, 15)]
    logs.shutdown(NOW)
    assert findings(tmp_path / "logs") == []


def test_a_directory_in_use_is_not_repaired(kafka: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    logs = manager(tmp_path, log_dirs=str(kafka))
    logs.start(NOW)
    script = (
        f"from pykafka_broker.log.tool.command import run\nraise SystemExit(run(['repair', {str(kafka)!r}], print, 0))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Failed to acquire lock" in done.stdout


def test_rows_as_json_lines(kafka: Path) -> None:
    lines: list[str] = []
    assert run(["dump", "--json", "--records", str(kafka / "plain-0")], lines.append, NOW) == 0
    rows = [json.loads(line) for line in lines]
    assert sum(row["type"] == "record" for row in rows) == 80
    assert run(["dump", str(kafka / "nothing")], lines.append, NOW) == 2


def test_a_repair_that_finds_no_room_leaves_the_segment(tmp_path: Path) -> None:
    """Records that their coordinator can't read are left out of a copy, which takes the segment's place when whole."""
    logs = manager(tmp_path)
    logs.start(NOW)
    log = logs.create("__consumer_offsets", 0, TOPIC_ID, NOW)
    log.append(batch(2, keys=[b"\x00\x01", b"\x00\x01\x00"]), NOW)
    folder = tmp_path / "logs" / "__consumer_offsets-0"
    logs.shutdown(NOW)
    whole = (folder / f"{0:020d}.log").read_bytes()
    full = FailingFileSystem()
    full.failures["write .log.tmp"] = errno.ENOSPC
    with pytest.raises(OSError, match="No space"):
        list(repair(full, str(folder), NOW))
    assert (folder / f"{0:020d}.log").read_bytes() == whole
    assert not list(folder.glob("*.damaged"))
    list(repair(FS, str(folder), NOW))
    assert (folder / f"{0:020d}.log").read_bytes() != whole
    assert len(list(folder.glob("*.damaged"))) == 1
    assert not list(folder.glob("*.tmp"))
