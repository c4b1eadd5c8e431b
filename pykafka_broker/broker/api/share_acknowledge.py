"""ShareAcknowledge v1-v2 (KIP-932), and the checks and acknowledgements that ShareFetch has in common with it.

Rule: the acknowledgements of a partition are accepted as a whole or not at all, and each partition is answered by
itself.

Behaviour: the request belongs to the member's share session and uses up an epoch of it; epoch -1 ends the session, and
frees the records that the member still has for others.
Versions: 2 renews acquisition locks (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.coordinators.share_partitions import Acknowledged
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Future, Steps, when_committed
from pykafka_broker.cluster.authorizer import denial
from pykafka_broker.coordinators.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Member, TopicIdPartition
from pykafka_broker.coordinators.share.share_group import MAX_MEMBER_ID
from pykafka_broker.coordinators.share.share_partition import GAP, REJECT, RENEW, AckBatch
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_acknowledge_request import AcknowledgeTopic, ShareAcknowledgeRequest
from pykafka_broker.protocol.messages.share_acknowledge_response import (
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from pykafka_broker.protocol.messages.share_fetch_request import FetchTopic, ShareFetchRequest


class AckResult(NamedTuple):
    """The outcome of a partition's acknowledgements."""

    error_code: ErrorCode
    error_message: str | None


_WELL = AckResult(ErrorCode.NONE, None)
_NO_BATCHES: list[AckBatch] = []  # never changed, and one for all partitions


def member_of(
    services: Services, context: RequestContext, request: ShareFetchRequest | ShareAcknowledgeRequest
) -> Member:
    """Return the asking member. Raises ApiError if the whole request is refused."""
    if not is_enabled(services.image.features):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if not request.member_id or len(request.member_id) > MAX_MEMBER_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return request.group_id, request.member_id


def may_read(services: Services, context: RequestContext, topic_id: bytes) -> bool:
    """Return whether the client may read a topic, or the topic is missing, which a later lookup refuses."""
    topic = services.image.topics_by_id.get(topic_id)
    return topic is None or services.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic.name)


def acknowledgements(
    topics: Iterable[FetchTopic] | Iterable[AcknowledgeTopic],
) -> dict[TopicIdPartition, list[AckBatch]]:
    """Return the acknowledgements of a request by partition, an empty list for partitions without any."""
    found: dict[TopicIdPartition, list[AckBatch]] = {}
    for topic in topics:
        topic_id = bytes(topic.topic_id)
        for partition in topic.partitions:
            batches, place = partition.acknowledgement_batches, (topic_id, partition.partition_index)
            if batches or place not in found:
                found[place] = [
                    AckBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches
                ] or _NO_BATCHES
    return found


def acknowledge(
    services: Services,
    context: RequestContext,
    member: Member,
    acks: dict[TopicIdPartition, list[AckBatch]],
    may_renew: bool,
    taken: list[Callable[[], None]],
) -> Steps[dict[TopicIdPartition, AckResult]]:
    """Accept the acknowledgements of a request.

    While another node is waited for, this node may lose the log and with it records that are not committed, and could
    not tell afterwards. So the commits of records written here are waited for as well.

    Args:
        acks: acknowledgements by partition; a partition with an empty list is answered if it is missing, or if another
            partition has some.
        taken: gets a function for each partition that makes its acknowledgements visible.
    """
    results: dict[TopicIdPartition, AckResult] = {}
    known: dict[AckResult, AckResult] = {}  # equal results share one object
    elsewhere: dict[TopicIdPartition, Acknowledged] = {}  # partitions whose state another node writes
    without: list[TopicIdPartition] = []
    commits: list[Future[None]] = []
    has_some = has_waited = False
    group_id, member_id = member
    for place, batches in acks.items():
        topic_id, partition = place
        try:
            if topic_id not in services.image.topics_by_id:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            _check(batches, may_renew)
            if not may_read(services, context, topic_id):
                raise denial(AclResourceType.TOPIC)
            key = ShareKey(group_id, topic_id, partition)
            services.shares.partitions.partition_of(key)
            if not batches:
                without.append(place)
                continue
            has_some = True
            while not (before := services.shares.partitions.before(key)).done:
                has_waited = True
                yield before
            one = services.shares.partitions.acknowledge(key, member_id, batches, services.clock.now)
            results[place] = _WELL
            if one.writing is not None:
                elsewhere[place] = one
                continue
            taken.append(one.show)
            commit = services.shares.committed([key])
            if not commit.done:
                commits.append(commit)
        except ApiError as error:
            result = AckResult(error.code, error.message)
            results[place] = known.setdefault(result, result)
    for place, one in elsewhere.items():
        assert one.writing is not None
        yield one.writing.settled()
        refusal = one.refusal()
        if refusal is not None:
            results[place] = AckResult(refusal.code, refusal.message)
    if has_waited or elsewhere:
        for commit in commits:
            yield commit
    results.update(dict.fromkeys(without if has_some else (), _WELL))
    return results


def by_topic(places: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """Group partitions by topic, in the given order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in places:
        topics.setdefault(topic_id, []).append(partition)
    return topics


def _check(batches: list[AckBatch], may_renew: bool) -> None:
    """Raise INVALID_REQUEST for batches out of order, unknown types, or more or fewer types than offsets."""
    reached = -1
    highest = RENEW if may_renew else REJECT
    for batch in batches:
        is_in_order = reached <= batch.first <= batch.last
        is_complete = len(batch.types) in (1, batch.last - batch.first + 1)
        if not is_in_order or not is_complete or any(not GAP <= kind <= highest for kind in batch.types):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        reached = batch.last


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
        for show in taken:
            show()
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
