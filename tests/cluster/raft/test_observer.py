"""An observer finds the leader of the quorum, and has its log: epochs, histories that differ, snapshots, losses."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from pykafka_broker.cluster.records import MetadataError
from pykafka_broker.cluster.snapshot import snapshot_name
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.records.header import MAGIC_OFFSET
from tests.broker.api.real_broker import UnsyncedFileSystem
from tests.cluster.raft.quorum import CLUSTER_ID, NOW, ObservedQuorum, feature

ONE = "127.0.0.1:9001"


@pytest.fixture
def quorum(tmp_path: Path) -> ObservedQuorum:
    return ObservedQuorum(tmp_path)


def test_the_first_answer_tells_the_epoch_and_the_next_one_brings_the_log(quorum: ObservedQuorum) -> None:
    quorum.leader.append(feature(3))
    quorum.start()
    quorum.run()
    assert quorum.image.features == {"f": 3}
    assert quorum.observer.leader is not None
    assert (quorum.observer.leader.id, quorum.observer.leader.epoch, quorum.observer.leader.address.port) == (
        1,
        1,
        9001,
    )
    assert quorum.network.opened[0][1] == "raft-client-7"


def test_it_asks_as_an_observer(quorum: ObservedQuorum) -> None:
    quorum.leader.append(feature(3))
    quorum.start()
    quorum.run()
    first, later = (request for request in (quorum.leader.asked[0], quorum.leader.asked[-1]))
    assert isinstance(first, FetchRequest)
    asked = first.topics[0].partitions[0]
    assert (first.cluster_id, first.replica_state.replica_id, first.max_wait_ms) == (CLUSTER_ID, 7, 500)
    assert (asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch, asked.high_watermark) == (
        0,
        0,
        0,
        -1,
    )
    asked = later.topics[0].partitions[0]
    assert (asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch, asked.high_watermark) == (
        1,
        2,
        1,
        2,
    )


def test_nothing_above_the_high_watermark_is_applied(quorum: ObservedQuorum) -> None:
    quorum.leader.append(feature(3))
    quorum.leader.high_watermark = 1
    quorum.start()
    quorum.run()
    assert (quorum.log.log.log_end_offset, quorum.image.features) == (2, {})
    quorum.leader.high_watermark = 2
    quorum.run()
    assert quorum.image.features == {"f": 3}


def test_the_epoch_is_kept(quorum: ObservedQuorum) -> None:
    quorum.start()
    quorum.run()
    state = json.loads((quorum.directory / "__cluster_metadata-0" / "quorum-state").read_text())
    assert (state["leaderId"], state["leaderEpoch"], state["currentVoters"]) == (1, 1, [{"voterId": 1}])
    quorum.restart()
    assert quorum.log.epoch == 1


def test_a_start_begins_with_what_is_committed_for_certain(quorum: ObservedQuorum) -> None:
    quorum.leader.append(feature(3))
    quorum.start()
    quorum.run()
    quorum.restart()
    assert (quorum.image.features, quorum.log.log.log_end_offset) == ({}, 2)
    quorum.run()
    assert quorum.image.features == {"f": 3}


def test_another_history_is_cut_off(quorum: ObservedQuorum) -> None:
    quorum.start()
    quorum.run()
    quorum.leader.append(feature(3), feature(4))
    quorum.leader.high_watermark = 1
    quorum.run()
    assert quorum.log.log.log_end_offset == 3
    del quorum.leader.batches[-1]
    quorum.leader.end = 1
    quorum.leader.lead(2)
    quorum.leader.append(feature(9))
    quorum.run()
    assert (quorum.image.features, quorum.log.log.log_end_offset, quorum.log.last_epoch) == ({"f": 9}, 3, 2)


def test_what_is_left_of_another_history_is_not_applied_before_it_is_compared(quorum: ObservedQuorum) -> None:
    """Records of an epoch that the leader lacks may outlive the first cut: the next answer cuts them off, too."""
    leader = quorum.leader
    leader.append(feature(3))
    leader.lead(3)
    leader.high_watermark = 0
    quorum.start()
    quorum.run()
    assert (quorum.log.log.log_end_offset, quorum.log.last_epoch) == (3, 3)
    leader.batches, leader.end = [], 0
    for epoch in (2, 5):
        leader.lead(epoch)
        leader.append(feature(epoch))
    quorum.run()
    assert (quorum.image.features, quorum.refusals) == ({"f": 5}, [])


def test_an_epoch_whose_first_append_has_failed_is_left_behind(quorum: ObservedQuorum) -> None:
    quorum.leader.append(feature(3))
    quorum.start()
    quorum.run()
    quorum.log.log.epochs.assign(5, quorum.log.log.log_end_offset)  # the disk was full at the epoch's first batch
    quorum.leader.lead(6)
    quorum.run()
    assert quorum.log.last_epoch == 6
    quorum.leader.append(feature(9))
    quorum.run()
    assert quorum.image.features == {"f": 9}


def test_a_cut_that_meets_damage_ends_the_node(quorum: ObservedQuorum) -> None:
    quorum.start()
    quorum.run()
    quorum.leader.append(feature(3), feature(4))
    quorum.leader.high_watermark = 1
    quorum.run()
    with open(quorum.log.log.segments.first.log.path, "r+b") as file:
        file.seek(MAGIC_OFFSET)
        file.write(b"\x7f")
    del quorum.leader.batches[-1]
    quorum.leader.end = 1
    quorum.leader.lead(2)
    quorum.run()
    assert "is damaged at byte 0" in quorum.refusals[0]


def test_what_is_committed_is_never_cut_off(quorum: ObservedQuorum) -> None:
    quorum.start()
    quorum.leader.append(feature(3))
    quorum.run()
    quorum.leader.batches.clear()
    quorum.leader.end = 0
    quorum.leader.lead(2)
    quorum.run()
    assert quorum.log.log.log_end_offset == 2
    assert "other records from 0 on" in quorum.refusals[0]


@pytest.mark.parametrize("chunk", [1 << 20, 7])
def test_a_snapshot_takes_the_place_of_a_log_that_is_gone(quorum: ObservedQuorum, chunk: int) -> None:
    quorum.leader.chunk = chunk
    quorum.leader.append(feature(3), feature(5))
    quorum.leader.take_snapshot(feature(5))
    quorum.leader.append(feature(1, "g"))
    quorum.start()
    quorum.run(200)
    assert (quorum.snapshots, quorum.image.features) == (1, {"f": 5, "g": 1})
    assert (quorum.log.log.log_start_offset, quorum.log.log.log_end_offset) == (3, 4)
    quorum.restart()
    assert quorum.image.features == {"f": 5}


def test_a_snapshot_replaces_what_was_known(quorum: ObservedQuorum) -> None:
    quorum.start()
    quorum.leader.append(feature(1))
    quorum.run()
    quorum.leader.append(feature(2))
    quorum.leader.take_snapshot(feature(2))
    quorum.run(20)
    assert (quorum.snapshots, quorum.image.features, len(quorum.log.snapshots)) == (1, {"f": 2}, 1)


def test_a_snapshot_counts_though_the_disk_keeps_an_older_one(
    quorum: ObservedQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = UnsyncedFileSystem.remove

    def refuse(self: UnsyncedFileSystem, path: str) -> None:
        if path.endswith(".checkpoint"):
            raise OSError(errno.EIO, "the disk fails", path)
        remove(self, path)

    quorum.start()
    for level in (1, 2):
        quorum.leader.append(feature(level))
        quorum.leader.take_snapshot(feature(level))
        quorum.run(20)
        monkeypatch.setattr(UnsyncedFileSystem, "remove", refuse)
    assert (quorum.snapshots, quorum.image.features) == (2, {"f": 2})
    monkeypatch.undo()
    quorum.restart()
    assert (quorum.image.features, len(quorum.log.snapshots)) == ({"f": 2}, 1)


def test_a_damaged_snapshot_ahead_of_the_log_gives_way_to_an_older_one(quorum: ObservedQuorum) -> None:
    """A crash came before the log began anew behind the snapshot, and then the disk broke the file."""
    quorum.start()
    quorum.leader.append(feature(1))
    quorum.leader.take_snapshot(feature(1))
    quorum.run(20)
    (quorum.directory / "__cluster_metadata-0" / snapshot_name(9, 1)).write_bytes(b"damaged")
    quorum.restart()
    quorum.leader.append(feature(7))
    quorum.run(20)
    assert quorum.image.features == {"f": 7}


def test_a_damaged_snapshot_is_fetched_again(quorum: ObservedQuorum) -> None:
    quorum.leader.append(feature(2))
    quorum.leader.take_snapshot(feature(2))
    assert quorum.leader.snapshot is not None
    end, epoch, data = quorum.leader.snapshot
    quorum.leader.snapshot = end, epoch, data[:-3] + b"xyz"
    quorum.start()
    quorum.run(20)
    assert (quorum.snapshots, quorum.log.snapshots) == (0, [])
    quorum.leader.snapshot = end, epoch, data
    quorum.run(20)
    assert quorum.image.features == {"f": 2}


def test_pauses_grow_before_a_snapshot_that_can_not_be_installed(
    quorum: ObservedQuorum, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All of it is fetched again each time. Another cause is another warning."""
    quorum.leader.append(feature(2))
    quorum.leader.take_snapshot(feature(2))
    assert quorum.leader.snapshot is not None
    end, epoch, data = quorum.leader.snapshot
    quorum.leader.snapshot = end, epoch, data[:-3] + b"xyz"
    quorum.leader.chunk = len(data) // 2
    quorum.start()
    quorum.run(400)
    downloads = sum(not isinstance(each, FetchRequest) for each in quorum.leader.asked) / 3
    seconds = (quorum.clock.now - NOW) / 1000
    assert (downloads > 10, seconds > downloads / 2) == (True, True), (downloads, seconds)

    def refuse(self: UnsyncedFileSystem, path: str, create: bool = False) -> None:
        raise OSError(errno.ENOSPC, "the disk is full", path)

    monkeypatch.setattr(UnsyncedFileSystem, "open", refuse)
    quorum.run(40)
    warnings = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert len(warnings) == len({*warnings}) == 2


