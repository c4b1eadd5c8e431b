"""ShareFetch v1-v2 (KIP-932).

Behaviour: a request belongs to the member's share session: epoch 0 opens it, -1 ends it and frees what the member has.
Acknowledgements that come along are taken first. Records are handed out up to `max_records`, with the last log batch
whole unless the member wants exactly so many; the answer waits until there is something to hand out or `max_wait_ms`
is over. A waiting fetch yields to the next request of its connection.
Versions: 2 renews acquisition locks (KIP-1222) and lets the member choose how records are counted (KIP-1206).
"""

from __future__ import annotations

from pykafka_broker.broker.api.share_requests import (
    AckResult,
    TopicPartition,
    acknowledge,
    acknowledgements,
    may_read,
    member_of,
)
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.purgatory import Parked
from pykafka_broker.broker.reply import Reply, resting
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.share_reader import ACQUIRE_MODES, ShareReader
from pykafka_broker.cluster.authorizer import Resource, denial
from pykafka_broker.coordinators.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Member, ShareSession
from pykafka_broker.coordinators.share.state_records import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_fetch_request import ShareFetchRequest
from pykafka_broker.protocol.messages.share_fetch_response import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)


@handles(ApiKey.SHARE_FETCH)
def share_fetch(
    services: Services, context: RequestContext, request: ShareFetchRequest
) -> ShareFetchResponse | Parked | Reply:
    now = context.now
    acks = acknowledgements(request.topics)
    try:
        member = member_of(services, context, request)
        _check(request, bool(acks))
        session = _session(services, context, member, request)
        if request.share_acquire_mode not in ACQUIRE_MODES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown acquire mode {request.share_acquire_mode}")
    except ApiError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message)
    results = acknowledge(services, context, member, acks, request.is_renew_ack)
    if session is None:
        services.shares.close_session(member, now)
        response = _response(services, member, {}, results)
        return resting(response, services.shares.shards.after_all())
    attempt = ShareFetchAttempt(services, context, member, session, request, results)
    after = services.shares.after(ShareKey(member[0], *partition) for partition in results)
    return Reply(after, attempt.begin) if after else attempt.begin()


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
        session = sessions.open(member, context.connection.id)
    else:
        session = sessions.go_on(member, epoch)
    wanted = [(bytes(topic.topic_id), one.partition_index) for topic in request.topics for one in topic.partitions]
    forgotten = [(bytes(topic.topic_id), one) for topic in request.forgotten_topics_data for one in topic.partitions]
    session.update(wanted, forgotten)
    return session


class ShareFetchAttempt:
    """One share fetch, tried as often as something moves in its partitions."""

    __slots__ = ("_denied", "_max_wait_ms", "_member", "_min_bytes", "_partitions", "_reader", "_results", "_services")

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        member: Member,
        session: ShareSession,
        request: ShareFetchRequest,
        results: dict[TopicPartition, AckResult],
    ) -> None:
        self._services = services
        self._member = member
        self._results = results
        self._min_bytes = request.min_bytes
        self._partitions: list[TopicPartition] = []
        self._denied: dict[TopicPartition, PartitionData] = {}
        for topic_id, number in session.in_turn():
            if may_read(services, context, topic_id):
                self._partitions.append((topic_id, number))
            else:
                self._denied[topic_id, number] = _denial(number)
        self._max_wait_ms = request.max_wait_ms
        self._reader = ShareReader(services.shares.partitions, services.config.fetch_max_bytes, member, request)

    def begin(self) -> ShareFetchResponse | Parked:
        """The answer, or a wait for it."""
        now = self._services.clock.now
        response = self.poll(now) if self._max_wait_ms > 0 else self.answer(now)
        if response is not None:
            return response
        deadline = now + self._max_wait_ms
        return Parked(deadline, keys=self.watched(), poll=self.poll, expire=self.answer, yields=True)

    def watched(self) -> list[object]:
        """The logs whose growth is waited for, and the share partitions whose locks may end."""
        return self._reader.watched(self._partitions)

    def poll(self, now: int) -> ShareFetchResponse | None:
        """The answer, or None while it is worth waiting."""
        if self._partitions and not self._reader.has(self._partitions, self._min_bytes, now):
            return None
        data = self._reader.read(self._partitions, now)
        if self._partitions and not any(one.acquired_records for one in data.values()) and not self._hopeless(data):
            return None
        return self._response(data)

    def _hopeless(self, data: dict[TopicPartition, PartitionData]) -> bool:
        """Whether no partition can be read at all: then there is nothing to wait for."""
        return all(topic_partition in data for topic_partition in self._partitions) and all(
            one.error_code for one in data.values()
        )

    def answer(self, now: int) -> ShareFetchResponse:
        """The answer as things stand."""
        return self._response(self._reader.read(self._partitions, now))

    def _response(self, data: dict[TopicPartition, PartitionData]) -> ShareFetchResponse:
        return _response(self._services, self._member, {**data, **self._denied}, self._results)


def _denial(number: int) -> PartitionData:
    error = denial(Resource.TOPIC)
    return PartitionData(number, error.code, error.message, records=b"")


def _response(
    services: Services,
    member: Member,
    data: dict[TopicPartition, PartitionData],
    results: dict[TopicPartition, AckResult],
) -> ShareFetchResponse:
    """Partitions with records, with an error, or whose acknowledgements have come along."""
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for topic_id, partition in dict.fromkeys((*data, *results)):
        part = data.get((topic_id, partition)) or PartitionData(partition, records=b"")
        result = results.get((topic_id, partition))
        if result is not None:
            part.acknowledge_error_code, part.acknowledge_error_message = result
        topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id)).partitions.append(part)
    lock_ms = services.shares.partitions.limits(member[0]).lock_ms
    return ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values()))
