"""Copies of data directories that are made while their broker goes on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pykafka_broker.log.checkpoints import CLEAN_SHUTDOWN
from pykafka_broker.log.image import aside_in, lay_image, put_back, set_aside, take_image
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.retention import retain
from pykafka_broker.records.header import iter_batches
from tests.log.support import NOW, TOPIC_ID, batch, manager, marker

UUID = bytes(range(16))


def started(path: Path) -> LogManager:
    logs = manager(path)
    logs.start(NOW)
    return logs


def taken(logs: LogManager, target: Path) -> Path:
    (directory,) = logs.directories
    take_image(logs, directory, str(target))
    return target


def offsets(logs: LogManager, partition: int = 0) -> list[int]:
    log = logs.get("t", partition)
    found = []
    at = log.log_start_offset
    while (read := log.read(at, 1 << 20, log.log_end_offset)) is not None:
        found += [header.base_offset for header, _ in iter_batches(read.records.read())]
        at = read.end_offset
    return found


def laid(image_path: Path, root: Path) -> LogManager:
    """Return a log manager on the files of an image."""
    os.makedirs(root / "logs")
    lay_image(str(image_path), str(root / "logs"))
    return started(root)


def test_who_starts_on_it_recovers_nothing_and_finds_everything(tmp_path: Path) -> None:
    logs = started(tmp_path / "a")
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for number in range(5):
        log.append(batch(producer_id=7, epoch=0, sequence=number), NOW)
    kept = taken(logs, tmp_path / "image")
    assert (kept / CLEAN_SHUTDOWN).exists()
    log.append(batch(producer_id=7, epoch=0, sequence=5), NOW)
    other = laid(kept, tmp_path / "b")
    (directory,) = other.directories
    assert directory.clean
    copy = other.get("t", 0)
    assert (copy.topic_id, copy.log_end_offset, copy.recovery_point) == (TOPIC_ID, 5, 5)
    assert offsets(other) == [0, 1, 2, 3, 4]
    assert copy.producers.entries[7].batches[-1].last_sequence == 4
    copy.append(batch(producer_id=7, epoch=0, sequence=5), NOW)
    assert offsets(logs) == offsets(other) == [0, 1, 2, 3, 4, 5]


def test_an_open_transaction_is_open_in_it(tmp_path: Path) -> None:
    logs = started(tmp_path / "a")
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(producer_id=7, epoch=0, sequence=0, transactional=True), NOW)
    kept = taken(logs, tmp_path / "image")
    log.append(marker(7, 0, commit=False), NOW)
    assert log.last_stable_offset == 2
    copy = laid(kept, tmp_path / "b").get("t", 0)
    assert (copy.last_stable_offset, copy.log_end_offset) == (0, 1)
    copy.append(marker(7, 0, commit=True), NOW)
    assert copy.last_stable_offset == 2
    assert copy.aborted_transactions(0, 2) == []


def test_whole_segments_are_linked_and_the_last_one_is_copied(tmp_path: Path) -> None:
    logs = started(tmp_path / "a")
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    log.roll(NOW)
    log.append(batch(), NOW)
    kept = taken(logs, tmp_path / "image") / "t-0"
    live = Path(log.directory)
    for offset, shared in ((0, True), (1, False)):
        name = f"{offset:020d}.log"
        assert os.path.samefile(live / name, kept / name) == shared
        assert (live / name).read_bytes() == (kept / name).read_bytes()
    assert os.path.samefile(live / f"{0:020d}.index", kept / f"{0:020d}.index")


def test_a_long_last_segment_is_completed(tmp_path: Path) -> None:
    logs = started(tmp_path / "a")
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(size=300_000), NOW)
    kept = taken(logs, tmp_path / "image") / "t-0"
    assert log.segments.active.base_offset == 1
    name = f"{0:020d}.log"
    assert os.path.samefile(Path(log.directory) / name, kept / name)


def test_room_that_was_taken_for_what_will_come_is_left_out(tmp_path: Path) -> None:
    logs = manager(tmp_path / "a", log_preallocate="true", log_segment_bytes="1048576")
    logs.start(NOW)
    for number in range(2):
        log = logs.create("t", number, TOPIC_ID, NOW)
        if number:
            log.append(batch(), NOW)
    kept = taken(logs, tmp_path / "image")
    sizes = [(kept / f"t-{number}" / f"{0:020d}.log").stat().st_size for number in range(2)]
    assert sizes[0] == 0
    assert 0 < sizes[1] < 1000
    other = laid(kept, tmp_path / "b")
    assert [offsets(other, number) for number in range(2)] == [[], [0]]


def test_a_log_that_nobody_has_touched_is_copied_as_it_lies(tmp_path: Path) -> None:
    first = started(tmp_path / "a")
    for number, size in enumerate((10, 300_000)):
        first.create("t", number, TOPIC_ID, NOW).append(batch(size=size), NOW)
    first.shutdown(NOW)
    logs = started(tmp_path / "a")
    kept = taken(logs, tmp_path / "image")
    assert [*logs.loaded] == [("t", 1)]  # only to complete its long segment
    other = laid(kept, tmp_path / "b")
    assert [offsets(other, number) for number in (0, 1)] == [[0], [0]]


def test_what_waits_for_its_removal_is_left_out(tmp_path: Path) -> None:
    logs = started(tmp_path / "a")
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    log.roll(NOW)
    log.append(batch(), NOW)
    log.delete_records_before(1)
    retain(log, NOW)
    logs.create("gone", 0, TOPIC_ID, NOW)
    logs.delete("gone", 0, NOW)
    assert [name for name in os.listdir(log.directory) if name.endswith(".deleted")]
    kept = taken(logs, tmp_path / "image")
    assert not [name for name in os.listdir(kept / "t-0") if name.endswith(".deleted")]
    assert not [name for name in os.listdir(kept) if name.startswith("gone")]
    copy = laid(kept, tmp_path / "b")
    assert copy.get("t", 0).log_start_offset == 1
    assert offsets(copy) == [1]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EMLINK, errno.EXDEV])
def test_where_there_are_no_links_there_are_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(number, os.strerror(number), source)

    monkeypatch.setattr(os, "link", refuse)
    logs = started(tmp_path / "a")
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    log.roll(NOW)
    kept = taken(logs, tmp_path / "image")
    name = f"t-0/{0:020d}.log"
    assert not os.path.samefile(tmp_path / "a" / "logs" / name, kept / name)
    assert offsets(laid(kept, tmp_path / "b")) == [0]


def test_where_the_system_can_not_copy_it_is_copied_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    logs = started(tmp_path / "a")
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    assert offsets(laid(taken(logs, tmp_path / "image"), tmp_path / "b")) == [0]


@pytest.mark.linux("copy_file_range")
@pytest.mark.parametrize("number", [errno.EXDEV, errno.EOPNOTSUPP])
def test_where_the_system_stops_to_copy_the_rest_is_copied_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Linux does not copy between file systems of different types: a partition may lie on a disk of its own."""
    copy, calls = os.copy_file_range, 0

    def copied(source: int, target: int, count: int) -> int:
        nonlocal calls
        calls += 1
        if calls % 3 != 1:
            raise OSError(number, os.strerror(number))
        return copy(source, target, 10)

    monkeypatch.setattr(os, "copy_file_range", copied)
    logs = started(tmp_path / "a")
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    assert offsets(laid(taken(logs, tmp_path / "image"), tmp_path / "b")) == [0]
    assert calls