def test_a_damaged_batch_is_fetched_again_and_told_of_once(
    quorum: ObservedQuorum, caplog: pytest.LogCaptureFixture
) -> None:
    quorum.leader.append(feature(2))
    base, epoch, data = quorum.leader.batches[-1]
    quorum.leader.batches[-1] = base, epoch, data[:-1] + b"x"
    quorum.start()
    quorum.run()
    quorum.run()
    assert quorum.image.features == {}
    assert [each.levelname for each in caplog.records if "records fetched from offset" in each.message] == ["WARNING"]
    quorum.leader.batches[-1] = base, epoch, data
    quorum.run()
    assert quorum.image.features == {"f": 2}


def test_the_pauses_before_a_damaged_batch_grow(quorum: ObservedQuorum) -> None:
    quorum.start()
    quorum.run()
    quorum.leader.append(feature(2))
    base, epoch, data = quorum.leader.batches[-1]
    quorum.leader.batches[-1] = base, epoch, data[:-1] + b"x"
    began, pauses = quorum.clock.now, []
    for _ in range(14):
        quorum.run(1)
        pauses.append(quorum.clock.now - began)
        began = quorum.clock.now
    assert [each for each in pauses if each] == [*range(20, 200, 20), 200, 200, 200, 200]


def test_a_header_that_the_disk_has_broken_is_told(quorum: ObservedQuorum) -> None:
    """A start looks at the end of the log alone; what was fetched long ago is read when the leader has been heard."""
    quorum.start()
    for level in range(1, 101):
        quorum.leader.append(feature(level))
    quorum.run()
    quorum.observer.close()
    quorum.network.waiting.clear()
    quorum.logs.shutdown(NOW)
    with open(quorum.log.log.segments.first.log.path, "r+b") as file:
        file.seek(len(quorum.leader.batches[0][2]) + MAGIC_OFFSET)
        file.write(b"\x7f")
    quorum.open()
    quorum.start()
    with pytest.raises(MetadataError, match="__cluster_metadata-0: the records from offset 1 on are damaged: magic"):
        quorum.run()


