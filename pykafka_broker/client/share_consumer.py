"""A consumer in a share group (KIP-932): records go to one member at a time, which acknowledges each.

Rule: each broker has a share session with the member, and at most one request in flight, which is sent when the caller
polls and no earlier records are left. Acknowledgements go with the next request, a commit, or the last request of the
session, which releases all other records. Offsets without a record (control batches) are acknowledged as gaps, and the
records of a damaged batch as rejected, as by Kafka's consumer. An error of one partition keeps no records of another. A
member whose caller does not poll for `max.poll.interval.ms` leaves the group until the next `poll`.
The module stands alone, since the messages of share groups take 12 ms to import, which no other consumer needs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, Self

from pykafka_broker.client.cluster import LEADER_ERRORS, NOBODY, Backoff, Client, Leaders, check_topic, wait_for
from pykafka_broker.client.consumer import CLOSED, LOOK_EVERY_MS, ConsumerSettings, batches_of
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut, Unusable
from pykafka_broker.client.membership import PolledMembership, ShareGroupMembership, poll_interval_ms
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import TopicPartition, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch as Acknowledged,
)
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pykafka_broker.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from pykafka_broker.protocol.messages.share_fetch_request import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from pykafka_broker.protocol.messages.share_fetch_response import PartitionData, ShareFetchResponse
from pykafka_broker.records.record import BatchRecord

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
_FIRST_EPOCH, _LAST_EPOCH = 0, -1
_VERSIONS, _RENEWING = (1, 2), (2, 2)
_LAST_MS = 5_000  # for an answer without records
_SESSION_GONE = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
_PASSING = LEADER_ERRORS | {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
}
_Acknowledgements = dict[TopicPartition, list[tuple[int, int]]]  # offsets with their kinds, sorted


class Delivered(NamedTuple):
    """A record on loan: no other member gets the record until an acknowledgement.

    `deliveries` is how often the record was delivered.
    """

    partition: TopicPartition
    record: BatchRecord
    leader_epoch: int
    timestamp_type: int
    deliveries: int


class _Session:
    """The share session with a broker."""

    def __init__(self, client: Client) -> None:
        self.epoch = _FIRST_EPOCH
        self.backoff = Backoff(client)
        self.partitions: set[tuple[bytes, int]] = set()  # by topic id: a topic that was created again has another
        self.acknowledged: dict[TopicPartition, dict[int, int]] = {}  # by offset

    def pop_acknowledgements(self) -> _Acknowledgements:
        """Take out the acknowledgements to send, sorted."""
        found = {partition: sorted(kinds.items()) for partition, kinds in self.acknowledged.items()}
        self.acknowledged = {}
        return found


OnAcknowledged = Callable[[TopicPartition, dict[int, int], ClientError | None], None]  # kinds by offset


class ShareConsumer:
    """A share consumer: `async with ShareConsumer(client, topics) as consumer`, `poll`, `acknowledge` each record."""

    def __init__(self, client: Client, topics: list[str], on_acknowledged: OnAcknowledged | None = None) -> None:
        """Create the consumer; on_acknowledged: called with what came of the acknowledgements of a partition."""
        self.settings = ConsumerSettings(client.properties)
        self.group_id = client.properties.get("group.id", "")
        if not self.group_id:
            raise Unusable("a share consumer needs a group.id")
        self._client = client
        self._on_acknowledged = on_acknowledged
        self._leaders = Leaders(client)
        self._member = ShareGroupMembership(client, self.group_id, topics, self._assigned)
        interval_ms = poll_interval_ms(client.properties)
        self._polled = PolledMembership(client, self._member, self.group_id, interval_ms, self._lose)
        self._assignment: set[TopicPartition] = set()
        self._sessions: dict[int, _Session] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._waiting: deque[Delivered] = deque()
        self._renewed: dict[tuple[TopicPartition, int], Delivered] = {}  # until the broker has answered
        self._arrived = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._errors: deque[Exception] = deque()

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._polled.run())
        self._running.add_done_callback(lambda _: self._arrived.set())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is None:
            return  # closed before
        running, self._running = self._running, None
        running.cancel()
        self._arrived.set()
        fetches = list(self._fetches.values())
        if fetches:  # the last request of a session waits for them anyway
            await asyncio.wait(fetches, timeout=_LAST_MS / 1000)
        for task in fetches:
            task.cancel()
        await asyncio.gather(running, *fetches, return_exceptions=True)
        for leader, session in self._sessions.items():
            if session.epoch != _FIRST_EPOCH:
                with suppress(ClientError, LinkError):  # the broker notices, and releases the records
                    await self._acknowledge(leader, session, _LAST_EPOCH)
        await self._member.leave()

    def _assigned(self, partitions: set[TopicPartition]) -> None:
        self._assignment = partitions
        self._arrived.set()

    def _lose(self) -> None:
        self._assigned(set())

    # -- records

    async def poll(self, timeout_ms: int, max_records: int) -> list[Delivered]:
        """Wait for records and return at most `max_records`. Raises ClientError."""
        with self._polled.poll():
            return await self._poll(timeout_ms, max_records)

    async def _poll(self, timeout_ms: int, max_records: int) -> list[Delivered]:
        until = self._client.deadline(timeout_ms)
        self._raise()  # records that keep coming hide no error
        while not self._waiting:
            self._arrived.clear()
            self._raise()
            with suppress(TimedOut):  # no broker has named leaders: the next look may find one
                await self._send_fetches(max(1, min(timeout_ms, self._client.api_timeout_ms)))
            left = until - self._client.deadline(0)
            if left <= 0:
                return []
            await wait_for(self._arrived, min(left, LOOK_EVERY_MS))
        return [self._waiting.popleft() for _ in range(min(max_records, len(self._waiting)))]

    def acknowledge(self, delivered: Delivered, kind: int) -> None:
        """Acknowledge a record: ACCEPT, RELEASE for another member, or REJECT for good.

        RENEW keeps the record for longer, and `poll` returns the record again; such acknowledgements need a `commit`.
        """
        partition, offset = delivered.partition, delivered.record.offset
        session = self._sessions.get(self._leaders.leader(partition))
        if kind == RENEW:
            self._renewed[partition, offset] = delivered
        if session is None or session.epoch == _FIRST_EPOCH:  # the loan has ended with the session
            self._report({partition: [(offset, kind)]}, KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND))
        else:
            session.acknowledged.setdefault(partition, {})[offset] = kind

    async def commit(self) -> None:
        """Send the acknowledgements now, and wait until the brokers have answered."""
        await asyncio.gather(*self._fetches.values(), return_exceptions=True)
        for leader, session in self._sessions.items():
            if session.acknowledged and session.epoch != _FIRST_EPOCH:
                await self._send_acknowledgements(leader, session)

    def _raise(self) -> None:
        if self._running is None:
            raise ClientError(CLOSED)
        if self._running.done():
            self._running.result()
        if self._errors:
            raise self._errors.popleft()

    # -- fetching

    async def _send_fetches(self, timeout_ms: int) -> None:
        topics = {each.topic for each in self._assignment if self._leaders.leader(each) == NOBODY}
        if topics := topics | self._leaders.stale(each.topic for each in self._assignment):
            self._errors.extend((await self._leaders.look_up(topics, timeout_ms)).values())
        wanted: dict[int, set[TopicPartition]] = {}
        for each in self._assignment:
            if (leader := self._leaders.leader(each)) != NOBODY and leader not in self._fetches:
                wanted.setdefault(leader, set()).add(each)
        for leader, partitions in wanted.items():
            self._fetches[leader] = asyncio.create_task(self._fetch(leader, partitions))
        for leader, session in self._sessions.items():  # without partitions of the member by now
            if session.acknowledged and session.epoch != _FIRST_EPOCH and leader not in self._fetches:
                self._fetches[leader] = asyncio.create_task(self._send_remaining(leader, session))

    async def _fetch(self, leader: int, partitions: set[TopicPartition]) -> None:
        session = self._sessions.setdefault(leader, _Session(self._client))
        sent = session.pop_acknowledgements()
        request = self._request(session, partitions, sent)
        refused = False
        try:
            wait_ms = self._client.request_timeout_ms + self.settings.fetch_max_wait_ms
            try:
                answer = await self._client.ask_once(
                    request, leader, versions=_VERSIONS, timeout_ms=wait_ms, line="fetch"
                )
            except (ClientError, LinkError) as error:
                self._report(sent, error)
                raise
            self._report(sent, answer)
            self._fetched(answer, session, request)
            codes = (each.error_code for topic in answer.responses for each in topic.partitions)
            refused = bool(answer.error_code) or any(codes)
        except LinkError as error:
            refused = True
            self._end_session(session, error)
            for each in partitions:
                self._leaders.forget(each.topic)
        except Exception as error:  # a fault of ours would stop the consumer, and nobody would know
            refused = True
            self._errors.append(error)
        finally:
            self._arrived.set()
            if refused:  # and the next fetch may be, too
                await session.backoff.pause()
            else:
                session.backoff.reset()
            del self._fetches[leader]

    def _request(
        self, session: _Session, partitions: set[TopicPartition], sent: _Acknowledgements
    ) -> ShareFetchRequest:
        settings = self.settings

        def fetched(each: TopicPartition) -> FetchPartition:
            batches = [AcknowledgementBatch(offset, offset, [kind]) for offset, kind in sent.get(each, ())]
            return FetchPartition(each.partition, acknowledgement_batches=batches)

        ids, named = self._member.ids, sorted(partitions | sent.keys())
        topics = by_topic((ids[each.topic], fetched(each)) for each in named)
        gone = by_topic(sorted(session.partitions.difference((ids[topic], index) for topic, index in named)))
        return ShareFetchRequest(
            self.group_id,
            self._member.member_id,
            session.epoch,
            settings.fetch_max_wait_ms,
            settings.fetch_min_bytes,
            settings.fetch_max_bytes,
            settings.max_poll_records,
            settings.max_poll_records,
            topics=[FetchTopic(*each) for each in topics.items()],
            forgotten_topics_data=[ForgottenTopic(*each) for each in gone.items()],
        )

    def _end_session(self, session: _Session, error: ClientError | LinkError) -> None:
        """Begin anew: the end of the session has released all records, also those that were to be acknowledged."""
        session.epoch, session.partitions = _FIRST_EPOCH, set()
        self._report(session.pop_acknowledgements(), error)

    def _fetched(self, answer: ShareFetchResponse, session: _Session, request: ShareFetchRequest) -> None:
        if answer.error_code in _SESSION_GONE:
            self._end_session(session, KafkaError(answer.error_code))
            return
        if answer.error_code and answer.error_code not in _PASSING:
            raise KafkaError(answer.error_code, answer.error_message)
        if answer.error_code and session.epoch == _FIRST_EPOCH:
            return  # no session was opened
        session.epoch += 1
        session.partitions = {
            (topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions
        }
        names = self._member.names
        for topic in answer.responses:
            for each in topic.partitions:
                if topic.topic_id in names:
                    try:
                        self._store(TopicPartition(names[topic.topic_id], each.partition_index), each, session)
                    except ClientError as error:
                        self._errors.append(error)

    def _store(self, partition: TopicPartition, data: PartitionData, session: _Session) -> None:
        """Store the records acquired for the member."""
        if data.error_code in _PASSING:
            self._leaders.forget(partition.topic)
            return
        if data.error_code:
            check_topic(partition.topic, data.error_code)
            raise KafkaError(data.error_code, data.error_message)
        held = {
            offset: each.delivery_count
            for each in data.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        kinds, others = dict[int, int](), RELEASE
        try:
            for batch in batches_of(partition, data.records, (), self.settings.check_crcs):
                try:
                    for record in batch.records(0):
                        if (deliveries := held.pop(record.offset, None)) is not None:
                            found = Delivered(partition, record, batch.leader_epoch, batch.timestamp_type, deliveries)
                            self._waiting.append(found)
                except ClientError as error:
                    self._errors.append(error)
                    for offset in [each for each in held if each < batch.next_offset]:
                        del held[offset]
                        kinds[offset] = REJECT
            others = GAP
        finally:
            kinds.update(dict.fromkeys(held, others))
            if kinds:
                session.acknowledged.setdefault(partition, {}).update(kinds)

    # -- acknowledging

    async def _send_remaining(self, leader: int, session: _Session) -> None:
        """Send the acknowledgements to a leader from whom nothing is fetched any more."""
        try:
            await self._send_acknowledgements(leader, session)
        except Exception as error:  # for the next poll
            self._errors.append(error)
        finally:
            self._arrived.set()
            del self._fetches[leader]

    async def _send_acknowledgements(self, leader: int, session: _Session) -> None:
        try:
            await self._acknowledge(leader, session, session.epoch)
        except LinkError as error:
            self._end_session(session, error)

    async def _acknowledge(self, leader: int, session: _Session, epoch: int) -> None:
        sent = session.pop_acknowledgements()
        ids = self._member.ids
        topics = [AcknowledgeTopic(ids[name], each) for name, each in _acknowledgements(sent)]
        renews = any(kind == RENEW for kinds in sent.values() for _, kind in kinds)
        request = ShareAcknowledgeRequest(self.group_id, self._member.member_id, epoch, renews, topics)
        try:
            answer: ShareAcknowledgeResponse = await self._client.ask_once(
                request, leader, versions=_RENEWING if renews else _VERSIONS, timeout_ms=_LAST_MS, line="fetch"
            )
        except (ClientError, LinkError) as error:
            self._report(sent, error)
            raise
        self._report(sent, answer)
        if answer.error_code in _SESSION_GONE:
            self._end_session(session, KafkaError(answer.error_code))
        else:
            session.epoch += 1

    def _report(
        self, sent: _Acknowledgements, outcome: ShareFetchResponse | ShareAcknowledgeResponse | ClientError | LinkError
    ) -> None:
        """Tell the caller of each partition whether the acknowledgements count; renewed records come again."""
        if isinstance(outcome, ClientError | LinkError):
            error = outcome if isinstance(outcome, ClientError) else KafkaError(ErrorCode.NETWORK_EXCEPTION)
            refused: dict[TopicPartition, ClientError] = dict.fromkeys(sent, error)
        elif outcome.error_code:
            refused = dict.fromkeys(sent, KafkaError(outcome.error_code, outcome.error_message))
        else:
            refused = dict(_refused(outcome, self._member.names))
        for partition, kinds in sent.items():
            renewed = [self._renewed.pop((partition, offset), None) for offset, kind in kinds if kind == RENEW]
            if partition not in refused:
                self._waiting.extend(filter(None, renewed))
            of_records = {offset: kind for offset, kind in kinds if kind != GAP}
            if of_records and self._on_acknowledged is not None:
                self._on_acknowledged(partition, of_records, refused.get(partition))


def _refused(
    answer: ShareFetchResponse | ShareAcknowledgeResponse, names: Mapping[bytes, str]
) -> Iterator[tuple[TopicPartition, ClientError]]:
    """Yield the partitions whose acknowledgements the broker has refused."""
    for topic in answer.responses:
        for each in topic.partitions:
            if isinstance(each, PartitionData):
                code, message = each.acknowledge_error_code, each.acknowledge_error_message
            else:
                code, message = each.error_code, each.error_message
            if code and topic.topic_id in names:
                yield TopicPartition(names[topic.topic_id], each.partition_index), KafkaError(code, message)


def _acknowledgements(sent: _Acknowledgements) -> Iterable[tuple[str, list[AcknowledgePartition]]]:
    return by_topic(
        (topic, AcknowledgePartition(index, [Acknowledged(offset, offset, [kind]) for offset, kind in kinds]))
        for (topic, index), kinds in sorted(sent.items())
    ).items()
