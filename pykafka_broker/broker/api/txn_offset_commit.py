"""TxnOffsetCommit v0-v5.

Behaviour: offsets that count once the producer's transaction commits. The group's partition of `__consumer_offsets`
must be part of the transaction: added before, or by this very request from version 5 on. Then the group decides, and
fences members of an older generation (KIP-447).
Versions: 2 leader epochs, 3 the consumer's member id and generation, 4 knows TRANSACTION_ABORTABLE, 5 joins implicitly
(KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.coordinators.add_partitions_to_txn import Joined, refused_join
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import DONE, Answer, lost, when_committed
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
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

if TYPE_CHECKING:
    from pykafka_broker.broker.coordinators.add_partitions_to_txn import Question

ABORTABLE_FROM = 4
IMPLICIT_ADD_FROM = 5
# The group's coordinator speaks of itself, where the partition spoke of its replicas.
_AS_COORDINATOR = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


@handles(ApiKey.TXN_OFFSET_COMMIT)
def txn_offset_commit(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> Answer[TxnOffsetCommitResponse]:
    try:
        services.authorise(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
        services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    except ApiError as error:
        return TxnOffsetCommitResponse(topics=_all(request.topics, error.code))
    known, refused = _split(services, context, request)
    if not known:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = known
    return _commit(services, context, request, refused)


def _commit(
    services: Services,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    refused: list[TxnOffsetCommitResponseTopic],
    asked: Question | None = None,
) -> Answer[TxnOffsetCommitResponse]:
    committed = DONE
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        joined = _join(services, context, request, asked)
        question = None if isinstance(joined, Joined) else joined
        joining = joined.committed if isinstance(joined, Joined) else joined
        if joining is not None and not joining.succeeded:
            return joining.then(lambda _: _commit(services, context, request, refused, question), lost)
        answered = services.groups.txn_commit_offsets(request, context).topics
        committed = services.groups.committed(request.group_id)
    except ApiError as error:
        answered = _all(request.topics, _AS_COORDINATOR.get(error.code, error.code))
    return when_committed(TxnOffsetCommitResponse(topics=_merged(answered, refused)), committed)


def _join(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest, asked: Question | None
) -> Joined | Question | None:
    """Have the group's partition take part in the producer's open transaction, or look whether it does. Raises why it
    does not. What is returned may have to be waited for; then ask again.
    """
    implicit = context.api_version >= IMPLICIT_ADD_FROM
    partition = services.replicas.leader(*services.offsets_partition(request.group_id))
    producer = (request.producer_id, request.producer_epoch)
    if partition.log.producers.has_open_transaction(*producer):
        return None
    if not implicit and not services.config.transaction_partition_verification_enable:
        return None
    joined: Joined | Question
    if asked is not None and asked.holds(partition):
        joined = asked
    else:
        joined = services.transactions.join(request.transactional_id, *producer, partition, implicit)
    verdict = ErrorCode.NONE
    if isinstance(joined, Joined):
        verdict = joined.verdict
    elif joined.done:
        verdict = joined.result()
    if verdict is not ErrorCode.NONE:
        raise refused_join(verdict, implicit, context.api_version >= ABORTABLE_FROM)
    return joined


def _split(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitResponseTopic]]:
    """The partitions that exist and may be read, and the answer for the others."""
    known, refused = [], []
    for topic in request.topics:
        if not services.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic.name):
            refused += _all([topic], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            continue
        there: list[TxnOffsetCommitRequestPartition] = []
        missing: list[TxnOffsetCommitRequestPartition] = []
        for one in topic.partitions:
            exists = services.image.partition(topic.name, one.partition_index) is not None
            (there if exists else missing).append(one)
        if there:
            known.append(TxnOffsetCommitRequestTopic(topic.name, there))
        if missing:
            refused += _all([TxnOffsetCommitRequestTopic(topic.name, missing)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return known, refused


def _all(topics: list[TxnOffsetCommitRequestTopic], code: ErrorCode) -> list[TxnOffsetCommitResponseTopic]:
    return [
        TxnOffsetCommitResponseTopic(
            topic.name, [TxnOffsetCommitResponsePartition(one.partition_index, code) for one in topic.partitions]
        )
        for topic in topics
    ]


def _merged(
    first: list[TxnOffsetCommitResponseTopic], second: list[TxnOffsetCommitResponseTopic]
) -> list[TxnOffsetCommitResponseTopic]:
    """One entry per topic."""
    topics: dict[str, list[TxnOffsetCommitResponsePartition]] = {}
    for topic in (*first, *second):
        topics.setdefault(topic.name, []).extend(topic.partitions)
    return [TxnOffsetCommitResponseTopic(name, partitions) for name, partitions in topics.items()]
