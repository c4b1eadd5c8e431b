"""The APIs on the listeners of a controller: modules, versions, and the router.

Rule: as in `routes.py`: an API that is not in the table closes its connection, as with Kafka, and the answer to
ApiVersions is made from the table. Requests that clients and controllers ask in the same way have the handlers of
clients. Imported by a node that is a controller for other nodes.
"""

from __future__ import annotations

from collections import ChainMap

from pykafka_broker.broker.requests.router import CLIENTS, Endpoint, Router, Table
from pykafka_broker.broker.requests.routes import ROUTES, Route
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode

_LOST = ErrorCode.NOT_CONTROLLER

# The requests in an Envelope: of clients to brokers, for decisions of a controller (KIP-590).
FORWARDED = frozenset(
    [
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UNREGISTER_CONTROLLER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    ]
)
# Served as on the listeners of clients, by the same handlers.
_LIKE_CLIENTS = (
    *FORWARDED,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
)

CONTROLLER_ROUTES: dict[ApiKey, Route] = {
    **{key: ROUTES[key] for key in _LIKE_CLIENTS},
    ApiKey.FETCH: Route("controller.quorum", min_version=4),
    ApiKey.FETCH_SNAPSHOT: Route("controller.quorum"),
    ApiKey.VOTE: Route("controller.quorum"),
    ApiKey.BEGIN_QUORUM_EPOCH: Route("controller.quorum"),
    ApiKey.END_QUORUM_EPOCH: Route("controller.quorum"),
    ApiKey.UPDATE_RAFT_VOTER: Route("controller.quorum"),
    ApiKey.API_VERSIONS: Route("controller.nodes"),
    ApiKey.DESCRIBE_CLUSTER: Route("controller.nodes"),
    ApiKey.ENVELOPE: Route("controller.envelope"),
    ApiKey.BROKER_REGISTRATION: Route("controller.nodes", when_lost=_LOST),
    ApiKey.BROKER_HEARTBEAT: Route("controller.nodes", when_lost=_LOST),
    ApiKey.CONTROLLER_REGISTRATION: Route("controller.nodes", when_lost=_LOST),
    ApiKey.ALTER_PARTITION: Route("controller.nodes", min_version=2, when_lost=_LOST),
    ApiKey.ALLOCATE_PRODUCER_IDS: Route("controller.nodes", when_lost=_LOST),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Route("controller.nodes", when_lost=_LOST),
}

CONTROLLERS = Table(CONTROLLER_ROUTES, ChainMap({}, CLIENTS.handlers))


class ControllerRouter(Router):
    """The router of frames from brokers, other controllers and tools (Kafka: ControllerApis)."""

    def _new_endpoint(self, api_key: int) -> Endpoint:
        if api_key not in CONTROLLER_ROUTES:
            raise FrameError(f"API key {api_key} is not served by a controller")
        return Endpoint(ApiKey(api_key), CONTROLLERS)
