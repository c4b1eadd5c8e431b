"""Whatever comes into a move, a crash after any operation or a directory that fails, leaves one whole copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.manager import LogManager
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from tests.log.crash.seen import Seen
from tests.log.support import NOW, ClockedLogs, topic_config
from tests.log.test_moving import FailingRenames, fill, offsets, started


def test_when_the_old_place_fails_in_the_exchange_the_copy_is_kept(tmp_path: Path) -> None:
    fs = FailingRenames()
    logs = started(tmp_path, fs)
    fill(logs)
    fs.endings = ("-future", "-delete")
    logs.moves.start(("t", 0), logs.directories[1])
    assert [directory.online for directory in logs.directories] == [False, False]
    logs = started(tmp_path)
    assert logs.get("t", 0).directory == f"{tmp_path}/b/t-0"
    assert len(offsets(logs)) == 100


def test_a_whole_copy_waits_while_the_original_may_be_in_a_directory_that_is_away(tmp_path: Path) -> None:
    fs = FailingRenames()
    logs = started(tmp_path, fs)
    fill(logs)
    fs.endings = ("-future", "-delete")
    logs.moves.start(("t", 0), logs.directories[1])
    (tmp_path / "a").rename(tmp_path / "away")
    (tmp_path / "a").write_text("")
    logs = started(tmp_path)
    assert not logs.exists("t", 0)
    assert list(tmp_path.glob("b/t-0*-future"))
    (tmp_path / "a").unlink()
    (tmp_path / "away").rename(tmp_path / "a")
    assert len(offsets(started(tmp_path))) == 100


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_after_every_operation_of_a_move(seed: int) -> None:
    fs = CrashFileSystem()

    def open_manager(fs: CrashFileSystem) -> LogManager:
        numbers = iter(range(1, 1 << 16))
        settings = BrokerConfig({"log.dirs": "/data/a,/data/b"})
        config = topic_config(segment_bytes=9000)
        return ClockedLogs(
            fs, settings, new_uuid=lambda: next(numbers).to_bytes(16, "big"), topic_config=lambda topic: config
        )

    logs = open_manager(fs)
    logs.start(NOW)
    fill(logs, 20 + seed)
    log = logs.get("t", 0)
    logs.flush(log, NOW)
    checked = 0
    seen = Seen()

    def crash(what: str) -> None:
        nonlocal checked
        checked += 1
        images = (fs.after_crash(), fs.after_crash(checked + seed), fs.after_crash(keep=True))
        for image in [image for image in images if seen.is_new(image, log.recovery_point)]:
            again = open_manager(image)
            again.start(NOW)
            assert all(directory.online for directory in again.directories)
            assert offsets(again) == list(range(0, log.recovery_point, 2)), what
            assert not again.directories[1].futures()

    fs.on_operation = crash
    logs.moves.start(("t", 0), logs.directories[1])
    assert log.directory == "/data/b/t-0"
    assert checked > 50
    logs.moves.start(("t", 0), logs.directories[0])
    assert log.directory == "/data/a/t-0"
