"""FindCoordinator v0-v6.

Behaviour: the topic behind the coordinator is created at the first question and answers at once, or with
`pykafka.strict.auto.creation` at the next one, as in Kafka; the node is the leader of the key's partition.
Versions: 1 transactional ids, 4 many keys in one request (KIP-699), 5 knows TRANSACTION_ABORTABLE, 6 keys of share
partitions, `group:topic id:partition` (KIP-932).
"""

from __future__ import annotations

import re

from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, when_committed
from pykafka_broker.cluster.authorizer import CLUSTER_NAME, denial
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.errors import MALFORMED
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, CoordinatorType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE = CoordinatorType
TOPICS: dict[int, str] = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE, SHARE: SHARE_GROUP_STATE}
RIGHTS: dict[int, tuple[AclOperation, AclResourceType]] = {
    GROUP: (AclOperation.DESCRIBE, AclResourceType.GROUP),
    TRANSACTION: (AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID),
    SHARE: (AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER),  # only brokers look for it
}
BATCHED_FROM = 4
SHARE_FROM = 6
SHARE_KEY = re.compile(r"[^:]+:[A-Za-z0-9_-]{22}:-?\d+")


@handles(ApiKey.FIND_COORDINATOR)
def find_coordinator(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> Answer[FindCoordinatorResponse]:
    before = services.metadata.applied_offset
    response = _respond(services, context, request)
    return (
        response
        if services.metadata.applied_offset == before
        else when_committed(response, services.metadata.committed())
    )


# Of errors in versions that ask for one coordinator.
_TEXTS = {refused.code: refused.message or "" for refused in (denial(resource) for _, resource in RIGHTS.values())}
_TEXTS[ErrorCode.INVALID_REQUEST] = MALFORMED


def _respond(services: Services, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.api_version >= BATCHED_FROM:
        found = [_find(services, context, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(services, context, request.key_type, request.key)
    message = one.error_message
    if one.error_code:
        message = message or _TEXTS.get(ErrorCode(one.error_code), "")
    else:
        message = "NONE"  # Kafka's answer in these versions
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=message, node_id=one.node_id, host=one.host, port=one.port
    )


def _find(services: Services, context: RequestContext, key_type: int, key: str) -> Coordinator:
    if key_type not in TOPICS:
        return _nowhere(key, ErrorCode.INVALID_REQUEST, MALFORMED)
    if key_type == SHARE and context.api_version < SHARE_FROM:
        return _nowhere(key, ErrorCode.INVALID_REQUEST)
    operation, resource = RIGHTS[key_type]
    if not services.allows(context, operation, resource, CLUSTER_NAME if key_type == SHARE else key):
        refused = denial(resource)
        return _nowhere(key, refused.code, (refused.message or "") if key_type == SHARE else "")
    if key_type == SHARE and SHARE_KEY.fullmatch(key) is None:
        return _nowhere(key, ErrorCode.INVALID_REQUEST)
    name = TOPICS[key_type]
    if name not in services.image.topics:
        services.node.create_missing_topics([name])
        if services.own.auto_creation:
            return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    topic = services.image.topics.get(name)
    if topic is None:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    for node_id, host, port, _ in services.nodes(context):
        if node_id == leader:
            return Coordinator(key, node_id, host, port)
    return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _nowhere(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key, -1, "", -1, error, message)
