"""ShareGroupHeartbeat v1 (KIP-932).

Behaviour: epoch 0 joins, -1 leaves; the answer carries an assignment when there is a new one. Partitions that the group
has never read get their state in between, so the first answer to a member has its partitions already (Kafka's has none
yet, and its member waits for a heartbeat interval).
"""

from __future__ import annotations

from pykafka_broker.broker.api.group_protocols import heartbeat_refusal, may_name, verdict
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.share_host import is_enabled
from pykafka_broker.broker.waiting import Answer, all_of, when_committed
from pykafka_broker.cluster.authorizer import Operation, Resource
from pykafka_broker.coordinators.share.share_group import Topics
from pykafka_broker.coordinators.share.state_records import ShareKey
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse


@handles(ApiKey.SHARE_GROUP_HEARTBEAT)
def share_group_heartbeat(
    services: Services, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Answer[ShareGroupHeartbeatResponse]:
    services.authorise(context, Operation.READ, Resource.GROUP, request.group_id)
    may_name(services, context, request.subscribed_topic_names or [])
    error = heartbeat_refusal(services, is_enabled(services.image.features), request.group_id)
    if error is not ErrorCode.NONE:
        return ShareGroupHeartbeatResponse(error_code=error)
    states: list[ShareKey] = []  # of partitions that the group has never read before
    response = _beat(services, context, request, states)
    response.error_code = verdict(services, response.error_code, request.member_epoch)
    services.groups.heard(context, request.group_id, request.member_id)
    services.groups.confirm_by_append(request.group_id, response.error_code)
    committed = services.groups.committed(request.group_id)
    if states:
        committed = all_of(committed, services.shares.committed(states))
    return when_committed(response, committed)


def _beat(
    services: Services, context: RequestContext, request: ShareGroupHeartbeatRequest, states: list[ShareKey]
) -> ShareGroupHeartbeatResponse:
    host, now = services.groups, services.clock.now
    membership, caller = host.coordinator.share, host.caller(context)
    effects = membership.heartbeat(request, caller, now)
    host.apply(effects)
    reply = effects.reply
    if reply.error_code or reply.member_epoch < 0 or not _initialize(services, request.group_id, states):
        return reply
    again = ShareGroupHeartbeatRequest(request.group_id, request.member_id, reply.member_epoch)
    effects = membership.heartbeat(again, caller, now, at_once=True)
    host.apply(effects)
    newer = effects.reply
    if newer.assignment is None:
        newer.assignment = reply.assignment
    return newer


def _initialize(services: Services, group_id: str, states: list[ShareKey]) -> bool:
    """Give the partitions a state that have none. Returns whether there were any."""
    host = services.groups
    missing = host.coordinator.share.uninitialized(group_id)
    if not missing:
        return False

    def later(done: Topics) -> None:
        """Other nodes have made states: the members hear of that with their next heartbeats."""
        if host.refusal(group_id) is ErrorCode.NONE and group_id in host.coordinator.groups:
            host.apply(host.coordinator.share.initialized(group_id, done))

    epoch = host.coordinator.share.group(group_id).epoch
    done = services.shares.initialize_topics(group_id, epoch, missing, later)
    states += [ShareKey(group_id, topic_id, number) for topic_id, (_, numbers) in done.items() for number in numbers]
    if done:
        host.apply(host.coordinator.share.initialized(group_id, done))
    return bool(done)
