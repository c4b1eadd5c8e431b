"""UnregisterBroker v0, AddRaftVoter v0-v1 and RemoveRaftVoter v0 (KIP-500, KIP-853).

Behaviour: the cluster is this node. It can't be taken out of itself, where Kafka would let it and be left without a
broker; any other broker is not registered. The voter is static (kraft.version 0), so voters are neither added nor
removed: UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from pykafka_broker.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from pykafka_broker.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from pykafka_broker.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from pykafka_broker.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from pykafka_broker.protocol.messages.unregister_broker_response import UnregisterBrokerResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.UNREGISTER_BROKER)
def unregister_broker(
    broker: Broker, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    wanted = request.broker_id
    if wanted == broker.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=f"Broker {wanted} is the one that runs this cluster"
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {wanted} is not currently registered",
    )


@handles(ApiKey.ADD_RAFT_VOTER)
def add_raft_voter(broker: Broker, context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="Cluster doesn't support adding voter because the kraft.version feature is 0",
    )


@handles(ApiKey.REMOVE_RAFT_VOTER)
def remove_raft_voter(
    broker: Broker, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="Cluster doesn't support removing voter because the kraft.version feature is 0",
    )
