"""Transactions of producers: AddPartitionsToTxn v0-v5, AddOffsetsToTxn v0-v4, TxnOffsetCommit v0-v6, EndTxn v0-v5. From
version 2 on (AddOffsetsToTxn, AddPartitionsToTxn, EndTxn) clients know PRODUCER_FENCED.

AddPartitionsToTxn: all partitions of a transaction are added, or none: a partition that does not exist, or may not be
written to, fails alone, and the others say OPERATION_NOT_ATTEMPTED. No client may write to internal topics. Versions:
up to 3 come from clients of the classic protocol, one transaction each. From 4 on brokers ask, many transactions in one
request, and may ask to verify only (KIP-890); the partitions they add are of transaction version 2.

AddOffsetsToTxn: the partition of `__consumer_offsets` that holds the group takes part in the transaction. Producers of
transaction version 2 no longer ask: their TxnOffsetCommit v5 adds the partition (KIP-890).

TxnOffsetCommit: offsets that count once the producer's transaction commits. The group's partition of
`__consumer_offsets` must be part of the transaction: added before, or by the request itself from version 5 on. Then the
group decides, and fences members of an older generation (KIP-447). Versions: 2 leader epochs, 3 the consumer's member
id and generation, 4 knows TRANSACTION_ABORTABLE, 5 joins implicitly (KIP-890), 6 topic ids instead of names, and
STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND (KIP-1319).

EndTxn: answered when the outcome is committed and the markers of partitions without other replicas are on disk, so that
the next request of the producer meets no transaction that is still ending. Markers that other brokers have to write or
fetch are not waited for. Versions: 5 bumps the epoch and answers the producer id and epoch to go on with (KIP-890).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import copy

from pykafka_broker.broker.coordinators.add_partitions_to_txn import (
    LocalVerdict,
    PartitionVerification,
    verification_error,
)
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import DONE, Answer, lost, when_committed
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.coordinators.groups.offsets import TXN_TOPIC_IDS_FROM
from pykafka_broker.coordinators.transactions.coordinator import ProducerReply
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, PartitionKey, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from pykafka_broker.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykafka_broker.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.end_txn_response import EndTxnResponse
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_FENCED_FROM = 2
_BATCHED_FROM = 4  # AddPartitionsToTxn
_ABORTABLE_FROM = 4  # TxnOffsetCommit
_IMPLICIT_ADD_FROM = 5
_BUMPING_FROM = 5  # EndTxn
# Errors of the group's partition, as errors of the group's coordinator.
_AS_COORDINATOR = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def _known_code(code: ErrorCode, version: int) -> ErrorCode:
    """Return the code for `code` in a version, which may not know PRODUCER_FENCED."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_FROM else code


@handles(ApiKey.ADD_PARTITIONS_TO_TXN)
def add_partitions_to_txn(
    services: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Answer[AddPartitionsToTxnResponse]:
    if context.api_version < _BATCHED_FROM:
        only = AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            False,
            request.v3_and_below_topics,
        )
        codes, topics = _add(services, context, only)
        response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(topics, codes))
        error = ErrorCode.CONCURRENT_TRANSACTIONS if _is_concurrent(codes) else ErrorCode.NONE
        return when_committed(response, services.transactions.committed(only.transactional_id, error))
    if not services.allows(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results, claimed = [], []
    for each in request.transactions:
        codes, topics = _add(services, context, each)
        if not _is_concurrent(codes):
            claimed.append(each.transactional_id)
        results.append(AddPartitionsToTxnResult(each.transactional_id, _topic_results(topics, codes)))
    response = AddPartitionsToTxnResponse(results_by_transaction=results)
    return services.transactions.shards.when_committed(response, *claimed)


def _is_concurrent(codes: Mapping[PartitionKey, ErrorCode]) -> bool:
    """Return whether a transaction's producer is only told to come back (CONCURRENT_TRANSACTIONS)."""
    return next(iter(codes.values()), ErrorCode.NONE) is ErrorCode.CONCURRENT_TRANSACTIONS


def _add(
    services: Services, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> tuple[Mapping[PartitionKey, ErrorCode], list[AddPartitionsToTxnTopic]]:
    """Add partitions to a transaction, or verify the partitions.

    Returns:
        the outcome by partition, and the topics of the answer: where partitions differ, each of them once.
    """
    codes: dict[PartitionKey, ErrorCode] = {}
    is_client = context.api_version < _BATCHED_FROM
    if is_client and not services.allows(
        context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transaction.transactional_id
    ):
        return defaultdict(lambda: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), transaction.topics
    refused = False
    for topic in transaction.topics:
        denied = is_client and (
            topic.name in INTERNAL_TOPICS
            or not services.allows(context, AclOperation.WRITE, AclResourceType.TOPIC, topic.name)
        )
        for index in topic.partitions:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            if denied:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif services.image.partition(topic.name, index) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            codes[topic.name, index] = code
            refused = refused or code is not ErrorCode.OPERATION_NOT_ATTEMPTED
    if refused:
        return codes, _each_once(codes)
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    try:
        if transaction.verify_only:
            verdicts = services.transactions.verify_partitions(*producer, codes)
            services.transactions.confirm_by_append(transaction.transactional_id, *verdicts.values())
            return verdicts, _each_once(verdicts)
        client_version = 2 if context.api_version >= _BATCHED_FROM else 0
        code = services.transactions.add_partitions(*producer, codes, client_version, context.now)
    except ApiError as error:
        code = error.code
    return dict.fromkeys(codes, _known_code(code, context.api_version)), transaction.topics


def _each_once(partitions: Iterable[PartitionKey]) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in by_topic(partitions).items()]


def _topic_results(
    topics: list[AddPartitionsToTxnTopic], codes: Mapping[PartitionKey, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(index, codes[topic.name, index]) for index in topic.partitions],
        )
        for topic in topics
    ]


