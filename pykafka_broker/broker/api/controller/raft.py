"""Fetch v4-v18 and FetchSnapshot v0-v1 of the metadata log (KIP-595, KIP-630).

Behaviour: an observer that has everything waits until there is more, until the high watermark is above the one that it
knows, or until `max_wait_ms` is over. For all else see `cluster/raft/leader.py`.
"""

from __future__ import annotations

from pykafka_broker.broker.controller import METADATA
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.controller_routes import CONTROLLERS
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.purgatory import Parked
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import FetchResponse
from pykafka_broker.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from pykafka_broker.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse


@handles(ApiKey.FETCH, CONTROLLERS)
def fetch(services: Services, context: RequestContext, request: FetchRequest) -> FetchResponse | Parked:
    try:
        services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
        return _fetched(services, context, request)
    except ApiError as error:  # it names no partitions
        return FetchResponse(error_code=error.code)


def _fetched(services: Services, context: RequestContext, request: FetchRequest) -> FetchResponse | Parked:
    quorum = services.active_controller.quorum
    version, listener = context.api_version, context.connection.listener

    def poll(now: int) -> FetchResponse | None:
        return quorum.fetch(request, version, listener, services.clock.wall)

    def expire(now: int) -> FetchResponse:
        return poll(now) or quorum.nothing_new(version, listener)

    answer = poll(context.now)
    if answer is not None or request.max_wait_ms <= 0:
        return answer or quorum.nothing_new(version, listener)
    return Parked(context.now + request.max_wait_ms, keys=(METADATA,), poll=poll, expire=expire)


@handles(ApiKey.FETCH_SNAPSHOT, CONTROLLERS)
def fetch_snapshot(services: Services, context: RequestContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    quorum = services.active_controller.quorum
    try:
        return quorum.fetch_snapshot(request, context.api_version, context.connection.listener)
    except ApiError as error:
        return FetchSnapshotResponse(error_code=error.code)
