"""Produce v0-v13.

Behaviour: partitions are served one by one, each with its own error. `acks` 0 has no answer, and an error closes the
connection, so that the client learns of the error. 1 is answered when this replica has the records for good, which is
after the sync where `flush.messages` asks for one; -1 (all) when they are committed, or with REQUEST_TIMED_OUT when
`timeout_ms` is over. A duplicate of a batch that is not yet committed waits too. A batch of a transaction is written
only if the coordinator says that the partition takes part (KIP-890), for clients with a right on the transactional id.
Versions: 0-2 carry message sets of format v0 and v1, 3 record batches v2 and transactional ids, 5 answers the log start
offset, 7 allows zstd (KIP-110), 8 names bad records (KIP-467), 10 the current leader, 12 lets a transactional producer
add partitions by producing (KIP-890), 13 topic ids (KIP-516).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pykafka_broker.broker.api.produce_checks import (
    MESSAGE_SETS_UP_TO,
    ZSTD_FROM,
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
from pykafka_broker.broker.coordinators.add_partitions_to_txn import (
    ABORTABLE_FROM_PRODUCE,
    IMPLICIT_ADD_FROM_PRODUCE,
    LocalVerdict,
    PartitionVerification,
    last_end,
    verification_error,
)
from pykafka_broker.broker.partitions.partition import NotLeader, Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import DONE, Answer, Future, Parked, Steps, all_of, lost, shares
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.errors import ApiError, ClosedOnPurpose
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
from pykafka_broker.records.compression import ZSTD
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import CODEC_MASK, TRANSACTIONAL_BIT, BatchHeader, peek, read_header

TopicAndPartitions = tuple[TopicProduceData, Sequence[PartitionProduceData]]
_NO_RECORDS: list[BatchIndexAndErrorMessage] = []  # never changed, and one for all answers
TOPIC_IDS_FROM = 13
LEADER_FROM = 10  # the answer has room for the current leader
INTERNAL_TOPICS_CLIENT = "__admin_client"  # the client id of Kafka's own tools when they write internal topics
ALL = -1  # acks
_ACKS = (ALL, 0, 1)
_BYTES_A_STEP = 64 << 10  # compressed, of batches each of which takes less than a step
_WRITE_TOPIC = (AclOperation.WRITE, AclResourceType.TOPIC)
_WRITE_TRANSACTION = (AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID)
_ATTRIBUTES_LOW_BYTE = 22  # of a batch
_PRODUCER = slice(43, 53)  # the producer's id and epoch in a batch
_PRODUCER_BYTES = 10
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
    """A request: the producer joins the transaction first, then partition after partition is written.

    Other requests are served in between where there are many partitions.
    """

    __slots__ = (
        "_context",
        "_copied",
        "_in_steps",
        "_leaders",
        "_refusal",
        "_request",
        "_services",
        "_unfinished",
        "_verification",
    )

    def __init__(self, services: Services, context: RequestContext, request: ProduceRequest) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._refusal: ApiError | None = None  # of the whole request
        self._leaders: set[int] = set()  # of partitions that this node does not lead
        name = request.transactional_id
        self._verification = None if name is None else TransactionVerification(services, context, name)
        self._unfinished: list[UncommittedAppend] = []
        self._in_steps: list[CheckInSteps] = []
        self._copied = False

    def steps(self) -> Steps[Answer[ProduceResponse | None]]:
        """Serve the request; the records are written to the end even if the producer has gone."""
        request = self._request
        asked = [(topic, topic.partition_data) for topic in request.topic_data if topic.partition_data]
        self._refusal = refusal(self._services, self._context, request.transactional_id, asked)
        if self._verification is not None and not self._refusal:
            while verifying := self._verify(self._verification, asked):
                self._keep_records()
                try:
                    yield all_of(*verifying)
                except ApiError as error:
                    raise lost(error) from None
        responses: list[TopicProduceResponse] = []
        written: TopicProduceData | None = None
        for turn, share in enumerate(shares(asked)):
            if turn:
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
            yield from self._write_in_steps()
        if request.acks == 0:
            close_on_failure(responses)
            return None
        whole = ProduceResponse(responses=responses)
        return self._wait(whole) if self._unfinished else self._with_nodes(whole)

    def _with_nodes(self, response: ProduceResponse) -> ProduceResponse:
        """Return the response with the addresses of the leaders that it names (KIP-951)."""
        if self._leaders:
            leaders = self._services.leaders(self._context, self._leaders)
            response.node_endpoints = [NodeEndpoint(*node) for node in leaders]
        return response

    def _keep_records(self) -> None:
        """Copy the records, before a step in which the buffer behind them is used again."""
        if not self._copied:
            self._copied = True
            for topic in self._request.topic_data:
                for data in topic.partition_data:
                    data.records = None if data.records is None else memoryview(bytearray(data.records))

    # -- the transaction

    def _verify(self, verification: TransactionVerification, topics: Iterable[TopicAndPartitions]) -> list[Future[Any]]:
        """Let partitions take part in the transaction, before the first partition is written.

        Returns the futures to wait for, after which the method is called again. A producer that wants no answer can't
        wait and is refused. Other errors are found again when the partition has its turn.
        """
        waiting: list[Future[Any]] = []
        for topic, partitions in topics:
            for data in partitions:
                with contextlib.suppress(ApiError, CorruptBatch):
                    header = read_header(data.records or b"")
                    if header.attributes & TRANSACTIONAL_BIT:
                        name = self._name_of(topic)
                        partition = self._services.replicas.leader(name, data.index)
                        future = verification.ask(partition, header)
                        if not future.succeeded:
                            waiting.append(future)
        if waiting and not self._request.acks:
            verification.refuse_all(ApiError(ErrorCode.CONCURRENT_TRANSACTIONS))
            return []
        return waiting

    # -- writing

    def _name_of(self, topic: TopicProduceData) -> str:
        """Return the topic's name, if the client may write to the topic."""
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
        for data in partitions:
            try:
                if problem is not None:
                    raise problem
                target = self._target(name, data)
                wall = self._services.clock.wall
                checked = check_batch(
                    target.batch,
                    target.header,
                    target.partition.log.config,
                    wall,
                    validate=self._services.own.validate_records,
                    is_measured=self._services.config.is_of_4_4,
                )
                answer = PartitionProduceResponse(data.index)
                if isinstance(checked, Prepared):
                    self._append(target, checked, answer)
                else:
                    self._in_steps.append(CheckInSteps(name, data, checked, answer))
            except ApiError as error:
                answer = self._failure(name, data.index, error)
            answers.append(answer)
        return TopicProduceResponse(topic.name, topic.topic_id, answers)

    def _write_in_steps(self) -> Steps[None]:
        """Serve the partitions whose records take steps to check, each in its turn."""
        checked_bytes = 0
        while self._in_steps:
            topic, data, check, answer = self._in_steps.pop(0)  # each check goes with what it holds
            if checked_bytes > _BYTES_A_STEP:
                checked_bytes = 0
                self._keep_records()
                yield None
            checked_bytes += len(data.records or b"")
            try:
                for _ in check.steps():
                    self._keep_records()
                    yield None
                target = self._target(topic, data)  # the partition may have another leader by now
                self._append(target, check.prepared(target.batch), answer)
            except ApiError as error:
                failure = self._failure(topic, data.index, error)
                for field in PartitionProduceResponse.__match_args__:
                    setattr(answer, field, getattr(failure, field))

    def _target(self, topic: str, data: PartitionProduceData) -> AppendTarget:
        """Return where the records go, if they may; before the records are checked."""
        services, acks = self._services, self._request.acks
        partition = services.replicas.leader(topic, data.index)
        batch, header = read_batch(data.records, self._context.api_version)
        verified = False
        if header is not None and header.attributes & TRANSACTIONAL_BIT:
            verified = True
            assert self._verification is not None  # without an id of the producer the whole request is refused
            self._verification.check(partition, header.producer_id)
        if acks not in _ACKS:
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
        if topic in INTERNAL_TOPICS and self._context.client_id != INTERNAL_TOPICS_CLIENT:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic}")
        config = partition.log.config
        if acks == ALL and config.min_insync_replicas > 1:
            partition.check_insync(config.min_insync_replicas)
        return AppendTarget(partition, batch, header, verified)

    def _append(self, target: AppendTarget, prepared: Prepared, answer: PartitionProduceResponse) -> None:
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
            # The wait begins with the append: after a change of leaders the same offset may hold another record.
            commit = partition.committed(end) if acks == ALL else partition.durable(end)
            self._unfinished.append(UncommittedAppend(partition, commit, answer))

    def _failure(self, topic: str, index: int, error: ApiError) -> PartitionProduceResponse:
        error.with_traceback(None)  # its frames lead back to this request, which may keep the error
        answer = refusal_of_append(self._services, topic, index, error)
        self._name_leader(answer, error)
        return answer

    def _name_leader(self, answer: PartitionProduceResponse, error: Exception | None) -> None:
        if isinstance(error, NotLeader) and self._context.api_version >= LEADER_FROM:
            answer.current_leader = LeaderIdAndEpoch(error.leader, error.leader_epoch)
            self._leaders.add(error.leader)

    # -- waiting

    def _wait(self, response: ProduceResponse) -> Parked:
        """Wait until this replica has the records for good (acks=1), or until they are committed (acks=all).

        The client's timeout bounds the wait for other replicas alone: a sync here belongs to the writing, as with
        Kafka.
        """
        wants_all, unfinished = self._request.acks == ALL, self._unfinished
        timed = wants_all and any(not append.partition.log.sole_replica for append in unfinished)
        parked = Parked(self._services.clock.now + self._request.timeout_ms if timed else None)

        def finished(position: int, future: Future[None]) -> None:
            unfinished[position].finish(future.error)
            self._name_leader(unfinished[position].answer, future.error)
            del waiting[position]
            if not waiting:
                parked.complete(self._with_nodes(response))

        def cancel_waits() -> None:
            for future in waiting.values():
                future.cancel()

        def expire(now: int) -> ProduceResponse:
            cancel_waits()
            for position in waiting:
                unfinished[position].answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            return self._with_nodes(response)

        waiting = {position: append.commit for position, append in enumerate(unfinished)}
        parked.expire, parked.on_cancel = expire, cancel_waits
        for position, future in list(waiting.items()):
            future.add_done_callback(partial(finished, position))
        return parked


