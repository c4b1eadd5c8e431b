"""Mistakes that other brokers were seen to make, one test each, against a whole broker.

Rule: each test is about an answer that made a real client fail, throw or wait; the right answer is Kafka's.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from pykafka_broker.protocol.runtime import ZERO_UUID as NOTHING
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.record import iter_records
from tests.broker.api.real_broker import NOW, RealBroker
from tests.broker.support import batch

TOPIC, BROKER = 2, 4
SET, APPEND = 0, 2
GZIP = 1


@pytest.fixture
def node(tmp_path: Path) -> RealBroker:
    return RealBroker(tmp_path, **{"group.initial.rebalance.delay.ms": "0"})


def create(node: RealBroker, name: str = "t", partitions: int = 1, **configs: str) -> Any:
    wanted = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    [topic] = node.call(CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], wanted)]), 7).topics
    assert topic.error_code == 0
    return topic


def produce(node: RealBroker, records: Any, *, topic: str | bytes = "t", acks: int = -1) -> Any:
    wanted = TopicProduceData(partition_data=[PartitionProduceData(0, records)])
    by_id = isinstance(topic, bytes)
    setattr(wanted, "topic_id" if by_id else "name", topic)
    return (
        node.call(ProduceRequest(None, acks, 1000, [wanted]), 13 if by_id else 12).responses[0].partition_responses[0]
    )


def fetch_request(topic: str | bytes = "t", offset: int = 0, max_bytes: int = 1 << 20, **fields: Any) -> FetchRequest:
    wanted = FetchTopic(partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)])
    setattr(wanted, "topic_id" if isinstance(topic, bytes) else "topic", topic)
    return FetchRequest(topics=[wanted], **{"max_wait_ms": 0, "max_bytes": max_bytes, **fields})


def fetch(node: RealBroker, topic: str | bytes = "t", offset: int = 0, **fields: Any) -> Any:
    version = 13 if isinstance(topic, bytes) else 12
    return node.call(fetch_request(topic, offset, **fields), version).responses[0].partitions[0]


def list_offsets(node: RealBroker, timestamp: int, isolation: int = 0) -> Any:
    wanted = [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])]
    return node.call(ListOffsetsRequest(-1, isolation, wanted), 11).topics[0].partitions[0]


def delete_records(node: RealBroker, offset: int) -> Any:
    wanted = [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)])]
    return node.call(DeleteRecordsRequest(wanted), 2).topics[0].partitions[0]


def metadata(node: RealBroker, *names: str, create: bool = False) -> Any:
    return node.call(MetadataRequest([MetadataRequestTopic(name=name) for name in names], create), 12).topics


def waited(node: RealBroker, request: Message, version: int) -> Any:
    """Return the answer to a request that may have to wait, once the broker has done what it waits for."""
    spec = SPECS[request.API_KEY]
    header = struct.pack(">hhih", request.API_KEY, version, 7, -1) + b"\0" * (spec.request_header_version(version) - 1)
    answer = node.broker.dispatch(node.connection, memoryview(header + request.encode(version)), node.now)
    if isinstance(answer, PendingReply):
        node.broker.on_deadline(node.now)
        node.broker.settle(node.now)
        answer = answer.pieces()
    assert isinstance(answer, list)
    body = b"".join(answer)[8 + spec.response_header_version(version) :]
    return spec.response_class().decode(body, version)


def joined(node: RealBroker, group_id: str = "g") -> str:
    """Let the only member of a classic group join and get its assignment; return its id."""
    node.call(FindCoordinatorRequest(coordinator_keys=[group_id]), 4)
    join = JoinGroupRequest(
        group_id, 30_000, 30_000, "", protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
    )
    member_id: str = waited(node, join, 3).member_id
    sync = SyncGroupRequest(group_id, 1, member_id, assignments=[SyncGroupRequestAssignment(member_id, b"x")])
    assert waited(node, sync, 3).error_code == 0
    return member_id


def test_the_number_of_a_share_partition_may_have_any_length(node: RealBroker) -> None:
    """FindCoordinator of share partitions reads the number as Java's parseInt does."""
    key = "g:{}:{}".format("A" * 22, "{}").format
    for number, refused in (("0" * 5000 + "1", False), ("+1", False), ("1" * 5000, True), ("4294967296", True)):
        answer = node.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[key(number)]), 6)
        assert (answer.coordinators[0].error_code == ErrorCode.INVALID_REQUEST) == refused, number[-10:]


