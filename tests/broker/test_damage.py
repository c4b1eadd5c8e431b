"""Damage of every kind of file stays within the smallest thing that it hit, is told in words, and can be mended.

Each file of a data directory, of one that was closed and of one that was not, is damaged in one of several ways; all
of them with `--slow`.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster.records import RecordType
from pykafka_broker.log.filesystem import OsFile, OsFileSystem
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.tool.repair import repair
from pykafka_broker.log.tool.verify import verify
from pykafka_broker.protocol.stored.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from pykafka_broker.protocol.stored.share_snapshot_key import ShareSnapshotKey
from pykafka_broker.protocol.stored.transaction_log_key import TransactionLogKey
from pykafka_broker.records.builder import BatchBuilder
from tests.broker.api.real_broker import RealBroker, UnsyncedFileSystem
from tests.broker.damaged import DAMAGES, DATA, SETTINGS, Told, copied, files_of, make, told

FS = OsFileSystem()
SHARDS = ["__consumer_offsets", "__transaction_state", "__share_group_state"]


class World:
    """The directories before they are damaged, of a closed and of a crashed broker, and what was acknowledged."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        node = make(directory / "live")
        self.known = told(node)
        copied(directory / "live", directory / "crashed")
        node.stop()
        copied(directory / "live", directory / "closed")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def started(directory: Path) -> Told | str:
    """Start a broker on a directory; return what it serves, or the one line that ends the start."""
    try:
        node = RealBroker(directory, **SETTINGS)
    except LogDirectoryError as error:
        return str(error)
    try:
        return told(node)
    finally:
        node.stop()


def lost(known: Told, now: Told) -> set[str]:
    """Return the names of all that is not served as before."""
    return {name for name, before in known.items() if now[name] != before}


def belongs_to(name: str) -> str:
    """Return the partition that a file is part of, or nothing for a file of the whole directory."""
    return name.partition("/")[0] if "/" in name else ""


def check(world: World, state: str, name: str, how: str, caplog: pytest.LogCaptureFixture, path: Path) -> None:
    directory = copied(world.directory / state, path / "damaged")
    DAMAGES[how](directory / name, random.Random(f"{name} {how}"))
    findings = [row for row in verify(FS, str(directory)) if row["type"] in ("error", "warning")]
    mended = copied(directory, path / "mended")
    where, caplog.records[:] = belongs_to(name), []
    caplog.clear()
    now = started(directory)
    assert not [record for record in caplog.records if record.exc_info and record.levelno > logging.DEBUG]
    if isinstance(now, str):
        assert "\n" not in now
        assert name in now or where == "__cluster_metadata-0"
        assert "log repair" in now
        assert [row for row in findings if row["type"] == "error"]
    else:
        assert lost(world.known, now) <= {where}
        if lost(world.known, now):
            assert findings, "served less than before, and verify says nothing"
    list(repair(FS, str(mended), 0))
    again = started(mended)
    assert isinstance(again, dict), again
    if where != "__cluster_metadata-0":  # topics that were made behind the damage are lost with it
        assert lost(world.known, again) <= {where}
    assert not [row for row in verify(FS, str(mended)) if row["type"] in ("error", "warning")]
    shutil.rmtree(directory)
    shutil.rmtree(mended)


