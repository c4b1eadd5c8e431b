"""No turn of a request that one client sends does more than its share, whatever groups it makes of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bench.fair_groups import share
from pykafka_broker.broker.api import delegation_tokens, share_group_offsets
from pykafka_broker.broker.partitions import replicas as replicas_module
from pykafka_broker.broker.waiting.future import Slices
from pykafka_broker.cluster.delegation_tokens import token_hmac
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import MetadataResponse
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.push_telemetry_request import PushTelemetryRequest
from pykafka_broker.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from pykafka_broker.protocol.stored.delegation_token_record import DelegationTokenRecord
from tests.broker.support import batch
from tests.broker.turns import SlowBroker

SMALL = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}
MANY = 8000  # names
PARTS = 2100  # of a topology


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def broker(directory: Path) -> SlowBroker:
    node = SlowBroker(directory, **SMALL)
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    node.call(FindCoordinatorRequest("g"), 2)
    return node


def test_names_that_are_not_there_cost_a_later_heartbeat_nothing(tmp_path: Path) -> None:
    node = broker(tmp_path)
    counts = []
    for number, count in enumerate((5000, 5000, MANY)):
        node.calls(share(f"g{number}", names("n", count)), 1)
        begun = node.calls(share(f"g{number}", None, epoch=node.reply.member_epoch), 1)
        counts.append(sum(begun))
    assert counts[2] == counts[1]


def test_a_large_group_is_checked_and_written_after_its_description(tmp_path: Path) -> None:
    node, topics = broker(tmp_path), names("t", 900)
    node.answered(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in topics], 1000), 7)
    node.calls(ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 60_000, topics, None, None, []), 1)
    turns = node.calls(ConsumerGroupDescribeRequest(["g"]), 1)
    assert len(node.reply.groups[0].members[0].assignment.topic_partitions) == 900
    assert max(turns) < 0.8 * sum(turns)


def test_descriptions_of_very_many_groups(tmp_path: Path) -> None:
    node = broker(tmp_path)
    turns = node.calls(DescribeGroupsRequest(names("g", MANY)), 5)
    assert len(node.reply.groups) == MANY
    assert max(turns) < 0.5 * sum(turns)  # the largest one writes the answer


def test_metadata_of_very_many_partitions(tmp_path: Path) -> None:
    node, longest = broker(tmp_path), list[int]()
    asked = MetadataRequest(None, False)
    for name, count in (("a", 500), ("b", 700), ("c", 1200)):
        node.answered(CreateTopicsRequest([CreatableTopic(name, count, 1)], 1000), 7)
        longest.append(max(node.calls(asked, 9)))
        assert {topic.name: len(topic.partitions) for topic in node.reply.topics}[name] == count
        assert len(node.calls(asked, 9)) == 1, "it is remembered"
    assert longest[2] < 2 * longest[1], "what is encoded at once is a small part"
    node.broker.services.slices = Slices(None)
    node.broker.services.replies._generation = -1
    assert node.call(asked, 9) == node.reply


def test_metadata_that_changes_meanwhile_is_of_one_moment(tmp_path: Path) -> None:
    node, asked = broker(tmp_path), MetadataRequest(None, False)
    node.answered(CreateTopicsRequest([CreatableTopic("a", 600, 1), CreatableTopic("b", 600, 1)], 1000), 7)
    for number, _ in enumerate(node.turns(ApiKey.METADATA, 9, asked.encode(9))):
        if number == 1:
            node.answered(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
    found = MetadataResponse.decode(node.answer[9:], 9)
    assert {topic.name for topic in found.topics if not topic.is_internal} == {"b", "t"}


def with_two_directories(path: Path, partitions: int) -> tuple[SlowBroker, list[str]]:
    paths = [str(path / name) for name in "ab"]
    node = SlowBroker(path / "a", **{"log.dirs": ",".join(paths)})
    node.answered(CreateTopicsRequest([CreatableTopic("t", partitions, 1)], 1000), 7)
    return node, paths


def moves(path: str, partitions: int) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("t", list(range(partitions)))])]
    )


def test_the_logs_of_very_many_partitions_are_described_in_slices(tmp_path: Path) -> None:
    node, _ = with_two_directories(tmp_path, 800)
    asked, logs = DescribeLogDirsRequest(None), node.broker.logs
    turns = node.calls(asked, 4)
    assert sum(len(topic.partitions) for result in node.reply.results for topic in result.topics) == 800
    assert max(turns) < 0.5 * sum(turns), "the largest one asks the disks and writes the answer"
    for number, _ in enumerate(node.turns(ApiKey.DESCRIBE_LOG_DIRS, 4, asked.encode(4))):
        if number == 1:
            for index in range(0, 800, 10):
                here = logs.directory_of(("t", index))
                logs.moves.start(("t", index), next(each for each in logs.directories if each is not here))
    found = DescribeLogDirsResponse.decode(node.answer[9:], 4)
    described = [each.partition_index for result in found.results for each in result.topics[0].partitions]
    assert sorted(described) == list(range(800)), "each once, whatever moves meanwhile"


def test_moves_of_very_many_partitions_begin_in_slices(tmp_path: Path) -> None:
    node, (_, there) = with_two_directories(tmp_path, 200)
    turns = node.calls(moves(there, 200), 2)
    assert [each.error_code for each in node.reply.results[0].partitions] == [0] * 200
    assert max(turns) < 0.2 * sum(turns)
    homes = [node.broker.logs.directory_of(("t", index)) for index in range(200)]
    assert {home.path for home in homes if home is not None} == {there}


def test_a_share_group_begins_with_very_many_partitions_and_forgets_them(tmp_path: Path) -> None:
    node = broker(tmp_path)
    longest: list[int] = []
    for group, count in (("a", 250), ("b", 500)):
        node.answered(CreateTopicsRequest([CreatableTopic(group, count, 1)], 1000), 7)
        turns = node.calls(share(group, [group]), 1)
        assert node.reply.assignment.topic_partitions == []
        turns += node.calls(share(group, None, node.reply.member_epoch), 1)
        assert len(turns) == 2, "it does not wait, and nothing is begun twice"
        while node.next:
            turns += node.counted_turn()
        assert len(node.broker.services.shares.coordinator.states) >= count
        node.now += 10_000  # a target is old enough for another one
        assert len(node.calls(share(group, None, node.reply.member_epoch), 1)) == 1
        longest.append(max(turns[1:]))
        known: Any = node.broker.groups.coordinator.groups[group]
        assert [len(parts) for parts in known.members["A" * 22].assigned.values()] == [count]
    assert longest[1] < 1.1 * longest[0]
    node.answered(DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=1000), 5)
    turns = []
    while node.next:
        turns += node.counted_turn()
    assert len(turns) > 20
    assert not node.broker.services.shares.coordinator.states


def test_a_deleted_topic_of_very_many_partitions_goes_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas_module, "_DELETED_AT_ONCE", 50)
    node = broker(tmp_path)
    logs, replicas = node.broker.services.logs, node.broker.services.replicas
    longest = []
    for count in (200, 400):
        node.answered(CreateTopicsRequest([CreatableTopic("many", count, 1)], 1000), 7)
        data = [PartitionProduceData(number, bytes(batch(b"v"))) for number in range(count)]
        node.answered(ProduceRequest(None, 1, 1000, [TopicProduceData("many", partition_data=data)]), 9)
        turns = node.calls(DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000), 5)
        assert sum(name == "many" for name, _ in logs.partitions()) > count // 3, "it is not done yet"
        with pytest.raises(ApiError) as refused:
            replicas.leader("many", count - 1)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        while node.next:
            turns += node.counted_turn()
        assert not any(name == "many" for name, _ in logs.partitions())
        longest.append(max(turns))
        node.now += 1
    assert longest[1] < 1.3 * longest[0]


def test_a_topic_that_is_made_anew_meanwhile_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    node = broker(tmp_path)
    for _ in range(2):
        node.answered(CreateTopicsRequest([CreatableTopic("many", 500, 1)], 1000), 7)
        data = [PartitionProduceData(499, bytes(batch(b"v")))]
        written = node.answered(ProduceRequest(None, 1, 1000, [TopicProduceData("many", partition_data=data)]), 9)
        assert written.responses[0].partition_responses[0].base_offset == 0
        node.answered(DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000), 5)
        assert node.next
    node.restart()
    assert not any(name == "many" for name, _ in node.broker.services.logs.partitions())


def test_nor_has_one_that_is_made_anew_twice(tmp_path: Path) -> None:
    node = broker(tmp_path)
    for _ in range(2):
        node.answered(CreateTopicsRequest([CreatableTopic("many", 1000, 1)], 1000), 7)
        node.answered(DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000), 5)
    node.counted_turn()  # what was begun for the first one finds that all is done
    assert node.next, "the second one is not gone yet"
    node.answered(CreateTopicsRequest([CreatableTopic("many", 1000, 1)], 1000), 7)
    while node.next:
        node.counted_turn()
    assert sum(name == "many" for name, _ in node.broker.services.logs.partitions()) == 1000


def test_a_transaction_in_very_many_partitions_ends_in_slices(tmp_path: Path) -> None:
    node = broker(tmp_path)
    node.call(FindCoordinatorRequest("x", 1), 2)
    longest = []
    for count in (100, 800):
        name = f"x{count}"
        node.answered(CreateTopicsRequest([CreatableTopic(name, count, 1)], 1000), 7)
        owned = node.answered(InitProducerIdRequest(name, 60_000), 1)
        producer = name, owned.producer_id, owned.producer_epoch
        node.answered(AddPartitionsToTxnRequest([], *producer, [AddPartitionsToTxnTopic(name, [*range(count)])]), 3)
        turns = node.calls(EndTxnRequest(*producer, True), 3)
        assert not node.reply.error_code
        logs = node.broker.services.logs
        ends = [logs.get(name, index).log_end_offset for index in range(count)]
        assert ends == [1] * count, "the answer comes when all have their marker"
        longest.append(max(turns))
    assert longest[1] < 3 * longest[0]


def test_names_that_are_too_many_to_create_are_not_tried(tmp_path: Path) -> None:
    node = broker(tmp_path)
    counts = []
    for allow in (False, True):
        asked = MetadataRequest([MetadataRequestTopic(name=name) for name in names("n", 11_000)], allow)
        counts.append(sum(node.calls(asked, 9)))
        assert {topic.error_code for topic in node.reply.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert counts[1] < 1.3 * counts[0]


def test_topics_of_one_request_share_the_configs_that_they_do_not_override(tmp_path: Path) -> None:
    node = broker(tmp_path)
    counts = []
    for count in (100, 1100):
        topics = [CreatableTopic(name, 1, 1) for name in names(f"c{count}-", count)]
        counts.append(sum(node.calls(CreateTopicsRequest(topics, 1000, True), 4)))
        counts.append(sum(node.calls(CreateTopicsRequest(topics, 1000, True), 5)))
    without, with_configs = counts[2] - counts[0], counts[3] - counts[1]
    assert with_configs < 8 * without, "they are encoded, and that is all"


def test_very_many_groups_are_deleted_in_slices(tmp_path: Path) -> None:
    node = broker(tmp_path)
    longest = []
    for count in (100, 800):
        groups = names(f"d{count}-", count)
        for name in groups:
            offsets = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]
            node.call(OffsetCommitRequest(name, topics=offsets), 8)
        longest.append(max(node.calls(DeleteGroupsRequest(groups), 2)))
        assert {result.error_code for result in node.reply.results} == {0}
    assert longest[1] < 3 * longest[0]


def test_a_share_group_that_is_described_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = broker(tmp_path)
    node.answered(CreateTopicsRequest([CreatableTopic("s", 200, 1)], 1000), 7)
    node.calls(share("s", ["s"]), 1)
    node.calls(share("s", None, node.reply.member_epoch), 1)
    while node.next:
        node.counted_turn()
    for count, share_of_all in ((1, 0.3), (30, 0.1)):
        asked = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("s", None)] * count)
        turns = node.calls(asked, 0)
        assert [len(group.topics[0].partitions) for group in node.reply.groups] == [200] * count
        assert max(turns) < share_of_all * sum(turns)
    monkeypatch.setattr(share_group_offsets, "_MOST_DESCRIBED", 5000)
    refused = node.answered(asked, 0)
    assert {group.error_code for group in refused.groups} == {ErrorCode.INVALID_REQUEST}


def test_a_share_group_begins_anew_in_very_many_partitions_and_is_deleted(tmp_path: Path) -> None:
    node, parts = broker(tmp_path), range(300)
    node.answered(CreateTopicsRequest([CreatableTopic("s", 300, 1)], 1000), 7)
    altered = [
        AlterShareGroupOffsetsRequestTopic("s", [AlterShareGroupOffsetsRequestPartition(each) for each in parts])
    ]
    for deletion, version in (
        (DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("s")]), 0),
        (DeleteGroupsRequest(["g"]), 2),
    ):
        turns = node.calls(AlterShareGroupOffsetsRequest("g", altered), 0)
        assert [each.error_code for each in node.reply.responses[0].partitions] == [0] * 300
        assert max(turns) < 0.3 * sum(turns)
        turns = node.calls(deletion, version)
        assert max(turns) < 0.3 * sum(turns)
        assert set(re.findall(r"error_code=(-?\d+)", repr(node.reply))) == {"0"}
    assert "g" not in node.broker.services.groups.coordinator.groups


def test_very_many_delegation_tokens_are_described_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = broker(tmp_path)
    monkeypatch.setattr(delegation_tokens, "_may_ask", lambda services, context: True)
    monkeypatch.setitem(vars(node.broker.services.config), "delegation_token_secret_key", "secret")
    owner = node.connection.principal
    for name in names("token", 500):
        token = DelegationTokenRecord(owner, owner, [f"User:{each}" for each in names("renewer", 20)], 0, 1, 1, name)
        node.broker.services.image.delegation_tokens[name] = token
    turns = node.calls(DescribeDelegationTokenRequest(None), 3)
    assert len(node.reply.tokens) == 500
    assert node.reply.tokens[-1].renewers[-1].principal_name == "renewer19"
    assert max(turns) < 0.2 * sum(turns)
    nobody = [DescribeDelegationTokenOwner("User", "nobody")]
    turns = node.calls(DescribeDelegationTokenRequest(nobody), 3)
    assert node.reply.tokens == []
    assert len(turns) > 30


def test_a_delegation_token_is_found_among_very_many_in_slices_and_then_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = broker(tmp_path)
    monkeypatch.setattr(delegation_tokens, "_may_ask", lambda services, context: True)
    for config in (node.broker.services.config, node.broker.metadata.controller.config):
        monkeypatch.setitem(vars(config), "delegation_token_secret_key", "secret")
    owner, late, image = node.connection.principal, node.now * 2, node.broker.services.image
    for name in names("token", 4000):
        image.delegation_tokens[name] = DelegationTokenRecord(owner, owner, [], 0, late, late, name)
    renewal = RenewDelegationTokenRequest(token_hmac("secret", "token3999"), 1000)
    turns = node.calls(renewal, 2)
    assert (node.reply.error_code, node.reply.expiry_timestamp_ms) == (0, node.now + 1000)
    assert max(turns) < 0.2 * sum(turns)
    again = node.calls(renewal, 2)
    assert sum(again) < 0.1 * sum(turns)
    expiry = ExpireDelegationTokenRequest(renewal.hmac, -1)
    assert sum(node.calls(expiry, 2)) < 0.1 * sum(turns)
    assert node.answered(expiry, 2).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    image.delegation_tokens = dict(list(image.delegation_tokens.items())[:100])
    node.answered(RenewDelegationTokenRequest(b"unknown", -1), 2)
    assert image.token_index is not None
    assert len(image.token_index._ids) == 100, "removed tokens are forgotten in the end"


@pytest.mark.whole
def test_very_many_metrics_subscriptions_are_read_and_matched_in_slices(tmp_path: Path) -> None:
    node = broker(tmp_path)
    image = node.broker.services.image
    for number, name in enumerate(names("s", 3000)):
        match = ".*" * 5 + f"b{number}" if number % 3 else ".*"
        image.configs[ConfigResourceType.CLIENT_METRICS, name] = {"metrics": name, "match": f"client_id={match}"}
    image.generation += 1
    turns = node.calls(GetTelemetrySubscriptionsRequest(), 0)
    assert len(node.reply.requested_metrics) == 1000
    assert max(turns) < 0.1 * sum(turns)
    asked = node.reply
    again = node.calls(GetTelemetrySubscriptionsRequest(), 0)
    assert sum(again) < 0.5 * sum(turns), "what was read is kept"
    assert node.reply.subscription_id != asked.subscription_id, "another client"
    push = PushTelemetryRequest(asked.client_instance_id, asked.subscription_id, False, 0, b"")
    assert len(node.calls(push, 0)) == 1
    del image.configs[ConfigResourceType.CLIENT_METRICS, "s0"]
    image.generation += 1
    for number, _ in enumerate(
        node.turns(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, GetTelemetrySubscriptionsRequest().encode(0))
    ):
        if not number:
            image.configs.clear()
            image.generation += 1
    assert len(node._decoded(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0).requested_metrics) == 999
    push.terminating = True
    refused = node.answered(push, 0)
    assert refused.error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID


def test_very_many_groups_forget_a_deleted_topic_in_slices(tmp_path: Path) -> None:
    node, groups = broker(tmp_path), names("g", 200)

    def commit(group: str, offset: int) -> None:
        partition = OffsetCommitRequestPartition(0, offset)
        node.answered(
            OffsetCommitRequest(group, -1, "", topics=[OffsetCommitRequestTopic("t", partitions=[partition])]), 8
        )

    for group in groups:
        commit(group, 1)
    turns = node.calls(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    offsets = node.broker.groups.coordinator.offsets
    assert 100 < len(offsets.groups) < 200
    node.answered(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 7)
    last = list(offsets.groups)[-1]
    commit(last, 2)
    while node.next:
        turns += node.counted_turn()
    assert list(offsets.groups) == [last], "an offset of the topic that was made anew is another one"
    assert offsets.committed(last)["t"][0].offset == 2
    assert max(turns) < 0.5 * sum(turns)


def test_very_many_tasks_of_a_streams_group_are_assigned_in_slices(tmp_path: Path) -> None:
    node, width = SlowBroker(tmp_path, **SMALL, **{"group.streams.initial.rebalance.delay.ms": "0"}), 2_500
    node.answered(CreateTopicsRequest([CreatableTopic("wide", width, 1)], 1000), 7)
    node.call(FindCoordinatorRequest("g"), 2)
    topology = Topology(0, [Subtopology(name, ["wide"]) for name in names("s", 8)])
    join = StreamsGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=1000, topology=topology, process_id="p")
    join.active_tasks, join.standby_tasks, join.warmup_tasks = [], [], []
    turns = node.calls(join, 0)
    assert node.reply.active_tasks == []
    assert node.next
    while node.next:
        turns += node.counted_turn()
    told = node.answered(StreamsGroupHeartbeatRequest("g", "m", node.reply.member_epoch), 0)
    assert sum(len(each.partitions) for each in told.active_tasks) == 8 * width
    assert max(turns) < 0.5 * sum(turns)