# -- answers that make Java's admin client throw


def test_lists_that_the_schema_lets_be_null_are_empty(node: RealBroker) -> None:
    created = create(node)
    assert isinstance(created.configs, list)
    answer = node.call(DescribeTopicPartitionsRequest([TopicRequest("t")], 100), 0)
    [partition] = answer.topics[0].partitions
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])
    assert node.call(DescribeClientQuotasRequest([], False), 1).entries == []
    assert node.call(AlterClientQuotasRequest([]), 1).entries == []


def test_sources_and_types_are_filled_in(node: RealBroker) -> None:
    created = create(node, retention_ms="5000")
    assert {config.config_source for config in created.configs} <= set(range(1, 9))
    assert ("retention.ms", "5000", 1) in [(each.name, each.value, each.config_source) for each in created.configs]
    resources = [DescribeConfigsResource(TOPIC, "t"), DescribeConfigsResource(BROKER, "1")]
    for result in node.call(DescribeConfigsRequest(resources, True), 4).results:
        assert {config.config_source for config in result.configs} <= set(range(1, 9))
        assert 0 not in {config.config_type for config in result.configs}
        assert all(1 <= synonym.source <= 8 for config in result.configs for synonym in config.synonyms)


def test_synonyms_stand_in_their_order_under_the_brokers_own_names(node: RealBroker) -> None:
    create(node, retention_ms="5000")
    dynamic = [
        AlterConfigsResource(BROKER, name, [AlterableConfig("log.retention.ms", SET, value)])
        for name, value in (("", "7000"), ("1", "6000"))
    ]
    assert [each.error_code for each in node.call(IncrementalAlterConfigsRequest(dynamic), 1).responses] == [0, 0]
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "t"), DescribeConfigsResource(BROKER, "")], True)
    topic, everywhere = node.call(request, 4).results
    assert len(topic.configs) >= 30
    [retention] = [config for config in topic.configs if config.name == "retention.ms"]
    assert [(each.name, each.value, each.source) for each in retention.synonyms] == [
        ("retention.ms", "5000", 1),
        ("log.retention.ms", "6000", 2),
        ("log.retention.ms", "7000", 3),
        ("log.retention.hours", "168", 5),
    ]
    assert ("log.retention.ms", "7000") in [(config.name, config.value) for config in everywhere.configs]
    assert not any(config.name == "log.retention.hours" for config in everywhere.configs)  # a default of nobody's


