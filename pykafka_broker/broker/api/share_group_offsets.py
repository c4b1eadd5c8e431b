"""Offsets of share groups: DescribeShareGroupOffsets v0-v1, AlterShareGroupOffsets v0, DeleteShareGroupOffsets v0
(KIP-932).

Rule: a group whose offsets are altered or deleted must have no members, and only its coordinator changes what the share
coordinator keeps.

Describe: null topics are all that the group has begun to read. A partition that the group has not begun, or whose first
offset is still to be found, has start offset -1; a group of another kind has no topics. Versions: 1 tells the lag
(KIP-1226).

Alter: a missing group is created, also by a topic without partitions; a missing topic without partitions is not
answered. Partitions begin anew at the given offsets, whatever was delivered before, and -1
lets share.auto.offset.reset decide again. A partition that the group's coordinator does not know yet is refused, even
where the share coordinator knows the partition: the group's records would not name it.

Delete: the group must exist. It begins with a deleted topic as if it had never read the topic. A topic that is named
twice is deleted once and answered once, but a refusal is told each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pykafka_broker.broker.api.group_admin import delete_states
from pykafka_broker.broker.coordinators.shards import CommitsOfSlices
from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply, Portions
from pykafka_broker.broker.requests.router import handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Future, Steps, all_of, when_committed
from pykafka_broker.cluster.authorizer import denial
from pykafka_broker.coordinators.groups.epoch_group import FIRST_GROUP_EPOCH
from pykafka_broker.coordinators.share.share_group import ShareGroup, Topics
from pykafka_broker.coordinators.share.state import UNINITIALIZED, UNKNOWN_COUNT, ShareKey
from pykafka_broker.errors import NOT_HOSTED, ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from pykafka_broker.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from pykafka_broker.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from pykafka_broker.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from pykafka_broker.protocol.runtime import ZERO_UUID, uuid_text
from pykafka_broker.steps import Pace

# A topic of the answer, and a partition to come.
_Asked = tuple[DescribeShareGroupOffsetsResponseTopic, Future[DescribeShareGroupOffsetsResponsePartition]]
_MOST_DESCRIBED = 50_000  # partitions in an answer
_DESCRIPTION, _ALTERATION = 10, 40  # a partition takes as long as so many items of `Pace`
_NO_LAG = -1
_NOTHING_TO_DELETE = "There is no offset information to delete."


def _committed(services: Services, *keys: str | ShareKey) -> Future[None]:
    """Return the future of the commits of groups, by their ids, and of states of share partitions."""
    committed = services.groups.committed(*(each for each in keys if isinstance(each, str)))
    states = [each for each in keys if not isinstance(each, str)]
    return all_of(committed, services.shares.committed(states)) if states else committed


# -- describe


@handles_in_steps(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
def describe_share_group_offsets(
    services: Services, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Steps[Answer[DescribeShareGroupOffsetsResponse | EncodedReply]]:
    groups, asked, pace = [], list[_Asked](), Pace()
    commits = CommitsOfSlices[str | ShareKey](partial(_committed, services))
    for wanted in request.groups:
        try:
            if not is_enabled(services.image.features):
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
            services.authorise(context, AclOperation.DESCRIBE, AclResourceType.GROUP, wanted.group_id)
            if wanted.group_id:
                services.groups.require(wanted.group_id)
            topics = yield from _described_topics(services, context, wanted, asked, commits, pace)
            groups.append(DescribeShareGroupOffsetsResponseGroup(wanted.group_id, topics))
        except ApiError as error:
            groups.append(DescribeShareGroupOffsetsResponseGroup(wanted.group_id, [], error.code, error.message))
        commits.add(wanted.group_id)
        if len(asked) > _MOST_DESCRIBED:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"The groups have more than {_MOST_DESCRIBED} partitions.")
        if pace.due():
            commits.take()
            yield None
    # All partitions are asked about at once: each leader that is silent costs its time-out.
    commits.take()
    answered = all_of(*(future for _, future in asked))
    if not answered.done:
        yield answered
    for topic, future in asked:
        topic.partitions.append(future.result())
        if pace.due():
            yield None
    response = Portions(DescribeShareGroupOffsetsResponse, "groups", context.api_version)
    for group in groups:
        if response.add(group, 1 + sum(len(topic.partitions) for topic in group.topics)):
            yield None
    return commits.when_committed(response.response())


def _described_topics(
    services: Services,
    context: RequestContext,
    wanted: DescribeShareGroupOffsetsRequestGroup,
    asked_for: list[_Asked],
    commits: CommitsOfSlices[str | ShareKey],
    pace: Pace,
) -> Steps[list[DescribeShareGroupOffsetsResponseTopic]]:
    """Return the topics of a group; partitions that are still to come are added to `asked_for` with their topic."""
    are_named = wanted.topics is not None
    if wanted.topics is not None:
        asked = _each_partition_once(services, wanted.topics)
        if not wanted.group_id and any(services.image.topic_id(name) for name, _ in asked):
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")  # UNKNOWN_SERVER_ERROR with Kafka
    else:
        group = services.groups.coordinator.groups.get(wanted.group_id)
        known = group.initialized if isinstance(group, ShareGroup) else {}
        asked = [(name, sorted(indexes)) for name, indexes in known.values()]
    topics = []
    for name, indexes in asked:
        topic = DescribeShareGroupOffsetsResponseTopic(name, services.image.topic_id(name) or ZERO_UUID)
        if services.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name, log=are_named):
            for index in indexes:
                key = ShareKey(wanted.group_id, topic.topic_id, index)
                asked_for.append((topic, services.slices.begin(_described_partition(services, key, name))))
                commits.add(key)
                if pace.due(_DESCRIPTION):
                    commits.take()
                    yield None
        elif are_named:
            error, topic.topic_id = denial(AclResourceType.TOPIC), ZERO_UUID
            for index in indexes:
                result = DescribeShareGroupOffsetsResponsePartition(index, UNINITIALIZED)
                result.error_code, result.error_message = error.code, error.message
                topic.partitions.append(result)
        else:
            continue
        topics.append(topic)
    return topics


def _each_partition_once(
    services: Services, topics: Iterable[DescribeShareGroupOffsetsRequestTopic]
) -> list[tuple[str, list[int]]]:
    """Return the named partitions, each once under its topic; what is asked of unknown topics is as it was."""
    unknown: list[tuple[str, list[int]]] = []
    known: dict[str, dict[int, None]] = {}
    for topic in topics:
        if services.image.topic_id(topic.topic_name):
            known.setdefault(topic.topic_name, {}).update(dict.fromkeys(topic.partitions))
        else:
            unknown.append((topic.topic_name, list(topic.partitions)))
    return [*unknown, *((name, list(indexes)) for name, indexes in known.items())]


def _described_partition(
    services: Services, key: ShareKey, topic: str
) -> Steps[DescribeShareGroupOffsetsResponsePartition]:
    result = DescribeShareGroupOffsetsResponsePartition(key.partition, UNINITIALIZED)
    if services.image.partition(topic, key.partition) is None:
        return result
    try:
        state = yield from services.shares.summary(key)
    except ApiError:
        return result  # as without a state: Kafka does not tell why
    if state is None:
        return result
    result.leader_epoch = state.leader_epoch
    result.start_offset = state.start_offset
    result.lag = _NO_LAG
    if state.start_offset != UNINITIALIZED and state.complete_count != UNKNOWN_COUNT:
        try:
            end = yield from services.shares.end_offset(topic, key.partition)
        except ApiError as error:
            return DescribeShareGroupOffsetsResponsePartition(
                key.partition, error_code=error.code, error_message=error.message
            )
        result.lag = end - state.start_offset - state.complete_count  # negative if the start is behind the end
    return result


# -- alter and delete


def _checked_group(
    services: Services, context: RequestContext, operation: AclOperation, group_id: str
) -> Steps[ShareGroup | None]:
    """Return the group without members, or None without a group, once the node is certainly the coordinator.

    Raises:
        ApiError: the offsets of the group can't be changed.
    """
    if not is_enabled(services.image.features):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    services.authorise(context, operation, AclResourceType.GROUP, group_id)
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    services.groups.require(group_id)
    _empty_group(services, group_id)
    yield from services.groups.confirmed(group_id)
    return _empty_group(services, group_id)


def _empty_group(services: Services, group_id: str) -> ShareGroup | None:
    if group_id not in services.groups.coordinator.groups:
        return None
    group = services.groups.coordinator.share.group(group_id)
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    return group


@handles_in_steps(ApiKey.ALTER_SHARE_GROUP_OFFSETS, outlives_client=True)
def alter_share_group_offsets(
    services: Services, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Steps[Answer[AlterShareGroupOffsetsResponse]]:
    group = yield from _checked_group(services, context, AclOperation.READ, request.group_id)
    named = [each for each in request.topics if each.partitions or services.image.topic_id(each.topic_name)]
    asked = _each_once(named)
    readable = [services.allows(context, AclOperation.READ, AclResourceType.TOPIC, each.topic_name) for each in asked]
    allowed = [each for each, may in zip(asked, readable, strict=True) if may]
    altered = iter((yield from _alter_allowed(services, request.group_id, group, allowed)))
    topics = [next(altered) if may else _denied(services, each) for each, may in zip(asked, readable, strict=True)]
    committed = services.groups.committed(request.group_id)
    return when_committed(AlterShareGroupOffsetsResponse(responses=topics), committed)


def _each_once(topics: list[AlterShareGroupOffsetsRequestTopic]) -> list[AlterShareGroupOffsetsRequestTopic]:
    """Return each topic once, with all partitions that the request has under its name."""
    found: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
    for each in topics:
        known = found.setdefault(each.topic_name, each)
        if known is not each:
            known.partitions = [*known.partitions, *each.partitions]
    return list(found.values())


def _alter_allowed(
    services: Services,
    group_id: str,
    group: ShareGroup | None,
    allowed: list[AlterShareGroupOffsetsRequestTopic],
) -> Steps[list[AlterShareGroupOffsetsResponseTopic]]:
    """Alter the offsets of readable topics.

    The group's records say before that the partitions are being initialized, under an epoch that fences earlier
    attempts: an attempt that arrives late would take the new offsets back. Members that join meanwhile initialize
    nothing.

    Raises:
        ApiError: a known topic is asked for a negative partition. The group is there then, and nothing is altered.
    """
    host, share, topics = services.groups, services.groups.coordinator.share, services.image.topics
    tried: Topics = {
        topics[each.topic_name].id: (
            each.topic_name,
            frozenset(partition.partition_index for partition in each.partitions)
            & topics[each.topic_name].partitions.keys(),
        )
        for each in allowed
        if each.topic_name in topics
    }
    epoch = FIRST_GROUP_EPOCH
    if tried:
        fenced = group is not None and host.has_replicas(group_id)
        effects = share.initialize(group_id, tried, fenced=fenced)
        host.apply(effects)
        epoch, group = effects.reply, share.group(group_id)
        group.attempts += 1
    results, refusal, pace = [], _refusal(services, group_id, allowed), Pace()
    done: Topics = {}  # the partitions that are altered
    try:
        if tried and host.has_replicas(group_id):
            yield host.committed(group_id)
        for each in allowed if refusal is None else ():
            results.append((yield from _alter(services, group_id, epoch, each, done, pace)))
    finally:
        if tried and group is not None:
            group.attempts -= 1
    if tried:
        host.require(group_id)
        host.apply(share.initialized(group_id, tried, done))
    if refusal is not None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, refusal)
    return results


def _refusal(services: Services, group_id: str, allowed: list[AlterShareGroupOffsetsRequestTopic]) -> str | None:
    """Return why the whole request is refused: a negative partition of a known topic, over which Kafka stumbles."""
    for each in allowed:
        topic_id = services.image.topic_id(each.topic_name)
        for partition in each.partitions:
            if topic_id is not None and partition.partition_index < 0:
                key = f"{group_id} {uuid_text(topic_id)} {partition.partition_index}"
                return f"Initialize share group parameters has invalid partitionId - {key}"
    return None


def _alter(
    services: Services, group_id: str, epoch: int, wanted: AlterShareGroupOffsetsRequestTopic, done: Topics, pace: Pace
) -> Steps[AlterShareGroupOffsetsResponseTopic]:
    """Alter the offsets of a topic, and add the altered partitions to `done`."""
    topic_id = services.image.topic_id(wanted.topic_name) or ZERO_UUID
    results, altered = [], set()
    for partition in wanted.partitions:
        result = AlterShareGroupOffsetsResponsePartition(partition.partition_index)
        try:
            if services.image.partition(wanted.topic_name, partition.partition_index) is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            key = ShareKey(group_id, topic_id, partition.partition_index)
            yield from services.shares.begin(key, epoch, partition.start_offset)
            altered.add(partition.partition_index)
        except ApiError as error:
            result.error_code = error.code
            hosted = error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = error.message if hosted else NOT_HOSTED
        results.append(result)
        if pace.due(_ALTERATION):
            yield None
    if altered:
        done[topic_id] = (wanted.topic_name, frozenset(altered))
    return AlterShareGroupOffsetsResponseTopic(wanted.topic_name, topic_id, results)


def _denied(services: Services, wanted: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    """Return the refusal of a topic, with the topic's id all the same, as by Kafka."""
    topic_id, error = services.image.topic_id(wanted.topic_name) or ZERO_UUID, denial(AclResourceType.TOPIC)
    indexes = (each.partition_index for each in wanted.partitions)
    results = [AlterShareGroupOffsetsResponsePartition(index, error.code, error.message) for index in indexes]
    return AlterShareGroupOffsetsResponseTopic(wanted.topic_name, topic_id, results)


