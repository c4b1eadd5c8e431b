"""Every call of the file system fails once, in everything that a log does.

Rule: a scenario is told as what it does before (`prepare`), what is swept (`act`) and what must be so after the next
start (`check`). In turn the first, second, ... last call that `act` makes fails, with EIO and with ENOSPC, and the
process is killed or stopped afterwards. Nothing acknowledged is lost or comes twice, the start works, and where a write
found no room the process goes on. The short form takes some calls of each scenario, `--slow` all of them.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.cluster.metadata_log import MetadataLog
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.snapshot import SnapshotKeeper
from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log import loading
from pykafka_broker.log.image import lay_image, take_image
from pykafka_broker.log.jobs import run_inline
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import Origin
from pykafka_broker.log.retention import retain
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.records.header import check_crc, iter_batches
from pykafka_broker.records.record import iter_records
from tests.log.support import (
    NOW,
    TOPIC_ID,
    FailingFileSystem,
    SweptFileSystem,
    batch,
    errors_of,
    manager,
    marker,
    topic_config,
)

SHORT_FORM_CALLS = 5
OTHER_ID = bytes(reversed(TOPIC_ID))
CONFIG = {"segment_bytes": 700, "index_interval_bytes": 100, "file_delete_delay_ms": 1000}


class GivenUp(Exception):
    """The log can't be used any more in this process: the story ends here."""


class Story:
    """A broker's logs in one process after the other, and what was acknowledged."""

    def __init__(self, path: Path, **config: object) -> None:
        self.fs = SweptFileSystem()
        self.path = path
        self.config = {**CONFIG, **config}
        self.acknowledged = 0  # sequences below were, unless they were cut since
        self.aborted = 0
        self.now = NOW
        self.boot(self.fs)
        self.log = self.logs.create("t", 0, TOPIC_ID, NOW, directory_id=self.logs.directories[0].id)

    def boot(self, fs: FailingFileSystem) -> None:
        self.logs: LogManager = manager(self.path, fs, log_dirs=f"{self.path}/one,{self.path}/two")
        self.logs.topic_config = lambda topic: topic_config(**self.config)
        self.logs.start(self.now)

    def restart(self) -> None:
        """Start another process on a disk that is well. Its recovery misses nothing that was synced."""
        with errors_of(loading.logger) as errors:
            self.boot(FailingFileSystem())
        assert not errors
        assert all(directory.online for directory in self.logs.directories)
        if self.logs.exists("t", 0):
            self.log = self.logs.get("t", 0)

    def kill(self) -> None:
        for directory in self.logs.directories:
            directory.release()

    @property
    def is_online(self) -> bool:
        return all(directory.online for directory in self.logs.directories)

    def still_online(self) -> None:
        if not self.is_online:
            raise GivenUp

    def produce(self, count: int = 1, *, keys: int = 0) -> None:
        """Append one record after the other; what failed is sent once more, as a client does."""
        for _ in range(count):
            sequence = self.acknowledged
            key = b"%d" % (sequence % keys if keys else sequence)
            data = batch(1, 60, producer_id=1, epoch=0, sequence=sequence, keys=[key])
            try:
                self.log.append(bytearray(data), NOW)
            except ApiError:
                self.still_online()
                self.log.append(bytearray(data), NOW)
            self.acknowledged += 1

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.logs.on_deadline(self.now)
        self.still_online()

    def sequences(self) -> list[int]:
        return [sequence for sequence, _ in self.read()]

    def read(self) -> list[tuple[int, bytes]]:
        """Sequence and key of every record of the producer."""
        log, found = self.log, []
        offset = log.log_start_offset
        while (part := log.read(offset, 1 << 16, log.high_watermark)) is not None:
            for header, data in iter_batches(part.records.read()):
                check_crc(data, header)
                if header.producer_id == 1:
                    found += [(header.base_sequence, bytes(each.key or b"")) for each in iter_records(data, header)]
            offset = part.end_offset
        return found