class AppendTarget(NamedTuple):
    """The partition that records go to, and the batch. verified: the transaction's coordinator has agreed."""

    partition: Partition
    batch: Buffer
    header: BatchHeader | None
    verified: bool


class CheckInSteps(NamedTuple):
    """Records that are checked in steps, and the answer to fill in afterwards."""

    topic: str
    data: PartitionProduceData
    check: BatchCheck | MessageSetCheck
    answer: PartitionProduceResponse


class UncommittedAppend(NamedTuple):
    """Appended records, and the answer that waits for their commit, with acks=1 for their sync."""

    partition: Partition
    commit: Future[None]
    answer: PartitionProduceResponse

    def finish(self, error: Exception | None) -> None:
        """Fill in the outcome; `error` is the reason why the records are not committed."""
        if error is not None:
            assert isinstance(error, ApiError)
            self.answer.error_code = error.code
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:  # of a sync, which belongs to the append
                self.answer.base_offset = -1


def refusal_of_append(services: Services, topic: str, index: int, error: ApiError) -> PartitionProduceResponse:
    """Return the answer for a refused partition.

    Kafka tells the log's start where the log was asked, and a text only where single records are bad.
    """
    answer = PartitionProduceResponse(index, error.code, -1, record_errors=_NO_RECORDS)
    if isinstance(error, RefusedByLog) or (
        error.code in _REFUSALS_OF_A_LOG and not isinstance(error, RefusedByCoordinator)
    ):
        with contextlib.suppress(ApiError):  # the log may have gone since it refused
            answer.log_start_offset = services.replicas.leader(topic, index).log.log_start_offset
    if isinstance(error, Explained):
        answer.error_message = error.message
    if isinstance(error, RecordErrors):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.records
        ]
    return answer


