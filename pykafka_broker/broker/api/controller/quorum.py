"""The metadata quorum at its leader: Fetch v4-v18 and FetchSnapshot v0-v1 of the metadata log (KIP-595, KIP-630), Vote
v0-v2, BeginQuorumEpoch and EndQuorumEpoch v0-v1, UpdateRaftVoter v0 (KIP-595, KIP-853, KIP-996).

Fetch: an observer that has everything waits until there is more, until the high watermark is above the one that the
observer knows, or until `max_wait_ms` is over. For everything else see `cluster/raft/leader.py`.

Votes and epochs: this node is the only voter, so no other node is given a vote, and none can begin or end an epoch. A
request of an older epoch is told the leader of the current epoch. The voter is static (kraft.version 0) and can't be
updated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pykafka_broker.broker.api.cluster import names_metadata_log
from pykafka_broker.broker.controller import METADATA
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.controller_routes import CONTROLLERS
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Parked
from pykafka_broker.cluster.raft.leader import RaftLeader
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import begin_quorum_epoch_response as begun
from pykafka_broker.protocol.messages import end_quorum_epoch_response as ended
from pykafka_broker.protocol.messages import vote_response as voted
from pykafka_broker.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from pykafka_broker.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import FetchResponse
from pykafka_broker.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from pykafka_broker.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from pykafka_broker.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from pykafka_broker.protocol.messages.update_raft_voter_response import CurrentLeader, UpdateRaftVoterResponse
from pykafka_broker.protocol.messages.vote_request import VoteRequest

_ADDRESSES_FROM = 1
_ANYBODY = -1
R = TypeVar("R")


def _quorum(services: Services, context: RequestContext) -> RaftLeader:
    """Return the quorum for a request of a broker or a voter. Raises NOT_CONTROLLER elsewhere."""
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    return services.active_controller.quorum


@handles(ApiKey.FETCH, CONTROLLERS)
def fetch(services: Services, context: RequestContext, request: FetchRequest) -> FetchResponse | Parked:
    try:
        quorum = _quorum(services, context)
        version, listener = context.api_version, context.connection.listener

        def poll(now: int) -> FetchResponse | None:
            return quorum.fetch(request, version, listener, services.clock.wall)

        def expire(now: int) -> FetchResponse:
            return poll(now) or quorum.nothing_new(version, listener)

        answer = poll(context.now)
        if answer is not None or request.max_wait_ms <= 0:
            return answer or quorum.nothing_new(version, listener)
        return Parked(context.now + request.max_wait_ms, keys=(METADATA,), poll=poll, expire=expire)
    except ApiError as error:  # the answer names no partitions
        return FetchResponse(error_code=error.code)


@handles(ApiKey.FETCH_SNAPSHOT, CONTROLLERS)
def fetch_snapshot(services: Services, context: RequestContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    quorum = _quorum(services, context)
    try:
        return quorum.fetch_snapshot(request, context.api_version, context.connection.listener)
    except ApiError as error:
        return FetchSnapshotResponse(error_code=error.code)


def _checked_quorum(
    services: Services, context: RequestContext, request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
) -> RaftLeader:
    """Return the quorum for a request about the metadata log alone. Raises INVALID_REQUEST for other partitions."""
    quorum = _quorum(services, context)
    quorum.check_cluster(request.cluster_id)
    if not names_metadata_log(request.topics):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return quorum


def _add_address(response: Any, endpoint: Any, services: Services, context: RequestContext) -> None:
    """Add the node's address to an answer, in versions with addresses."""
    if context.api_version >= _ADDRESSES_FROM:
        address = services.active_controller.quorum.endpoint(context.connection.listener)
        response.node_endpoints = [endpoint(services.node_id, address.host, address.port)]


@handles(ApiKey.VOTE, CONTROLLERS)
def vote(services: Services, context: RequestContext, request: VoteRequest) -> voted.VoteResponse:
    try:
        quorum = _checked_quorum(services, context, request)
    except ApiError as error:  # the answer names no partitions then
        return voted.VoteResponse(error.code)
    wanted = request.topics[0].partitions[0]
    code = ErrorCode.NONE
    if wanted.replica_epoch < quorum.epoch:
        code = ErrorCode.FENCED_LEADER_EPOCH
    elif request.voter_id not in (_ANYBODY, services.node_id):
        code = ErrorCode.INVALID_VOTER_KEY
    elif not wanted.pre_vote and wanted.last_offset_epoch >= wanted.replica_epoch:
        code = ErrorCode.INVALID_REQUEST
    answer = voted.PartitionData(0, code, services.node_id, quorum.epoch, vote_granted=False)
    response = voted.VoteResponse(topics=[voted.TopicData(CLUSTER_METADATA, [answer])])
    _add_address(response, voted.NodeEndpoint, services, context)
    return response


@handles(ApiKey.BEGIN_QUORUM_EPOCH, CONTROLLERS)
def begin_epoch(
    services: Services, context: RequestContext, request: BeginQuorumEpochRequest
) -> begun.BeginQuorumEpochResponse:
    return _refused_epoch(services, context, request, begun, begun.BeginQuorumEpochResponse)


@handles(ApiKey.END_QUORUM_EPOCH, CONTROLLERS)
def end_epoch(
    services: Services, context: RequestContext, request: EndQuorumEpochRequest
) -> ended.EndQuorumEpochResponse:
    return _refused_epoch(services, context, request, ended, ended.EndQuorumEpochResponse)


def _refused_epoch(
    services: Services,
    context: RequestContext,
    request: BeginQuorumEpochRequest | EndQuorumEpochRequest,
    structs: Any,
    response: Callable[..., R],
) -> R:
    """Refuse a request of another leader, since the node is the only voter.

    Args:
        structs: the module of the response, with its PartitionData, TopicData and NodeEndpoint.
        response: the class of the response.
    """
    try:
        quorum = _checked_quorum(services, context, request)
    except ApiError as error:
        return response(error.code)
    wanted = request.topics[0].partitions[0]
    code = ErrorCode.FENCED_LEADER_EPOCH if wanted.leader_epoch < quorum.epoch else ErrorCode.INVALID_REQUEST
    answer = structs.PartitionData(wanted.partition_index, code, services.node_id, quorum.epoch)
    refusal = response(topics=[structs.TopicData(CLUSTER_METADATA, [answer])])
    _add_address(refusal, structs.NodeEndpoint, services, context)
    return refusal


@handles(ApiKey.UPDATE_RAFT_VOTER, CONTROLLERS)
def update_voter(
    services: Services, context: RequestContext, request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    quorum = _quorum(services, context)
    quorum.check_cluster(request.cluster_id)
    address = quorum.endpoint(context.connection.listener)
    leader = CurrentLeader(services.node_id, quorum.epoch, address.host, address.port)
    return UpdateRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, current_leader=leader)
