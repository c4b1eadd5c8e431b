"""The topics, groups and transactions that a message mentions, for every API."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.control.traffic.mentions import keep, mentionable, mentions_of
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pykafka_broker.protocol.messages.describe_topic_partitions_request import Cursor, DescribeTopicPartitionsRequest
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.control.traffic.known import ORDERS_ID, Cluster


@pytest.mark.parametrize(
    ("request_", "places"),
    [
        (ProduceRequest(topic_data=[TopicProduceData("a", partition_data=[PartitionProduceData(1)])]), [("a", 1)]),
        (
            ProduceRequest(topic_data=[TopicProduceData(topic_id=ORDERS_ID, partition_data=[PartitionProduceData(0)])]),
            [("orders", 0)],
        ),
        (FetchRequest(topics=[FetchTopic("a", partitions=[FetchPartition(3)])]), [("a", 3)]),
        (FetchRequest(session_id=7), [("orders", 0), ("b", 2)]),
        (FetchRequest(forgotten_topics_data=[ForgottenTopic("a", partitions=[1])]), []),
        (CreateTopicsRequest([CreatableTopic("a", 1, 1)]), [("a", None)]),
        (DeleteTopicsRequest(topic_names=["a", "b"]), [("a", None), ("b", None)]),
        (DeleteTopicsRequest(topics=[DeleteTopicState(None, ORDERS_ID)]), [("orders", None)]),
        (
            DescribeConfigsRequest([DescribeConfigsResource(2, "a"), DescribeConfigsResource(4, "1")]),
            [("a", None)],
        ),
        (
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x", v3_and_below_topics=[AddPartitionsToTxnTopic("a", [1, 2])]
            ),
            [("a", 1), ("a", 2)],
        ),
        (
            OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("a", partition_indexes=[4])])]
            ),
            [("a", 4)],
        ),
        (
            StreamsGroupHeartbeatRequest(
                "g", topology=Topology(1, [Subtopology("0", ["a"], ["b.*"], [TopicInfo("c", 3)], ["d"])])
            ),
            [("a", None), ("c", None), ("d", None)],
        ),
        (DescribeTopicPartitionsRequest([], cursor=Cursor("a", 3)), [("a", 3)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_topics_and_partitions_are_found(request_: Any, places: list[tuple[str, int | None]]) -> None:
    known = Cluster({7: [(ORDERS_ID, 0), ("b", 2)]})
    assert list(mentions_of(request_, known).places) == places


@pytest.mark.parametrize(
    ("request_", "groups", "transactional_ids"),
    [
        (JoinGroupRequest("g"), {"g"}, set()),
        (DescribeGroupsRequest(["g", "h"]), {"g", "h"}, set()),
        (DeleteGroupsRequest(["g"]), {"g"}, set()),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g"), OffsetFetchRequestGroup("h")]), {"g", "h"}, set()),
        (FindCoordinatorRequest("g"), {"g"}, set()),
        (FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), set(), {"x"}),
        (ProduceRequest("x"), set(), {"x"}),
        (AddPartitionsToTxnRequest(v3_and_below_transactional_id="x"), set(), {"x"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_groups_and_transactional_ids_are_found(request_: Any, groups: set[str], transactional_ids: set[str]) -> None:
    found = mentions_of(request_, Cluster())
    assert (found.groups, found.transactional_ids) == (groups, transactional_ids)


@pytest.mark.parametrize(
    "request_",
    [
        MetadataRequest(topics=None),
        OffsetFetchRequest(group_id="g", topics=None),
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]),
        DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", None)]),
        DescribeLogDirsRequest(None),
        ElectLeadersRequest(topic_partitions=None),
        ListPartitionReassignmentsRequest(topics=None),
        DescribeTopicPartitionsRequest([]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_request_about_all_topics_is_told_from_one_that_names_none(request_: Any) -> None:
    assert mentions_of(request_, Cluster()).all_topics
    for none in (ConsumerGroupHeartbeatRequest("g"), MetadataRequest(topics=[]), OffsetFetchRequest(group_id="g")):
        assert not mentions_of(none, Cluster()).all_topics


def test_only_what_is_wanted_is_kept() -> None:
    def produce() -> ProduceRequest:
        partitions = [PartitionProduceData(0), PartitionProduceData(1)]
        return ProduceRequest(topic_data=[TopicProduceData("a", partition_data=partitions), TopicProduceData("b")])

    some = produce()
    assert keep(some, lambda topic, partition: (topic, partition) == ("a", 1), Cluster())
    assert mentions_of(some, Cluster()).places == {("a", 1): None}
    none = produce()
    assert not keep(none, lambda topic, partition: False, Cluster())
    assert none.topic_data == []


def test_what_requests_of_an_api_can_name() -> None:
    def named(api: ApiKey) -> tuple[bool, bool, bool]:
        found = mentionable(int(api))
        return bool(found.places), bool(found.groups), bool(found.transactional_ids)

    assert named(ApiKey.PRODUCE) == (True, False, True)
    assert named(ApiKey.FETCH) == (True, False, False)
    assert named(ApiKey.HEARTBEAT) == (False, True, False)
    assert named(ApiKey.FIND_COORDINATOR) == (False, True, True)
    assert named(ApiKey.STREAMS_GROUP_HEARTBEAT) == (True, True, False)
    assert named(ApiKey.TXN_OFFSET_COMMIT) == (True, True, True)
    assert named(ApiKey.INCREMENTAL_ALTER_CONFIGS) == (True, False, False)
    assert named(ApiKey.SASL_HANDSHAKE) == (False, False, False)
    assert all(mentionable(key) is not None for key in SPECS)