def test_another_leader_is_found_when_one_dies(tmp_path: Path) -> None:
    quorum = ObservedQuorum(tmp_path, voters=3)
    one, two, three = quorum.voters
    one.append(feature(1))
    quorum.start()
    quorum.run()
    one.alive = False
    quorum.run(3)
    assert quorum.observer.leader is None  # the others name the dead one still
    two.batches, two.end = list(one.batches), one.end
    two.lead(2)
    three.leader_id, three.epoch = 2, 2
    two.append(feature(7))
    quorum.run()
    assert quorum.observer.leader is not None
    assert (quorum.observer.leader.id, quorum.image.features) == (2, {"f": 7})
    assert [leader and leader.id for leader in quorum.leaders] == [1, None, 2]


def test_voters_that_the_log_names_are_asked_too(tmp_path: Path) -> None:
    quorum = ObservedQuorum(tmp_path, voters=2, controller_quorum_voters="", controller_quorum_bootstrap_servers=ONE)
    one, two = quorum.voters
    one.append_voters([1, 2])
    quorum.start()
    quorum.run()
    assert quorum.log.kraft_version == 1
    one.alive = False
    two.batches, two.end = list(one.batches), one.end
    two.lead(2)
    two.append(feature(7))
    quorum.run(12)
    assert quorum.image.features == {"f": 7}


def test_a_leader_that_was_only_cut_off_is_followed_again(quorum: ObservedQuorum) -> None:
    quorum.start()
    quorum.run()
    quorum.leader.alive = False
    quorum.run(3)
    quorum.leader.alive = True
    quorum.leader.append(feature(4))
    quorum.run()
    assert quorum.image.features == {"f": 4}
    assert [leader and leader.id for leader in quorum.leaders] == [1, None, 1]


def test_pauses_grow_a_little(quorum: ObservedQuorum) -> None:
    quorum.leader.alive = False
    quorum.start()
    pauses = []
    for _ in range(20):
        quorum.network.bring()
        due = quorum.observer.next_deadline()
        assert due is not None
        pauses.append(due - quorum.clock.now)
        quorum.clock.set(due)
        quorum.observer.on_deadline(due)
    assert (pauses[0], pauses[1], max(pauses)) == (20, 40, 200)


def test_a_foreign_cluster_refuses(quorum: ObservedQuorum) -> None:
    quorum.leader.refuses = ErrorCode.INCONSISTENT_CLUSTER_ID
    quorum.start()
    quorum.run(2)
    assert quorum.refusals == ["127.0.0.1:9001 answers INCONSISTENT_CLUSTER_ID"] * 2


def test_nobody_is_asked_after_the_end(quorum: ObservedQuorum) -> None:
    quorum.start()
    quorum.observer.close()
    quorum.network.bring()
    assert quorum.network.waiting == []
    assert quorum.observer.next_deadline() is None