def close_on_failure(responses: list[TopicProduceResponse]) -> None:
    """Close the connection of a client that wants no answer, if a partition has refused. Raises ClosedOnPurpose."""
    for topic in responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                code = ErrorCode(answer.error_code).name
                raise ClosedOnPurpose(f"a produce with acks=0 to {topic.name}-{answer.index} failed: {code}")


# -- the transaction


class RefusedByCoordinator(ApiError):
    """A refusal by the transaction's coordinator; the log was not asked."""


class NotInTransaction(RefusedByCoordinator, Explained):
    """A partition outside of the producer's transaction; the one refusal of a coordinator with a text."""


class TransactionVerification:
    """The coordinator's verdicts on the batches of a request."""

    __slots__ = ("_context", "_elsewhere", "_services", "_since", "_transactional_id", "_verdicts")

    def __init__(self, services: Services, context: RequestContext, transactional_id: str) -> None:
        self._services = services
        self._context = context
        self._transactional_id = transactional_id
        self._verdicts: dict[tuple[str, int], ApiError | None] = {}  # None is a yes
        self._since: dict[tuple[str, int], tuple[int, int]] = {}  # the `last_end` that each verdict is about
        self._elsewhere: dict[tuple[str, int], PartitionVerification] = {}  # at other nodes

    def ask(self, partition: Partition, header: BatchHeader) -> Future[Any]:
        """Have the partition take part in the producer's transaction.

        Call again when the future is done: `check` knows the verdict once the future is `DONE`.
        """
        key, version = (partition.topic, partition.index), self._context.api_version
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        host, producers = self._services.transactions, partition.log.producers
        self._verdicts[key], self._since[key] = None, last_end(partition, producer_id)
        if not host.asks_produce(producer_id, epoch, partition, version):
            return DONE
        implicit = version >= IMPLICIT_ADD_FROM_PRODUCE
        producers.on_try(producer_id, epoch, sequence, implicit)
        asked = self._elsewhere.get(key)
        if asked is None or not asked.holds(partition):
            found = host.add_or_verify(self._transactional_id, producer_id, epoch, partition, implicit)
            if isinstance(found, LocalVerdict):
                return self._note(partition, found.verdict, implicit, found.committed)
            asked = self._elsewhere[key] = found
        return self._note(partition, asked.result(), implicit, DONE) if asked.done else asked

    def _note(self, partition: Partition, verdict: ErrorCode, implicit: bool, committed: Future[None]) -> Future[None]:
        """Note a verdict; return the future to wait for before it counts, which of a refusal is done."""
        if verdict is ErrorCode.NONE:
            return committed
        error = verification_error(verdict, implicit, self._context.api_version >= ABORTABLE_FROM_PRODUCE)
        key = partition.topic, partition.index
        if error.code is ErrorCode.INVALID_TXN_STATE:
            text = error.message or f"{partition.topic}-{partition.index} is not part of the producer's transaction"
            self._verdicts[key] = NotInTransaction(error.code, text)
        else:
            self._verdicts[key] = RefusedByCoordinator(error.code, error.message)
        return DONE

    def refuse_all(self, error: ApiError) -> None:
        self._verdicts = dict.fromkeys(self._verdicts, error)

    def check(self, partition: Partition, producer_id: int) -> None:
        """Raise the coordinator's refusal of the partition, if there is one.

        A partition that was not writable here when the coordinator was asked, and is now, has no verdict. Neither has
        one where a marker has ended the transaction since, between two slices of the request: the records would begin
        a transaction that nobody ends. The client is to send its records again.
        """
        key = partition.topic, partition.index
        if self._since.get(key) != last_end(partition, producer_id):
            raise RefusedByCoordinator(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        verdict = self._verdicts[key]
        if verdict is not None:
            raise verdict


def refusal(
    services: Services, context: RequestContext, transactional_id: str | None, topics: Sequence[TopicAndPartitions]
) -> ApiError | None:
    """Return the error that refuses all `topics` of the request, if there is one."""
    if context.api_version <= MESSAGE_SETS_UP_TO:
        return None
    try:
        found = _are_transactional(topics)
    except CorruptBatch as error:
        # Kafka looks for a batch of a transaction, and fails at the first batch that it can't read.
        return Explained(ErrorCode.CORRUPT_MESSAGE, str(error))
    if found and (transactional_id is None or not services.allows(context, *_WRITE_TRANSACTION, transactional_id)):
        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if context.api_version < ZSTD_FROM and any(_has_strange_codec(services, *topic) for topic in topics):
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "unknown codec")
    if found and _has_two_producers(services.image, topics):
        text = "Transactional records contained more than one producer ID"
        return Explained(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
    return None


def _are_transactional(topics: Sequence[TopicAndPartitions]) -> bool:
    """Return whether a batch is transactional. Raises CorruptBatch for an unreadable batch before the first."""
    for _, some in topics:
        for data in some:
            records = data.records
            if records is not None and peek(records) == 2 and records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
                return True
    return False


def _has_two_producers(image: MetadataImage, topics: Sequence[TopicAndPartitions]) -> bool:
    """Return whether transactional batches for existing partitions are of several producers, or epochs of one."""
    producers: set[bytes] = set()
    for topic, some in topics:
        known = image.topics_by_id.get(topic.topic_id) or image.topics.get(topic.name)
        existing = () if known is None else [data.records for data in some if data.index in known.partitions]
        for records in existing:
            with contextlib.suppress(CorruptBatch):
                if records and peek(records) == 2 and records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
                    producer = bytes(records[_PRODUCER])
                    if len(producer) == _PRODUCER_BYTES and producer[0] < 0x80:  # a negative id is none
                        producers.add(producer)
    return len(producers) > 1


def _has_strange_codec(services: Services, topic: TopicProduceData, partitions: Sequence[PartitionProduceData]) -> bool:
    """Return whether a batch for an existing partition has an unknown codec: Kafka looks for zstd, and fails there."""
    image = services.image.topics.get(topic.name)
    existing = () if image is None else [data.records for data in partitions if data.index in image.partitions]
    for records in existing:
        with contextlib.suppress(CorruptBatch):
            if records and peek(records) == 2 and records[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK > ZSTD:
                return True
    return False
