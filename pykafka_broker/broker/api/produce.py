"""Produce v0-v13.

Behaviour: partitions are served one by one, each with its own error. `acks` 0 has no answer, and an error closes the
connection, which is how such a client learns of it; 1 and -1 (all) are answered when the records are committed, which
they are after the sync where `flush.messages` asks for one; a duplicate of a batch that is not yet committed waits too.
Versions: 0-2 carry message sets of format v0 and v1, 3 record batches v2 and transactional ids, 5 answers the log start
offset, 7 allows zstd (KIP-110), 8 names bad records (KIP-467), 10 the current leader, 12 lets a transactional producer
add partitions by producing (KIP-890), 13 topic ids (KIP-516).
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.produce_checks import Buffer, Explained, RecordErrors, RefusedByLog, check_batch, read_batch
from pykafka_broker.broker.purgatory import Parked, Uncommitted
from pykafka_broker.broker.router import handles
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.produce_request import ProduceRequest
from pykafka_broker.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import TRANSACTIONAL_BIT, BatchHeader, read_header

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

TOPIC_IDS_FROM = 13
INTERNAL_TOPICS_CLIENT = "__admin_client"  # what Kafka's own tools call themselves when they write internal topics
Waiting = tuple[PartitionLog, int, PartitionProduceResponse]  # with the offset that makes it an answer
_ACKS = (-1, 0, 1)
_ATTRIBUTES_LOW_BYTE = 22
_REFUSALS_OF_A_LOG = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_TXN_STATE,
    }
)


class RefusedByCoordinator(ApiError):
    """The log was not asked then."""


class GapInSequence(ApiError):
    """Found by the coordinator's side, since it knows whether the producer is new."""


class NotInTransaction(RefusedByCoordinator, Explained):
    """Why is told in this case alone."""


@handles(ApiKey.PRODUCE)
def produce(broker: Broker, context: RequestContext, request: ProduceRequest) -> ProduceResponse | Parked | None:
    refused = _refused(request)
    uses_ids = context.api_version >= TOPIC_IDS_FROM
    if request.transactional_id is not None and not refused and request.acks in _ACKS:
        _join(broker, context, request)
    uncommitted: list[Waiting] = []
    responses = []
    for topic in request.topic_data:
        name, problem = topic.name, refused
        if uses_ids:
            try:
                name = broker.topic_name(topic.topic_id)
            except ApiError as error:
                problem = problem or error
        answers = []
        for one in topic.partition_data:
            try:
                if problem is not None:
                    raise problem
                answer = _append(broker, context, request, name, one.index, one.records, uncommitted)
            except ApiError as error:
                answer = _failure(broker, name, one.index, error)
            except OSError as error:
                answer = _failure(broker, name, one.index, ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror))
            answers.append(answer)
        responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    if request.acks == 0:
        _close_on_failure(responses)
        return None
    response = ProduceResponse(responses=responses)
    return _answered_when_committed(broker, context, response, uncommitted) if uncommitted else response


def _append(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    topic: str,
    partition: int,
    records: Buffer | None,
    uncommitted: list[Waiting],
) -> PartitionProduceResponse:
    log = broker.partition_log(topic, partition)
    batch, header = read_batch(records, context.api_version)
    if request.acks not in _ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    verified, gap = False, None
    if header is not None and header.attributes & TRANSACTIONAL_BIT:
        try:
            verified = _verified(broker, context, request, header, topic, partition)
        except GapInSequence as error:  # the log's business, which has looked at the records before
            gap = error
    if broker.is_internal(topic) and context.client_id != INTERNAL_TOPICS_CLIENT:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic}")
    config = log.config
    if request.acks == -1 and config.min_insync_replicas > 1:
        broker.require_insync_replicas(topic, partition, config.min_insync_replicas)
    batch, header, log_append_time = check_batch(batch, header, config, context.now)
    if gap is not None:
        raise gap
    appended = log.append(batch, context.now, header=header, verified=verified)
    answer = PartitionProduceResponse(
        index=partition,
        base_offset=appended.base_offset,
        # A duplicate is answered with the time of the batch that it repeats, whatever the topic's timestamp type is.
        log_append_time_ms=appended.max_timestamp if appended.duplicate else log_append_time,
        log_start_offset=appended.log_start_offset,
    )
    if log.high_watermark > appended.last_offset:
        broker.purgatory.touch(log)
    else:
        uncommitted.append((log, appended.last_offset + 1, answer))
    return answer


def _verified(
    broker: Broker, context: RequestContext, request: ProduceRequest, header: BatchHeader, topic: str, partition: int
) -> bool:
    try:
        return broker.verify_transactional_produce(context, request, header, topic, partition)
    except Uncommitted:
        if request.acks:
            raise  # the request is served again then
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS) from None
    except ApiError as error:
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise GapInSequence(error.code, error.message) from None
        if error.code is ErrorCode.INVALID_TXN_STATE:
            text = error.message or f"{topic}-{partition} is not part of the producer's transaction"
            raise NotInTransaction(error.code, text) from None
        raise RefusedByCoordinator(error.code, error.message) from None


def _join(broker: Broker, context: RequestContext, request: ProduceRequest) -> None:
    """Let all partitions take part before the first of them is written to: this may raise Uncommitted, the rest of the
    request must not any more. What else is wrong is found again when the partition has its turn.
    """
    for topic in request.topic_data:
        for one in topic.partition_data:
            with contextlib.suppress(ApiError, CorruptBatch):
                header = read_header(one.records or b"")
                if header.attributes & TRANSACTIONAL_BIT:
                    name = broker.topic_name(topic.topic_id) if context.api_version >= TOPIC_IDS_FROM else topic.name
                    _verified(broker, context, request, header, name, one.index)


def _answered_when_committed(
    broker: Broker, context: RequestContext, response: ProduceResponse, uncommitted: list[Waiting]
) -> Parked:
    """The answer waits until these logs are synced; producers that ask meanwhile share the next sync."""
    parked = Parked(None)
    waiting = len(uncommitted)

    def committed(answer: PartitionProduceResponse, error: OSError | None) -> None:
        nonlocal waiting
        if error is not None:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            answer.error_message = error.strerror
            answer.base_offset = -1
        waiting -= 1
        if not waiting:
            parked.complete(response)

    for log, end, answer in uncommitted:
        broker.logs.when_committed(log, end, context.now, partial(committed, answer))
    return parked


def _refused(request: ProduceRequest) -> ApiError | None:
    """What makes the whole request wrong."""
    if request.transactional_id is None and any(
        one.records is not None
        and len(one.records) > _ATTRIBUTES_LOW_BYTE
        and one.records[16] == 2
        and one.records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT
        for topic in request.topic_data
        for one in topic.partition_data
    ):
        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def _failure(broker: Broker, topic: str, partition: int, error: ApiError) -> PartitionProduceResponse:
    """A real broker tells the log's start where the log was asked, and a text only where single records are bad."""
    answer = PartitionProduceResponse(index=partition, error_code=error.code, base_offset=-1)
    if isinstance(error, RefusedByLog) or (
        error.code in _REFUSALS_OF_A_LOG and not isinstance(error, RefusedByCoordinator)
    ):
        answer.log_start_offset = broker.partition_log(topic, partition).log_start_offset
    if isinstance(error, Explained):
        answer.error_message = error.message
    if isinstance(error, RecordErrors):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.records
        ]
    return answer


def _close_on_failure(responses: list[TopicProduceResponse]) -> None:
    for topic in responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                code = ErrorCode(answer.error_code).name
                raise FrameError(f"a produce with acks=0 to {topic.name}-{answer.index} failed: {code}")
