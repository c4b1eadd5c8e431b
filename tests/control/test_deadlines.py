"""Whatever the broker does by time, it does when its clock is moved: neither before nor long after."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator

import pytest

from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import describe_producers_request as producers_of
from pykafka_broker.protocol.messages import fetch_request as fetching
from pykafka_broker.protocol.messages import share_fetch_request as sharing
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.testing import KafkaBroker
from tests.broker.support import batch
from tests.control.raw_client import RawClient, raw_client

GROUP, TRANSACTION, SHARE = range(3)
_names = map("t{}".format, itertools.count())


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    config = {
        "log.message.timestamp.after.max.ms": 2**63 - 1,
        "group.share.min.record.lock.duration.ms": 1_000,
        "group.share.record.lock.duration.ms": 1_000,
        "max.incremental.fetch.session.cache.slots": 1,
    }
    with KafkaBroker(config, in_process=True) as broker:
        broker.clock.freeze()
        yield broker


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = next(_names)
    broker.create_topic(name)
    return name


def values(broker: KafkaBroker, topic: str) -> list[object]:
    return [each.value for each in broker.records(topic)]


# -- logs


def test_retention(broker: KafkaBroker) -> None:
    broker.create_topic("retained", config={"retention.ms": 60_000})
    broker.produce("retained", ["1"])
    broker.clock.advance(milliseconds=60_000)
    assert values(broker, "retained") == ["1"]
    broker.clock.advance(milliseconds=1)
    assert values(broker, "retained") == []


def test_the_lag_before_which_nothing_is_compacted(broker: KafkaBroker) -> None:
    config: dict[str, str | int | float] = {
        "cleanup.policy": "compact",
        "segment.ms": 1_000,
        "min.cleanable.dirty.ratio": 0.01,
    }
    broker.create_topic("young", config=config | {"min.compaction.lag.ms": 60_000})
    broker.produce("young", [("k", "1"), ("k", "2")])
    broker.clock.advance(seconds=2)
    broker.produce("young", [("k", "3")])  # the first segment is closed
    broker.clock.advance(seconds=50)
    assert values(broker, "young") == ["1", "2", "3"]
    broker.clock.advance(seconds=9)
    assert values(broker, "young") == ["2", "3"]


def test_the_lag_after_which_it_is_compacted_in_any_case(broker: KafkaBroker) -> None:
    config: dict[str, str | int | float] = {
        "cleanup.policy": "compact",
        "segment.ms": 1_000,
        "min.cleanable.dirty.ratio": 1,
    }
    broker.create_topic("old", config=config | {"max.compaction.lag.ms": 60_000})
    broker.produce("old", [("k", "1"), ("k", "2")])
    broker.clock.advance(seconds=2)
    broker.produce("old", [("k", "3")])
    broker.clock.advance(seconds=57)
    assert values(broker, "old") == ["1", "2", "3"]
    broker.clock.advance(seconds=2)
    assert values(broker, "old") == ["2", "3"]


def test_the_time_that_a_deleted_topic_stays_on_disk(broker: KafkaBroker, topic: str) -> None:
    broker.produce(topic, ["1"])
    broker.delete_topic(topic)
    left = f"{topic}-0.*-delete"
    assert list(broker.data_dir.glob(left)) != []
    broker.clock.advance(seconds=59)
    assert list(broker.data_dir.glob(left)) != []
    broker.clock.advance(seconds=2)
    assert list(broker.data_dir.glob(left)) == []


def test_the_timestamps_that_the_log_gives(broker: KafkaBroker) -> None:
    broker.create_topic("appended", config={"message.timestamp.type": "LogAppendTime"})
    first = broker.clock.now()
    broker.produce("appended", [{"value": "1", "timestamp": 5}])
    second = broker.clock.advance(days=3)
    broker.produce("appended", [{"value": "2", "timestamp": 5}])
    assert [each.timestamp for each in broker.records("appended")] == [first, second]
    assert second - first == 3 * 86_400_000


def test_what_is_known_of_producers(broker: KafkaBroker, topic: str) -> None:
    def known() -> list[int]:
        ask = producers_of.DescribeProducersRequest([producers_of.TopicRequest(topic, [0])])
        with raw_client(broker) as client:
            return [each.producer_id for each in client.ask(ask, 0).topics[0].partitions[0].active_producers]

    records = batch(b"1", producer_id=77, producer_epoch=0, base_sequence=0, timestamp=broker.clock.now())
    with raw_client(broker) as client:
        sent = ProduceRequest(
            None, -1, 1_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, records)])]
        )
        assert client.ask(sent, 9).responses[0].partition_responses[0].error_code == 0
    broker.clock.advance(days=1, milliseconds=-1)
    assert known() == [77]
    broker.clock.advance(milliseconds=1)
    assert known() == []


# -- groups


def member_of(client: RawClient, group: str, session_ms: int, rebalance_ms: int) -> JoinGroupRequest:
    """Return the JoinGroup request of a member that has its id already."""
    client.find_coordinator(group, GROUP)
    protocols = [JoinGroupRequestProtocol("p", b"")]
    join = JoinGroupRequest(group, session_ms, rebalance_ms, protocol_type="x", protocols=protocols)
    join.member_id = client.ask(join, 5).member_id
    return join


def test_the_session_of_a_member(broker: KafkaBroker) -> None:
    with raw_client(broker) as client:
        join = member_of(client, "session", 10_000, 60_000)
        joined = client.ask(join, 5)
        client.ask(SyncGroupRequest("session", joined.generation_id, joined.member_id), 3)
        broker.clock.advance(milliseconds=9_999)
        assert broker.group("session")["state"] == "Stable"
        broker.clock.advance(milliseconds=1)
        assert broker.group("session")["state"] == "Empty"


def test_the_session_of_a_member_of_the_new_protocol(broker: KafkaBroker, topic: str) -> None:
    with raw_client(broker) as client:
        client.find_coordinator("new", GROUP)
        beat = ConsumerGroupHeartbeatRequest("new", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[topic])
        beat.topic_partitions = []
        assert client.ask(beat, 1).error_code == 0
        broker.clock.advance(milliseconds=44_999)
        assert len(broker.group("new")["members"]) == 1
        broker.clock.advance(milliseconds=1)
        assert broker.group("new")["members"] == []


def test_the_time_that_a_rebalance_waits_for_its_members(broker: KafkaBroker) -> None:
    with raw_client(broker) as first, raw_client(broker) as second:
        joined = first.ask(member_of(first, "slow", 300_000, 20_000), 5)
        first.ask(SyncGroupRequest("slow", joined.generation_id, joined.member_id), 3)
        second.send(member_of(second, "slow", 300_000, 20_000), 5)
        broker.wait_for_group("slow", "PreparingRebalance")
        broker.clock.advance(milliseconds=19_999)
        assert not second.has_answer
        broker.clock.advance(milliseconds=1)
        assert [each.member_id for each in second.receive().members] != [joined.member_id]
        assert len(broker.group("slow")["members"]) == 1


def test_the_offsets_of_a_group(broker: KafkaBroker, topic: str) -> None:
    commit = OffsetCommitRequest("gone", topics=[OffsetCommitRequestTopic(topic)])
    commit.topics[0].partitions = [OffsetCommitRequestPartition(0, 0, committed_metadata="")]
    with raw_client(broker) as client:
        client.find_coordinator("gone", GROUP)
        assert client.ask(commit, 8).topics[0].partitions[0].error_code == 0
    broker.clock.advance(days=7, seconds=-1)
    assert broker.lag("gone") == 0
    broker.clock.advance(minutes=11)  # it is looked at every ten
    assert "gone" not in [each["group_id"] for each in broker.groups()]


def test_the_locks_of_a_share_group(broker: KafkaBroker, topic: str) -> None:
    topic_id = base64.urlsafe_b64decode(broker.topic(topic)["topic_id"] + "==")
    wanted = [sharing.FetchTopic(topic_id, [sharing.FetchPartition(0)])]
    with raw_client(broker) as client:
        client.find_coordinator("shared", GROUP)
        client.ask(ShareGroupHeartbeatRequest("shared", "A" * 22, 0, None, [topic]), 1)
        sessions = itertools.count()

        def acquired() -> list[tuple[int, int]]:
            epoch = next(sessions)
            fetch = sharing.ShareFetchRequest("shared", "A" * 22, epoch, max_records=10, batch_size=10, topics=wanted)
            for response in client.ask(fetch, 1).responses:
                found = response.partitions[0]
                assert found.error_code == 0
                return [(each.first_offset, each.delivery_count) for each in found.acquired_records]
            return []

        assert acquired() == []  # it begins at the end
        broker.produce(topic, ["1"])
        assert acquired() == [(0, 1)]
        broker.clock.advance(milliseconds=999)
        assert acquired() == []
        broker.clock.advance(milliseconds=1)
        assert acquired() == [(0, 2)]


# -- transactions


def state_of(broker: KafkaBroker, name: str) -> str:
    with raw_client(broker) as client:
        found = client.ask(DescribeTransactionsRequest([name]), 0).transaction_states[0]
        return str(found.transaction_state) if found.error_code == 0 else ErrorCode(found.error_code).name


def test_the_time_of_a_transaction(broker: KafkaBroker, topic: str) -> None:
    with raw_client(broker) as client:
        client.find_coordinator("slow", TRANSACTION)
        producer = client.ask(InitProducerIdRequest("slow", 60_000), 4)
        who = producer.producer_id, producer.producer_epoch
        client.ask(AddPartitionsToTxnRequest([], "slow", *who, [AddPartitionsToTxnTopic(topic, [0])]), 3)
    broker.clock.advance(milliseconds=60_000)
    assert state_of(broker, "slow") == "Ongoing"
    broker.clock.advance(milliseconds=1)
    assert state_of(broker, "slow") == "CompleteAbort"


@pytest.mark.whole
def test_a_transactional_id_that_nobody_uses(broker: KafkaBroker) -> None:
    with raw_client(broker) as client:
        client.find_coordinator("unused", TRANSACTION)
        assert client.ask(InitProducerIdRequest("unused", 60_000), 4).error_code == 0
    broker.clock.advance(days=7, seconds=-1)
    assert state_of(broker, "unused") == "Empty"
    broker.clock.advance(minutes=61)  # it is looked at every hour
    assert state_of(broker, "unused") == "TRANSACTIONAL_ID_NOT_FOUND"


# -- requests and connections


def fetch(topic: str, session_id: int = 0, session_epoch: int = -1, max_wait_ms: int = 0) -> fetching.FetchRequest:
    wanted = [fetching.FetchTopic(topic, partitions=[fetching.FetchPartition(0, partition_max_bytes=1 << 20)])]
    return fetching.FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, session_id=session_id, session_epoch=session_epoch, topics=wanted
    )


def test_a_request_that_waits(broker: KafkaBroker, topic: str) -> None:
    with raw_client(broker) as client:
        client.ask(fetch(topic), 12)
        client.send(fetch(topic, max_wait_ms=30_000), 12)
        broker.clock.advance(milliseconds=29_999)
        assert not client.has_answer
        broker.clock.advance(milliseconds=1)
        assert client.receive().error_code == 0


def test_a_fetch_session_that_gives_way_to_another(broker: KafkaBroker, topic: str) -> None:
    with raw_client(broker) as client:
        broker.clock.advance(seconds=121)
        session = client.ask(fetch(topic, session_epoch=0), 12).session_id
        assert session != 0
        broker.clock.advance(seconds=119)
        assert client.ask(fetch(topic, session_epoch=0), 12).session_id == 0
        broker.clock.advance(seconds=2)
        assert client.ask(fetch(topic, session_epoch=0), 12).session_id not in (0, session)


def test_an_idle_connection(broker: KafkaBroker) -> None:
    with raw_client(broker) as client:
        client.ask(MetadataRequest([]), 12)
        broker.clock.advance(milliseconds=600_000)
        assert not client.is_cut_off
        broker.clock.advance(milliseconds=1)
        assert client.is_cut_off


def test_the_rate_at_which_connections_may_come() -> None:
    limits = {"max.connection.creation.rate": 1, "quota.window.num": 2, "quota.window.size.seconds": 2}
    with KafkaBroker(limits, in_process=True) as broker:
        broker.clock.freeze()
        clients = [RawClient(broker) for _ in range(4)]
        for client in clients:
            client.send(MetadataRequest([]), 12)
        clients[0].receive()
        clients[1].receive()
        assert not clients[2].has_answer
        broker.clock.advance(milliseconds=1_001)
        clients[2].receive()
        assert not clients[3].has_answer
        broker.clock.advance(milliseconds=1_001)
        clients[3].receive()
        for client in clients:
            client.close()