@pytest.mark.parametrize(
    ("kind", "name", "key", "operation", "value", "code"),
    [
        (TOPIC, "t", "retention.ms", SET, "soon", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "no.such.key", SET, "1", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "retention.ms", APPEND, "1", ErrorCode.INVALID_CONFIG),
        # KAFKA-13609: Kafka itself would rather say INVALID_CONFIG here, but doesn't.
        (BROKER, "1", "log.dirs", SET, "/x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_incremental_alter_configs_refuses(
    node: RealBroker, kind: int, name: str, key: str, operation: int, value: str, code: ErrorCode
) -> None:
    create(node)
    resource = AlterConfigsResource(kind, name, [AlterableConfig(key, operation, value)])
    [answer] = node.call(IncrementalAlterConfigsRequest([resource]), 1).responses
    assert answer.error_code == code


@pytest.mark.parametrize(
    ("kind", "name", "key", "codes"),
    [
        (TOPIC, "t", "retention.ms", [ErrorCode.INVALID_REQUEST] * 2),  # with Kafka both are UNKNOWN_SERVER_ERROR
        (BROKER, "1", "log.cleaner.threads", [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]),
    ],
)
def test_an_unknown_operation_refuses_what_the_controller_is_asked_with_it(
    node: RealBroker, kind: int, name: str, key: str, codes: list[ErrorCode]
) -> None:
    create(node)
    unknown = AlterConfigsResource(kind, name, [AlterableConfig(key, 9, "1")])
    other = AlterConfigsResource(TOPIC if kind == BROKER else 32, "t" if kind == BROKER else "g")
    other.configs = [AlterableConfig("retention.ms" if kind == BROKER else "consumer.session.timeout.ms", SET, "50000")]
    answers = node.call(IncrementalAlterConfigsRequest([unknown, other]), 1).responses
    assert [each.error_code for each in answers] == codes


def test_group_filters_are_compared_without_case_and_everything_is_filled_in(node: RealBroker) -> None:
    joined(node)
    for states, types in ((["Stable"], []), (["STABLE"], ["Classic"]), ([], ["classic", "Consumer"])):
        [group] = node.call(ListGroupsRequest(states, types), 5).groups
        assert (group.group_id, group.group_state, group.group_type) == ("g", "Stable", "classic")
        assert group.protocol_type == "consumer"
    assert node.call(ListGroupsRequest(["Empty"], []), 5).groups == []
    assert node.call(ListGroupsRequest([], ["Consumer"]), 5).groups == []


def test_a_classic_group_is_described_by_the_classic_api_alone(node: RealBroker) -> None:
    joined(node)
    [described] = node.call(ConsumerGroupDescribeRequest(["g"]), 1).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    present, missing = node.call(DescribeGroupsRequest(["g", "nobody"]), 6).groups
    assert (present.error_code, present.group_state) == (0, "Stable")
    assert present.members[0].client_host == "/127.0.0.1"
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND


# -- connection and versions


def test_versions_that_switch_client_features_on_are_served_whole(node: RealBroker) -> None:
    answer = node.call(ApiVersionsRequest("a", "1"), 4)
    highest = {key.api_key: key.max_version for key in answer.api_keys}
    assert highest[ApiKey.JOIN_GROUP] >= 5
    assert highest[ApiKey.CONSUMER_GROUP_HEARTBEAT] >= 1
    assert ApiKey.ADD_PARTITIONS_TO_TXN in highest
    assert ApiKey.ADD_OFFSETS_TO_TXN in highest
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert levels["transaction.version"] == 2
    assert levels["group.version"] == 1
    assert levels["metadata.version"] == 33


def test_the_header_of_an_api_versions_answer_is_plain_in_every_version(node: RealBroker) -> None:
    for version in range(5):
        request = ApiVersionsRequest("a", "1") if version >= 3 else ApiVersionsRequest()
        header = struct.pack(">hhih", 18, version, 7, -1) + b"\0" * (version >= 3)
        pieces = node.broker.dispatch(node.connection, memoryview(header + request.encode(version)), NOW)
        assert isinstance(pieces, list)
        body = b"".join(pieces)[8:]
        answer: Any = SPECS[18].response_class().decode(body, version)
        assert answer.error_code == 0


@pytest.mark.parametrize("body", [struct.pack(">hhih", 999, 0, 7, -1), struct.pack(">hhih", 3, 99, 7, -1), b"\0\3"])
def test_what_nobody_can_answer_costs_one_connection(node: RealBroker, body: bytes) -> None:
    with pytest.raises(FrameError):
        node.broker.dispatch(node.connection, memoryview(body), NOW)
    assert metadata(node) == []


# -- topics and metadata


def test_metadata_creates_only_when_asked_to(node: RealBroker) -> None:
    assert metadata(node, "t")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.call(MetadataRequest(None), 12).topics == []
    created = metadata(node, "t", create=True)[0]
    assert (created.error_code, created.partitions[0].leader_id) == (0, 1)
    assert produce(node, batch(b"at once")).error_code == 0
    assert metadata(node) == []
    assert [topic.name for topic in node.call(MetadataRequest(None), 12).topics] == ["t"]


def test_a_topic_created_again_is_another_one(node: RealBroker) -> None:
    old = create(node).topic_id
    produce(node, batch(b"a", b"b"))
    assert node.call(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=30_000), 6).responses[0].error_code == 0
    new = create(node).topic_id
    assert new != old
    assert produce(node, batch(b"c"), topic=new).base_offset == 0
    assert produce(node, batch(b"c"), topic=old).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(node, old).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    by_id = node.call(MetadataRequest([MetadataRequestTopic(old, None)]), 12).topics[0]
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    node.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    commit = OffsetCommitRequestTopic(topic_id=old, partitions=[OffsetCommitRequestPartition(0, 1)])
    answer = node.call(OffsetCommitRequest("g", topics=[commit]), 10)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    group = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics(topic_id=old, partition_indexes=[0])])
    [asked] = node.call(OffsetFetchRequest(groups=[group]), 10).groups
    assert asked.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_topic_that_is_named_again_is_answered_once(node: RealBroker) -> None:
    create(node, "a")
    create(node, "b")
    ids = {topic.name: topic.topic_id for topic in metadata(node, "a", "b")}
    for asked in (
        [(ids["a"], "a"), (ids["a"], None), (ids["b"], "a"), (ids["a"], "b")],
        [(ids["a"], None), (NOTHING, "b"), (ids["b"], None)],
        [(NOTHING, "a"), (NOTHING, "b"), (NOTHING, "a")],
    ):
        for many in (1, 1000):  # the many are answered in parts
            topics = [MetadataRequestTopic(*each) for each in asked] * many
            answer = node.call(MetadataRequest(topics, False), 12)
            assert [topic.name for topic in answer.topics] == ["a", "b"]
    unknown = [MetadataRequestTopic(b"7" * 16, None), MetadataRequestTopic(b"7" * 16, "x")]
    answer = node.call(MetadataRequest(unknown, False), 12)
    assert [(topic.error_code, topic.name) for topic in answer.topics] == [(ErrorCode.UNKNOWN_TOPIC_ID, None)]


