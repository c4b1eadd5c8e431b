"""Produce v0-v13.

Behaviour: partitions are served one by one, each with its own error. `acks` 0 has no answer, and an error closes the
connection, which is how such a client learns of it. 1 is answered when this replica has the records for good, which is
after the sync where `flush.messages` asks for one; -1 (all) when they are committed, or with REQUEST_TIMED_OUT when
`timeout_ms` is over. A duplicate of a batch that is not yet committed waits too.
Versions: 0-2 carry message sets of format v0 and v1, 3 record batches v2 and transactional ids, 5 answers the log start
offset, 7 allows zstd (KIP-110), 8 names bad records (KIP-467), 10 the current leader, 12 lets a transactional producer
add partitions by producing (KIP-890), 13 topic ids (KIP-516).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from pykafka_broker.broker.api.produce_checks import (
    BatchCheck,
    Buffer,
    Explained,
    MessageSetCheck,
    Prepared,
    RecordErrors,
    RefusedByLog,
    check_batch,
    read_batch,
)
from pykafka_broker.broker.api.produce_joining import (
    Joining,
    RefusedByCoordinator,
    TopicAndPartitions,
    refusal,
)
from pykafka_broker.broker.partitions.partition import NotLeader, Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Future, Parked, Steps, all_of, lost, shares
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import TRANSACTIONAL_BIT, BatchHeader, read_header

_NO_RECORDS: list[BatchIndexAndErrorMessage] = []  # never changed, and one for all answers
TOPIC_IDS_FROM = 13
LEADER_FROM = 10  # the answer has room for the current leader
INTERNAL_TOPICS_CLIENT = "__admin_client"  # what Kafka's own tools call themselves when they write internal topics
ALL = -1  # acks
_ACKS = (ALL, 0, 1)
_BYTES_A_STEP = 64 << 10  # compressed, of batches each of which takes less than a step
_WRITE_TOPIC = (AclOperation.WRITE, AclResourceType.TOPIC)
_REFUSALS_OF_A_LOG = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_TXN_STATE,
    }
)


@handles(ApiKey.PRODUCE)
def produce(services: Services, context: RequestContext, request: ProduceRequest) -> Answer[ProduceResponse | None]:
    return services.slices.reply(Production(services, context, request).steps(), outlives_client=True)


class Production:
    """One request: its producer joins the transaction first, then partition after partition is written, with others
    served in between where there are many.
    """

    __slots__ = (
        "_context",
        "_copied",
        "_in_steps",
        "_joining",
        "_misled",
        "_refusal",
        "_request",
        "_services",
        "_unfinished",
    )

    def __init__(self, services: Services, context: RequestContext, request: ProduceRequest) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._refusal: ApiError | None = None  # of all of it
        self._misled = False  # some partition has another leader
        name = request.transactional_id
        self._joining = None if name is None else Joining(services, context, name)
        self._unfinished: list[Unfinished] = []
        self._in_steps: list[Closer] = []
        self._copied = False

    def steps(self) -> Steps[Answer[ProduceResponse | None]]:
        """Serve the request; it is written to its end even if its producer has gone."""
        asked = [(topic, topic.partition_data) for topic in self._request.topic_data if topic.partition_data]
        self._refusal = refusal(self._services, self._context, self._request.transactional_id, asked)
        while self._joins and (joining := self._join(asked)):
            self._keep_records()
            try:
                yield all_of(*joining)
            except ApiError as error:
                raise lost(error) from None
        responses: list[TopicProduceResponse] = []
        written: TopicProduceData | None = None
        for number, share in enumerate(shares(asked)):
            if number:
                self._keep_records()
                yield None
            for topic, some in share:
                response = self._write(topic, some)
                if topic is written:
                    responses[-1].partition_responses += response.partition_responses
                else:
                    responses.append(response)
                written = topic
        if self._in_steps:
            yield from self._look_closer()
        return self._answer(responses)

    def _answer(self, responses: list[TopicProduceResponse]) -> Answer[ProduceResponse | None]:
        if self._request.acks == 0:
            _close_on_failure(responses)
            return None
        response = ProduceResponse(responses=responses)
        return self._wait(response) if self._unfinished else self._with_nodes(response)

    def _with_nodes(self, response: ProduceResponse) -> ProduceResponse:
        """Where a partition has another leader, the answer says where that is (KIP-951)."""
        if self._misled:
            response.node_endpoints = [NodeEndpoint(*node) for node in self._services.nodes(self._context)]
        return response

    def _keep_records(self) -> None:
        """The buffer behind them is used again before this goes on."""
        if not self._copied:
            self._copied = True
            for topic in self._request.topic_data:
                for one in topic.partition_data:
                    one.records = None if one.records is None else memoryview(bytearray(one.records))

    # -- the transaction

    @property
    def _joins(self) -> bool:
        """Whether there may be batches of a transaction."""
        return self._joining is not None and not self._refusal and self._request.acks in _ACKS

    def _join(self, topics: Iterable[TopicAndPartitions]) -> list[Future[Any]]:
        """Let partitions take part, before the first one of all is written to. Returns what must be waited for before
        that; a producer that wants no answer can't wait and is refused. What else is wrong is found again when the
        partition has its turn.
        """
        joining: list[Future[Any]] = []
        coordinator = self._joining
        assert coordinator is not None
        for topic, partitions in topics:
            for one in partitions:
                with contextlib.suppress(ApiError, CorruptBatch):
                    header = read_header(one.records or b"")
                    if header.attributes & TRANSACTIONAL_BIT:
                        name = self._name_of(topic)
                        partition = self._services.replicas.leader(name, one.index)
                        future = coordinator.ask(partition, header)
                        if not future.succeeded:
                            joining.append(future)
        if joining and not self._request.acks:
            coordinator.refuse_all(ApiError(ErrorCode.CONCURRENT_TRANSACTIONS))
            return []
        return joining

    # -- writing

    def _name_of(self, topic: TopicProduceData) -> str:
        """Its name, if the client may write to it."""
        by_id = self._context.api_version >= TOPIC_IDS_FROM
        name = self._services.topic_name(topic.topic_id) if by_id else topic.name
        self._services.authorise(self._context, *_WRITE_TOPIC, name)
        return name

    def _write(self, topic: TopicProduceData, partitions: Iterable[PartitionProduceData]) -> TopicProduceResponse:
        name, problem = topic.name, self._refusal
        try:
            name = self._name_of(topic)
        except ApiError as error:
            problem = problem or error
        answers: list[PartitionProduceResponse] = []
        for one in partitions:
            try:
                if problem is not None:
                    raise problem
                target = self._target(name, one)
                wall = self._services.clock.wall
                checked = check_batch(
                    target.batch,
                    target.header,
                    target.partition.log.config,
                    wall,
                    validate=self._services.own.validate_records,
                )
                answer = PartitionProduceResponse(one.index)
                if isinstance(checked, Prepared):
                    self._append(target, checked, answer)
                else:
                    self._in_steps.append(Closer(name, one, checked, answer))
            except (ApiError, OSError) as error:
                answer = self._failure(name, one.index, error)
            answers.append(answer)
        return TopicProduceResponse(topic.name, topic.topic_id, answers)

    def _look_closer(self) -> Steps[None]:
        """Serve the partitions whose records can't be judged at once, each in its turn."""
        looked_at = 0
        while self._in_steps:
            one = self._in_steps.pop(0)
            if looked_at > _BYTES_A_STEP:
                looked_at = 0
                self._keep_records()
                yield None
            looked_at += len(one.data.records or b"")
            try:
                yield from self._append_in_steps(one)
            except (ApiError, OSError) as error:
                failure = self._failure(one.topic, one.data.index, error)
                for field in PartitionProduceResponse.__match_args__:
                    setattr(one.answer, field, getattr(failure, field))

    def _append_in_steps(self, one: Closer) -> Steps[None]:
        for _ in one.check.steps():
            self._keep_records()
            yield None
        target = self._target(one.topic, one.data)  # it may have another leader by now
        self._append(target, one.check.prepared(target.batch), one.answer)

    def _target(self, topic: str, one: PartitionProduceData) -> Target:
        """Where the records go, if they may; before they are looked at."""
        services, acks = self._services, self._request.acks
        partition = services.replicas.leader(topic, one.index)
        batch, header = read_batch(one.records, self._context.api_version)
        if acks not in _ACKS:
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
        verified = header is not None and header.attributes & TRANSACTIONAL_BIT != 0
        if verified:
            assert self._joining is not None  # without an id of the producer the whole request is refused
            self._joining.check(topic, one.index)
        if topic in INTERNAL_TOPICS and self._context.client_id != INTERNAL_TOPICS_CLIENT:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic}")
        config = partition.log.config
        if acks == ALL and config.min_insync_replicas > 1:
            partition.check_insync(config.min_insync_replicas)
        return Target(partition, batch, header, verified)

    def _append(self, target: Target, prepared: Prepared, answer: PartitionProduceResponse) -> None:
        partition, acks = target.partition, self._request.acks
        batch, header, log_append_time = prepared
        wall = self._services.clock.wall
        appended = partition.append(batch, wall, header=header, verified=target.verified)
        # A duplicate is answered with the time of the batch that it repeats, whatever the topic's timestamp type.
        time = appended.max_timestamp if appended.duplicate else log_append_time
        answer.base_offset, answer.log_append_time_ms = appended.base_offset, time
        answer.log_start_offset = appended.log_start_offset
        end = appended.last_offset + 1
        if partition.log.high_watermark < end and (acks == ALL or partition.log.durable_end < end):
            self._unfinished.append(Unfinished(partition, end, answer))

    def _failure(self, topic: str, number: int, error: ApiError | OSError) -> PartitionProduceResponse:
        """A real broker tells the log's start where the log was asked, and a text only where single records are bad."""
        if isinstance(error, OSError):
            error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
        answer = PartitionProduceResponse(number, error.code, -1, record_errors=_NO_RECORDS)
        self._name_leader(answer, error)
        if isinstance(error, RefusedByLog) or (
            error.code in _REFUSALS_OF_A_LOG and not isinstance(error, RefusedByCoordinator)
        ):
            answer.log_start_offset = self._services.replicas.leader(topic, number).log.log_start_offset
        if isinstance(error, Explained):
            answer.error_message = error.message
        if isinstance(error, RecordErrors):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in error.records
            ]
        return answer

    def _name_leader(self, answer: PartitionProduceResponse, error: Exception | None) -> None:
        if isinstance(error, NotLeader) and self._context.api_version >= LEADER_FROM:
            answer.current_leader = LeaderIdAndEpoch(error.leader, error.leader_epoch)
            self._misled = self._misled or error.leader >= 0

    # -- waiting

    def _wait(self, response: ProduceResponse) -> Parked:
        """acks=1 waits until this replica has the records for good, acks=all until they are committed or the client's
        time is over. That is the time which other replicas have: a sync here belongs to the writing, as with Kafka,
        and takes as long as it takes.
        """
        wants_all, unfinished = self._request.acks == ALL, self._unfinished
        timed = wants_all and any(not one.partition.log.sole_replica for one in unfinished)
        parked = Parked(self._services.clock.now + self._request.timeout_ms if timed else None)

        def finished(number: int, future: Future[None]) -> None:
            unfinished[number].finish(future.error)
            self._name_leader(unfinished[number].answer, future.error)
            del waiting[number]
            if not waiting:
                parked.complete(self._with_nodes(response))

        def give_up() -> None:
            for future in waiting.values():
                future.cancel()

        def expire(now: int) -> ProduceResponse:
            give_up()
            for number in waiting:
                unfinished[number].answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            return self._with_nodes(response)

        waiting: dict[int, Future[None]] = {}
        parked.expire, parked.on_cancel = expire, give_up
        for number, one in enumerate(unfinished):
            wait = one.partition.committed if wants_all else one.partition.durable
            waiting[number] = wait(one.end_offset)
        for number, future in list(waiting.items()):
            future.add_done_callback(partial(finished, number))
        return parked


class Target(NamedTuple):
    """Where the records of one partition go."""

    partition: Partition
    batch: Buffer
    header: BatchHeader | None
    verified: bool


class Closer(NamedTuple):
    """Records that are looked at in steps, and the answer that is filled in then."""

    topic: str
    data: PartitionProduceData
    check: BatchCheck | MessageSetCheck
    answer: PartitionProduceResponse


class Unfinished(NamedTuple):
    """Records that are in the log, and the answer that waits until all below `end_offset` is committed."""

    partition: Partition
    end_offset: int
    answer: PartitionProduceResponse

    def finish(self, error: Exception | None) -> None:
        """They are committed, or `error` is why they are not."""
        if error is not None:
            assert isinstance(error, ApiError)
            self.answer.error_code = error.code
            self.answer.error_message = error.message
            self.answer.base_offset = -1


def _close_on_failure(responses: list[TopicProduceResponse]) -> None:
    for topic in responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                code = ErrorCode(answer.error_code).name
                raise FrameError(f"a produce with acks=0 to {topic.name}-{answer.index} failed: {code}")