def test_what_is_put_aside_can_be_put_back(tmp_path: Path) -> None:
    logs = started(tmp_path / "a")
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    logs.shutdown(NOW)
    root = tmp_path / "a" / "logs"
    before = sorted(os.listdir(root))
    aside = aside_in(str(root), UUID)
    set_aside(str(root), aside, ["meta.properties"])
    assert sorted(os.listdir(root)) == sorted([".lock", "meta.properties", os.path.basename(aside)])
    (root / "recovery-point-offset-checkpoint").write_text("another")
    put_back(aside, str(root))
    assert sorted(os.listdir(root)) == before
    assert offsets(started(tmp_path / "a")) == [0]


def test_where_the_disk_refuses_one_file_nothing_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = started(tmp_path / "a")
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    logs.shutdown(NOW)
    root = tmp_path / "a" / "logs"
    before = sorted(os.listdir(root))
    rename = os.replace

    def refuse(source: str, target: str) -> None:
        if os.path.dirname(source) == str(root) and len(os.listdir(os.path.dirname(target))) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        set_aside(str(root), aside_in(str(root), UUID), [])
    assert sorted(os.listdir(root)) == before
    monkeypatch.undo()
    assert offsets(started(tmp_path / "a")) == [0]


def test_what_a_crash_leaves_aside_the_next_start_removes(tmp_path: Path) -> None:
    logs = started(tmp_path / "a")
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    logs.shutdown(NOW)
    aside = aside_in(str(tmp_path / "a" / "logs"), UUID)
    set_aside(str(tmp_path / "a" / "logs"), aside, [])
    later = started(tmp_path / "a")
    assert list(later.partitions()) == []
    later.on_deadline(NOW + later.config.topic_defaults.file_delete_delay_ms)
    assert not os.path.exists(aside)


def test_what_is_put_aside_twice_stays_where_it_is(tmp_path: Path) -> None:
    logs = started(tmp_path / "a")
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    logs.shutdown(NOW)
    root = str(tmp_path / "a" / "logs")
    first, second = aside_in(root, UUID), aside_in(root, UUID[::-1])
    set_aside(root, first, [])
    set_aside(root, second, [])
    assert os.path.isdir(f"{first}/t-0")
    assert os.listdir(second) == []


def files_of(path: Path) -> dict[str, bytes]:
    """Return the content of all files below a directory."""
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("end", [1, 2, 3])
def test_a_log_that_is_cut_leaves_the_image_as_it_was(tmp_path: Path, end: int) -> None:
    """A sealed segment is a link to the image's; a follower cuts it where its new leader has another history, and
    writes on there.
    """
    logs = started(tmp_path / "a")
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for number in range(2):
        log.append(batch(producer_id=7, epoch=0, sequence=number, transactional=True), NOW)
    log.append(marker(producer_id=7, epoch=0, commit=False), NOW)
    log.roll(NOW)
    log.append(batch(), NOW)
    kept = taken(logs, tmp_path / "image")
    was = files_of(kept)
    other = laid(kept, tmp_path / "b")
    for cut in (log, other.get("t", 0)):
        cut.truncate_to(end)
        for _ in range(3):
            cut.append(batch(), NOW)
        cut.seal()
        assert files_of(kept) == was
    assert offsets(logs) == offsets(other) == [*range(end + 3)]