@handles_in_steps(ApiKey.DELETE_SHARE_GROUP_OFFSETS, outlives_client=True)
def delete_share_group_offsets(
    services: Services, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Steps[Answer[DeleteShareGroupOffsetsResponse]]:
    group = yield from _checked_group(services, context, AclOperation.DELETE, request.group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    results, deleted = [], set[str]()
    commits = CommitsOfSlices[str](services.groups.committed)
    for name in (topic.topic_name for topic in request.topics):
        if name in deleted:
            continue
        result = DeleteShareGroupOffsetsResponseTopic(name, ZERO_UUID)
        try:
            yield from _delete(services, context, group, result)
            commits.add(request.group_id)
            commits.take()
            deleted.add(name)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    commits.add(request.group_id)
    return commits.when_committed(DeleteShareGroupOffsetsResponse(responses=results))


def _delete(
    services: Services, context: RequestContext, group: ShareGroup, result: DeleteShareGroupOffsetsResponseTopic
) -> Steps[None]:
    """Delete a group's offsets of the topic in `result`."""
    services.authorise(context, AclOperation.READ, AclResourceType.TOPIC, result.topic_name)
    topic = services.image.topics.get(result.topic_name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
    if topic.id not in group.initialized:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOTHING_TO_DELETE)
    result.topic_id = topic.id
    yield from delete_states(services, group.group_id, {topic.id: group.initialized[topic.id]})
    services.groups.apply(services.groups.coordinator.share.forget_topics(group.group_id, {topic.id}))
