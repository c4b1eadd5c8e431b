"""InitializeShareGroupState v0, ReadShareGroupState v0, WriteShareGroupState v0-v1, DeleteShareGroupState v0,
ReadShareGroupStateSummary v0-v1 (KIP-932).

Behaviour: brokers of a cluster ask these of the share coordinator. Each share partition is answered by itself, and
deleting or summing up what is not there is no error.
Versions: 1 of WriteShareGroupState and ReadShareGroupStateSummary know how many records behind the start are done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.share_host import is_enabled
from pykafka_broker.coordinators.share.delivery import StateRun
from pykafka_broker.coordinators.share.state_records import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
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
from pykafka_broker.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

# Kafka says the same of these to everybody.
_WORDS = {
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the share-group state epoch did "
    "not match.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}


def _answer(broker: Broker, request: Any, module: Any, result: str, ask: Callable[[ShareKey, Any], Any]) -> list[Any]:
    """One result for each topic, with what `ask` says of each of its partitions."""
    refused = None if is_enabled(broker) else ApiError(ErrorCode.UNSUPPORTED_VERSION)

    def answer(key: ShareKey, asked: Any) -> Any:
        try:
            if refused is not None:
                raise refused
            return ask(key, asked)
        except ApiError as error:
            message = error.message or _WORDS.get(error.code)
            return module.PartitionResult(partition=key.partition, error_code=error.code, error_message=message)

    topics: Iterable[Any] = request.topics
    return [
        getattr(module, result)(
            bytes(topic.topic_id),
            [answer(ShareKey(request.group_id, bytes(topic.topic_id), one.partition), one) for one in topic.partitions],
        )
        for topic in topics
    ]


@handles(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
def initialize(broker: Broker, context: RequestContext, request: InitializeShareGroupStateRequest) -> Any:
    module = initialize_share_group_state_response

    def ask(key: ShareKey, asked: Any) -> Any:
        broker.shares.initialize(key, asked.state_epoch, asked.start_offset, context.now)
        return module.PartitionResult(key.partition)

    results = _answer(broker, request, module, "InitializeStateResult", ask)
    return module.InitializeShareGroupStateResponse(results)


@handles(ApiKey.READ_SHARE_GROUP_STATE)
def read(broker: Broker, context: RequestContext, request: ReadShareGroupStateRequest) -> Any:
    module, host = read_share_group_state_response, broker.shares

    def ask(key: ShareKey, asked: Any) -> Any:
        state = host.apply(host.loaded(key, context.now).read(key, asked.leader_epoch), context.now)
        batches = [module.StateBatch(*run) for run in state.runs]
        return module.PartitionResult(
            key.partition, state_epoch=state.state_epoch, start_offset=state.start_offset, state_batches=batches
        )

    return module.ReadShareGroupStateResponse(_answer(broker, request, module, "ReadStateResult", ask))


@handles(ApiKey.WRITE_SHARE_GROUP_STATE)
def write(broker: Broker, context: RequestContext, request: WriteShareGroupStateRequest) -> Any:
    module, host, now = write_share_group_state_response, broker.shares, context.now

    def ask(key: ShareKey, asked: Any) -> Any:
        runs = [
            StateRun(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in asked.state_batches
        ]
        coordinator = host.loaded(key, now)
        effects = coordinator.write(
            key,
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            runs,
            now,
        )
        host.apply(effects, now)
        return module.PartitionResult(key.partition)

    return module.WriteShareGroupStateResponse(_answer(broker, request, module, "WriteStateResult", ask))


@handles(ApiKey.DELETE_SHARE_GROUP_STATE)
def delete(broker: Broker, context: RequestContext, request: DeleteShareGroupStateRequest) -> Any:
    module = delete_share_group_state_response

    def ask(key: ShareKey, asked: Any) -> Any:
        broker.shares.delete(key, context.now)
        return module.PartitionResult(key.partition)

    return module.DeleteShareGroupStateResponse(_answer(broker, request, module, "DeleteStateResult", ask))


@handles(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
def read_summary(broker: Broker, context: RequestContext, request: ReadShareGroupStateSummaryRequest) -> Any:
    module = read_share_group_state_summary_response

    def ask(key: ShareKey, asked: Any) -> Any:
        state = broker.shares.loaded(key, context.now).summary(key)
        if state is None:
            return module.PartitionResult(key.partition, start_offset=-1)
        return module.PartitionResult(
            key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.complete_count,
        )

    results = _answer(broker, request, module, "ReadStateSummaryResult", ask)
    return module.ReadShareGroupStateSummaryResponse(results)
