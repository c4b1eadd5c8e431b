"""The partitions of which this node has a replica: they follow the metadata, whatever the disk says."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api.fetch import fetch
from pykafka_broker.broker.api.produce import produce
from pykafka_broker.broker.partitions.partition import NotLeader, Partition
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import PARTITIONS_A_SLICE, Future, Slices
from pykafka_broker.cluster.image import NO_LEADER, MetadataDelta, MetadataImage, PartitionImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.log.manager import LogManager
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from tests.broker.api.real_broker import RealBroker
from tests.broker.controller_node import NODE, ControllerNode
from tests.broker.support import ANOTHER_NODE, NOW, LightBroker, batch


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path)


def refused(action: Callable[[], object]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        action()
    return caught.value


def commit(broker: LightBroker, *records: Any) -> None:
    broker.commit_metadata([ApiMessageAndVersion(record, 0) for record in records])


class Told:
    """A waiter for the next record of a partition."""

    def __init__(self, partition: Partition) -> None:
        self.code: ErrorCode | None = None
        partition.committed(partition.log.log_end_offset + 1).add_done_callback(self._done)

    def _done(self, future: Future[None]) -> None:
        assert isinstance(future.error, ApiError)
        self.code = future.error.code


# -- what is here


def test_many_replicated_partitions_are_opened_in_slices(tmp_path: Path) -> None:
    """Opening all at once blocked the broker: 5,000 folders took two seconds without service or heartbeat."""
    node, waiting = ControllerNode(tmp_path, roles="broker,controller"), list[Callable[[], object]]()
    node.join(1)
    replicas = node.whole.node.replicas
    replicas.slices = Slices(waiting.append)
    count = 3 * PARTITIONS_A_SLICE
    assigned = [CreatableReplicaAssignment(index, [NODE, 1]) for index in range(count)]
    assert node.ask(CreateTopicsRequest([CreatableTopic("t", -1, -1, assigned, [])])).topics[0].error_code == 0

    assert [each.index for each in replicas.hosted()] == [*range(PARTITIONS_A_SLICE)]
    assert replicas.leader("t", count - 1).is_leader, "a request does not wait for a turn"
    while waiting:
        waiting.pop()()
    assert sorted(each.index for each in replicas.hosted()) == [*range(count)]


def test_a_deleted_topic_is_not_opened_any_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node, waiting = ControllerNode(tmp_path, roles="broker,controller"), list[Callable[[], object]]()
    node.join(1)
    replicas = node.whole.node.replicas
    replicas.slices = Slices(waiting.append)
    assigned = [CreatableReplicaAssignment(index, [NODE, 1]) for index in range(2 * PARTITIONS_A_SLICE)]
    assert node.ask(CreateTopicsRequest([CreatableTopic("t", -1, -1, assigned, [])])).topics[0].error_code == 0
    deleted = node.ask(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=30_000))
    assert deleted.responses[0].error_code == 0
    while waiting:
        waiting.pop()()
    assert not replicas.hosted()
    assert not caplog.records


def test_a_partition_is_made_when_it_is_first_asked_for_and_kept(broker: LightBroker) -> None:
    broker.add("t", 3)
    assert not [key for key in broker.logs.loaded if key[0] == "t"]
    partition = broker.partition("t", 1)
    assert [key for key in broker.logs.loaded if key[0] == "t"] == [("t", 1)]
    assert broker.partition("t", 1) is partition
    assert broker.services.replicas.replica("t", 1) is partition


def test_what_does_not_exist_is_unknown(broker: LightBroker) -> None:
    broker.add("t")
    assert refused(lambda: broker.partition("t", 1)).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(lambda: broker.partition("u", 0)).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_another_leader_is_named(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), isr=(1, 2), leader=ANOTHER_NODE)
    error = refused(lambda: broker.partition("t", 0))
    assert isinstance(error, NotLeader)
    assert (error.code, error.leader, error.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, ANOTHER_NODE, 0)
    assert not broker.services.replicas.replica("t", 0).is_leader


def test_without_a_replica_there_is_no_log(broker: LightBroker, tmp_path: Path) -> None:
    broker.add("t", replicas=(2,), isr=(2,), leader=ANOTHER_NODE)
    error = refused(lambda: broker.services.replicas.replica("t", 0))
    assert isinstance(error, NotLeader)
    assert error.leader == ANOTHER_NODE
    assert not (tmp_path / "t-0").exists()


def test_an_epoch_is_checked_before_the_leader(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2))
    broker.change("t", leader=1)
    leader = broker.services.replicas.leader
    assert leader("t", 0, 1).leader_epoch == 1
    for named, epoch, code in (
        (1, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (ANOTHER_NODE, 1, ErrorCode.FENCED_LEADER_EPOCH),
        (ANOTHER_NODE, 2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ANOTHER_NODE, 3, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        if broker.image.topics["t"].partitions[0].leader != named:
            broker.change("t", leader=named)
        assert refused(partial(leader, "t", 0, epoch)).code is code


@pytest.mark.parametrize("version", [3, 9, 10, 12])
def test_a_produce_is_told_who_leads(broker: LightBroker, version: int) -> None:
    broker.register_another_node()
    broker.add("t", replicas=(1, 2), leader=ANOTHER_NODE)
    request = ProduceRequest(
        None, -1, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch(b"v"))])]
    )
    response: Any = produce(broker.services, broker.context(ApiKey.PRODUCE, version), request)
    response = type(response).decode(response.encode(version), version)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    told = (answer.current_leader.leader_id, answer.current_leader.leader_epoch)
    assert told == ((ANOTHER_NODE, 0) if version >= 10 else (-1, -1))
    assert [node.node_id for node in response.node_endpoints] == ([ANOTHER_NODE] if version >= 10 else [])


@pytest.mark.parametrize("version", [4, 11, 12, 15, 16])
@pytest.mark.parametrize(("leader", "code"), [(ANOTHER_NODE, 6), (1, 74)])
def test_a_fetch_is_told_who_leads(broker: LightBroker, version: int, leader: int, code: int) -> None:
    """Also where its leader epoch is an older one; Kafka tells it from the version that names endpoints on."""
    broker.register_another_node()
    broker.add("t", replicas=(1, 2), leader=leader)
    if leader == 1:
        broker.elect_again("t", 2)
    topic = FetchTopic("t", broker.image.topics["t"].id, [FetchPartition(0, 0 if code == 74 else -1)])
    request = FetchRequest(max_wait_ms=500, topics=[topic])
    response: Any = fetch(broker.services, broker.context(ApiKey.FETCH, version), request)
    response = type(response).decode(response.encode(version), version)
    (data,) = response.responses[0].partitions
    assert data.error_code == code
    told = (data.current_leader.leader_id, data.current_leader.leader_epoch)
    epoch = broker.image.topics["t"].partitions[0].leader_epoch
    assert told == ((leader, epoch) if version >= 16 else (-1, -1))
    assert [node.node_id for node in response.node_endpoints] == ([leader] if version >= 16 else [])


# -- following the metadata


def test_a_leadership_comes_and_goes(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), isr=(1, 2), leader=ANOTHER_NODE)
    replica = broker.services.replicas.replica("t", 0)
    broker.change("t", leader=1, isr=[1])
    assert broker.partition("t", 0) is replica
    replica.append(batch(b"v"), NOW)
    told = Told(replica)
    broker.change("t", leader=ANOTHER_NODE)
    assert told.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert isinstance(refused(lambda: broker.partition("t", 0)), NotLeader)


def test_a_replica_that_is_taken_away_is_not_served(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2))
    told = Told(broker.partition("t", 0))
    broker.change("t", replicas=[2], isr=[2], leader=ANOTHER_NODE)
    assert told.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert isinstance(refused(lambda: broker.services.replicas.replica("t", 0)), NotLeader)


def test_a_deleted_topic_is_unknown_and_a_new_one_begins_anew(broker: LightBroker) -> None:
    old_id = broker.add("t")
    old = broker.partition("t", 0)
    old.append(batch(b"old"), NOW)
    told = Told(old)
    commit(broker, RemoveTopicRecord(old_id))
    assert told.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(lambda: broker.partition("t", 0)).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    new_id = broker.add("t")
    new = broker.partition("t", 0)
    assert (new.log.topic_id, new.log.log_end_offset) == (new_id, 0)
    assert not old.is_leader


def test_a_wait_in_a_topic_whose_deletion_is_under_way_ends_with_the_broker(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka_broker.broker.partitions.replicas._DELETED_AT_ONCE", 1)
    replicas, later = broker.services.replicas, list[Callable[[], object]]()
    monkeypatch.setattr(replicas, "slices", Slices(later.append))
    topic_id = broker.add("t", 2)
    told = Told(broker.partition("t", 1))
    commit(broker, RemoveTopicRecord(topic_id))
    assert told.code is None
    replicas.give_up()
    assert told.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_deletion_under_way_deletes_nothing_of_a_new_topic_of_the_name(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka_broker.broker.partitions.replicas._DELETED_AT_ONCE", 1)
    later: list[Callable[[], object]] = []
    monkeypatch.setattr(broker.services.replicas, "slices", Slices(later.append))
    commit(broker, RemoveTopicRecord(broker.add("t", 2)))
    new_id = broker.add("t", 2)
    broker.partition("t", 1).append(batch(b"new"), NOW)
    while later:
        later.pop(0)()
    log = broker.logs.get("t", 1)
    assert (log.topic_id, log.log_end_offset) == (new_id, 1)


def test_a_topic_may_be_replaced_by_one_change(broker: LightBroker) -> None:
    old_id, new_id = broker.add("t"), b"n" * 16
    old = broker.partition("t", 0)
    old.append(batch(b"old"), NOW)
    replacement = PartitionRecord(0, new_id, [1], [1], leader=1, leader_epoch=0, partition_epoch=0)
    commit(broker, RemoveTopicRecord(old_id), TopicRecord("t", new_id), replacement)
    new = broker.partition("t", 0)
    assert (new.log.topic_id, new.log.log_end_offset, old.is_leader) == (new_id, 0, False)


def test_a_late_change_of_an_earlier_topic_of_the_name_is_passed_over(broker: LightBroker) -> None:
    old_id = broker.add("t")
    commit(broker, RemoveTopicRecord(old_id))
    broker.add("t")
    new = broker.partition("t", 0)
    earlier, late = MetadataImage(), MetadataDelta()
    earlier.apply(TopicRecord("t", old_id), late)
    moved = PartitionRecord(0, old_id, [ANOTHER_NODE], [ANOTHER_NODE], leader=ANOTHER_NODE, partition_epoch=5)
    earlier.apply(moved, late)
    late.changed_partitions, late.new_partitions = late.new_partitions, []
    broker.services.replicas.follow(late)
    assert broker.partition("t", 0) is new
    assert new.is_leader


def test_a_topic_that_is_gone_before_it_is_heard_of_leaves_nothing(broker: LightBroker, tmp_path: Path) -> None:
    new_id = b"n" * 16
    made = PartitionRecord(0, new_id, [1], [1], leader=1, leader_epoch=0, partition_epoch=0)
    commit(broker, TopicRecord("t", new_id), made, RemoveTopicRecord(new_id))
    assert not list(tmp_path.glob("t-*"))


# -- whatever the disk says


def test_a_log_that_can_not_be_made_keeps_no_other_from_it(
    broker: LightBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make = LogManager.make

    def making(logs: LogManager, topic: str, number: int, *arguments: Any, **options: Any) -> None:
        if number == 0:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")
        make(logs, topic, number, *arguments, **options)

    with monkeypatch.context() as full:
        full.setattr(LogManager, "make", making)
        broker.add("t", 2)
    assert "t-0 has no log yet" in caplog.text
    assert broker.logs.exists("t", 1)
    assert not broker.logs.exists("t", 0)
    assert broker.partition("t", 0).log.log_end_offset == 0, "it is made when it is asked for"


def test_a_directory_that_fails_ends_the_waits_in_it(broker: LightBroker) -> None:
    broker.add("t")
    told = Told(broker.partition("t", 0))
    broker.logs.take_offline(broker.logs.directories[0], OSError(errno.EIO, "gone"))
    assert told.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused(lambda: broker.partition("t", 0)).code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_sync_that_fails_is_told_to_those_who_wait_for_it(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), isr=(1, 2))
    partition = broker.partition("t", 0)
    partition.append(batch(b"v"), NOW)
    committed = partition.committed(1)
    broker.logs.listener.lost(partition.log, 0, OSError(errno.EIO, os.strerror(errno.EIO)))
    error = committed.error
    assert isinstance(error, ApiError)
    assert (error.code, error.message) == (ErrorCode.KAFKA_STORAGE_ERROR, "Input/output error")


def test_the_log_of_an_earlier_partition_is_not_listened_to(broker: LightBroker) -> None:
    old_id = broker.add("t")
    old = broker.partition("t", 0).log
    commit(broker, RemoveTopicRecord(old_id))
    broker.add("t", replicas=(1, 2), isr=(1, 2))
    new = broker.partition("t", 0)
    new.append(batch(b"v"), NOW)
    committed = new.committed(1)
    broker.logs.listener.lost(old, 0, OSError(errno.EIO, "gone"))
    broker.logs.listener.synced(old)
    assert not committed.done


def test_a_log_that_is_made_late_is_told_to_the_metadata(broker: LightBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(LogManager, "make", lambda *arguments, **options: None)
        broker.add("t")
    partition = broker.partition("t", 0)
    (directory,) = broker.logs.partition_directories
    assert broker.image.topics["t"].partitions[0].directory_of(1) == directory.id
    assert partition.state is broker.image.topics["t"].partitions[0]


# -- whoever waits for records


def waiting_fetch(broker: LightBroker, version: int = 12) -> PendingReply:
    topic = FetchTopic("t", broker.image.topics["t"].id, [FetchPartition(0)])
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[topic])
    connection = broker.context(ApiKey.FETCH, version).connection
    found = broker.dispatch(connection, RealBroker.frame(request, version), NOW)
    assert isinstance(found, PendingReply)
    return found


def code_in(parked: PendingReply) -> int:
    assert parked.future.done
    code: int = parked.response().responses[0].partitions[0].error_code
    return code


def test_a_fetch_that_waits_hears_of_another_leader(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2))
    parked = waiting_fetch(broker)
    broker.change("t", leader=ANOTHER_NODE)
    assert not parked.future.done, "the request that moved it is answered first"
    broker.settle(NOW)
    assert code_in(parked) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", [12, 13])  # topics by name, and by id; the fetch remembers the id's name
def test_a_fetch_that_waits_hears_of_the_end_of_its_topic(broker: LightBroker, version: int) -> None:
    topic_id = broker.add("t")
    parked = waiting_fetch(broker, version)
    commit(broker, RemoveTopicRecord(topic_id))
    broker.settle(NOW)
    assert code_in(parked) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_that_waits_hears_of_a_directory_that_fails(broker: LightBroker) -> None:
    broker.add("t")
    parked = waiting_fetch(broker)
    broker.logs.take_offline(broker.logs.directories[0], OSError(errno.EIO, "gone"))
    broker.settle(NOW)
    assert code_in(parked) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_fetch_that_waits_is_answered_when_a_follower_has_the_record(broker: LightBroker) -> None:
    broker.add("t", replicas=(1, 2), isr=(1, 2))
    parked = waiting_fetch(broker)
    partition = broker.partition("t", 0)
    partition.append(batch(b"v"), NOW)
    broker.settle(NOW)
    assert not parked.future.done, "nobody reads what is not committed"
    partition.fetched_by(ANOTHER_NODE, 1, NOW)
    broker.settle(NOW)
    assert code_in(parked) == ErrorCode.NONE
    assert parked.response().responses[0].partitions[0].high_watermark == 1


def test_a_replica_on_a_lost_disk_waits_for_another_that_will_lead(broker: LightBroker) -> None:
    """The last known leader leads again once it is back (KIP-966): a log that waits for that was reported as lost."""
    state = PartitionImage(0, (1, 2), (), NO_LEADER, directories=(b"g" * 16, b"o" * 16))
    waits = {}
    for last in (1, 2):
        state.last_known_elr = (last,)
        waits[last] = broker.services.replicas._waits_for_a_leader("t", state)
    assert waits == {1: False, 2: True}
