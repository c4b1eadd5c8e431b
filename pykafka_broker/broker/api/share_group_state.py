"""InitializeShareGroupState v0, ReadShareGroupState v0, WriteShareGroupState v0-v1, DeleteShareGroupState v0,
ReadShareGroupStateSummary v0-v1 (KIP-932).

Behaviour: brokers of a cluster ask these of the share coordinator. Each share partition is answered by itself, and
deleting or summing up what is not there is no error.
Versions: 1 of WriteShareGroupState and ReadShareGroupStateSummary know how many records behind the start are done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.share_host import is_enabled
from pykafka_broker.broker.waiting import Answer, Future, R, when_committed
from pykafka_broker.cluster.topic_names import SHARE_GROUP_STATE
from pykafka_broker.coordinators.share.state import ShareKey, StateRun
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import (
    delete_share_group_state_response,
    initialize_share_group_state_response,
    read_share_group_state_response,
    read_share_group_state_summary_response,
    write_share_group_state_response,
)
from pykafka_broker.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from pykafka_broker.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from pykafka_broker.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from pykafka_broker.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from pykafka_broker.protocol.messages.write_share_group_state_request import (
    StateBatch,
    WriteShareGroupStateRequest,
)

StateRequest = (
    InitializeShareGroupStateRequest
    | ReadShareGroupStateRequest
    | WriteShareGroupStateRequest
    | DeleteShareGroupStateRequest
    | ReadShareGroupStateSummaryRequest
)
_STATE_BATCH_BYTES = 20
_SMALL_BYTES = 4096  # of which nobody asks whether they fit into a record
_TOO_LARGE = (
    "Unable to write share group state: The request included a message larger than the max message size the server "
    "will accept."
)
# Kafka says the same of these to everybody.
_WORDS = {
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the share-group state epoch did "
    "not match.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}


def _answer(
    services: Services,
    context: RequestContext,
    request: StateRequest,
    module: Any,
    result: str,
    ask: Callable[[ShareKey, Any], Any],
) -> list[Any]:
    """One result for each topic, with what `ask` says of each of its partitions; none without a group. Only brokers may
    ask.
    """
    if not request.topics:
        return []
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    refused = None if is_enabled(services.image.features) else ApiError(ErrorCode.UNSUPPORTED_VERSION)

    def answer(key: ShareKey, asked: Any) -> Any:
        try:
            if refused is not None:
                raise refused
            if key.partition < 0:
                raise ApiError(ErrorCode.INVALID_REQUEST, "The partition of a share state can't be negative.")
            return ask(key, asked)
        except ApiError as error:
            message = error.message or _WORDS.get(error.code)
            return module.PartitionResult(partition=key.partition, error_code=error.code, error_message=message)

    topics: Iterable[Any] = request.topics if request.group_id else ()
    return [
        getattr(module, result)(
            bytes(topic.topic_id),
            [answer(ShareKey(request.group_id, bytes(topic.topic_id), one.partition), one) for one in topic.partitions],
        )
        for topic in topics
    ]


def _resting(services: Services, request: StateRequest, response: R) -> Answer[R]:
    """An answer that tells of all share partitions of the request."""
    topics: Iterable[Any] = request.topics
    keys = [
        ShareKey(request.group_id, bytes(topic.topic_id), one.partition) for topic in topics for one in topic.partitions
    ]
    return when_committed(response, services.shares.committed(keys))


@handles(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
def initialize(
    services: Services, context: RequestContext, request: InitializeShareGroupStateRequest
) -> (
    initialize_share_group_state_response.InitializeShareGroupStateResponse
    | Future[initialize_share_group_state_response.InitializeShareGroupStateResponse]
):
    module = initialize_share_group_state_response

    def ask(key: ShareKey, asked: Any) -> Any:
        services.shares.initialize(key, asked.state_epoch, asked.start_offset)
        return module.PartitionResult(key.partition)

    results = _answer(services, context, request, module, "InitializeStateResult", ask)
    return _resting(services, request, module.InitializeShareGroupStateResponse(results))


@handles(ApiKey.READ_SHARE_GROUP_STATE)
def read(
    services: Services, context: RequestContext, request: ReadShareGroupStateRequest
) -> (
    read_share_group_state_response.ReadShareGroupStateResponse
    | Future[read_share_group_state_response.ReadShareGroupStateResponse]
):
    module, host = read_share_group_state_response, services.shares

    def ask(key: ShareKey, asked: Any) -> Any:
        state = host.read_here(key, asked.leader_epoch)
        batches = [module.StateBatch(*run) for run in state.runs]
        return module.PartitionResult(
            key.partition, state_epoch=state.state_epoch, start_offset=state.start_offset, state_batches=batches
        )

    response = module.ReadShareGroupStateResponse(_answer(services, context, request, module, "ReadStateResult", ask))
    return _resting(services, request, response)


@handles(ApiKey.WRITE_SHARE_GROUP_STATE)
def write(
    services: Services, context: RequestContext, request: WriteShareGroupStateRequest
) -> (
    write_share_group_state_response.WriteShareGroupStateResponse
    | Future[write_share_group_state_response.WriteShareGroupStateResponse]
):
    module, host, now = write_share_group_state_response, services.shares, context.now

    def ask(key: ShareKey, asked: Any) -> Any:
        if _are_too_many(services, asked.state_batches):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, _TOO_LARGE)
        runs = [
            StateRun(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in asked.state_batches
        ]
        coordinator = host.known(key)
        effects = coordinator.write(
            key,
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            runs,
            now,
        )
        host.apply(effects)
        return module.PartitionResult(key.partition)

    response = module.WriteShareGroupStateResponse(_answer(services, context, request, module, "WriteStateResult", ask))
    return _resting(services, request, response)


def _are_too_many(services: Services, batches: list[StateBatch]) -> bool:
    """For one record."""
    size = len(batches) * _STATE_BATCH_BYTES
    return size > _SMALL_BYTES and size > services.topic_config(SHARE_GROUP_STATE).max_message_bytes


@handles(ApiKey.DELETE_SHARE_GROUP_STATE)
def delete(
    services: Services, context: RequestContext, request: DeleteShareGroupStateRequest
) -> (
    delete_share_group_state_response.DeleteShareGroupStateResponse
    | Future[delete_share_group_state_response.DeleteShareGroupStateResponse]
):
    module = delete_share_group_state_response

    def ask(key: ShareKey, asked: Any) -> Any:
        services.shares.delete(key)
        return module.PartitionResult(key.partition)

    response = module.DeleteShareGroupStateResponse(
        _answer(services, context, request, module, "DeleteStateResult", ask)
    )
    return _resting(services, request, response)


@handles(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
def read_summary(
    services: Services, context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> (
    read_share_group_state_summary_response.ReadShareGroupStateSummaryResponse
    | Future[read_share_group_state_summary_response.ReadShareGroupStateSummaryResponse]
):
    module = read_share_group_state_summary_response

    def ask(key: ShareKey, asked: Any) -> Any:
        state = services.shares.known(key).summary(key)
        if state is None:
            return module.PartitionResult(key.partition, start_offset=-1)
        return module.PartitionResult(
            key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.complete_count,
        )

    results = _answer(services, context, request, module, "ReadStateSummaryResult", ask)
    return _resting(services, request, module.ReadShareGroupStateSummaryResponse(results))
