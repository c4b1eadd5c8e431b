"""Transactions as administrators and brokers see them: WriteTxnMarkers v0-v2, DescribeTransactions v0, ListTransactions
v0-v2 and DescribeProducers v0 (KIP-664).

WriteTxnMarkers: from other brokers in Kafka; here from admin clients, to end a hanging transaction. Each partition is
answered by itself, once for each producer: of several markers the last one counts. A marker that no batch can carry
fails the whole request, and the markers before it are written. Versions: 2 says which transaction version the marker
is of: with 2 its epoch must be above the producer's (KIP-1228).

DescribeTransactions: all that the coordinator knows of each transactional id, also when its last transaction is over.
While markers are being written only the partitions that lack theirs are listed. Topics that the client may not describe
are left out.

ListTransactions: the transactional ids that this node coordinates, that pass every filter and that the client may
describe; an unknown state is named in the answer. Versions: 1 filters by the time a transaction has been running
(KIP-994), 2 by a pattern of the whole transactional id (KIP-1152).

DescribeProducers: every producer that a partition remembers, idempotent or transactional, also when its transaction is
over; an open transaction shows its start. Admin tools find hanging transactions so, at any replica: followers answer,
too.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.broker.coordinators.shards import CommitsOfSlices
from pykafka_broker.broker.coordinators.transaction_markers import write_marker
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply, Portions
from pykafka_broker.broker.requests.router import handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Future, Steps, when_committed
from pykafka_broker.cluster.topic_names import check_topic_name
from pykafka_broker.coordinators.transactions.coordinator import Markers, TransactionFilters, matching_transactions
from pykafka_broker.errors import NOT_HOSTED, ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, PartitionKey, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_producers_request import DescribeProducersRequest
from pykafka_broker.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from pykafka_broker.protocol.messages.list_transactions_response import ListTransactionsResponse
from pykafka_broker.protocol.messages.list_transactions_response import TransactionState as ListedTransaction
from pykafka_broker.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from pykafka_broker.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from pykafka_broker.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from pykafka_broker.steps import Pace

_NO_VERSION = -1  # of transactions
_TRANSACTION, _ENTRIES_AN_ITEM = 2, 2  # items of `Pace` for a transaction, and partitions of it for one item
_LISTED_AT_ONCE = 200  # transactions, in a millisecond or two
_MOST_OF_A_TOPIC = 50_000  # partitions and producers; of more the topic is in the answer several times
_LIKE_ITEMS = 40  # a marker, or a log that is loaded first, takes as long as so many items of `Pace`


@handles_in_steps(ApiKey.WRITE_TXN_MARKERS, outlives_client=True)
def write_txn_markers(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> Steps[Answer[WriteTxnMarkersResponse]]:
    if not services.allows(context, AclOperation.ALTER, AclResourceType.CLUSTER, log=False):
        services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    commits: list[Future[None]] = []
    results: dict[int, dict[PartitionKey, ErrorCode]] = {}
    pace = Pace()
    for marker in request.markers:
        # Kafka never answers if the last marker names no partition that is here, and one before does.
        yield from _write(services, marker, results.setdefault(marker.producer_id, {}), commits, pace)
    response = WriteTxnMarkersResponse()
    for producer_id, codes in results.items():
        topics = by_topic(
            (topic, WritableTxnMarkerPartitionResult(index, code)) for (topic, index), code in codes.items()
        )
        if topics:
            named = [WritableTxnMarkerTopicResult(*topic) for topic in topics.items()]
            response.markers.append(WritableTxnMarkerResult(producer_id, named))
    return when_committed(response, *commits)


def _write(
    services: Services,
    marker: WritableTxnMarker,
    codes: dict[PartitionKey, ErrorCode],
    commits: list[Future[None]],
    pace: Pace,
) -> Steps[None]:
    """Write a marker to its partitions, and note the outcomes. Raises ApiError for a marker that no batch can carry."""
    markers = Markers(
        "",
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        frozenset(),
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    wrong = _senseless(markers)
    for topic in marker.topics:
        for index in topic.partition_indexes:
            code = ErrorCode.NONE
            try:
                if wrong is not None:
                    services.replicas.leader(topic.name, index)
                    raise ApiError(wrong)
                _, commit = write_marker(services.node, topic.name, index, markers, services.offsets_decided)
                commits.append(commit)
            except ApiError as error:
                if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
                    raise
                code = error.code
            codes[topic.name, index] = code
            if pace.due(1 if code else _LIKE_ITEMS):
                yield None


def _senseless(markers: Markers) -> ErrorCode | None:
    """Return Kafka's error for a marker that no batch can carry, or of a version that there can not be."""
    if markers.producer_id == NO_PRODUCER_ID or markers.transaction_version == _NO_VERSION:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if markers.producer_epoch < NO_PRODUCER_EPOCH and markers.producer_id >= 0:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.UNKNOWN_SERVER_ERROR if markers.producer_epoch < 0 else None