@handles(ApiKey.ADD_OFFSETS_TO_TXN)
def add_offsets_to_txn(
    services: Services, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Answer[AddOffsetsToTxnResponse]:
    try:
        services.authorise(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
        services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
        code = services.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [services.offsets_partition(request.group_id)],
            0,
            context.now,
        )
    except ApiError as error:
        code = error.code
    code = _known_code(code, context.api_version)
    committed = services.transactions.committed(request.transactional_id, code)
    return when_committed(AddOffsetsToTxnResponse(error_code=code), committed)


@handles(ApiKey.TXN_OFFSET_COMMIT)
def txn_offset_commit(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> Answer[TxnOffsetCommitResponse]:
    try:
        services.authorise(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
        services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    except ApiError as error:
        return TxnOffsetCommitResponse(topics=_failed_topics(request.topics, error.code))
    known, refused = _split(services, context, request)
    if not known:
        return TxnOffsetCommitResponse(topics=_merged(refused, []))
    if refused:
        request = copy(request)  # an answer that fails after a wait is made of the whole request
    request.topics = known
    return _commit(services, context, request, refused)


def _commit(
    services: Services,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    refused: list[TxnOffsetCommitResponseTopic],
    asked: PartitionVerification | None = None,
) -> Answer[TxnOffsetCommitResponse]:
    committed = DONE
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        found = _add_or_verify(services, context, request, asked)
        verification = None if isinstance(found, LocalVerdict) else found
        awaited = found.committed if isinstance(found, LocalVerdict) else found
        if awaited is not None and not awaited.succeeded:
            return awaited.then(lambda _: _commit(services, context, request, refused, verification), lost)
        answered = services.groups.txn_commit_offsets(request, context).topics
        committed = services.groups.committed(request.group_id)
    except ApiError as error:
        answered = _failed_topics(request.topics, _AS_COORDINATOR.get(error.code, error.code))
    return when_committed(TxnOffsetCommitResponse(topics=_merged(refused, answered)), committed)


def _add_or_verify(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest, asked: PartitionVerification | None
) -> LocalVerdict | PartitionVerification | None:
    """Have the group's partition take part in the producer's open transaction, or verify the part.

    Returns:
        what to wait for before the next call, if not done; None if the partition takes part for certain.

    Raises:
        ApiError: the partition does not take part.
    """
    implicit = context.api_version >= _IMPLICIT_ADD_FROM
    partition = services.replicas.leader(*services.offsets_partition(request.group_id))
    producer = (request.producer_id, request.producer_epoch)
    if partition.log.producers.has_open_transaction(*producer):
        return None
    if not implicit and not services.config.transaction_partition_verification_enable:
        return None
    found: LocalVerdict | PartitionVerification
    if asked is not None and asked.holds(partition):
        found = asked
    else:
        found = services.transactions.add_or_verify(request.transactional_id, *producer, partition, implicit)
    verdict = ErrorCode.NONE
    if isinstance(found, LocalVerdict):
        verdict = found.verdict
    elif found.done:
        verdict = found.result()
    if verdict is not ErrorCode.NONE:
        raise verification_error(verdict, implicit, context.api_version >= _ABORTABLE_FROM)
    return found


def _split(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitResponseTopic]]:
    """Return the topics with existing, readable partitions, and the refusals of all other partitions."""
    known, refused = [], []
    by_ids = context.api_version >= TXN_TOPIC_IDS_FROM
    for topic in request.topics:
        if by_ids:
            image = services.image.topics_by_id.get(topic.topic_id)
            if image is None:
                refused += _failed_topics([topic], ErrorCode.UNKNOWN_TOPIC_ID)
                continue
            topic.name = image.name
        if not services.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic.name):
            refused += _failed_topics([topic], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            continue
        there: list[TxnOffsetCommitRequestPartition] = []
        missing: list[TxnOffsetCommitRequestPartition] = []
        for partition in topic.partitions:
            exists = services.image.partition(topic.name, partition.partition_index) is not None
            (there if exists else missing).append(partition)
        if there:
            known.append(TxnOffsetCommitRequestTopic(topic.name, topic.topic_id, there))
        if missing or topic.name not in services.image.topics:
            refused += _failed_topics(
                [TxnOffsetCommitRequestTopic(topic.name, topic.topic_id, missing)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
    return known, refused


def _failed_topics(topics: list[TxnOffsetCommitRequestTopic], code: ErrorCode) -> list[TxnOffsetCommitResponseTopic]:
    return [
        TxnOffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [TxnOffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions],
        )
        for topic in topics
    ]


def _merged(
    refused: list[TxnOffsetCommitResponseTopic], answered: list[TxnOffsetCommitResponseTopic]
) -> list[TxnOffsetCommitResponseTopic]:
    """Return the results of both lists with an entry for each topic, refusals first; without refusals, the answers."""
    if not refused:
        return answered
    topics: dict[tuple[str, bytes], TxnOffsetCommitResponseTopic] = {}
    for topic in (*refused, *answered):
        known = topics.setdefault((topic.name, topic.topic_id), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(topics.values())


@handles(ApiKey.END_TXN)
def end_txn(services: Services, context: RequestContext, request: EndTxnRequest) -> Answer[EndTxnResponse]:
    version = context.api_version
    try:
        services.authorise(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
        reply = services.transactions.end_transaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            2 if version >= _BUMPING_FROM else 0,
            context.now,
        )
    except ApiError as error:
        reply = ProducerReply(error.code)
    code = _known_code(reply.error, version)
    response = EndTxnResponse(error_code=code, producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)
    return when_committed(response, services.transactions.committed(request.transactional_id, reply.error))
