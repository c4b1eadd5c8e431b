"""Topics that are deleted while the disk has no room to rename their folders, through restarts of a whole broker."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from tests.broker.api.real_broker import RealBroker, UnsyncedFileSystem
from tests.broker.support import batch

Refuse = Callable[[bool], None]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """A switch that makes each renaming of a folder t-0 fail with a full disk."""
    refused = False
    rename = UnsyncedFileSystem.rename

    def renamed(fs: UnsyncedFileSystem, source: str, target: str) -> None:
        if refused and source.endswith("/t-0"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)
        rename(fs, source, target)

    def set_refused(value: bool) -> None:
        nonlocal refused
        refused = value

    monkeypatch.setattr(UnsyncedFileSystem, "rename", renamed)
    return set_refused


@pytest.fixture
def broker(tmp_path: Path, refuse: Refuse) -> RealBroker:
    """A broker whose topics t and u, a record in each, were deleted in one request; the folder of t stays."""
    made = RealBroker(tmp_path)
    made.draw_distant_ids()
    for name in "tu":
        create(made, name)
        made.broker.partition_log(name, 0).append(batch(b"old", timestamp=made.now), made.now)
    refuse(True)
    answer = made.call(DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=30_000), 5)
    assert [each.error_code for each in answer.responses] == [0, 0]
    return made


def create(broker: RealBroker, name: str) -> bytes:
    result = broker.call(CreateTopicsRequest([CreatableTopic(name, 1, 1)]), 7).topics[0]
    assert result.error_code == 0
    return result.topic_id


def end_of(broker: RealBroker, name: str, topic_id: bytes) -> int:
    log = broker.broker.partition_log(name, 0)
    assert log.topic_id == topic_id
    return log.log_end_offset


def test_both_are_gone_and_a_new_one_waits_for_the_old_folder(broker: RealBroker, refuse: Refuse) -> None:
    logs = broker.broker.logs
    assert not [key for key in logs.partitions() if key[0] in "tu"]
    topic_id = create(broker, "t")
    with pytest.raises(ApiError) as caught:
        broker.broker.partition_log("t", 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    refuse(False)
    assert end_of(broker, "t", topic_id) == 0


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_restart_finds_the_old_folder_by_its_topic_id(broker: RealBroker, refuse: Refuse, snapshot: bool) -> None:
    topic_id = create(broker, "t")
    if snapshot:  # so that the next start does not read of the deletion
        broker.broker.metadata.snapshots.begin(broker.now)
    broker.restart()
    with pytest.raises(ApiError) as caught:
        broker.broker.partition_log("t", 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    refuse(False)
    assert end_of(broker, "t", topic_id) == 0
    broker.restart()
    assert end_of(broker, "t", topic_id) == 0


def test_a_folder_of_no_topic_is_put_away_by_the_next_start(broker: RealBroker, refuse: Refuse, tmp_path: Path) -> None:
    refuse(False)
    broker.start()
    assert [path.name.endswith("-delete") for path in tmp_path.glob("t-0*")] == [True]
