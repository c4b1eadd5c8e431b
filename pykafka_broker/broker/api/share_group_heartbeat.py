"""ShareGroupHeartbeat v1 (KIP-932).

Behaviour: epoch 0 joins, -1 leaves; the answer carries an assignment when there is a new one. Partitions that the group
has never read are given a state while the heartbeat is served, and the first answer to a member assigns them already.
If a state needs a commit or another node, the partitions are assigned with a later heartbeat, as always in Kafka.
"""

from __future__ import annotations

import logging

from pykafka_broker.broker.api.consumer_group_heartbeat import check_heartbeat_of_group, may_name, verdict
from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps
from pykafka_broker.coordinators.share.share_group import ShareGroup
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

logger = logging.getLogger(__name__)


@handles(ApiKey.SHARE_GROUP_HEARTBEAT)
def share_group_heartbeat(
    services: Services, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Answer[ShareGroupHeartbeatResponse]:
    check_heartbeat_of_group(services, context, is_enabled(services.image.features), request.group_id)
    may_name(services, context, request.subscribed_topic_names or [])
    if request.group_id:
        services.groups.require(request.group_id)
    response = _beat(services, context, request)
    response.error_code = verdict(services, response.error_code, request.member_epoch)
    services.groups.heard(context, request.group_id, request.member_id)
    services.groups.confirm_by_append(request.group_id, response.error_code)
    return services.groups.shards.when_committed(response, request.group_id)


def _beat(
    services: Services, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    host, now = services.groups, services.clock.now
    membership, caller = host.coordinator.share, host.caller(context)
    effects = membership.heartbeat(request, caller, now)
    host.apply(effects)
    reply = effects.reply
    if reply.error_code or reply.member_epoch < 0 or not _initialize(services, request.group_id):
        return reply
    again = ShareGroupHeartbeatRequest(request.group_id, request.member_id, reply.member_epoch)
    effects = membership.heartbeat(again, caller, now, at_once=True)
    host.apply(effects)
    newer = effects.reply
    if newer.assignment is None:
        newer.assignment = reply.assignment
    return newer


def _initialize(services: Services, group_id: str) -> bool:
    """Give a state to partitions without a state; return whether some have a state at once.

    Members are assigned the other partitions with later heartbeats.
    """
    share = services.groups.coordinator.share
    if not share.uninitialized(group_id):
        return False
    group = share.group(group_id)
    before = group.initialized
    if not group.attempts:
        services.slices.unasked(_initializing(services, group))
    return group.initialized is not before


def _initializing(services: Services, group: ShareGroup) -> Steps[None]:
    """Ask for the states of a group's partitions; in a replicated log, commit a record before.

    A node was away, another node coordinates the group by now, and the first node has not heard of that. If the first
    node asked for states, it would reset the states of partitions whose records members have accepted. It can't
    commit the record, so it never asks.
    """
    host, share = services.groups, services.groups.coordinator.share
    group_id, fenced = group.group_id, services.groups.has_replicas(group.group_id)
    group.attempts += 1
    try:
        missing = share.uninitialized(group_id)
        effects = share.initialize(group_id, missing, fenced=fenced)
        host.apply(effects)
        if fenced:
            yield host.committed(group_id)
        if host.coordinator.groups.get(group_id) is group:
            known = group.initialized.keys()
            done = yield from services.shares.initialize_topics(group_id, effects.reply, missing, known)
            if host.coordinator.groups.get(group_id) is group:
                host.apply(share.initialized(group_id, missing, done))
    except ApiError as error:
        logger.warning("share group %s can't initialize partitions: %s", group.group_id, error)
    finally:
        group.attempts -= 1
