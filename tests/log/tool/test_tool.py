"""Dump, verify and repair, over a directory that Kafka wrote and over what was done to it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.tool.command import run
from pykafka_broker.log.tool.dump import dump
from pykafka_broker.log.tool.repair import repair
from pykafka_broker.log.tool.verify import verify
from tests.log.support import NOW, kafka_data, manager

FS = OsFileSystem()


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    return kafka_data(tmp_path / "data")


def findings(path: Path) -> list[tuple[object, object]]:
    return [(row["type"], row["file"]) for row in verify(FS, str(path)) if row["type"] != "partition"]


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


def test_keys_and_values_that_are_no_text_are_shown_in_hexadecimal(kafka: Path) -> None:
    rows = [row for row in dump(FS, str(kafka / "codecs-0"), records=True) if row["type"] == "record"]
    assert rows[1]["value"] == "1 " * 20
    assert rows[1]["headers"] == {"h": "1"}
    plain = [row for row in dump(FS, str(kafka / "plain-0"), records=True) if row["type"] == "record"]
    assert any(str(row["value"]).startswith("0x") for row in plain)


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
