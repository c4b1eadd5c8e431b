"""Requests on the listeners of a controller, and their answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.controller_routes import CONTROLLER_ROUTES, FORWARDED
from pykafka_broker.errors import MALFORMED, FrameError
from pykafka_broker.log.checkpoints import METADATA_TOPIC_ID
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pykafka_broker.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState
from pykafka_broker.protocol.messages.alter_partition_request import PartitionData as AlterPartition
from pykafka_broker.protocol.messages.alter_partition_request import TopicData as AlterTopic
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest, DirectoryData
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import PartitionData as AssignPartition
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import TopicData as AssignTopic
from pykafka_broker.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from pykafka_broker.protocol.messages.begin_quorum_epoch_request import PartitionData as BeginPartition
from pykafka_broker.protocol.messages.begin_quorum_epoch_request import TopicData as BeginTopic
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from pykafka_broker.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreateTopicsResponse
from pykafka_broker.protocol.messages.default_principal_data import DefaultPrincipalData
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from pykafka_broker.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from pykafka_broker.protocol.messages.end_quorum_epoch_request import PartitionData as EndPartition
from pykafka_broker.protocol.messages.end_quorum_epoch_request import TopicData as EndTopic
from pykafka_broker.protocol.messages.envelope_request import EnvelopeRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.vote_request import PartitionData as VotePartition
from pykafka_broker.protocol.messages.vote_request import TopicData as VoteTopic
from pykafka_broker.protocol.messages.vote_request import VoteRequest
from tests.broker.controller_node import CONNECTION, NODE, NOW, ControllerNode, Waiting
from tests.broker.frames import framed

ANYBODY = b"\x00\x00" + DefaultPrincipalData("User", "alice").encode(0)
LOCALHOST = bytes([127, 0, 0, 1])


@pytest.fixture
def node(tmp_path: Path) -> ControllerNode:
    return ControllerNode(tmp_path)


class Denying:
    """Allows everything but these operations to these people, and notes who asked for what."""

    def __init__(self, *denied: tuple[str, AclOperation]) -> None:
        self.denied = denied
        self.asked: list[tuple[str, str, AclOperation]] = []

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        self.asked.append((principal, host, operation))
        return (principal, operation) not in self.denied

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        return True


def authorize_by(node: ControllerNode, authorizer: Any) -> None:
    node.whole.node.authorize_by(authorizer)
    node.services.authorize_by(authorizer)


def enveloped(
    request: Any, version: int, principal: bytes | None = ANYBODY, host: bytes = LOCALHOST
) -> EnvelopeRequest:
    return EnvelopeRequest(bytes(framed(request, version, correlation_id=99)), principal, host)


def test_what_kafka_lists_is_listed(node: ControllerNode) -> None:
    answer = node.ask(ApiVersionsRequest("apache-kafka-java", "4.4.0"))
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    keys = {1, *range(17, 21), *range(29, 34), *range(36, 42), *range(43, 47), *range(49, 61), 62, 63, 64, 67, 70, 73}
    assert {*served} == {*keys, 80, 81, 82, 94}
    assert served[1] == (4, 18)
    assert [served[key] for key in (52, 53, 54, 55, 59, 62, 63)] == [
        (0, 2),
        (0, 1),
        (0, 1),
        (0, 2),
        (0, 1),
        (0, 4),
        (0, 2),
    ]
    assert {each.name: each.max_version for each in answer.supported_features}["metadata.version"] == 33
    assert answer.finalized_features_epoch == node.metadata.applied_offset


def test_nothing_else_is_served(node: ControllerNode) -> None:
    with pytest.raises(FrameError, match="API key 3 is not served by a controller"):
        node.ask(MetadataRequest())


def test_who_asks_as_a_client_what_a_controller_serves_is_hung_up_on(node: ControllerNode) -> None:
    with pytest.raises(FrameError, match="is not served"):
        node.router.dispatch(CONNECTION, framed(BrokerHeartbeatRequest(1, 1), 0))


def test_only_who_may_act_for_the_cluster_is_heard(node: ControllerNode) -> None:
    authorize_by(node, Denying(("User:ANONYMOUS", AclOperation.CLUSTER_ACTION)))
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert node.register(1).error_code == denied
    assert node.ask(BrokerHeartbeatRequest(1, 1)).error_code == denied
    assert node.ask(AllocateProducerIdsRequest(1, 1)).error_code == denied
    assert node.ask(fetch(1)).error_code == denied
    sealed = node.ask(enveloped(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7))
    assert (sealed.error_code, sealed.response_data) == (denied, None)


# -- producer ids


def test_producer_ids_go_to_brokers_in_blocks(node: ControllerNode) -> None:
    node.join(1, 2)
    answers = [node.ask(AllocateProducerIdsRequest(each, node.image.brokers[each].epoch)) for each in (1, 2, 1)]
    assert [(each.producer_id_start, each.producer_id_len) for each in answers] == [
        (0, 1000),
        (1000, 1000),
        (2000, 1000),
    ]
    assert node.ask(AllocateProducerIdsRequest(1, 1)).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert node.ask(AllocateProducerIdsRequest(7, 1)).error_code == ErrorCode.STALE_BROKER_EPOCH


# -- Envelope


def test_a_client_above_its_quota_holds_up_no_broker(node: ControllerNode) -> None:
    node.join(1)
    touched: list[int] = []
    node.services.mute = lambda connection_id, until: touched.append(connection_id)
    node.services.time_network = touched.append
    broker = ConnectionContext(1, "CONTROLLER", ("127.0.0.1", 9093), ("127.0.0.1", 50000))
    broker.network_ns = 0  # it is timed already
    quota = EntryData([EntityData("user", "alice")], [OpData("controller_mutation_rate", 0.01)])
    node.ask(enveloped(AlterClientQuotasRequest([quota]), 1), connection=broker)
    sealed = node.ask(enveloped(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 5), connection=broker)
    answer = CreateTopicsResponse.decode(sealed.response_data[5:], 5)
    assert (answer.topics[0].error_code, answer.throttle_time_ms > 0) == (0, True)
    assert touched == []


def test_an_envelope_is_served_as_if_its_client_had_come(node: ControllerNode) -> None:
    node.join(1)
    authorizer = Denying()
    authorize_by(node, authorizer)
    sealed = node.ask(enveloped(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 4, host=bytes(15) + b"\x01"))
    assert sealed.error_code == 0
    assert sealed.response_data[:4] == (99).to_bytes(4, "big")
    created = CreateTopicsResponse.decode(sealed.response_data[4:], 4)
    assert [(each.name, each.error_code) for each in created.topics] == [("t", 0)]
    assert "t" in node.image.topics
    assert ("User:ANONYMOUS", "127.0.0.1", AclOperation.CLUSTER_ACTION) in authorizer.asked
    assert ("User:alice", "0:0:0:0:0:0:0:1", AclOperation.CREATE) in authorizer.asked, "as at a broker"


def test_what_is_denied_to_its_client_is_denied_inside(node: ControllerNode) -> None:
    node.join(1)
    authorize_by(node, Denying(("User:alice", AclOperation.CREATE)))
    sealed = node.ask(enveloped(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7))
    created = CreateTopicsResponse.decode(sealed.response_data[5:], 7)
    assert (sealed.error_code, created.topics[0].error_code) == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


TOPIC = CreateTopicsRequest([CreatableTopic("t", 1, 1)])


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (enveloped(TOPIC, 7, principal=b"\x00"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (enveloped(TOPIC, 7, principal=None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (enveloped(TOPIC, 7, principal=b"\x00\x09" + ANYBODY[2:]), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (enveloped(TOPIC, 7, host=b"abc"), ErrorCode.INVALID_REQUEST),
        (enveloped(MetadataRequest(), 9), ErrorCode.INVALID_REQUEST),
        (enveloped(BrokerHeartbeatRequest(1, 1), 0), ErrorCode.INVALID_REQUEST),
        (EnvelopeRequest(b"", ANYBODY, LOCALHOST), ErrorCode.INVALID_REQUEST),
        (EnvelopeRequest(b"\x00\x13\x00\x63" + bytes(20), ANYBODY, LOCALHOST), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeRequest(b"\x00\x13\x00\x07" + bytes(9), ANYBODY, LOCALHOST), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_bad_envelope_is_returned(node: ControllerNode, request_: EnvelopeRequest, error: ErrorCode) -> None:
    sealed = node.ask(request_)
    assert (sealed.error_code, sealed.response_data) == (error, None)


def test_what_may_be_forwarded_is_served(node: ControllerNode) -> None:
    assert {*CONTROLLER_ROUTES} >= FORWARDED


# -- Fetch


def fetch(
    replica: int, offset: int = 0, *, last_epoch: int = 0, wait: int = 500, epoch: int = 1, known: int = -1
) -> FetchRequest:
    partition = FetchPartition(0, epoch, offset, last_epoch, replica_directory_id=b"D" * 16, high_watermark=known)
    return FetchRequest(
        replica_state=ReplicaState(replica), max_wait_ms=wait, topics=[FetchTopic("", METADATA_TOPIC_ID, [partition])]
    )


def test_an_observer_is_given_what_there_is_and_then_waits(node: ControllerNode) -> None:
    answer = node.ask(fetch(1)).responses[0].partitions[0]
    end = node.metadata.applied_offset + 1
    assert (answer.error_code, answer.high_watermark, len(answer.records) > 0) == (0, end, True)
    waiting = node.ask(fetch(1, end, last_epoch=1, known=end))
    assert isinstance(waiting, Waiting)
    node.settle(NOW + 499)
    assert not waiting.is_answered
    node.join(2)
    node.settle(NOW + 499)
    assert waiting.is_answered
    answer = waiting.reply.responses[0].partitions[0]
    assert answer.high_watermark > end
    assert len(answer.records) > 0


def test_one_that_waits_in_vain_is_told_so(node: ControllerNode) -> None:
    end = node.metadata.applied_offset + 1
    waiting = node.ask(fetch(1, end, last_epoch=1, known=end))
    node.on_deadline(NOW + 500)
    answer = waiting.reply.responses[0].partitions[0]
    assert (answer.error_code, answer.high_watermark, len(answer.records)) == (0, end, 0)
    assert [(each.node_id, each.port) for each in waiting.reply.node_endpoints] == [(NODE, 9093)]


def test_one_that_does_not_know_the_high_watermark_is_told_at_once(node: ControllerNode) -> None:
    end = node.metadata.applied_offset + 1
    answer = node.ask(fetch(1, end, last_epoch=1, known=end - 1)).responses[0].partitions[0]
    assert (answer.high_watermark, len(answer.records)) == (end, 0)


# -- the rest


def test_controllers_are_described_to_who_asks_for_them(node: ControllerNode) -> None:
    answer = node.ask(DescribeClusterRequest(endpoint_type=2))
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, node.cluster_id, NODE)
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [(NODE, "127.0.0.1", 9093)]
    assert node.ask(DescribeClusterRequest(endpoint_type=1)).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert node.ask(DescribeClusterRequest(endpoint_type=3)).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_observers_are_described(node: ControllerNode) -> None:
    end = node.metadata.applied_offset + 1
    node.ask(fetch(5, end, last_epoch=1, wait=0, known=end))
    node.ask(fetch(6, 3, last_epoch=1, wait=0))
    request = DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])])
    answer = node.ask(request)
    quorum = answer.topics[0].partitions[0]
    assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (NODE, 1, end)
    assert [each.replica_id for each in quorum.current_voters] == [NODE]
    wall = node.clock.wall
    assert [
        (each.replica_id, each.replica_directory_id, each.log_end_offset, each.last_fetch_timestamp)
        for each in quorum.observers
    ] == [(5, b"D" * 16, end, wall), (6, b"D" * 16, 3, wall)]
    assert [each.last_caught_up_timestamp for each in quorum.observers] == [wall, -1]
    assert [(each.node_id, [(one.name, one.port) for one in each.listeners]) for each in answer.nodes] == [
        (NODE, [("CONTROLLER", 9093)])
    ]
    node.clock.set(NOW + 300_000)
    assert node.ask(request).topics[0].partitions[0].observers == []


def vote(epoch: int, *, voter: int = NODE, pre_vote: bool = True, last_epoch: int = 1) -> VoteRequest:
    asked = VotePartition(0, epoch, 102, last_offset_epoch=last_epoch, last_offset=100, pre_vote=pre_vote)
    return VoteRequest(None, voter, [VoteTopic("__cluster_metadata", [asked])])


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (vote(0), ErrorCode.FENCED_LEADER_EPOCH),
        (vote(1), ErrorCode.NONE),
        (vote(5, pre_vote=False), ErrorCode.NONE),
        (vote(1, voter=3), ErrorCode.INVALID_VOTER_KEY),
        (vote(1, pre_vote=False), ErrorCode.INVALID_REQUEST),
    ],
)
def test_nobody_else_is_given_a_vote(node: ControllerNode, request_: VoteRequest, error: ErrorCode) -> None:
    answer = node.ask(request_).topics[0].partitions[0]
    assert (answer.error_code, answer.vote_granted) == (error, False)
    assert (answer.leader_id, answer.leader_epoch) == (NODE, 1)


def test_a_vote_in_another_cluster_is_none(node: ControllerNode) -> None:
    request = vote(1)
    request.cluster_id = "another"
    answer = node.ask(request)
    assert (answer.error_code, answer.topics) == (ErrorCode.INCONSISTENT_CLUSTER_ID, [])


def test_nobody_else_begins_or_ends_an_epoch(node: ControllerNode) -> None:
    for epoch, error in ((0, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.INVALID_REQUEST)):
        began = BeginTopic("__cluster_metadata", [BeginPartition(0, bytes(16), 102, epoch)])
        ends = EndTopic("__cluster_metadata", [EndPartition(0, 102, epoch)])
        for request in (BeginQuorumEpochRequest(None, NODE, [began]), EndQuorumEpochRequest(None, [ends])):
            answer = node.ask(request)
            assert [(each.error_code, each.leader_id) for each in answer.topics[0].partitions] == [(error, NODE)]
            assert [each.port for each in answer.node_endpoints] == [9093]
    other = EndTopic("__cluster_metadata", [EndPartition(1, 102, 0)])
    for topics in ([], [other], [ends, ends]):
        assert node.ask(EndQuorumEpochRequest(None, topics)).error_code == ErrorCode.INVALID_REQUEST
    assert node.ask(BeginQuorumEpochRequest("another", NODE, [began])).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_who_has_not_authenticated_is_asked_to_do_so(node: ControllerNode) -> None:
    stranger = ConnectionContext(2, "CONTROLLER", ("127.0.0.1", 9093), ("127.0.0.1", 50001))
    stranger.authenticated = False
    with pytest.raises(FrameError, match="before it has authenticated"):
        node.ask(BrokerHeartbeatRequest(1, 1), connection=stranger)


# -- configs of brokers


def alter(kind: int, name: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, [AlterableConfig(key, 0, value)])])


def test_settings_of_brokers_are_taken_as_these_have_checked_them(node: ControllerNode) -> None:
    node.join(1)
    for name in ("1", ""):
        sealed = node.ask(enveloped(alter(4, name, "num.io.threads", "1"), 1))
        answer = IncrementalAlterConfigsResponse.decode(sealed.response_data[5:], 1)
        assert [(each.error_code, each.resource_name) for each in answer.responses] == [(0, name)]
        assert node.image.config(4, name)["num.io.threads"] == "1"
    answer = node.ask(alter(4, "x", "num.io.threads", "1")).responses[0]
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Node id must be an integer, but it is: x",
    )


def test_nobody_sets_anything_of_a_node_that_is_not_there(node: ControllerNode) -> None:
    answer = node.ask(alter(4, "7", "num.io.threads", "1")).responses[0]
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "No node with id 7 found.",
    )


def test_what_concerns_the_cluster_is_looked_at_all_the_same(node: ControllerNode) -> None:
    node.join(1)
    answer = node.ask(alter(4, "1", "min.insync.replicas", "2")).responses[0]
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "cannot be altered while ELR is enabled" in answer.error_message


def test_a_token_is_made_for_who_has_logged_in_at_a_broker(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path, delegation_token_secret_key="secret")
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    sealed = node.ask(enveloped(request, 3))
    made = CreateDelegationTokenResponse.decode(sealed.response_data[5:], 3)
    assert (made.error_code, made.principal_name, len(made.hmac) > 0) == (0, "alice", True)
    with_a_token = b"\x00\x00" + DefaultPrincipalData("User", "alice", True).encode(0)
    for asked in (node.ask(enveloped(request, 3, with_a_token)), node.ask(request)):
        if hasattr(asked, "response_data"):
            asked = CreateDelegationTokenResponse.decode(asked.response_data[5:], 3)
        assert asked.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


# -- what brokers ask about partitions


def test_leaders_ask_for_another_isr_and_brokers_name_directories(node: ControllerNode) -> None:
    node.join(1, 2)
    assert node.ask(CreateTopicsRequest([CreatableTopic("t", 1, 2)])).topics[0].error_code == 0
    topic = node.image.topics["t"]
    leader = topic.partitions[0].leader
    epochs = {each: node.image.brokers[each].epoch for each in (1, 2)}
    wanted = AlterPartition(0, 0, [], [BrokerState(leader, epochs[leader])], 0, 0)
    answer = node.ask(
        AlterPartitionRequest(leader, epochs[leader], [AlterTopic(topic_id=topic.id, partitions=[wanted])])
    )
    assert [(each.error_code, each.isr) for each in answer.topics[0].partitions] == [(0, [leader])]
    place = node.image.brokers[leader].log_dirs[0]
    told = DirectoryData(place, [AssignTopic(topic.id, [AssignPartition(0)])])
    answer = node.ask(AssignReplicasToDirsRequest(leader, epochs[leader], [told]))
    assert answer.directories[0].topics[0].partitions[0].error_code == 0


# -- a node that is a broker too


def test_a_broker_asks_the_controller_in_its_own_process(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path, roles="broker,controller")
    answers: list[Any] = []
    node.metadata.ask(AllocateProducerIdsRequest(NODE, node.image.brokers[NODE].epoch), answers.append, 1000)
    assert [(each.error_code, each.producer_id_len) for each in answers] == [(0, 1000)]
    node.metadata.ask(AllocateProducerIdsRequest(NODE, 0), answers.append, 1000)
    assert answers[1].error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_combined_node_is_never_silent_and_keeps_its_id(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path, roles="broker,controller")
    node.join(1)
    for passed in (4_000, 8_000, 9_100):
        node.on_deadline(NOW + passed)
    assert node.image.brokers[1].fenced
    assert not node.image.brokers[NODE].fenced
    assert node.register(NODE).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_combined_node_puts_aside_what_is_not_its_own(tmp_path: Path) -> None:
    """A partition that was moved to others, or deleted, while its disk was away is put aside."""
    ControllerNode(tmp_path, roles="broker,controller").stop(NOW)
    (tmp_path / "gone-0").mkdir()
    node = ControllerNode(tmp_path, roles="broker,controller")
    assert not node.whole.node.logs.exists("gone", 0)
    assert len(list(tmp_path.glob("gone-0.*-stray"))) == 1


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        (4, "9", f"Unexpected broker id, expected {NODE} or empty string, but received 9"),
        (4, "x", "Broker id must be an integer, but it is: x"),
        (8, "9", f"Unexpected broker id, expected {NODE} but received 9"),
        (8, "x", "Broker id must be an integer, but it is: x"),
        (8, "", "Broker id must not be empty"),
        (7, "q", MALFORMED),
    ],
)
def test_a_controller_describes_its_own_configs_and_nobody_elses(
    node: ControllerNode, kind: int, name: str, says: str
) -> None:
    """A controller describes its own configs and refuses those of others in Kafka's words."""
    [own] = node.ask(DescribeConfigsRequest([DescribeConfigsResource(4, str(NODE), ["node.id"])])).results
    assert [(each.name, each.value) for each in own.configs] == [("node.id", str(NODE))]
    [other] = node.ask(DescribeConfigsRequest([DescribeConfigsResource(kind, name)])).results
    assert (other.error_code, other.error_message) == (ErrorCode.INVALID_REQUEST, says)
