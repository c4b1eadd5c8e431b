"""A request that failed as a whole: the fields of the answer that have its error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from pykafka_broker.broker.requests.router import served_versions, whole_request_failure
from pykafka_broker.broker.requests.routes import ROUTES
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykafka_broker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
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
    OffsetFetchRequestTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pykafka_broker.protocol.runtime import Fields, leaves
from tests.broker.requests.refusals import recorded, refused

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
CODE = ErrorCode.UNKNOWN_SERVER_ERROR
ID = b"i" * 16


def failure(request: Any, version: int) -> Any:
    """Return the answer that refuses a whole request, decoded as by a client."""
    response_type = SPECS[request.API_KEY].response_class()
    response = whole_request_failure(response_type, CODE, None, request, version)
    return response_type.decode(response.encode(version), version)


def told(value: Any, *path: str | int) -> list[tuple[str | int | bytes, ...]]:
    """Return every error in an answer with the names on the way to it."""
    if isinstance(value, list):
        return [found for item in value for found in told(item, *path)]
    if not isinstance(value, Fields):
        return []
    fields = {name: getattr(value, name) for name in value.__match_args__}
    own = next((v for k, v in fields.items() if k in IDENTITIES and v not in ("", None, b"\0" * 16)), None)
    here = path if own is None else (*path, own)
    below = [found for name, v in fields.items() if not name.startswith("error") for found in told(v, *here)]
    return ([here] if fields.get("error_code") == CODE else []) + below


IDENTITIES = (
    "user",
    "member_id",
    "feature",
    "topic_name",
    "name",
    "topic",
    "topic_id",
    "group_id",
    "key",
    "resource_name",
    "partition_index",
    "index",
    "partition_id",
)


@pytest.mark.parametrize(
    ("request_", "version", "expected"),
    [
        (
            ProduceRequest(
                topic_data=[TopicProduceData("a", partition_data=[PartitionProduceData(1), PartitionProduceData(2)])]
            ),
            9,
            [("a", 1), ("a", 2)],
        ),
        (
            ProduceRequest(topic_data=[TopicProduceData(topic_id=ID, partition_data=[PartitionProduceData(0)])]),
            13,
            [(ID, 0)],
        ),
        (FetchRequest(topics=[FetchTopic("a", partitions=[FetchPartition(3)])]), 4, [("a", 3)]),
        (FetchRequest(topics=[FetchTopic("a", partitions=[FetchPartition(3)])]), 12, [(), ("a", 3)]),
        (FetchRequest(topics=[FetchTopic(topic_id=ID, partitions=[FetchPartition(3)])]), 13, [()]),
        (FetchRequest(forgotten_topics_data=[ForgottenTopic("a", partitions=[1])]), 12, [()]),
        (
            ListOffsetsRequest(topics=[ListOffsetsTopic("a", [ListOffsetsPartition(5), ListOffsetsPartition(6)])]),
            5,
            [("a", 5), ("a", 6)],
        ),
        (MetadataRequest([MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")]), 9, [("a",), ("b",)]),
        (CreateTopicsRequest([CreatableTopic("a", 1, 1)]), 5, [("a",)]),
        (DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=30_000), 5, [("a",), ("b",)]),
        (DeleteTopicsRequest(topics=[DeleteTopicState(None, ID)]), 6, [(ID,)]),
        (DescribeConfigsRequest([DescribeConfigsResource(2, "a")]), 4, [("a",)]),
        (
            OffsetCommitRequest(
                "g", topics=[OffsetCommitRequestTopic("a", partitions=[OffsetCommitRequestPartition(7)])]
            ),
            8,
            [("a", 7)],
        ),
        (OffsetFetchRequest("g", [OffsetFetchRequestTopic("a", [1])]), 1, [("a", 1)]),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g"), OffsetFetchRequestGroup("h")]), 8, [("g",), ("h",)]),
        (DescribeGroupsRequest(["g", "h"]), 5, [("g",), ("h",)]),
        (FindCoordinatorRequest("k"), 3, [()]),
        (FindCoordinatorRequest(coordinator_keys=["k", "l"]), 4, [("k",), ("l",)]),
        (ElectLeadersRequest(0, [TopicPartitions("a", [1, 2])]), 0, [("a", 1), ("a", 2)]),
        (
            WriteTxnMarkersRequest([WritableTxnMarker(9, topics=[WritableTxnMarkerTopic("a", [1, 2])])]),
            1,
            [("a", 1), ("a", 2)],
        ),
        (
            AlterReplicaLogDirsRequest([AlterReplicaLogDir("/d", [AlterReplicaLogDirTopic("a", [1, 2])])]),
            1,
            [("a", 1), ("a", 2)],
        ),
        (
            AlterUserScramCredentialsRequest([ScramCredentialDeletion("a")], [ScramCredentialUpsertion("b")]),
            0,
            [("a",), ("b",)],
        ),
        (LeaveGroupRequest("g", members=[MemberIdentity("m")]), 3, [()]),
        (UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("f", 1)]), 1, [()]),
        (DescribeLogDirsRequest(), 3, [()]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Fields) else None,
)
def test_the_response_or_every_item_that_was_asked_about_has_the_error(
    request_: Any, version: int, expected: list[tuple[Any, ...]]
) -> None:
    assert told(failure(request_, version)) == expected


# What differs for a reason.
ON_PURPOSE = {
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "names its users in the order of a hash table",
    ApiKey.DESCRIBE_LOG_DIRS: "has no place for the error below version 3, where Kafka names no directory",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "lists topics, which a client does not look at beside an error of the group",
    ApiKey.OFFSET_FETCH: "lists topics, which a client does not look at beside an error of the group",
}


def without_texts(response: Any) -> Any:
    """Empty the error messages of an answer: whether they name the reason depends on the API and the error."""
    for struct, name, _ in leaves(response):
        if name == "error_message":
            struct.error_message = ""
    return response


def test_kafka_refuses_in_the_same_way() -> None:
    differ: dict[ApiKey, int] = {}
    for key, version, answer in recorded():
        response_type = SPECS[key].response_class()
        ours: Any = response_type()
        with suppress(FrameError):
            ours = whole_request_failure(response_type, DENIED, None, refused(key, version), version)
        ours = response_type.decode(ours.encode(version), version)
        if without_texts(ours) != without_texts(response_type.decode(answer, version)):
            differ[key] = version
    assert differ.keys() == ON_PURPOSE.keys(), differ


def test_the_message_goes_where_there_is_room_for_one() -> None:
    response_type = SPECS[ApiKey.CREATE_TOPICS].response_class()
    request = CreateTopicsRequest([CreatableTopic("a", 1, 1)])
    response: Any = whole_request_failure(response_type, ErrorCode.POLICY_VIOLATION, "not today", request, 7)
    assert (response.topics[0].error_code, response.topics[0].error_message) == (44, "not today")


def test_a_version_without_room_for_the_message_has_the_error_alone() -> None:
    response_type = SPECS[ApiKey.DESCRIBE_GROUPS].response_class()
    request = DescribeGroupsRequest(["g"])
    texts = {5: None, 6: "not today"}
    for version, text in texts.items():
        response: Any = whole_request_failure(response_type, DENIED, "not today", request, version)
        assert (response.groups[0].error_code, response.groups[0].error_message) == (DENIED, text)


def test_a_message_that_is_too_long_for_a_string_is_left_out() -> None:
    response_type = SPECS[ApiKey.CONSUMER_GROUP_HEARTBEAT].response_class()
    request = ConsumerGroupHeartbeatRequest("g")
    response: Any = whole_request_failure(response_type, DENIED, "x" * 32_768, request, 1)
    assert (response.error_code, response.error_message) == (DENIED, None)


def test_where_nothing_was_asked_about_there_is_no_room() -> None:
    with pytest.raises(FrameError, match="UNKNOWN_SERVER_ERROR has no place in a ListOffsetsResponse v5"):
        failure(ListOffsetsRequest(), 5)


@pytest.mark.parametrize("api_key", sorted(ROUTES), ids=lambda key: key.name)
def test_an_empty_request_of_any_version_is_answered_or_refused(api_key: ApiKey) -> None:
    request_type = SPECS[api_key].request_class()
    lowest, highest = served_versions(api_key)
    for version in range(lowest, highest + 1):
        try:
            assert told(failure(request_type(), version)) == [()]
        except FrameError:
            continue
