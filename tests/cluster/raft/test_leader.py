"""Answers to observers of the metadata log: other epochs, other histories, snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.log.checkpoints import METADATA_TOPIC_ID
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pykafka_broker.protocol.messages.fetch_snapshot_request import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from tests.broker.controller_node import NOW, ControllerNode

SNAPSHOTS_OF_ALL = {"metadata.log.max.record.bytes.between.snapshots": "1"}


@pytest.fixture
def node(tmp_path: Path) -> ControllerNode:
    return ControllerNode(tmp_path)


def fetch(node: ControllerNode, offset: int, *, last_epoch: int = 1, epoch: int = 1, version: int = 18) -> Any:
    """Send a fetch and return the answer for the one partition."""
    partition = FetchPartition(0, epoch, offset, last_epoch)
    topic = FetchTopic("", METADATA_TOPIC_ID, [partition])
    if version < 13:
        topic = FetchTopic("__cluster_metadata", bytes(16), [partition])
    replica = {"replica_state": ReplicaState(1)} if version >= 15 else {"replica_id": 1}
    answer = node.ask(FetchRequest(topics=[topic], max_bytes=1 << 20, **replica), version)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


def test_another_epoch_is_told_the_leader(node: ControllerNode) -> None:
    answer = fetch(node, 0, epoch=0, last_epoch=0)
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (101, 1)
    assert fetch(node, 0, epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("version", [12, 13, 15, 18])
def test_every_version_is_given_records(node: ControllerNode, version: int) -> None:
    answer = fetch(node, 0, last_epoch=0, epoch=1, version=version)
    assert (answer.error_code, answer.high_watermark) == (0, node.metadata.applied_offset + 1)
    assert len(answer.records) == node.metadata.log.log.segments.size_bytes


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (1000, 1, (1, "end")),  # beyond the end
        (5, 0, (0, 0)),  # nothing was ever written in that epoch
        (5, 1, None),
        (0, 0, None),
    ],
)
def test_another_history_is_told_where_it_parts(
    node: ControllerNode, offset: int, last_epoch: int, diverging: tuple[int, int | str] | None
) -> None:
    answer = fetch(node, offset, last_epoch=last_epoch)
    end = node.metadata.applied_offset + 1
    told = (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
    assert answer.error_code == 0
    if diverging is None:
        assert told == (-1, -1)
        assert len(answer.records) > 0
    else:
        assert told == (diverging[0], end if diverging[1] == "end" else diverging[1])
        assert len(answer.records) == 0


def test_who_has_another_history_is_no_observer_yet(node: ControllerNode) -> None:
    """Kafka 4.4 tells of an observer only once what it has is the beginning of the leader's log."""
    quorum = node.whole.services.active_controller.quorum
    fetch(node, 1000, last_epoch=1)
    fetch(node, 5, last_epoch=0)
    assert quorum.observers(NOW) == []
    fetch(node, 5, last_epoch=1)
    assert [(one.id, one.log_end_offset) for one in quorum.observers(NOW)] == [(1, 5)]


def test_the_end_of_an_older_epoch_is_known(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path)
    end = node.metadata.applied_offset + 1
    node.stop(NOW)
    again = ControllerNode(tmp_path)
    answer = fetch(again, end + 5, last_epoch=1, epoch=2)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, end)


@pytest.mark.parametrize("wanted", [(1, -1, 0), (1, 5, -1), (-1, 0, 0), (1, 5, 9)])
def test_nobody_fetches_without_offset_and_epochs(node: ControllerNode, wanted: tuple[int, int, int]) -> None:
    epoch, offset, last_epoch = wanted
    answer = fetch(node, offset, last_epoch=last_epoch, epoch=epoch)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.INVALID_REQUEST, -1)


def test_anything_but_the_metadata_is_refused(node: ControllerNode) -> None:
    partition = FetchPartition(0, 1, 0, 0)
    for topics in (
        [],
        [FetchTopic("", b"x" * 16, [partition])],
        [FetchTopic("", METADATA_TOPIC_ID, [FetchPartition(1, 1, 0, 0)])],
        [FetchTopic("", METADATA_TOPIC_ID, [partition, partition])],
    ):
        refused = node.ask(FetchRequest(topics=topics))
        assert (refused.error_code, refused.responses) == (ErrorCode.INVALID_REQUEST, [])
    foreign = FetchRequest("another", topics=[FetchTopic("", METADATA_TOPIC_ID, [partition])])
    assert node.ask(foreign).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


# -- snapshots


def test_one_that_starts_is_given_a_snapshot_where_there_is_one(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path, **SNAPSHOTS_OF_ALL)
    node.join(1)
    node.on_deadline(NOW + 1)
    snapshot = node.metadata.log.snapshots[-1]
    answer = fetch(node, 0, last_epoch=0)
    assert (answer.snapshot_id.end_offset, answer.snapshot_id.epoch) == (snapshot.end_offset, 1)
    assert len(answer.records) == 0
    whole, size = b"", 1
    while len(whole) < size:
        piece = fetch_snapshot(node, snapshot.end_offset, 1, position=len(whole))
        assert (piece.error_code, piece.position) == (0, len(whole))
        size = piece.size
        whole += bytes(piece.unaligned_records)
    assert whole == Path(snapshot.path).read_bytes()
    assert fetch(node, snapshot.end_offset).error_code == 0  # and from there on the log


def fetch_snapshot(node: ControllerNode, end: int, epoch: int, *, position: int = 0, leader_epoch: int = 1) -> Any:
    wanted = PartitionSnapshot(0, leader_epoch, SnapshotId(end, epoch), position)
    request = FetchSnapshotRequest(node.cluster_id, 1, 100, [TopicSnapshot("__cluster_metadata", [wanted])])
    answer = node.ask(request)
    assert answer.error_code == 0
    return answer.topics[0].partitions[0]


def test_a_snapshot_that_is_not_there(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path, **SNAPSHOTS_OF_ALL)
    node.join(1)
    node.on_deadline(NOW + 1)
    end = node.metadata.log.snapshots[-1].end_offset
    assert fetch_snapshot(node, end + 1, 1).error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert fetch_snapshot(node, end, 1, position=1 << 20).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert fetch_snapshot(node, end, 1, position=-1).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert fetch_snapshot(node, end, 1, leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    other = FetchSnapshotRequest(topics=[TopicSnapshot("t", [PartitionSnapshot(0, 1, SnapshotId(1, 1))])])
    assert node.ask(other).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    other.topics[0].partitions *= 2
    assert node.ask(other).error_code == ErrorCode.INVALID_REQUEST
    other.cluster_id = "another"
    assert node.ask(other).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
