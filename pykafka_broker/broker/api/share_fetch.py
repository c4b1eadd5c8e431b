"""ShareFetch v1-v2 (KIP-932).

Behaviour: a request belongs to the member's share session: epoch 0 opens it, -1 ends it and frees what the member has.
Acknowledgements that come along are taken first, and show when records have been looked for once: what a member gives
back it gets with the same request only if there was nothing else and it waits. Records are handed out up to
`max_records`, with the last log batch whole unless the member wants exactly so many; where any are wanted, the answer
waits until there is something to hand out or `max_wait_ms` is over. A waiting fetch yields to the next request of its
connection.
Versions: 2 renews acquisition locks (KIP-1222) and lets the member choose how records are counted (KIP-1206).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from pykafka_broker.broker.api.share_reader import ACQUIRE_MODES, Found, Refused, ShareReader
from pykafka_broker.broker.api.share_requests import (
    AckResult,
    TopicPartition,
    acknowledge,
    acknowledgements,
    by_topic,
    has_acknowledgements,
    may_read,
    member_of,
    show_all,
)
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Parked, Steps, when_committed
from pykafka_broker.cluster.authorizer import denial
from pykafka_broker.coordinators.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Member, ShareSession
from pykafka_broker.coordinators.share.share_partition import AckBatch
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_fetch_request import ShareFetchRequest
from pykafka_broker.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

_EMPTY = Refused(ErrorCode.NONE, None)
_NOTHING: list[AcquiredRecords] = []  # never changed
_DENIAL = Refused(denial(AclResourceType.TOPIC).code, denial(AclResourceType.TOPIC).message)


@handles(ApiKey.SHARE_FETCH)
def share_fetch(services: Services, context: RequestContext, request: ShareFetchRequest) -> Answer[ShareFetchResponse]:
    return services.slices.reply(_begun(services, context, request))


def _begun(
    services: Services, context: RequestContext, request: ShareFetchRequest
) -> Steps[Answer[ShareFetchResponse]]:
    """What becomes of the session and of the acknowledgements, and then the fetch."""
    acks: dict[TopicPartition, list[AckBatch]] = {}
    if has_acknowledgements(request.topics):
        acks = acknowledgements(request.topics)
    try:
        member = member_of(services, context, request)
        _check(request, bool(acks))
        session = _session(services, context, member, request)
        if session is not None:
            _update(session, request)
    except ApiError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message)
    is_strange = (
        request.share_acquire_mode not in ACQUIRE_MODES and session is not None and _reads(services, context, session)
    )
    taken: list[Callable[[], None]] = []
    attempt = first = None
    try:
        results = yield from acknowledge(services, context, member, acks, request.is_renew_ack, taken)
        if session is not None:
            attempt = ShareFetchAttempt(services, context, member, request, results)
            attempt.resolve(session)
            first = attempt.at_first_sight() if taken and not is_strange else None
    finally:
        show_all(taken)
    if attempt is None:
        services.shares.close_session(member, context.now)
        response = _response(services, member, {}, results)
        return when_committed(response, services.shares.shards.all_committed())
    if is_strange:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="Unknown acquire mode")
    committed = services.shares.committed(ShareKey(member[0], *partition) for partition in results)
    if first is not None:
        return when_committed(first, committed)
    acknowledged = when_committed(None, committed)
    if acknowledged is not None:
        yield acknowledged
    return attempt.begin()


def _check(request: ShareFetchRequest, has_acks: bool) -> None:
    if request.is_renew_ack and (request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records):
        raise ApiError(ErrorCode.INVALID_REQUEST)  # to renew is to ask for no records
    if has_acks and request.share_session_epoch == INITIAL_EPOCH:
        raise ApiError(ErrorCode.INVALID_REQUEST)


def _session(
    services: Services, context: RequestContext, member: Member, request: ShareFetchRequest
) -> ShareSession | None:
    """The member's session as it is after this request, None if the request ends it."""
    sessions, epoch = services.shares.sessions, request.share_session_epoch
    if epoch == FINAL_EPOCH:
        sessions.require(member)
        return None
    if epoch == INITIAL_EPOCH:
        return services.shares.open_session(member, context.connection.id)
    return sessions.use_epoch(member, epoch)


def _update(session: ShareSession, request: ShareFetchRequest) -> None:
    """Note what is read from now on."""
    for topic in request.topics:
        topic_id = bytes(topic.topic_id)
        for one in topic.partitions:
            session.add((topic_id, one.partition_index))
    for forgotten in request.forgotten_topics_data:
        topic_id = bytes(forgotten.topic_id)
        for number in forgotten.partitions:
            session.forget((topic_id, number))


