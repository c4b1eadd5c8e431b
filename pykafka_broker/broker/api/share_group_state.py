"""InitializeShareGroupState v0, ReadShareGroupState v0, WriteShareGroupState v0-v1, DeleteShareGroupState v0,
ReadShareGroupStateSummary v0-v1 (KIP-932).

Behaviour: brokers of a cluster ask the share coordinator for these. Each share partition is answered by itself, and to
delete or sum up a missing state is no error.
Versions: 1 of WriteShareGroupState and ReadShareGroupStateSummary know how many records behind the start are done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka_broker.broker.coordinators.shards import CommitsOfSlices
from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import Portions
from pykafka_broker.broker.requests.router import Handler, handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Steps
from pykafka_broker.cluster.topic_names import SHARE_GROUP_STATE
from pykafka_broker.coordinators.share.state import ShareKey, StateRun
from pykafka_broker.errors import NOT_HOSTED, ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import delete_share_group_state_response as deleted
from pykafka_broker.protocol.messages import initialize_share_group_state_response as initialized
from pykafka_broker.protocol.messages import read_share_group_state_response as read
from pykafka_broker.protocol.messages import read_share_group_state_summary_response as summed_up
from pykafka_broker.protocol.messages import write_share_group_state_response as written
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.steps import Pace

Act = Callable[[Services, ShareKey, Any], Any]
_STATE = 4  # a share partition takes as long as so many items of `Pace`
_MOST_OF_A_TOPIC = 50_000  # items; of more the topic is in the answer several times
_STATE_BATCH_BYTES = 20
_SMALL_BYTES = 4096  # always fit into a record
_TOO_LARGE = (
    "Unable to write share group state: The request included a message larger than the max message size the server "
    "will accept."
)
_MESSAGES = {
    ErrorCode.FENCED_STATE_EPOCH: "The coordinator rejected the request because the state epoch did not match.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NOT_HOSTED,
}


def _answers(
    api_key: ApiKey,
    partition_result: Callable[..., Any],
    topic_result: Callable[[bytes, list[Any]], Any],
    response: type[Message],
) -> Callable[[Act], Handler]:
    """Declare the handler of an API by what it does for a share partition, which returns the partition's result.

    partition_result, topic_result, response: the classes of the answer.
    """

    def register(act: Act) -> Handler:
        @handles_in_steps(api_key, outlives_client=True)
        def answer(services: Services, context: RequestContext, request: Any) -> Steps[Any]:
            """Answer a broker's request share partition by share partition; without a group it gets no results."""
            enabled = is_enabled(services.image.features)
            if request.topics:
                services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)

            def result(key: ShareKey, asked: Any) -> Any:
                try:
                    if not enabled:
                        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
                    if key.partition < 0:
                        raise ApiError(ErrorCode.INVALID_REQUEST, "The partition of a share state can't be negative.")
                    return act(services, key, asked)
                except ApiError as error:
                    message = error.message or _MESSAGES.get(error.code)
                    return partition_result(partition=key.partition, error_code=error.code, error_message=message)

            results, pace = Portions(response, "results", context.api_version), Pace()
            commits = CommitsOfSlices[ShareKey](lambda *keys: services.shares.committed(keys))
            for topic in request.topics:
                topic_id = bytes(topic.topic_id)
                of_topic = [ShareKey(request.group_id, topic_id, asked.partition) for asked in topic.partitions]
                if not request.group_id:
                    commits.add(*of_topic)
                    continue
                found, items = list[Any](), 0
                for key, asked in zip(of_topic, topic.partitions, strict=True):
                    found.append(result(key, asked))
                    commits.add(key)
                    of_state = _STATE + len(getattr(found[-1], "state_batches", ()))
                    items += of_state
                    if items > _MOST_OF_A_TOPIC:
                        results.add(topic_result(topic_id, found), items)
                        found, items = [], 0
                    if pace.due(of_state):
                        commits.take()
                        yield None
                if (found or not of_topic) and results.add(topic_result(topic_id, found), items):
                    commits.take()
                    yield None
            return commits.when_committed(results.response())

        return answer

    return register


@_answers(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    initialized.PartitionResult,
    initialized.InitializeStateResult,
    initialized.InitializeShareGroupStateResponse,
)
def initialize_state(services: Services, key: ShareKey, asked: Any) -> initialized.PartitionResult:
    if asked.state_epoch < 0 and services.config.is_of_4_4:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The state epoch cannot be a negative number.")
    services.shares.initialize(key, asked.state_epoch, asked.start_offset)
    return initialized.PartitionResult(key.partition)


@_answers(ApiKey.READ_SHARE_GROUP_STATE, read.PartitionResult, read.ReadStateResult, read.ReadShareGroupStateResponse)
def read_state(services: Services, key: ShareKey, asked: Any) -> read.PartitionResult:
    state = services.shares.read_here(key, asked.leader_epoch)
    batches = [read.StateBatch(*run) for run in state.runs]
    return read.PartitionResult(
        key.partition, state_epoch=state.state_epoch, start_offset=state.start_offset, state_batches=batches
    )


@_answers(
    ApiKey.WRITE_SHARE_GROUP_STATE,
    written.PartitionResult,
    written.WriteStateResult,
    written.WriteShareGroupStateResponse,
)
def write_state(services: Services, key: ShareKey, asked: Any) -> written.PartitionResult:
    size = len(asked.state_batches) * _STATE_BATCH_BYTES
    if size > _SMALL_BYTES and size > services.node.topic_config(SHARE_GROUP_STATE).max_message_bytes:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, _TOO_LARGE)
    runs = [
        StateRun(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in asked.state_batches
    ]
    epochs = asked.state_epoch, asked.leader_epoch
    counts = asked.start_offset, asked.delivery_complete_count
    effects = services.shares.known(key).write(key, *epochs, *counts, runs, services.clock.now)
    services.shares.apply(effects)
    return written.PartitionResult(key.partition)


@_answers(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    deleted.PartitionResult,
    deleted.DeleteStateResult,
    deleted.DeleteShareGroupStateResponse,
)
def delete_state(services: Services, key: ShareKey, asked: Any) -> deleted.PartitionResult:
    services.shares.delete(key)
    return deleted.PartitionResult(key.partition)


@_answers(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    summed_up.PartitionResult,
    summed_up.ReadStateSummaryResult,
    summed_up.ReadShareGroupStateSummaryResponse,
)
def read_summary(services: Services, key: ShareKey, asked: Any) -> summed_up.PartitionResult:
    state = services.shares.known(key).summary(key)
    if state is None:
        return summed_up.PartitionResult(key.partition, start_offset=-1)
    return summed_up.PartitionResult(
        key.partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
    )
