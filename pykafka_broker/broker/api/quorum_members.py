"""UnregisterBroker v0, AddRaftVoter v0-v1 and RemoveRaftVoter v0 (KIP-500, KIP-853).

Behaviour: a broker that is its own controller can't be taken out of itself, where Kafka would let it and be left
without a broker. This node is the only voter, and stays it: with kraft.version 0 voters are neither added nor removed
(UNSUPPORTED_VERSION, if the request is otherwise right), with 1 none can be added beside it, and the last is not
removed.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.metadata_source import Quorum
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster import registration
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from pykafka_broker.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from pykafka_broker.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from pykafka_broker.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from pykafka_broker.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from pykafka_broker.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from pykafka_broker.protocol.runtime import ZERO_UUID, uuid_text


@handles(ApiKey.UNREGISTER_BROKER)
def unregister_broker(
    controller: Controller, context: RequestContext, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    return registration.unregister_broker(controller, request)


@handles(ApiKey.ADD_RAFT_VOTER)
def add_raft_voter(services: Services, context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    services.authorise(context, AclOperation.ALTER, AclResourceType.CLUSTER)
    _check_cluster(services, request.cluster_id)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter")
    if not request.listeners:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Add voter request didn't include an endpoint of the controller")
    if services.metadata.kraft_version == 0:
        message = "Cluster doesn't support adding voter because the kraft.version feature is 0"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, message)
    voter = services.metadata.quorum
    if request.voter_id == voter.leader_id:
        asked = _key(request.voter_id, request.voter_directory_id)
        message = f"The voter id for {asked} is already part of the set of voters {_voters(voter)}."
        raise ApiError(ErrorCode.DUPLICATE_VOTER, message)
    raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "This controller can't have other voters beside it")


@handles(ApiKey.REMOVE_RAFT_VOTER)
def remove_raft_voter(
    services: Services, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    services.authorise(context, AclOperation.ALTER, AclResourceType.CLUSTER)
    _check_cluster(services, request.cluster_id)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
    if services.metadata.kraft_version == 0:
        message = "Cluster doesn't support removing voter because the kraft.version feature is 0"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, message)
    asked = _key(request.voter_id, request.voter_directory_id)
    message = f"Cannot remove voter {asked} from the set of voters {_voters(services.metadata.quorum)}"
    raise ApiError(ErrorCode.VOTER_NOT_FOUND, message)


def _voters(quorum: Quorum) -> str:
    return f"[{_key(quorum.leader_id, quorum.voter_directory_id)}]"


def _key(voter_id: int, directory_id: bytes) -> str:
    """A voter as Kafka spells it."""
    return f"ReplicaKey(id={voter_id}, directoryId={uuid_text(directory_id)})"


def _check_cluster(services: Services, wanted: str | None) -> None:
    if wanted is not None and wanted != services.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"The request is for cluster {wanted!r}, this is {services.cluster_id!r}"
        )
