"""AddPartitionsToTxn v0-v5.

Behaviour: all partitions of a transaction are added, or none: one that does not exist, or may not be written to, fails
alone, and the others say OPERATION_NOT_ATTEMPTED.
Versions: up to 3 come from clients of the classic protocol, one transaction each; 2 knows PRODUCER_FENCED. From 4 on
brokers ask, many transactions in one request, and may ask to verify only (KIP-890); what they add is of transaction
version 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, when_committed
from pykafka_broker.coordinators.transactions.transaction import TopicPartition
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
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

FENCED_FROM = 2
BATCHED_FROM = 4


@handles(ApiKey.ADD_PARTITIONS_TO_TXN)
def add_partitions_to_txn(
    services: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Answer[AddPartitionsToTxnResponse]:
    if context.api_version < BATCHED_FROM:
        only = AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            False,
            request.v3_and_below_topics,
        )
        codes = _add(services, context, only)
        results = _answer(only.topics, codes)
        response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
        error = ErrorCode.CONCURRENT_TRANSACTIONS if _is_concurrent(codes) else ErrorCode.NONE
        return when_committed(response, services.transactions.committed(only.transactional_id, error))
    if not services.allows(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results_of, claimed = [], []
    for one in request.transactions:
        codes = _add(services, context, one)
        if not _is_concurrent(codes):
            claimed.append(one.transactional_id)
        answer = _answer(one.topics, codes)
        results_of.append(AddPartitionsToTxnResult(one.transactional_id, answer))
    committed = services.transactions.shards.committed(*claimed)
    return when_committed(AddPartitionsToTxnResponse(results_by_transaction=results_of), committed)


def _is_concurrent(codes: Mapping[TopicPartition, ErrorCode]) -> bool:
    """Return whether a transaction's producer is only told to come back (CONCURRENT_TRANSACTIONS)."""
    return next(iter(codes.values()), ErrorCode.NONE) is ErrorCode.CONCURRENT_TRANSACTIONS


def _add(
    services: Services, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> Mapping[TopicPartition, ErrorCode]:
    """What becomes of each partition."""
    codes: dict[TopicPartition, ErrorCode] = {}
    is_client = context.api_version < BATCHED_FROM
    if is_client and not services.allows(
        context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transaction.transactional_id
    ):
        return defaultdict(lambda: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    refused = False
    for topic in transaction.topics:
        denied = is_client and not services.allows(context, AclOperation.WRITE, AclResourceType.TOPIC, topic.name)
        for number in topic.partitions:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            if denied:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif services.image.partition(topic.name, number) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            codes[topic.name, number] = code
            refused = refused or code is not ErrorCode.OPERATION_NOT_ATTEMPTED
    if refused:
        return codes
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    try:
        if transaction.verify_only:
            verdicts = services.transactions.verify_partitions(*producer, codes)
            services.transactions.confirm_by_append(transaction.transactional_id, *verdicts.values())
            return verdicts
        client_version = 2 if context.api_version >= BATCHED_FROM else 0
        code = services.transactions.add_partitions(*producer, codes, client_version, context.now)
    except ApiError as error:
        code = error.code
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return dict.fromkeys(codes, code)


def _answer(
    topics: list[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    results = []
    for topic in topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(AddPartitionsToTxnPartitionResult(partition, codes[topic.name, partition]))
        results.append(AddPartitionsToTxnTopicResult(topic.name, partitions))
    return results
