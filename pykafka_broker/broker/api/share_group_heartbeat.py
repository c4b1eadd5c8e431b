"""ShareGroupHeartbeat v1 (KIP-932).

Behaviour: epoch 0 joins, -1 leaves; the answer carries an assignment when there is a new one. Partitions that the group
has never read get their state in between, so the first answer to a member has its partitions already (Kafka's has none
yet, and its member waits for a heartbeat interval).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.api.group_protocols import heartbeat_refusal
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.share_host import is_enabled
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


@handles(ApiKey.SHARE_GROUP_HEARTBEAT)
def share_group_heartbeat(
    broker: Broker, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    host, now = broker.groups, context.now
    error = heartbeat_refusal(broker, is_enabled(broker), request.group_id, now)
    if error is not ErrorCode.NONE:
        return ShareGroupHeartbeatResponse(error_code=error)
    membership, caller = host.coordinator.share, host.caller(context)
    reply: ShareGroupHeartbeatResponse = host.answer(membership.heartbeat(request, caller, now), now)
    if reply.error_code or reply.member_epoch < 0 or not _initialize(broker, request.group_id, now):
        return reply
    again = ShareGroupHeartbeatRequest(request.group_id, request.member_id, reply.member_epoch)
    newer: ShareGroupHeartbeatResponse = host.answer(membership.heartbeat(again, caller, now, at_once=True), now)
    if newer.assignment is None:
        newer.assignment = reply.assignment
    return newer


def _initialize(broker: Broker, group_id: str, now: int) -> bool:
    """Give the partitions a state that have none. Returns whether there were any."""
    host = broker.groups
    missing = host.coordinator.share.uninitialized(group_id)
    if not missing:
        return False
    done = broker.shares.initialize_topics(group_id, host.coordinator.share.group(group_id).epoch, missing, now)
    if done:
        host.apply(host.coordinator.share.initialized(group_id, done), now)
    return bool(done)
