"""What ShareFetch and ShareAcknowledge have in common: checks, sessions and acknowledgements.

Rule: the acknowledgements of a partition are taken as a whole or not at all, and each partition is answered by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.coordinators.share_partitions import Acknowledged
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Future, Steps
from pykafka_broker.cluster.authorizer import denial
from pykafka_broker.coordinators.share.sessions import Member
from pykafka_broker.coordinators.share.share_group import MAX_MEMBER_ID
from pykafka_broker.coordinators.share.share_partition import GAP, REJECT, RENEW, AckBatch
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_acknowledge_request import AcknowledgeTopic, ShareAcknowledgeRequest
from pykafka_broker.protocol.messages.share_fetch_request import FetchTopic, ShareFetchRequest

TopicPartition = tuple[bytes, int]


class AckResult(NamedTuple):
    """What became of one partition's acknowledgements."""

    error_code: ErrorCode
    error_message: str | None


_WELL = AckResult(ErrorCode.NONE, None)
_NO_BATCHES: list[AckBatch] = []  # never changed, and one for all partitions


def member_of(
    services: Services, context: RequestContext, request: ShareFetchRequest | ShareAcknowledgeRequest
) -> Member:
    """Who asks. Raises what is wrong with the request as such."""
    if not is_enabled(services.image.features):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if not request.member_id or len(request.member_id) > MAX_MEMBER_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return request.group_id, request.member_id


def may_read(services: Services, context: RequestContext, topic_id: bytes) -> bool:
    """Whether that is not denied; a topic that there is not is refused for that, by whoever looks for it."""
    topic = services.image.topics_by_id.get(topic_id)
    return topic is None or services.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic.name)


def has_acknowledgements(topics: Iterable[FetchTopic]) -> bool:
    """Return whether a request acknowledges anything."""
    return any(partition.acknowledgement_batches for topic in topics for partition in topic.partitions)


def acknowledgements(
    topics: Iterable[FetchTopic] | Iterable[AcknowledgeTopic],
) -> dict[TopicPartition, list[AckBatch]]:
    """Those of a request, by partition; that of a partition without any is empty."""
    found: dict[TopicPartition, list[AckBatch]] = {}
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
    acks: dict[TopicPartition, list[AckBatch]],
    may_renew: bool,
    taken: list[Callable[[], None]],
) -> Steps[dict[TopicPartition, AckResult]]:
    """Take the acknowledgements of a request; `taken` gets what makes them visible. A partition without any is answered
    if there is no such one, or where another one has some.

    What is written here and not committed when another node is waited for is waited for too: this node may lose the log
    meanwhile, and with it the records, and could not tell afterwards.
    """
    results: dict[TopicPartition, AckResult] = {}
    known: dict[AckResult, AckResult] = {}  # what became of many, once
    elsewhere: dict[TopicPartition, Acknowledged] = {}  # another node is told of them
    without: list[TopicPartition] = []
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


def by_topic(places: Iterable[TopicPartition]) -> dict[bytes, list[int]]:
    """Return the partitions of each topic, in their order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in places:
        topics.setdefault(topic_id, []).append(partition)
    return topics


def show_all(taken: Iterable[Callable[[], None]]) -> None:
    """Let what was taken take effect."""
    for show in taken:
        show()


def _check(batches: list[AckBatch], may_renew: bool) -> None:
    """Raises INVALID_REQUEST for batches out of order, or types that are none or not as many as offsets."""
    reached = -1
    highest = RENEW if may_renew else REJECT
    for batch in batches:
        count = len(batch.types)
        if batch.first > batch.last or batch.first < reached:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if count != 1 and count != batch.last - batch.first + 1:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if any(not GAP <= kind <= highest for kind in batch.types):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        reached = batch.last
