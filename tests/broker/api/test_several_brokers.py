"""A broker among several: its answers about the other brokers, and the requests that it leaves to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from pykafka_broker.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
)
from pykafka_broker.protocol.messages.describe_topic_partitions_request import TopicRequest as DescribedTopic
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from pykafka_broker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from pykafka_broker.protocol.stored.unregister_broker_record import UnregisterBrokerRecord
from tests.broker.neighbourhood import Neighbourhood
from tests.broker.test_authorization import Denies

ADDRESSES = {1: ("127.0.0.1", 9101), 2: ("127.0.0.1", 9102), 3: ("127.0.0.1", 9103)}
NOT_HERE = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    nodes = Neighbourhood(tmp_path, brokers=3)
    nodes.connection.local_port = 9101  # of node 1, who is asked
    nodes.add("t", 1, 2, 3, replicas=(1, 2, 3))
    return nodes


def fence(nodes: Neighbourhood, number: int) -> None:
    change_registration(nodes, number, 0, fenced=1)


def change_registration(nodes: Neighbourhood, number: int, version: int, **changes: Any) -> None:
    for other in nodes.nodes.values():
        record = BrokerRegistrationChangeRecord(number, other.image.brokers[number].epoch, **changes)
        nodes._commit[other.node_id]([ApiMessageAndVersion(record, version)])


def metadata(nodes: Neighbourhood, version: int = 9) -> Any:
    return nodes.call(1, MetadataRequest([MetadataRequestTopic(name="t")], True), version)


def test_metadata_names_all_brokers_and_leaders(nodes: Neighbourhood) -> None:
    answer = metadata(nodes)
    assert {each.node_id: (each.host, each.port) for each in answer.brokers} == ADDRESSES
    assert [
        (one.leader_id, one.replica_nodes, one.isr_nodes, one.offline_replicas) for one in answer.topics[0].partitions
    ] == [
        (1, [1, 2, 3], [1], []),
        (2, [1, 2, 3], [2], []),
        (3, [1, 2, 3], [3], []),
    ]


def test_a_fenced_broker_is_not_named_and_its_replicas_are_offline(nodes: Neighbourhood) -> None:
    nodes.change("t", 2, leader=1, isr=[1])
    fence(nodes, 3)
    answer = metadata(nodes)
    assert [each.node_id for each in answer.brokers] == [1, 2]
    assert [one.offline_replicas for one in answer.topics[0].partitions] == [[3], [3], [3]]
    described = nodes.call(1, DescribeTopicPartitionsRequest([DescribedTopic("t")]), 0)
    assert [one.offline_replicas for one in described.topics[0].partitions] == [[3], [3], [3]]


@pytest.mark.parametrize(
    ("version", "away", "replicas"), [(0, {"fenced": 1}, 3), (1, {"in_controlled_shutdown": 1}, None)]
)
def test_an_internal_topic_has_all_its_replicas_while_a_broker_is_away(
    nodes: Neighbourhood, version: int, away: dict[str, int], replicas: int | None
) -> None:
    """A broker that stops gets no replica: then the topic is created once it is back, as in Kafka."""
    change_registration(nodes, 3, version, **away)
    nodes[1].services.node.create_missing_topics([TRANSACTION_STATE])
    created = nodes[1].image.topics.get(TRANSACTION_STATE)
    assert (created and len(created.partitions[0].replicas)) == replicas


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
def test_a_leader_without_the_clients_listener_is_no_use_to_it(
    nodes: Neighbourhood, version: int, code: ErrorCode
) -> None:
    known = nodes[1].image.brokers[2]
    record = RegisterBrokerRecord(
        broker_id=2, incarnation_id=known.incarnation_id, broker_epoch=known.epoch, fenced=False
    )
    record.end_points = [BrokerEndpoint("INSIDE", "127.0.0.1", 9102, 0)]
    nodes._commit[1]([ApiMessageAndVersion(record, 1)])
    answer = metadata(nodes, version)
    assert [each.node_id for each in answer.brokers] == [1, 3]
    partitions = answer.topics[0].partitions
    assert [(one.error_code, one.leader_id) for one in partitions] == [(0, 1), (code, -1), (0, 3)]


Shown = tuple[int, int, list[int], list[int], list[int]]  # error, leader, replicas, those in sync, those offline
UNKNOWN_NODE, NOT_THERE = int(ErrorCode.LEADER_NOT_AVAILABLE), int(ErrorCode.REPLICA_NOT_AVAILABLE)
NOT_NAMED = int(ErrorCode.LISTENER_NOT_FOUND)
AWAY: dict[str, list[Shown]] = {  # what Kafka 4.4.0 answers about a broker that is fenced, and one that is unregistered
    "v0": [(NOT_THERE, 1, [1], [1], []), (UNKNOWN_NODE, -1, [], [], [])],
    "v1": [(0, 1, [1, 2], [1], []), (UNKNOWN_NODE, -1, [2], [], [])],
    "v12": [(0, 1, [1, 2], [1], [2]), (UNKNOWN_NODE, -1, [2], [], [2])],
    "described": [(0, 1, [1, 2], [1], [2]), (0, -1, [2], [], [2])],
}
ELSEWHERE: dict[str, list[Shown]] = {  # and about one without the client's listener
    "v0": [(NOT_THERE, 1, [1], [1], []), (UNKNOWN_NODE, -1, [], [], [])],
    "v1": [(0, 1, [1, 2], [1, 2], []), (UNKNOWN_NODE, -1, [2], [2], [])],
    "v5": [(0, 1, [1, 2], [1, 2], [2]), (UNKNOWN_NODE, -1, [2], [2], [2])],
    "v12": [(0, 1, [1, 2], [1, 2], [2]), (NOT_NAMED, -1, [2], [2], [2])],
    "described": [(0, 1, [1, 2], [1, 2], [2]), (0, -1, [2], [2], [2])],
}


def shown(nodes: Neighbourhood, how: str) -> list[Shown]:
    if how == "described":
        answer = nodes.call(1, DescribeTopicPartitionsRequest([DescribedTopic("t"), DescribedTopic("u")]), 0)
    else:
        answer = nodes.call(1, MetadataRequest([MetadataRequestTopic(name=name) for name in "tu"], True), int(how[1:]))
    return [
        (one.error_code, one.leader_id, one.replica_nodes, one.isr_nodes, one.offline_replicas)
        for topic in answer.topics
        for one in topic.partitions
    ]


@pytest.mark.parametrize("state", ["fenced", "unregistered", "elsewhere"])
def test_replicas_out_of_reach_are_shown_as_by_kafka(tmp_path: Path, state: str) -> None:
    nodes = Neighbourhood(tmp_path, brokers=2)
    nodes.add("t", 1, replicas=(1, 2))
    nodes.add("u", 2)
    known = nodes[1].image.brokers[2]
    if state == "elsewhere":
        nodes.change("t", isr=[1, 2])
        record: Any = RegisterBrokerRecord(2, incarnation_id=known.incarnation_id, broker_epoch=known.epoch)
        record.end_points, record.fenced = [BrokerEndpoint("INSIDE", "127.0.0.1", 9102, 0)], False
        nodes._commit[1]([ApiMessageAndVersion(record, 1)])
    else:
        nodes.change("u", leader=-1, isr=[])
        fence(nodes, 2)
    if state == "unregistered":
        nodes._commit[1]([ApiMessageAndVersion(UnregisterBrokerRecord(2, known.epoch), 0)])
    expected = ELSEWHERE if state == "elsewhere" else AWAY
    assert {how: shown(nodes, how) for how in expected} == expected


@pytest.mark.parametrize(
    ("fenced_too", "named"), [(False, [(1, False), (2, False)]), (True, [(1, False), (2, False), (3, True)])]
)
def test_the_cluster_has_fenced_brokers_only_for_who_asks(
    nodes: Neighbourhood, fenced_too: bool, named: list[tuple[int, bool]]
) -> None:
    fence(nodes, 3)
    answer = nodes.call(1, DescribeClusterRequest(False, 1, fenced_too), 2)
    assert [(each.broker_id, each.is_fenced) for each in answer.brokers] == named


@pytest.mark.parametrize(
    ("kind", "topic", "key"),
    [(0, CONSUMER_OFFSETS, "g"), (1, TRANSACTION_STATE, "x"), (2, SHARE_GROUP_STATE, "g:AAAAAAAAAAAAAAAAAAAD6A:0")],
)
def test_a_coordinator_is_the_leader_of_its_partition(nodes: Neighbourhood, kind: int, topic: str, key: str) -> None:
    leaders = [2, 2, 2]
    leaders[partition_for(key, 3)] = 3
    nodes.add(topic, *leaders)
    [found] = nodes.call(1, FindCoordinatorRequest("", kind, [key]), 6).coordinators
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 3, *ADDRESSES[3])
    fence(nodes, 3)
    [found] = nodes.call(1, FindCoordinatorRequest("", kind, [key]), 6).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def commit(nodes: Neighbourhood, node: int, group: str) -> int:
    partition = OffsetCommitRequestPartition(0, 5)
    request = OffsetCommitRequest(group, -1, "", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])
    return int(nodes.call(node, request, 8).topics[0].partitions[0].error_code)


def test_each_broker_lists_and_deletes_its_own_groups(nodes: Neighbourhood) -> None:
    nodes.add(CONSUMER_OFFSETS, 1, 2)
    groups = {partition_for(name, 2) + 1: name for name in ("a", "b")}
    assert [commit(nodes, node, groups[node]) for node in (1, 2)] == [ErrorCode.NONE] * 2
    assert commit(nodes, 1, groups[2]) == ErrorCode.NOT_COORDINATOR
    listed = {node: [one.group_id for one in nodes.call(node, ListGroupsRequest(), 4).groups] for node in (1, 2, 3)}
    assert listed == {1: [groups[1]], 2: [groups[2]], 3: []}
    results = nodes.call(1, DeleteGroupsRequest(["a", "b"]), 2).results
    codes = {one.group_id: one.error_code for one in results}
    assert codes == {groups[1]: ErrorCode.NONE, groups[2]: ErrorCode.NOT_COORDINATOR}


def test_each_broker_lists_its_own_transactions(nodes: Neighbourhood) -> None:
    nodes.add(TRANSACTION_STATE, 1, 2)
    names = {partition_for(name, 2) + 1: name for name in ("x", "y")}
    assert [nodes.call(node, InitProducerIdRequest(names[node], 1000), 4).error_code for node in (1, 2)] == [0, 0]
    assert nodes.call(2, InitProducerIdRequest(names[1], 1000), 4).error_code == ErrorCode.NOT_COORDINATOR
    listed = {
        node: [one.transactional_id for one in nodes.call(node, ListTransactionsRequest(), 1).transaction_states]
        for node in (1, 2, 3)
    }
    assert listed == {1: [names[1]], 2: [names[2]], 3: []}
    [one] = nodes.call(1, DescribeTransactionsRequest([names[2]]), 0).transaction_states
    assert one.error_code == ErrorCode.NOT_COORDINATOR


def test_a_partition_is_asked_about_at_its_leader(nodes: Neighbourhood) -> None:
    offsets = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(1, -1, -1)])])
    assert nodes.call(1, offsets, 7).topics[0].partitions[0].error_code == NOT_HERE
    records = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(1, -1)])], 1000)
    assert nodes.call(1, records, 2).topics[0].partitions[0].error_code == NOT_HERE
    epochs = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(1, -1, 0)])])
    assert nodes.call(1, epochs, 4).topics[0].partitions[0].error_code == NOT_HERE


def test_producers_are_told_of_by_any_replica(nodes: Neighbourhood) -> None:
    nodes.add("u", 2)
    producers = DescribeProducersRequest([TopicRequest("t", [0, 1]), TopicRequest("u", [0])])
    told = nodes.call(1, producers, 0)
    assert [[each.error_code for each in topic.partitions] for topic in told.topics] == [[0, 0], [NOT_HERE]]


def test_each_broker_has_its_own_directories_and_configs(nodes: Neighbourhood) -> None:
    nodes.add("u", 2)
    there = nodes.call(1, DescribeLogDirsRequest(None), 4).results[0].topics
    assert [topic.name for topic in there] == ["t"]
    asked = DescribeConfigsRequest([DescribeConfigsResource(4, "2", ["num.partitions"])])
    [result] = nodes.call(1, asked, 4).results
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unexpected broker id, expected 1 or empty string, but received 2",
    )
    assert nodes.call(2, asked, 4).results[0].configs[0].value == "1"


@pytest.mark.parametrize("version", [1, 7, 9])
def test_who_may_not_see_a_group_has_nothing_appended_for_it(nodes: Neighbourhood, version: int) -> None:
    nodes.add(CONSUMER_OFFSETS, 1, replicas=(1, 2))
    log = nodes.log(1, CONSUMER_OFFSETS, 0)

    def fetched() -> tuple[int, bool]:
        """Return the number of records appended, and whether the group was refused."""
        nodes.wait(1)
        end = log.log_end_offset
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])])
        if version >= 8:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g")])
        answer = nodes.call(1, request, version)
        said = [answer.error_code, *(group.error_code for group in answer.groups)]
        said += [one.error_code for topic in answer.topics for one in topic.partitions]
        return log.log_end_offset - end, ErrorCode.GROUP_AUTHORIZATION_FAILED in said

    assert fetched() == (1, False)
    nodes[1].services.authorize_by(Denies((AclOperation.DESCRIBE, AclResourceType.GROUP, "g")))
    assert fetched() == (0, True)