class Scenario:
    """The base: append, roll and flush."""

    config: dict[str, object] = {}
    needs_room = False  # or else a full disk takes the directory offline

    def prepare(self, story: Story) -> None:
        """Do what comes before the calls that are swept."""

    def act(self, story: Story) -> None:
        for _ in range(8):
            story.produce(5)
            story.logs.flush(story.log, NOW)
            story.still_online()

    def check(self, story: Story) -> None:
        """Look at the log after the next start."""
        found = story.sequences()
        assert found[: story.acknowledged] == list(range(story.acknowledged))
        assert found[story.acknowledged :] in ([], [story.acknowledged]), "one more may have been written"

    def go_on(self, story: Story) -> None:
        story.produce(8)
        assert story.sequences()[-8:] == list(range(story.acknowledged))[-8:]


class Transactions(Scenario):
    def act(self, story: Story) -> None:
        for _ in range(6):
            data = batch(2, 40, producer_id=2, epoch=0, sequence=-1, transactional=True)
            for each in (data, marker(2, 0, commit=False)):
                try:
                    story.log.append(bytearray(each), NOW, origin=Origin.COORDINATOR)
                except ApiError:
                    story.still_online()
                    story.log.append(bytearray(each), NOW, origin=Origin.COORDINATOR)
            story.aborted += 1
            story.produce(2)

    def check(self, story: Story) -> None:
        super().check(story)
        log = story.log
        aborted = log.aborted_transactions(0, log.log_end_offset)
        assert len(aborted) in (story.aborted, story.aborted + 1)
        assert all(each.producer_id == 2 for each in aborted)


class Cleaning(Scenario):
    config = {"cleanup_policy": ["compact"], "min_cleanable_dirty_ratio": 0.01, "retention_ms": -1}

    def prepare(self, story: Story) -> None:
        story.produce(18, keys=4)
        story.logs.flush(story.log, NOW)

    def act(self, story: Story) -> None:
        for _ in range(2):
            story.pass_time(20_000)
            story.produce(8, keys=4)
            story.logs.flush(story.log, NOW)
            story.still_online()
        assert story.fs.has_failed or story.logs.directories[0].cleaner_offsets

    def check(self, story: Story) -> None:
        found = story.read()
        assert [sequence for sequence, _ in found] == sorted({sequence for sequence, _ in found})
        newest = {key: sequence for sequence, key in found}
        for last in range(story.acknowledged - 4, story.acknowledged):
            assert newest[b"%d" % (last % 4)] >= last

    def go_on(self, story: Story) -> None:
        story.produce(8, keys=4)
        story.pass_time(20_000)
        assert not story.logs.cleaner.uncleanable
        self.check(story)


class Truncation(Scenario):
    """A follower whose history differs, and that cuts its log once more where that failed."""

    def prepare(self, story: Story) -> None:
        story.produce(30)
        story.logs.flush(story.log, NOW)

    def act(self, story: Story) -> None:
        story.acknowledged = 11
        try:
            story.log.truncate_to(11)
        except OSError as error:
            story.log.storage_error(error)
            story.still_online()
            story.log.truncate_to(11)
        story.produce(6)

    def check(self, story: Story) -> None:
        found = story.sequences()
        assert found[: story.acknowledged] == list(range(story.acknowledged))
        assert found == list(range(len(found)))


class BeginningAnew(Scenario):
    def prepare(self, story: Story) -> None:
        story.produce(20)
        story.log.append(batch(1, producer_id=2, epoch=0, sequence=0, transactional=True), NOW)
        story.logs.flush(story.log, NOW)
        story.pass_time(70_000)
        story.kill()
        story.boot(story.fs)
        story.log = story.logs.get("t", 0)

    def act(self, story: Story) -> None:
        story.acknowledged = 0
        try:
            story.log.restart_at(100, NOW)
        except OSError as error:
            story.log.storage_error(error)
            story.still_online()
            story.log.restart_at(100, NOW)
        story.produce(10)

    def check(self, story: Story) -> None:
        log, found = story.log, story.sequences()
        if found and log.log_start_offset < 100:
            assert found == list(range(found[0], 20))
        elif log.log_end_offset >= 100:
            assert log.log_start_offset == 100
            assert found[: story.acknowledged] == list(range(story.acknowledged))
            assert log.last_stable_offset == log.high_watermark


class Moving(Scenario):
    def prepare(self, story: Story) -> None:
        story.produce(30)

    def act(self, story: Story) -> None:
        story.logs.moves.start(("t", 0), story.logs.directories[1])
        story.still_online()
        story.log = story.logs.get("t", 0)
        story.produce(6)


