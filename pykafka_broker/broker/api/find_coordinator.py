"""FindCoordinator v0-v6.

Behaviour: the first request creates the coordinators' topic and is answered at once, or with
`pykafka.strict.auto.creation` the next request is, as in Kafka; the node is the leader of the key's partition.
Versions: 1 transactional ids, 4 many keys in one request (KIP-699), 5 knows TRANSACTION_ABORTABLE, 6 keys of share
partitions, `group:topic id:partition` (KIP-932).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import NodeAddress, Services
from pykafka_broker.broker.waiting.future import Answer, when_committed
from pykafka_broker.cluster.authorizer import CLUSTER_NAME, denial
from pykafka_broker.cluster.image import NO_LEADER, PartitionImage
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.errors import MALFORMED
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, CoordinatorType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE = CoordinatorType
# The topic of each kind of coordinator, and the right that a client needs to look for one.
_KINDS: dict[int, tuple[str, AclOperation, AclResourceType]] = {
    GROUP: (CONSUMER_OFFSETS, AclOperation.DESCRIBE, AclResourceType.GROUP),
    TRANSACTION: (TRANSACTION_STATE, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID),
    SHARE: (SHARE_GROUP_STATE, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER),  # brokers alone look for it
}
_BATCHED_FROM = 4
_SHARE_FROM = 6
# A group's id may have colons, and a number zeros at its beginning.
_SHARE_KEY = re.compile(r"(.*):([A-Za-z0-9_-]{22})(?:==)?:([+-]?)0*(\d{1,10})", re.DOTALL)
_MAX_PARTITION = 2**31 - 1
# Messages of errors in versions that ask for one coordinator.
_MESSAGES = {refused.code: refused.message or "" for refused in (denial(kind[2]) for kind in _KINDS.values())}
_MESSAGES[ErrorCode.INVALID_REQUEST] = MALFORMED


@handles(ApiKey.FIND_COORDINATOR)
def find_coordinator(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> Answer[FindCoordinatorResponse]:
    before = services.metadata.applied_offset
    look_up = _LookUp(services, context, request.key_type)
    if context.api_version >= _BATCHED_FROM:
        response = FindCoordinatorResponse(coordinators=list(map(look_up.find, request.coordinator_keys)))
    else:
        only = look_up.find(request.key)
        message = "NONE"  # Kafka's answer in these versions
        if only.error_code:
            message = only.error_message or _MESSAGES.get(ErrorCode(only.error_code), "")
        response = FindCoordinatorResponse(
            error_code=only.error_code, error_message=message, node_id=only.node_id, host=only.host, port=only.port
        )
    if services.metadata.applied_offset == before:
        return response
    return when_committed(response, services.metadata.committed())


class _LookUp:
    """The look-ups of a request, whose keys are all of one kind and have one topic."""

    def __init__(self, services: Services, context: RequestContext, key_type: int) -> None:
        self._services = services
        self._context = context
        self._key_type = key_type

    def find(self, key: str) -> Coordinator:
        """Return the coordinator of a key, or why there is none."""
        key_type = self._key_type
        if key_type not in _KINDS:
            return _nowhere(key, ErrorCode.INVALID_REQUEST, MALFORMED)
        if key_type == SHARE and self._context.api_version < _SHARE_FROM:
            return _nowhere(key, ErrorCode.INVALID_REQUEST)
        _, operation, resource = _KINDS[key_type]
        named = CLUSTER_NAME if key_type == SHARE else key
        if not self._services.allows(self._context, operation, resource, named):
            refused = denial(resource)
            return _nowhere(key, refused.code, (refused.message or "") if key_type == SHARE else "")
        hashed = _share_key(key) if key_type == SHARE else key
        if hashed is None:
            return _nowhere(key, ErrorCode.INVALID_REQUEST)
        partitions = self._partitions
        leader = partitions[partition_for(hashed, len(partitions))].leader if partitions else NO_LEADER
        node = self._nodes.get(leader)
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE) if node is None else Coordinator(key, *node[:3])

    @cached_property
    def _partitions(self) -> Mapping[int, PartitionImage]:
        """Return the partitions of the topic, which is created if it is missing; none if the client is to come back."""
        services, name = self._services, _KINDS[self._key_type][0]
        if name not in services.image.topics:
            services.node.create_missing_topics([name])
            if services.own.auto_creation:
                return {}
        topic = services.image.topics.get(name)
        return {} if topic is None else topic.partitions

    @cached_property
    def _nodes(self) -> Mapping[int, NodeAddress]:
        return {node[0]: node for node in self._services.nodes(self._context)}


def _share_key(key: str) -> str | None:
    """Return the key of a share partition as brokers write it; None for what names no share partition."""
    found = _SHARE_KEY.fullmatch(key)
    if found is None:
        return None
    group_id, topic_id, partition = found[1], found[2], int(found[3] + found[4])
    if not group_id.strip() or not -_MAX_PARTITION - 1 <= partition <= _MAX_PARTITION:
        return None
    return f"{group_id}:{topic_id}:{partition}"


def _nowhere(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key, -1, "", -1, error, message)