def _reads(services: Services, context: RequestContext, session: ShareSession) -> bool:
    """Whether it has a partition, but for numbers that its topic does not have, and topics that are denied."""
    topics = services.image.topics_by_id
    return any(
        ((topic := topics.get(topic_id)) is None or number in topic.partitions)
        and may_read(services, context, topic_id)
        for topic_id, number in session.partitions
    )


class ShareFetchAttempt:
    """One share fetch, tried as often as something moves in its partitions."""

    __slots__ = (
        "_context",
        "_deadline",
        "_denied",
        "_max_wait_ms",
        "_member",
        "_min_bytes",
        "_partitions",
        "_reader",
        "_results",
        "_services",
    )

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        member: Member,
        request: ShareFetchRequest,
        results: dict[TopicPartition, AckResult],
    ) -> None:
        self._services = services
        self._context = context
        self._member = member
        self._results = results
        self._min_bytes = request.min_bytes
        self._partitions: list[TopicPartition] = []
        self._denied: dict[TopicPartition, Refused] = {}
        wanted = request.min_bytes > 0 and request.max_bytes and request.max_records
        self._max_wait_ms = request.max_wait_ms if wanted else 0
        self._reader = ShareReader(services.shares.partitions, services.config.fetch_max_bytes, member, request)
        self._deadline = 0

    def resolve(self, session: ShareSession) -> None:
        """Find what is read."""
        for place in session.in_turn():
            if may_read(self._services, self._context, place[0]):
                self._partitions.append(place)
            else:
                self._denied[place] = _DENIAL

    def begin(self) -> ShareFetchResponse | Parked:
        """The answer, or a wait for it."""
        self._deadline = self._services.clock.now + self._max_wait_ms
        response = self.at_first_sight()
        if response is not None:
            return response
        return Parked(self._deadline, keys=self._watched(), poll=self._poll, expire=self._answer, yields=True)

    def at_first_sight(self) -> ShareFetchResponse | None:
        """Return the answer, or None where it is worth waiting."""
        return self._poll(0) if self._max_wait_ms > 0 else self._answer(0)

    def _poll(self, now: int) -> ShareFetchResponse | None:
        """Return the answer, or None while it is worth waiting."""
        if self._partitions and not self._reader.has(self._partitions, self._min_bytes):
            return None
        data = self._reader.read(self._partitions, self._services.clock.now)
        if self._partitions and not (
            any(one.acquired_records for one in data.values()) or self._hopeless(data) or self._reader.has_passed
        ):
            return None
        return self._response(data)

    def _answer(self, now: int) -> ShareFetchResponse:
        """Return the answer as things stand."""
        return self._response(self._reader.read(self._partitions, self._services.clock.now))

    def _watched(self) -> list[object]:
        """The logs whose growth is waited for, and the share partitions whose locks may end."""
        return self._reader.watched(self._partitions)

    def _hopeless(self, data: Found) -> bool:
        """Whether no partition can be read at all: then there is nothing to wait for."""
        return all(topic_partition in data for topic_partition in self._partitions) and all(
            one.error_code for one in data.values()
        )

    def _response(self, data: Found) -> ShareFetchResponse:
        data.update(self._denied)
        return _response(self._services, self._member, data, self._results)


def _response(
    services: Services, member: Member, data: Found, results: dict[TopicPartition, AckResult]
) -> ShareFetchResponse:
    """Return the answer: partitions with records, with an error, or whose acknowledgements have come along."""
    places = chain(data, (place for place in results if place not in data))
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=services.shares.partitions.limits(member[0]).lock_ms,
        responses=[_topic(data, results, topic_id, partitions) for topic_id, partitions in by_topic(places).items()],
    )


def _topic(
    data: Found, results: dict[TopicPartition, AckResult], topic_id: bytes, numbers: list[int]
) -> ShareFetchableTopicResponse:
    topic = ShareFetchableTopicResponse(topic_id)
    for number in numbers:
        part = data.get((topic_id, number), _EMPTY)
        if not isinstance(part, PartitionData):
            part = PartitionData(number, part.error_code, part.error_message, records=b"", acquired_records=_NOTHING)
        result = results.get((topic_id, number))
        if result is not None:
            part.acknowledge_error_code, part.acknowledge_error_message = result
        topic.partitions.append(part)
    return topic