def test_a_topic_that_can_not_be_created_is_tried_once_for_all_keys(
    node: RealBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[list[str]] = []
    monkeypatch.setattr(node.broker.services.node, "create_missing_topics", tried.append)
    answer = node.call(FindCoordinatorRequest(coordinator_keys=["g", "h", "i"]), 4)
    assert {each.error_code for each in answer.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert tried == [["__consumer_offsets"]]


def test_internal_topics_come_with_the_first_coordinator_and_fit_one_broker(node: RealBroker) -> None:
    answer = node.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert answer.coordinators[0].error_code == 0
    node.call(FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1), 4)
    topics = {topic.name: topic for topic in node.call(MetadataRequest(None), 12).topics}
    assert topics.keys() == {"__consumer_offsets", "__transaction_state"}
    for topic in topics.values():
        assert topic.is_internal
        assert all(partition.replica_nodes == [1] for partition in topic.partitions)


# -- produce and fetch


def test_a_producer_is_known_again_after_a_restart(node: RealBroker) -> None:
    create(node)
    for sequence in range(5):
        sent = batch(b"x", producer_id=9, producer_epoch=0, base_sequence=sequence)
        assert produce(node, sent).base_offset == sequence
    node.connection.id += 1  # another connection: what is known belongs to the partition
    assert produce(node, batch(b"x", producer_id=9, producer_epoch=0, base_sequence=0)).base_offset == 0
    node.restart()
    assert produce(node, batch(b"x", producer_id=9, producer_epoch=0, base_sequence=4)).base_offset == 4
    assert produce(node, batch(b"x", producer_id=9, producer_epoch=0, base_sequence=5)).base_offset == 5
    gap = produce(node, batch(b"x", producer_id=9, producer_epoch=0, base_sequence=9))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_a_topics_settings_make_of_records(node: RealBroker) -> None:
    create(node, cleanup_policy="compact", max_message_bytes="500", compression_type="gzip")
    keyless = BatchBuilder()
    keyless.append(None, b"x", NOW)
    assert produce(node, keyless.build()).error_code == ErrorCode.INVALID_RECORD
    assert produce(node, batch(b"x" * 600)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(node, batch(b"x" * 100)).error_code == 0
    stored = bytes(fetch(node).records)
    assert stored[22] & 7 == GZIP
    assert [record.value for record in iter_records(stored)] == [b"x" * 100]


def test_log_append_time_stands_in_batch_and_answer(node: RealBroker) -> None:
    create(node, message_timestamp_type="LogAppendTime")
    assert produce(node, batch(b"x", timestamp=1)).log_append_time_ms == NOW
    stored = bytes(fetch(node).records)
    assert stored[22] & 8
    assert struct.unpack_from(">q", stored, 35) == (NOW,)


def test_a_transactional_batch_without_a_transactional_id(node: RealBroker) -> None:
    create(node)
    sent = batch(b"x", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    assert produce(node, sent).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_whole_batches_even_above_every_limit_and_empty_is_not_null(node: RealBroker) -> None:
    create(node)
    produce(node, batch(b"a", b"b", b"c"))
    middle = bytes(fetch(node, offset=1, max_bytes=1).records)
    assert [record.offset for record in iter_records(middle)] == [0, 1, 2]
    end = fetch(node, offset=3)
    assert (end.error_code, end.records) == (0, b"")


def test_a_session_leaves_out_what_has_not_changed_and_an_error_is_told_at_once(node: RealBroker) -> None:
    create(node)
    opened = node.call(fetch_request(session_epoch=0), 12)
    assert opened.session_id
    quiet = FetchRequest(session_id=opened.session_id, session_epoch=1, max_bytes=1 << 20, max_wait_ms=0)
    assert node.call(quiet, 12).responses == []
    produce(node, batch(b"x"))
    quiet.session_epoch = 2
    [topic] = node.call(quiet, 12).responses
    assert topic.partitions[0].high_watermark == 1
    patient = node.call(fetch_request("missing", max_wait_ms=60_000, min_bytes=1), 12)  # `call` refuses what waits
    assert patient.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_by_name(node: RealBroker) -> None:
    create(node)
    for value, timestamp in ((b"a", NOW), (b"b", NOW + 9), (b"c", NOW + 5)):
        produce(node, batch(value, timestamp=timestamp))
    assert delete_records(node, 1).low_watermark == 1
    assert [list_offsets(node, timestamp).offset for timestamp in (-1, -2, -3, -4)] == [3, 1, 1, 1]
    tiered = list_offsets(node, -5)
    assert (tiered.error_code, tiered.offset, tiered.timestamp) == (0, -1, -1)
    assert delete_records(node, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(node, -1).low_watermark == 3
    assert list_offsets(node, -2).offset == 3


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete", ""])
def test_records_can_be_deleted_of_all_that_is_not_only_compacted(node: RealBroker, policy: str) -> None:
    create(node, cleanup_policy=policy)
    expected = ErrorCode.POLICY_VIOLATION if policy == "compact" else ErrorCode.NONE
    assert delete_records(node, -1).error_code == expected


def test_the_end_of_a_leader_epoch(node: RealBroker) -> None:
    create(node)
    produce(node, batch(b"a", b"b"))
    wanted = [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, -1, 0)])]
    [end] = node.call(OffsetForLeaderEpochRequest(-1, wanted), 4).topics[0].partitions
    assert (end.error_code, end.leader_epoch, end.end_offset) == (0, 0, 2)
    wanted[0].partitions[0].leader_epoch = 5
    [beyond] = node.call(OffsetForLeaderEpochRequest(-1, wanted), 4).topics[0].partitions
    assert (beyond.error_code, beyond.leader_epoch, beyond.end_offset) == (0, -1, -1)


# -- files


def test_index_entries_name_the_last_offset_and_the_greatest_time_of_a_batch(node: RealBroker) -> None:
    create(node, index_interval_bytes="1")
    for timestamp in (NOW, NOW + 2, NOW + 1):
        produce(node, batch(b"a", b"b", timestamp=timestamp))
    node.stop()
    folder = node.directory / "t-0"
    offsets = list(struct.iter_unpack(">ii", (folder / f"{0:020}.index").read_bytes()))
    times = list(struct.iter_unpack(">qi", (folder / f"{0:020}.timeindex").read_bytes()))
    assert [relative for relative, _ in offsets] == [3, 5]
    assert times[-1] == (NOW + 2, 3)
    version, count, *entries = (node.directory / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert (version, int(count)) == ("0", len(entries))
    assert "t 0 6" in entries
