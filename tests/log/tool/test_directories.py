"""Directories that are not as they should be: empty, foreign, in use, half damaged; and the metadata log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from shlex import quote
from struct import pack
from typing import cast

import pytest

from pykafka_broker.cluster.records import MetadataError, decode_record
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import read_partition_metadata
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.tool.command import dump, run
from pykafka_broker.log.tool.decoding import decode, text, unreadable
from pykafka_broker.log.tool.repair import repair
from pykafka_broker.log.tool.verify import verify
from pykafka_broker.protocol.runtime import Message, uuid_text
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from pykafka_broker.protocol.stored.user_scram_credential_record import UserScramCredentialRecord
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.record import BatchRecord
from tests.log.support import NOW, TOPIC_ID, batch, kafka_data, kafkas_dump, manager, needs_kafka

FS = OsFileSystem()
RECORDED = Path(__file__).parents[2] / "cluster" / "data"


def told(*arguments: str) -> tuple[int, list[str]]:
    lines: list[str] = []
    return run(arguments, lines.append, NOW), lines


def findings(path: Path) -> list[tuple[object, object]]:
    return [(row["type"], row["file"]) for row in verify(FS, str(path)) if row["type"] != "partition"]


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    return kafka_data(tmp_path / "data")


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    """A data directory with a metadata log, its snapshot, and one partition of the topic in it."""
    path = tmp_path / "data"
    folder = path / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    shutil.copy(RECORDED / "kafka.log", folder / f"{0:020d}.log")
    shutil.copy(RECORDED / "kafka.checkpoint", folder / f"{30:020d}-0000000001.checkpoint")
    shutil.copy(RECORDED / "quorum-state", folder)
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    (path / "one-0").mkdir()
    (path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    assert findings(path) == [
        ("warning", f"__cluster_metadata-0/{0:020d}.index"),
        ("warning", f"__cluster_metadata-0/{0:020d}.timeindex"),
        ("warning", "__cluster_metadata-0/leader-epoch-checkpoint"),
    ]
    return path


@pytest.mark.parametrize("command", ["dump", "verify", "repair"])
def test_what_is_no_data_directory(tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "readme.txt").write_text("x")
    for name, problem in (("file", "is not a directory"), ("nothing", "is not a directory")):
        status, lines = told(command, str(tmp_path / name))
        assert status == 2
        assert problem in lines[0]
    for name in ("empty", "foreign"):
        before = sorted((tmp_path / name).iterdir())
        status, lines = told(command, str(tmp_path / name))
        assert (status, len(lines)) == (2, 1)
        assert "is no data directory" in lines[0]
        assert sorted((tmp_path / name).iterdir()) == before


def test_a_data_directory_without_partitions(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.start(NOW)
    logs.shutdown(NOW)
    for command in ("verify", "repair"):
        assert told(command, str(tmp_path / "logs")) == (0, [])
    assert told("dump", str(tmp_path / "logs"))[0] == 0


def test_a_partition_that_was_just_made(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    status, lines = told("verify", str(tmp_path / "t-0"))
    assert (status, lines) == (0, ["t-0: partition segments=0 batches=0 records=0 log_end_offset=0"])
    assert told("repair", str(tmp_path / "t-0"))[0] == 0


def test_paths_as_a_user_types_them(kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = told("dump", str(kafka / "plain-0"))
    assert len(expected[1]) > 50
    assert told("dump", f"{kafka}/plain-0/") == expected
    monkeypatch.chdir(kafka / "plain-0")
    assert told("dump", ".") == expected


def test_folders_aside_are_named_and_can_be_looked_into(kafka: Path) -> None:
    aside = f"plain-0.{'a' * 32}-stray"
    (kafka / "plain-0").rename(kafka / aside)
    (identity,) = [row for row in dump(FS, str(kafka)) if row["type"] == "directory"]
    assert (identity["file"], identity["node.id"]) == ("meta.properties", "1")
    rows = [row for row in dump(FS, str(kafka)) if row["type"] == "folder"]
    assert rows == [{"type": "folder", "file": aside, "state": "stray"}]
    inside = list(verify(FS, str(kafka / aside)))
    assert [(row["type"], row.get("log_end_offset")) for row in inside] == [("partition", 80)]


def test_a_directory_in_use_is_looked_at_with_a_warning(kafka: Path, tmp_path: Path) -> None:
    logs = manager(tmp_path, log_dirs=str(kafka))
    logs.start(NOW)
    logs.create("fresh", 0, TOPIC_ID, NOW).append(batch(), NOW)  # its indexes come with the end of the segment
    script = (
        f"from pykafka_broker.log.tool.command import run\nraise SystemExit(run(['verify', {str(kafka)!r}], print, 0))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stdout.startswith('.lock: note problem="a broker is running here')
    assert [line for line in done.stdout.splitlines() if line.startswith("fresh-0")] == [
        "fresh-0: partition segments=1 batches=1 records=1 log_end_offset=1"
    ]


def test_small_files_of_the_directory(kafka: Path) -> None:
    (kafka / "meta.properties").write_bytes(b"node.id=1\n\xff")
    (kafka / "recovery-point-offset-checkpoint").write_bytes(b"0\n7\n")
    (kafka / "log-start-offset-checkpoint").write_bytes(b"0\n1\nt 0 x\n")
    wrong = [
        ("error", "meta.properties"),
        ("warning", "recovery-point-offset-checkpoint"),
        ("warning", "log-start-offset-checkpoint"),
    ]
    assert findings(kafka)[:3] == wrong
    damaged = [row["file"] for row in dump(FS, str(kafka)) if row["type"] == "damage"]
    assert sorted(map(str, damaged)) == sorted(name for _, name in wrong)
    rows = list(repair(FS, str(kafka), NOW))
    assert [(row["type"], row["file"]) for row in rows[:3]] == [
        ("repaired", "meta.properties"),
        *(("repaired", name) for _, name in wrong[1:]),
    ]
    assert (kafka / "recovery-point-offset-checkpoint.damaged").exists()
    assert findings(kafka) == wrong[:1], "a start writes it anew"


def test_repair_keeps_the_sound_lines_of_meta_properties(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.start(NOW)
    logs.shutdown(NOW)
    path = tmp_path / "logs" / "meta.properties"
    kept = {line for line in path.read_text().splitlines() if "directory" not in line and "#" not in line}
    path.write_bytes(path.read_bytes().replace(b"directory.id=", b"directory.id=\xff"))
    with pytest.raises(LogDirectoryError, match=r"is damaged: it is no text; stop the broker and run .*log repair"):
        manager(tmp_path).start(NOW)
    [row] = repair(FS, str(tmp_path / "logs"), NOW)
    assert row["type"] == "repaired"
    assert "a start makes a new directory.id" in str(row["problem"])
    again = manager(tmp_path)
    again.start(NOW)
    assert kept < set(path.read_text().splitlines())
    assert again.cluster_id == logs.cluster_id


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("node.id=1\n", "does not say version, cluster.id"),
        ("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n", "is reserved"),
        ("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=x\n", "is damaged"),
    ],
)
def test_meta_properties(kafka: Path, text: str, problem: str) -> None:
    (kafka / "meta.properties").write_text(text)
    status, lines = told("verify", str(kafka))
    assert status == 1
    assert problem in lines[0]


def test_a_torn_end_is_no_error_where_a_start_cuts_it(kafka: Path) -> None:
    (kafka / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (kafka / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    last = sorted((kafka / "plain-0").glob("*.log"))[-1]
    with last.open("ab") as file:
        file.write(b"torn")
    assert findings(kafka) == [("warning", f"plain-0/{last.name}")]
    (kafka / ".kafka_cleanshutdown").write_text("")
    assert findings(kafka) == [("error", f"plain-0/{last.name}")]


def old_message(offset: int, magic: int) -> bytes:
    body = pack(">bb", magic, 0) + (pack(">q", NOW) if magic else b"") + pack(">ii", -1, 1) + b"v"
    return pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_named_and_never_cut_off(tmp_path: Path, magic: int) -> None:
    logs = manager(tmp_path)
    logs.start(NOW)
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(2), NOW)
    logs.shutdown(NOW)
    path = tmp_path / "logs" / "t-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes() + b"".join(old_message(offset, magic) for offset in (2, 3)))
    before = path.read_bytes()
    status, lines = told("verify", str(tmp_path / "logs"))
    assert status == 1
    assert "messages of format 0 or 1 are not served" in lines[0]
    status, lines = told("repair", str(tmp_path / "logs"))
    assert (status, path.read_bytes()) == (1, before)
    assert "left as it is" in lines[0]
    (tmp_path / "logs" / ".kafka_cleanshutdown").unlink()
    logs = manager(tmp_path)
    logs.start(NOW)
    with pytest.raises(ApiError, match="format 0 or 1"):
        logs.get("t", 0)
    assert path.read_bytes() == before


def test_the_metadata_log_in_words(metadata: Path) -> None:
    rows = list(dump(FS, str(metadata), records=True))
    topics = {row["value"]["name"] for row in rows if row.get("record") == "TopicRecord"}  # type: ignore[index]
    assert "one" in topics
    kinds = {row["control"] for row in rows if row["type"] == "control"}
    assert kinds == {"LeaderChange", "SnapshotHeader", "SnapshotFooter"}
    (state,) = [row for row in rows if row["type"] == "quorum state"]
    assert state["leaderEpoch"] == 2
    (snapshot,) = [row for row in rows if row["type"] == "metadata snapshot"]
    assert (snapshot["end_offset"], snapshot["epoch"]) == (30, 1)
    assert json.dumps(rows)


def in_words(record: Message, kind: int) -> dict[str, object]:
    """Return a record of the metadata log as a dump shows it."""
    found = decode("__cluster_metadata", None, bytes((1, kind, 0)) + record.encode(0))
    assert found is not None
    assert found["record"] == type(record).__name__
    return cast("dict[str, object]", found["value"])


def test_no_password_is_in_a_dump() -> None:
    shown = {
        name: in_words(ConfigRecord(4, "1", name, "told"), 4)["value"]
        for name in ("listener.name.outside.ssl.keystore.password", "our.Secret", "log.retention.ms", "retention.ms")
    }
    assert list(shown.values()) == ["[hidden]", "[hidden]", "told", "told"]
    scram = in_words(UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096), 11)
    assert [scram[name] for name in ("salt", "stored_key", "server_key")] == ["[hidden]"] * 3
    assert (scram["name"], scram["iterations"]) == ("alice", 4096)


SOUND = b"\x01\x02\x00" + TopicRecord("t", b"1" * 16).encode(0)
REFUSED = (
    SOUND + b"xyz",
    SOUND[:-5],
    b"\x01",
    b"",
    b"\x00" + SOUND[1:],
    b"\x02" + SOUND[1:],
    b"\x01\x7f\x00abc",
    b"hello",
)


@pytest.mark.java
@needs_kafka
def test_kafkas_dump_skips_the_metadata_records_that_a_broker_refuses(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    records = [BatchRecord(offset, NOW, None, value) for offset, value in enumerate((SOUND, *REFUSED))]
    path.write_bytes(build_batch(records))
    shown = kafkas_dump("--cluster-metadata-decoder", "--files", str(path))
    skipped = [number for number in range(len(records)) if f"payload: Error at {number}, skipping." in shown]
    assert skipped == [*range(1, len(records))]


def test_a_metadata_record_that_a_broker_refuses_is_shown_as_it_stands_with_the_reason() -> None:
    assert [reason_for(value) for value in (SOUND, *REFUSED)] == [
        None,
        "3 bytes follow the TopicRecord",
        "TopicRecord version 0 ends too early",
        "a varint ends too early",
        "a varint ends too early",
        "type 2 in frame version 0",
        "type 2 in frame version 2",
        "type 127 in frame version 1",
        "type 101 in frame version 104",
    ]


def reason_for(value: bytes) -> object:
    """Return why a dump shows a record of the metadata log undecoded, None for a decoded record."""
    found = decode("__cluster_metadata", None, value)
    assert found is not None
    if "undecodable" in found:
        assert found["value"] == text(value)
        assert unreadable("__cluster_metadata", None, value) == found["undecodable"]
        with pytest.raises(MetadataError):
            decode_record(value)
    return found.get("undecodable")


def test_damage_of_the_metadata_log(metadata: Path) -> None:
    folder = metadata / "__cluster_metadata-0"
    snapshot = next(folder.glob("*.checkpoint"))
    data = snapshot.read_bytes()
    for damaged in (data[:-75], data[92:], data[:300] + b"\xff" + data[301:]):
        snapshot.write_bytes(damaged)
        assert ("error", f"__cluster_metadata-0/{snapshot.name}") in findings(metadata)
    (folder / "quorum-state").write_text("{")
    assert ("error", "__cluster_metadata-0/quorum-state") in findings(metadata)
    assert told("dump", "--records", str(metadata))[0] == 1
    rows = {row["file"]: row for row in repair(FS, str(metadata), NOW)}
    assert rows["__cluster_metadata-0"]["put_aside"] == [f"{snapshot.name}.damaged", "quorum-state.damaged"]
    (folder / f"{0:020d}.log").rename(folder / f"{5:020d}.log")
    assert ("error", "__cluster_metadata-0/__cluster_metadata-0") in findings(metadata)
    (repaired,) = [row for row in repair(FS, str(metadata), NOW) if row["file"] == folder.name]
    assert (repaired["type"], "has no snapshot" in str(repaired["problem"])) == ("error", True)
    ahead = folder / f"{9999:020d}-0000000001.checkpoint"
    ahead.write_bytes(data)
    assert ("error", f"__cluster_metadata-0/{ahead.name}") in findings(metadata)


def test_a_folder_gets_its_topic_id_back_from_the_metadata(metadata: Path) -> None:
    path = metadata / "one-0" / "partition.metadata"
    path.write_text("garbage")
    (metadata / "two-0").mkdir()
    assert ("warning", "one-0/partition.metadata") in findings(metadata)
    rows = {row["file"]: row for row in repair(FS, str(metadata), NOW)}
    assert rows["one-0"]["put_aside"] == ["partition.metadata.damaged"]
    found = read_partition_metadata(FS, str(path))
    assert found is not None
    wanted = [
        row["value"]["topic_id"]  # type: ignore[index]
        for row in dump(FS, str(metadata / "__cluster_metadata-0"), records=True)
        if row.get("record") == "TopicRecord" and row["value"]["name"] == "one"  # type: ignore[index]
    ]
    assert uuid_text(found) == wanted[-1]
    assert not (metadata / "two-0" / "partition.metadata").exists()


def test_groups_and_transactions_in_words(tmp_path: Path) -> None:
    from pykafka_broker.protocol.stored.offset_commit_key import OffsetCommitKey
    from pykafka_broker.protocol.stored.offset_commit_value import OffsetCommitValue
    from pykafka_broker.records.builder import BatchBuilder

    logs = manager(tmp_path)
    logs.start(NOW)
    log = logs.create("__consumer_offsets", 0, TOPIC_ID, NOW)
    builder = BatchBuilder()
    key = pack(">h", 1) + OffsetCommitKey("g", "t", 3).encode(0)
    builder.append(key, pack(">h", 3) + OffsetCommitValue(offset=77).encode(3), NOW)
    builder.append(key, None, NOW)
    builder.append(b"\0\x63", b"?", NOW)
    log.append(builder.build(), NOW)
    logs.shutdown(NOW)
    rows = [row for row in dump(FS, str(tmp_path / "logs"), records=True) if row["type"] == "record"]
    assert rows[0]["record"] == "OffsetCommit"
    assert rows[0]["key"] == {"group": "g", "topic": "t", "partition": 3}
    assert rows[0]["value"]["offset"] == 77  # type: ignore[index]
    assert rows[1]["value"] is None
    assert rows[2]["undecodable"] == "99"


def test_a_reader_that_goes_away_early(kafka: Path) -> None:
    command = f"{quote(sys.executable)} -m pykafka_broker log dump {quote(str(kafka))} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1