class Deletion(Scenario):
    """A topic is deleted and made again: nothing of the old one comes back."""

    def prepare(self, story: Story) -> None:
        story.produce(30)
        story.logs.flush(story.log, NOW)

    def act(self, story: Story) -> None:
        story.acknowledged = -1
        story.logs.delete("t", 0, NOW)
        story.still_online()
        story.pass_time(2_000)
        try:
            story.log = story.logs.create("t", 0, OTHER_ID, NOW)
        except ApiError:
            story.still_online()
            story.pass_time(20_000)
            story.log = story.logs.create("t", 0, OTHER_ID, NOW)
        story.acknowledged = 0
        story.produce(6)

    def check(self, story: Story) -> None:
        if story.logs.exists("t", 0) and story.log.topic_id == OTHER_ID:
            super().check(story)
        else:
            assert story.acknowledged <= 0


class Retention(Scenario):
    config = {"retention_bytes": 1500}

    def prepare(self, story: Story) -> None:
        story.produce(40)
        story.logs.flush(story.log, NOW)

    def act(self, story: Story) -> None:
        try:
            retain(story.log, NOW)
        except OSError as error:
            story.log.storage_error(error)
            story.still_online()
            retain(story.log, NOW)
        self._is_sound(story)
        story.pass_time(70_000)
        story.produce(5)

    def _is_sound(self, story: Story) -> None:
        log = story.log
        assert log.segments.first.base_offset <= log.log_start_offset
        assert story.sequences() == list(range(log.log_start_offset, story.acknowledged))

    def check(self, story: Story) -> None:
        found = story.sequences()
        assert found[-1] in (story.acknowledged - 1, story.acknowledged)
        assert found == list(range(found[0], found[-1] + 1))
        assert len(found) > 5


class Checkpoints(Scenario):
    def prepare(self, story: Story) -> None:
        story.produce(30)

    def act(self, story: Story) -> None:
        try:
            story.log.delete_records_before(9)
        except ApiError:
            story.still_online()
            story.log.delete_records_before(9)
        for _ in range(3):
            story.pass_time(70_000)
            story.produce(3)

    def check(self, story: Story) -> None:
        found = story.sequences()
        assert found[0] <= 9
        assert found[: story.acknowledged - found[0]] == list(range(found[0], story.acknowledged))
        assert found == list(range(found[0], found[-1] + 1))


class Recovery(Scenario):
    """The start after a kill: a directory that has no room for it is offline, and the next start is well."""

    needs_room = True

    def prepare(self, story: Story) -> None:
        story.produce(12)
        story.logs.flush(story.log, NOW)
        story.produce(25)
        story.log.append(batch(1, producer_id=2, epoch=0, sequence=0, transactional=True), NOW)
        story.kill()
        with open(story.log.segments.active.log.path, "ab") as file:
            file.write(bytes(30))

    def act(self, story: Story) -> None:
        try:
            story.boot(story.fs)
        except LogDirectoryError as error:
            raise GivenUp from error
        story.still_online()
        story.log = story.logs.get("t", 0)
        story.produce(3)


class Image(Scenario):
    """A copy is made while the broker goes on; the copy is whole, or there is none."""

    def prepare(self, story: Story) -> None:
        story.produce(30)

    def act(self, story: Story) -> None:
        try:
            take_image(story.logs, story.logs.directories[0], f"{story.path}/image")
        except (ApiError, OSError):
            shutil.rmtree(f"{story.path}/image", ignore_errors=True)
        story.still_online()
        story.produce(3)

    def check(self, story: Story) -> None:
        super().check(story)
        if not (story.path / "image").exists():
            return
        copy = story.path / "copy"
        (copy / "one").mkdir(parents=True)
        lay_image(str(story.path / "image"), str(copy / "one"))
        logs = manager(copy, log_dirs=str(copy / "one"))
        logs.start(NOW)
        assert logs.directories[0].clean
        story.log = logs.get("t", 0)
        assert story.sequences() == list(range(30))