@handles_in_steps(ApiKey.DESCRIBE_TRANSACTIONS)
def describe_transactions(
    services: Services, context: RequestContext, request: DescribeTransactionsRequest
) -> Steps[Answer[DescribeTransactionsResponse | EncodedReply]]:
    states = Portions(DescribeTransactionsResponse, "transaction_states", context.api_version)
    commits = CommitsOfSlices[str](services.transactions.shards.committed)
    for name in request.transactional_ids:
        state = _state(services, context, name)
        commits.add(name)
        if states.add(state, _TRANSACTION + sum(len(topic.partitions) for topic in state.topics) // _ENTRIES_AN_ITEM):
            commits.take()
            yield None
    return commits.when_committed(states.response())


def _state(services: Services, context: RequestContext, name: str) -> TransactionState:
    try:
        services.authorise(context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, name)
        if not name:
            return TransactionState(ErrorCode.INVALID_REQUEST, name)
        transaction = services.transactions.transaction(name)
    except ApiError as error:
        return TransactionState(error.code, name)
    if transaction is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, name)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(services.transactions.unwritten(name, transaction)):
        if topic in topics or services.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic):
            topics.setdefault(topic, []).append(partition)
    return TransactionState(
        transactional_id=name,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic, partitions) for topic, partitions in topics.items()],
    )


@handles_in_steps(ApiKey.LIST_TRANSACTIONS)
def list_transactions(
    services: Services, context: RequestContext, request: ListTransactionsRequest
) -> Steps[Answer[ListTransactionsResponse]]:
    filters = TransactionFilters(
        dict.fromkeys(request.state_filters),
        frozenset(request.producer_id_filters),
        request.duration_filter,
        _matcher(request.transactional_id_pattern),
    )
    known = services.transactions.transactions()
    response = ListTransactionsResponse(unknown_state_filters=filters.unknown_titles(), transaction_states=[])
    for start in range(0, len(known), _LISTED_AT_ONCE):
        if start:
            yield None
        response.transaction_states += [
            ListedTransaction(name, transaction.producer_id, transaction.state.title)
            for name, transaction in matching_transactions(known[start : start + _LISTED_AT_ONCE], filters, context.now)
            if services.allows(context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, name)
        ]
    return when_committed(response, services.transactions.shards.all_committed())


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    if not pattern:
        return None
    from pykafka_broker.coordinators.groups.re2 import compile_regex  # nothing else here needs it

    return compile_regex(pattern).matches


@handles_in_steps(ApiKey.DESCRIBE_PRODUCERS)
def describe_producers(
    services: Services, context: RequestContext, request: DescribeProducersRequest
) -> Steps[DescribeProducersResponse | EncodedReply]:
    topics, pace = Portions(DescribeProducersResponse, "topics", context.api_version), Pace()
    for topic in request.topics:
        partitions, items = list[PartitionResponse](), 0
        for index in topic.partition_indexes:
            partition = _partition(services, context, topic.name, index)
            partitions.append(partition)
            items += 1 + len(partition.active_producers)
            if items > _MOST_OF_A_TOPIC:
                topics.add(TopicResponse(topic.name, partitions), items)
                partitions, items = [], 0
            if pace.due(1 if partition.error_code else _LIKE_ITEMS + len(partition.active_producers)):
                yield None
        if (partitions or not topic.partition_indexes) and topics.add(TopicResponse(topic.name, partitions), items):
            yield None
    return topics.response()


def _partition(services: Services, context: RequestContext, topic: str, partition: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        services.authorise(context, AclOperation.READ, AclResourceType.TOPIC, topic)
        log = services.replicas.replica(topic, partition).log
    except ApiError as error:
        # Kafka has this message for an unknown topic, and none for a partition that a known topic lacks.
        message = None if topic in services.image.topics else NOT_HOSTED
        return PartitionResponse(partition, error.code, error.message or message)
    return PartitionResponse(
        partition,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.txn_first_offset,
            )
            for entry in log.producers.entries.values()
        ],
    )
