"""Answers that wait for a sync, and their error if the sync fails."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.api.real_broker import RealBroker
from tests.broker.support import batch
from tests.broker.test_authorization import Denies


class SyncedBroker(RealBroker):
    """A broker that has to sync every message; syncs happen when the test says so."""

    def start(self) -> None:
        self.jobs: deque[Job] = deque()
        self.settings["log.flush.interval.messages"] = "1"
        super().start()

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def asked(self, request: Any, version: int) -> PendingReply:
        """Send a request that has to wait and return its pending answer."""
        frame = self.frame(request, version)
        found = self.broker.dispatch(self.connection, frame, self.now)
        frame[:] = bytes(len(frame))  # its buffer is used for the next one
        assert isinstance(found, PendingReply)
        assert not found.future.done
        return found

    def sync(self, error: OSError | None = None) -> None:
        while self.jobs:
            job = self.jobs.popleft()
            if error is None:
                run_inline(job)
            else:
                job.failed(error)


@pytest.fixture
def node(tmp_path: Path) -> SyncedBroker:
    node = SyncedBroker(tmp_path, **{"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"})
    node.broker.create_missing_topics([CONSUMER_OFFSETS, TRANSACTION_STATE])
    node.sync()
    node.asked(CreateTopicsRequest([CreatableTopic("t", 2, 1)], 1000), 7)
    node.sync()
    return node


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, offset)
    return OffsetCommitRequest("g", -1, "", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])


def transactional(node: SyncedBroker, *partitions: int) -> ProduceRequest:
    node.asked(InitProducerIdRequest("x", 1000), 5)
    node.sync()
    return producing_to(*partitions)


def producing_to(*partitions: int) -> ProduceRequest:
    data = [
        PartitionProduceData(
            partition, bytes(batch(b"v", producer_id=0, producer_epoch=0, base_sequence=0, transactional=True))
        )
        for partition in partitions
    ]
    return ProduceRequest("x", -1, 1000, [TopicProduceData("t", partition_data=data)])


def test_a_committed_offset_is_told_after_the_sync(node: SyncedBroker) -> None:
    committing = node.asked(commit(5), 8)
    asking = node.asked(OffsetFetchRequest("g", None), 7)
    node.sync()
    assert committing.response().topics[0].partitions[0].error_code == ErrorCode.NONE
    assert asking.response().topics[0].partitions[0].committed_offset == 5
    assert node.call(OffsetFetchRequest("g", None), 7).error_code == ErrorCode.NONE


def test_a_sync_that_fails_commits_no_offset(node: SyncedBroker) -> None:
    committing = node.asked(commit(5), 8)
    asking = node.asked(OffsetFetchRequest("g", None), 7)
    node.sync(OSError(5, "Input/output error"))
    assert committing.response().topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert asking.response().error_code == ErrorCode.NOT_COORDINATOR
    again = node.call(commit(6), 8)
    assert again.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_commit_that_fails_after_a_wait_names_denied_topics_too(
    node: SyncedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.broker.services, "authorizer", Denies((AclOperation.READ, AclResourceType.TOPIC, "u")))
    request = commit(5)
    request.topics.append(OffsetCommitRequestTopic("u", partitions=[OffsetCommitRequestPartition(1, 5)]))
    committing = node.asked(request, 8)
    node.sync(OSError(5, "Input/output error"))
    assert codes_of(committing) == {("t", 0): ErrorCode.NOT_COORDINATOR, ("u", 1): ErrorCode.NOT_COORDINATOR}


def test_a_commit_of_a_transaction_that_fails_after_a_wait_names_missing_topics_too(node: SyncedBroker) -> None:
    node.asked(InitProducerIdRequest("x", 1000), 5)
    node.sync()
    topics = [
        TxnOffsetCommitRequestTopic(name, partitions=[TxnOffsetCommitRequestPartition(0, 5)])
        for name in ("t", "missing")
    ]
    committing = node.asked(TxnOffsetCommitRequest("x", "g", 0, 0, topics=topics), 5)
    node.sync(OSError(5, "Input/output error"))
    assert codes_of(committing) == {("t", 0): ErrorCode.NOT_COORDINATOR, ("missing", 0): ErrorCode.NOT_COORDINATOR}


def codes_of(commit: PendingReply) -> dict[tuple[str, int], ErrorCode]:
    topics = commit.response().topics
    return {(topic.name, each.partition_index): each.error_code for topic in topics for each in topic.partitions}


def test_records_are_written_when_their_partition_takes_part_for_certain(node: SyncedBroker) -> None:
    producing = node.asked(transactional(node, 0, 1), 12)
    logs = [node.broker.partition_log("t", partition) for partition in (0, 1)]
    assert [log.log_end_offset for log in logs] == [0, 0]
    while not producing.future.done:
        run_inline(node.jobs.popleft())
    assert [log.high_watermark for log in logs] == [1, 1]
    answers = producing.response().responses[0].partition_responses
    assert [(one.error_code, one.base_offset) for one in answers] == [(ErrorCode.NONE, 0)] * 2


def test_nothing_is_written_if_that_is_never_certain(node: SyncedBroker) -> None:
    producing = node.asked(transactional(node, 0), 12)
    node.sync(OSError(5, "Input/output error"))
    assert producing.response().responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    again = node.call(producing_to(0), 12)
    assert again.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_the_connection_may_go_meanwhile(node: SyncedBroker) -> None:
    committing = node.asked(commit(5), 8)
    node.broker.purgatory.cancel(committing.future)
    node.sync()
    fetched = node.call(OffsetFetchRequest("g", None), 7)
    assert fetched.topics[0].partitions[0].committed_offset == 5


def test_a_topic_is_told_of_after_the_sync_of_the_metadata(node: SyncedBroker) -> None:
    creating = node.asked(CreateTopicsRequest([CreatableTopic("u", 1, 1)], 1000), 7)
    assert len(node.jobs) < 4  # one sync of the metadata, and what is done for the new folder
    node.sync()
    assert creating.response().topics[0].error_code == ErrorCode.NONE


def test_a_topic_whose_metadata_can_not_be_synced_is_refused(node: SyncedBroker) -> None:
    creating = node.asked(CreateTopicsRequest([CreatableTopic("u", 1, 1)], 1000), 7)
    node.sync(OSError(5, "Input/output error"))
    assert creating.response().topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_the_end_is_not_known_before_what_a_crash_has_left_is_synced(node: SyncedBroker) -> None:
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(batch(b"v")))])]
    node.asked(ProduceRequest(None, -1, 1000, data), 12)
    node.sync()
    node.start()  # without a stop

    def told(timestamp: int) -> tuple[int, int]:
        asked = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])
        found = node.call(ListOffsetsRequest(-1, topics=[asked]), 5).topics[0].partitions[0]
        return found.error_code, found.offset

    assert [told(-1), told(0)] == [(ErrorCode.OFFSET_NOT_AVAILABLE, -1)] * 2
    node.sync()
    assert [told(-1), told(0)] == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 0)]
