"""Nodes and controllers of a cluster (KIP-595, KIP-836, KIP-853), API versions and features (KIP-584, KIP-778)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError, check
from pykafka_broker.protocol.enums import UpgradeType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.api_versions_response import ApiVersionsResponse
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.describe_cluster_response import DescribeClusterBroker
from pykafka_broker.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from pykafka_broker.protocol.messages.describe_quorum_response import ReplicaState
from pykafka_broker.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from pykafka_broker.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from pykafka_broker.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

# -- the quorum


_TOPIC = "__cluster_metadata"


class RaftVoterEndpoint(NamedTuple):
    """The address of a controller's listener."""

    name: str
    host: str
    port: int


class QuorumInfo(NamedTuple):
    """The state of the controller quorum. endpoints: of each controller, told since Kafka 3.9."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[ReplicaState]
    observers: list[ReplicaState]
    endpoints: dict[int, list[RaftVoterEndpoint]]


async def describe_quorum(client: Client) -> QuorumInfo:
    """Return the state of the quorum. Raises KafkaError."""
    await client.refresh(call="listNodes")
    answer = await client.ask(
        DescribeQuorumRequest([TopicData(_TOPIC, [PartitionData(0)])]), call="describeMetadataQuorum"
    )
    check(answer.error_code, answer.error_message or None)
    if len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        raise ClientError("the answer is not about the log of metadata")
    found = answer.topics[0].partitions[0]
    check(found.error_code, found.error_message or None)
    endpoints = {
        node.node_id: [RaftVoterEndpoint(each.name, each.host, each.port) for each in node.listeners]
        for node in answer.nodes
    }
    return QuorumInfo(
        found.leader_id, found.leader_epoch, found.high_watermark, found.current_voters, found.observers, endpoints
    )


async def add_voter(client: Client, node_id: int, directory_id: bytes, endpoints: Sequence[RaftVoterEndpoint]) -> None:
    """Add a controller to the quorum. Raises KafkaError."""
    listeners = [Listener(*each) for each in endpoints]
    request = AddRaftVoterRequest(None, client.request_timeout_ms, node_id, directory_id, listeners)
    answer = await client.ask(request, call="addRaftVoter", repeatable=False)
    check(answer.error_code, answer.error_message)


async def remove_voter(client: Client, node_id: int, directory_id: bytes) -> None:
    """Remove a controller from the quorum. Raises KafkaError."""
    request = RemoveRaftVoterRequest(None, node_id, directory_id)
    answer = await client.ask(request, call="removeRaftVoter", repeatable=False)
    check(answer.error_code, answer.error_message)


# -- registered nodes


async def brokers_with_fenced(client: Client) -> list[DescribeClusterBroker]:
    """Return all registered brokers, also those that are fenced or down (KIP-1073). Raises KafkaError."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    answer = await client.ask(request, versions=(2, 2), call="listNodes")
    check(answer.error_code, answer.error_message)
    found: list[DescribeClusterBroker] = answer.brokers
    return found


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Remove a broker's registration. Raises KafkaError."""
    answer = await client.ask(UnregisterBrokerRequest(broker_id), call="unregisterBroker")
    check(answer.error_code, answer.error_message)


async def unregister_controller(client: Client, controller_id: int) -> None:
    """Remove a controller's registration. Raises KafkaError."""
    answer = await client.ask(UnregisterControllerRequest(controller_id), call="unregisterController")
    check(answer.error_code, answer.error_message)


# -- features


_SOFTWARE = "pykafka-broker-tools"


async def api_versions(client: Client, node: int | None = None, *, call: str | None = None) -> ApiVersionsResponse:
    """Return the API versions and features of a node, or of any node. Raises KafkaError."""
    request = ApiVersionsRequest(_SOFTWARE, "1")
    answer: ApiVersionsResponse = await client.ask(request, node, call=call)
    check(answer.error_code)
    return answer


async def update_features(
    client: Client, levels: Mapping[str, int], kind: UpgradeType, *, validate_only: bool
) -> dict[str, ClientError | None]:
    """Change feature levels; returns None or the error of each feature.

    Raises:
        ClientError: the whole request was refused.
    """
    updates = [
        FeatureUpdateKey(name, level, upgrade_type=kind, allow_downgrade=False) for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(client.request_timeout_ms, updates, validate_only)
    answer = await client.ask_controller(request, versions=(1, 2), call="updateFeatures", repeatable=False)
    if answer.error_code != ErrorCode.NONE:
        return dict.fromkeys(levels, KafkaError(answer.error_code, answer.error_message))
    found: dict[str, ClientError | None] = dict.fromkeys(levels)
    for each in answer.results:
        if each.error_code != ErrorCode.NONE:
            found[each.feature] = KafkaError(each.error_code, each.error_message)
    return found