def kinds_of(directory: Path) -> Iterable[str]:
    """Yield one file of each kind in each sort of folder, and all files of the metadata log."""
    seen = set()
    for name in files_of(directory):
        folder, _, file = name.rpartition("/")
        first = file.startswith("0" * 20)
        kind = folder.rstrip("0123456789"), first, file.lstrip("0123456789-")
        if kind not in seen and name != ".lock":
            seen.add(kind)
            yield name


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("state", ["closed", pytest.param("crashed", marks=pytest.mark.whole)])
def test_damage_stays_where_it_hit(
    world: World, state: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    for number, name in enumerate(kinds_of(world.directory / state)):
        ways = list(DAMAGES) if request.config.getoption("--slow") else [list(DAMAGES)[number % len(DAMAGES)]]
        for how in ways:
            if (world.directory / state / name).stat().st_size or how in ("removed", "garbage behind"):
                try:
                    check(world, state, name, how, caplog, tmp_path)
                except AssertionError as error:
                    raise AssertionError(f"{state}: {name} {how}") from error


def test_the_damages_leave_something_to_find(world: World) -> None:
    assert len(list(kinds_of(world.directory / "closed"))) > 30
    assert all(isinstance(world.known[f"{topic}-{number}"], dict) for topic, number in DATA)


@pytest.mark.parametrize("topic", SHARDS)
def test_a_senseless_record_is_named_found_and_taken_out(
    world: World, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = copied(world.directory / "closed", tmp_path / "data")
    node = RealBroker(directory, **SETTINGS)
    partition = node.broker.partition(topic, 1)
    at = partition.log.log_end_offset
    number = {"__transaction_state": 0}.get(topic, 1 if topic == "__consumer_offsets" else 0)
    builder = BatchBuilder()
    builder.append(struct.pack(">h", 99) + b"of a newer release", b"x", node.now)
    builder.append(struct.pack(">h", number) + b"\0", b"\xff", node.now)
    partition.append(builder.build(), node.now)
    node.stop()
    name = f"{topic}-1"
    [found] = [row for row in verify(FS, str(directory)) if row["type"] == "error"]
    assert f"the record at offset {at + 1} makes no sense" in str(found["problem"])
    caplog.clear()
    now = started(directory)
    assert isinstance(now, dict)
    assert lost(world.known, now) == {name}
    assert now[name] == "NOT_COORDINATOR"
    assert caplog.text.count(f"the record at offset {at + 1} makes no sense") == 1
    [row] = [row for row in repair(FS, str(directory), 0) if row["file"] == name]
    assert row["put_aside"] == [f"{0:020d}.log.damaged"]
    assert started(directory) == world.known


@pytest.mark.parametrize(
    ("topic", "nobody"),
    [
        ("__consumer_offsets", ConsumerGroupMemberMetadataKey("nobody", "m")),
        ("__transaction_state", TransactionLogKey("nobody")),
        ("__share_group_state", ShareSnapshotKey("nobody", bytes(16), 0)),
    ],
)
def test_tombstones_of_nobody_and_types_of_a_newer_release_are_passed_over(
    world: World, topic: str, nobody: Any, tmp_path: Path
) -> None:
    directory = copied(world.directory / "closed", tmp_path / "data")
    node = RealBroker(directory, **SETTINGS)
    builder = BatchBuilder()
    for key in (struct.pack(">h", 99) + b"x", struct.pack(">h", nobody.API_KEY) + nobody.encode(0)):
        builder.append(key, None, node.now)
    node.broker.partition(topic, 1).append(builder.build(), node.now)
    node.stop()
    assert started(directory) == world.known
    assert not [row for row in verify(FS, str(directory)) if row["type"] == "error"]


def test_a_metadata_record_that_does_not_decode_ends_the_start_in_one_line(world: World, tmp_path: Path) -> None:
    directory = copied(world.directory / "closed", tmp_path / "data")
    node = RealBroker(directory, **SETTINGS)
    log = node.broker.metadata.log.log
    at = log.log_end_offset
    builder = BatchBuilder()
    builder.append(None, bytes((1, RecordType.TOPIC, 0, 200)), node.now)
    log.append(builder.build(), node.now, leader_epoch=node.broker.metadata.log.epoch)
    node.stop()
    line = started(directory)
    assert isinstance(line, str)
    assert f"__cluster_metadata-0: the records from offset {at} on are damaged: a TopicRecord does not decode" in line
    assert "log repair" in line
    list(repair(FS, str(directory), 0))
    assert started(directory) == world.known


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_takes_no_metadata_ends_the_start_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    RealBroker(tmp_path).stop()
    opened = UnsyncedFileSystem.open

    def refused(fs: UnsyncedFileSystem, path: str, *, create: bool = False, writable: bool = True) -> OsFile:
        if path.endswith("/__cluster_metadata-0/leader-epoch-checkpoint.tmp"):
            raise OSError(number, os.strerror(number), path)
        return opened(fs, path, create=create, writable=writable)

    monkeypatch.setattr(UnsyncedFileSystem, "open", refused)
    with pytest.raises(LogDirectoryError, match="the metadata log can't be written"):
        RealBroker(tmp_path)
