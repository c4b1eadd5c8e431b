"""ShareAcknowledge v1-v2 (KIP-932).

Behaviour: the request belongs to the member's share session and uses up an epoch of it; epoch -1 ends the session, and
what the member still has is free for others.
Versions: 2 renews acquisition locks (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.broker.api.share_requests import (
    acknowledge,
    acknowledgements,
    by_topic,
    member_of,
    show_all,
)
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps, when_committed
from pykafka_broker.coordinators.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Member
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from pykafka_broker.protocol.messages.share_acknowledge_response import (
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


@handles(ApiKey.SHARE_ACKNOWLEDGE)
def share_acknowledge(
    services: Services, context: RequestContext, request: ShareAcknowledgeRequest
) -> Answer[ShareAcknowledgeResponse]:
    host, epoch = services.shares, request.share_session_epoch
    try:
        member = member_of(services, context, request)
        if epoch == INITIAL_EPOCH:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if epoch != FINAL_EPOCH:
            host.sessions.use_epoch(member, epoch)
        else:
            host.sessions.require(member)
    except ApiError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    return services.slices.reply(_acknowledged(services, context, member, request), outlives_client=True)


def _acknowledged(
    services: Services, context: RequestContext, member: Member, request: ShareAcknowledgeRequest
) -> Steps[Answer[ShareAcknowledgeResponse]]:
    host, now, epoch = services.shares, context.now, request.share_session_epoch
    acks = acknowledgements(request.topics)
    taken: list[Callable[[], None]] = []
    try:
        results = yield from acknowledge(services, context, member, acks, request.is_renew_ack, taken)
    finally:
        show_all(taken)
    if epoch == FINAL_EPOCH:
        host.close_session(member, now)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=host.partitions.limits(member[0]).lock_ms,
        responses=[
            ShareAcknowledgeTopicResponse(
                topic_id, [PartitionData(partition, *results[topic_id, partition]) for partition in partitions]
            )
            for topic_id, partitions in by_topic(results).items()
        ],
    )
    return when_committed(response, host.shards.all_committed())
