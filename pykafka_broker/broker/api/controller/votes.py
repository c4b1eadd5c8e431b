"""Vote v0-v2, BeginQuorumEpoch and EndQuorumEpoch v0-v1, UpdateRaftVoter v0 (KIP-595, KIP-853, KIP-996).

Behaviour: this node is the only voter, so nobody else is given a vote, and nobody else can begin or end an epoch. Who
asks in an older epoch is told the leader of this one. The voter is static (kraft.version 0) and can't be updated.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.controller_routes import CONTROLLERS
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
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
from pykafka_broker.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from pykafka_broker.protocol.messages.update_raft_voter_response import CurrentLeader, UpdateRaftVoterResponse
from pykafka_broker.protocol.messages.vote_request import VoteRequest

Asking = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest

_ADDRESSES_FROM = 1
_ANYBODY = -1


def _quorum(services: Services, context: RequestContext, request: Asking) -> RaftLeader:
    """Raises what is wrong with the whole request."""
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    quorum = services.active_controller.quorum
    quorum.check_cluster(request.cluster_id)
    if [(topic.topic_name, len(topic.partitions)) for topic in request.topics] != [(CLUSTER_METADATA, 1)]:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return quorum


def _refusal(quorum: RaftLeader, epoch: int) -> ErrorCode:
    """Of a leader of that epoch: it can't be one."""
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < quorum.epoch else ErrorCode.INVALID_REQUEST


@handles(ApiKey.VOTE, CONTROLLERS)
def vote(services: Services, context: RequestContext, request: VoteRequest) -> voted.VoteResponse:
    try:
        quorum = _quorum(services, context, request)
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
    if context.api_version >= _ADDRESSES_FROM:
        address = quorum.endpoint(context.connection.listener)
        response.node_endpoints = [voted.NodeEndpoint(services.node_id, address.host, address.port)]
    return response


@handles(ApiKey.BEGIN_QUORUM_EPOCH, CONTROLLERS)
def begin_epoch(
    services: Services, context: RequestContext, request: BeginQuorumEpochRequest
) -> begun.BeginQuorumEpochResponse:
    try:
        quorum = _quorum(services, context, request)
    except ApiError as error:
        return begun.BeginQuorumEpochResponse(error.code)
    topics = [
        begun.TopicData(
            topic.topic_name,
            [
                begun.PartitionData(
                    each.partition_index, _refusal(quorum, each.leader_epoch), services.node_id, quorum.epoch
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    response = begun.BeginQuorumEpochResponse(topics=topics)
    if context.api_version >= _ADDRESSES_FROM:
        address = quorum.endpoint(context.connection.listener)
        response.node_endpoints = [begun.NodeEndpoint(services.node_id, address.host, address.port)]
    return response


@handles(ApiKey.END_QUORUM_EPOCH, CONTROLLERS)
def end_epoch(
    services: Services, context: RequestContext, request: EndQuorumEpochRequest
) -> ended.EndQuorumEpochResponse:
    try:
        quorum = _quorum(services, context, request)
    except ApiError as error:
        return ended.EndQuorumEpochResponse(error.code)
    topics = [
        ended.TopicData(
            topic.topic_name,
            [
                ended.PartitionData(
                    each.partition_index, _refusal(quorum, each.leader_epoch), services.node_id, quorum.epoch
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    response = ended.EndQuorumEpochResponse(topics=topics)
    if context.api_version >= _ADDRESSES_FROM:
        address = quorum.endpoint(context.connection.listener)
        response.node_endpoints = [ended.NodeEndpoint(services.node_id, address.host, address.port)]
    return response


@handles(ApiKey.UPDATE_RAFT_VOTER, CONTROLLERS)
def update_voter(
    services: Services, context: RequestContext, request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    quorum = services.active_controller.quorum
    quorum.check_cluster(request.cluster_id)
    address = quorum.endpoint(context.connection.listener)
    leader = CurrentLeader(services.node_id, quorum.epoch, address.host, address.port)
    return UpdateRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, current_leader=leader)