class Snapshots(Scenario):
    """Snapshots of the metadata take the place of the log below them; both are read again. One feature's level says how
    many records were acknowledged.
    """

    settings = {
        "node.id": "1",
        "log.dirs": "/metadata",
        "metadata.log.max.record.bytes.between.snapshots": "300",
        "metadata.max.retention.bytes": "1500",
    }

    def prepare(self, story: Story) -> None:
        self.acknowledged = 0
        story.logs.delete("t", 0, NOW)  # partitions without metadata would refuse to have some made
        story.pass_time(70_000)
        self._open(story)
        self._append(story, 8)

    def _open(self, story: Story) -> None:
        """Load what is there and lead the next epoch."""
        log = story.logs.metadata_log(NOW)
        self.image = MetadataImage()
        self.log = MetadataLog(log, story.logs.fs, 1, story.logs.directories[0].id)
        self.log.load(self.image)
        self.keeper = SnapshotKeeper(
            self.log,
            story.logs.fs,
            BrokerConfig(self.settings),
            submit=run_inline,
            flush=lambda now, waiter: story.logs.flush(log, now, waiter),
            records=lambda: image_records(self.image, 2, 4),
            clock=story.logs.clock,
        )
        self.log.lead(NOW)

    def _append(self, story: Story, count: int) -> None:
        for _ in range(count):
            record = FeatureLevelRecord("f", self.acknowledged + 1)
            try:
                self.log.append([ApiMessageAndVersion(record, 0)], NOW)
            except ApiError:
                story.still_online()
                self.log.append([ApiMessageAndVersion(record, 0)], NOW)
            self.acknowledged += 1
            self.log.apply([record], self.image, MetadataDelta())
            self.keeper.on_commit(NOW)
            story.still_online()

    def act(self, story: Story) -> None:
        self._append(story, 12)
        self._open(story)
        self._append(story, 6)
        assert story.fs.has_failed or self.log.log.log_start_offset > 0

    def check(self, story: Story) -> None:
        self._open(story)
        assert self.image.features.get("f", 0) in (self.acknowledged, self.acknowledged + 1)

    def go_on(self, story: Story) -> None:
        self._append(story, 6)


SCENARIOS = {
    "appends": Scenario,
    "transactions": Transactions,
    "cleaning": Cleaning,
    "truncation": Truncation,
    "beginning anew": BeginningAnew,
    "moving": Moving,
    "deletion": Deletion,
    "retention": Retention,
    "checkpoints": Checkpoints,
    "recovery": Recovery,
    "image": Image,
    "metadata snapshots": Snapshots,
}


def play(scenario: Scenario, path: Path, nth: int, number: int, stop: bool) -> int:
    """Play a scenario with its `nth` call failing; return the number of calls that `act` made."""
    story = Story(path, **scenario.config)
    scenario.prepare(story)
    story.fs.fail_at(nth, number)
    try:
        scenario.act(story)
    except (GivenUp, ApiError, OSError):
        assert story.fs.has_failed
        in_use = False
    else:
        in_use = story.is_online
    made = story.fs.count
    story.fs.live()
    if number == errno.ENOSPC and not story.fs.failed.startswith("sync") and not scenario.needs_room:
        assert story.is_online, "there was only no room"
        if in_use:
            scenario.go_on(story)
    if stop:
        story.logs.stop_jobs()
        story.logs.shutdown(story.now)
    story.kill()
    story.restart()
    scenario.check(story)
    story.kill()
    return made


def chosen(calls: int, slow: bool) -> Iterator[int]:
    step = 1 if slow else max(1, calls // SHORT_FORM_CALLS)
    yield from range(1, calls + 1, step)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("stop", [False, True], ids=["kill", "stop"])
def test_each_call_fails_once(tmp_path: Path, name: str, number: int, stop: bool, slow: bool) -> None:
    calls = play(SCENARIOS[name](), tmp_path / "none", 0, number, stop)
    assert calls > 3
    wrong = []
    for nth in chosen(calls, slow):
        path = tmp_path / str(nth)
        try:
            play(SCENARIOS[name](), path, nth, number, stop)
        except Exception as error:
            wrong.append(f"call {nth}: {type(error).__name__}: {str(error).splitlines()[:1]}")
        shutil.rmtree(path, ignore_errors=True)
    assert not wrong, "\n".join(wrong)
