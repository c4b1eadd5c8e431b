"""Committed offsets of groups: OffsetCommit v0-v10, OffsetFetch v0-v10, OffsetDelete v0 (KIP-496).

OffsetCommit: each partition is answered by itself; generation -1 without a member id is for clients outside the group
protocol, and makes a simple group where there is no group. Versions: 0 is ZooKeeper's, 1 a commit time, 2 to 4 a
retention time, 6 leader epochs (KIP-320), 7 static members (KIP-345), 9 the consumer protocol with GROUP_ID_NOT_FOUND
and STALE_MEMBER_EPOCH (KIP-848), 10 topic ids instead of names.

OffsetFetch: a partition without a commit is offset -1, without an error; null topics ask for everything that the group
has. With RequireStable an offset that an open transaction may still change is UNSTABLE_OFFSET_COMMIT (KIP-447).
Versions: 0 is ZooKeeper's, 2 an error of the whole, and null topics, 5 leader epochs, 7 RequireStable, 8 many groups
(KIP-709), 9 the member's epoch (KIP-848), 10 topic ids instead of names.

OffsetDelete: offsets of topics that a live member of the group reads stay (GROUP_SUBSCRIBED_TO_TOPIC); a group of
another protocol than the consumers' must be empty (NON_EMPTY_GROUP).

ZooKeeper: Kafka before 4.0 kept the offsets of version 0 in ZooKeeper, so a client asked any broker, without looking
for a coordinator. Here a coordinator has them like all others: version 0 creates the coordinator's topic, as
FindCoordinator does for the rest; in a cluster the broker that is asked must be the coordinator.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pykafka_broker.broker.api.consumer_group_heartbeat import may_lack_groups
from pykafka_broker.broker.coordinators.shards import CommitsOfSlices
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply, Portions
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Future, Steps, then, when_committed
from pykafka_broker.cluster.image import TopicImage
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from pykafka_broker.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pykafka_broker.protocol.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from pykafka_broker.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pykafka_broker.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_ZOOKEEPER = 0  # version
_WHOLE_ERROR_FROM = 2
_GROUPS_FROM = 8
_TOPIC_IDS_FROM = 10
_GROUP, _OFFSETS_AN_ITEM = 3, 2  # a group takes as long as so many items of `Pace`, and so do so many offsets
_READ_GROUP = (AclOperation.READ, AclResourceType.GROUP)
_READ_TOPIC = (AclOperation.READ, AclResourceType.TOPIC)
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@handles(ApiKey.OFFSET_COMMIT)
def offset_commit(services: Services, context: RequestContext, request: OffsetCommitRequest) -> Any:
    asked = request.topics
    try:
        services.authorise(context, *_READ_GROUP, request.group_id)
        _create_for_zookeeper(services, context)
    except ApiError as error:
        return OffsetCommitResponse(topics=[_failed_commit(topic, error.code) for topic in asked])
    request.topics = allowed = _readable(services, context, asked)
    if not all(topic.partitions for topic in allowed):
        # Of topics without partitions only missing and denied ones are in the answer, as with Kafka.
        unasked = {id(each) for each in allowed if not each.partitions and _find(services, context, each)}
        asked = [topic for topic in asked if id(topic) not in unasked]
        request.topics = allowed = [topic for topic in allowed if id(topic) not in unasked]
    try:
        reply = services.groups.commit_offsets(request, context)
    except ApiError as error:
        reply = OffsetCommitResponse(topics=[_refused_commit(services, context, each, error.code) for each in allowed])
    request.topics = asked  # an answer that fails after a wait is made of the request
    if may_lack_groups(services):
        reply = then(reply, _to_join_again)
    return reply if len(allowed) == len(asked) else then(reply, partial(_with_denied_commits, asked, allowed))


def _find(services: Services, context: RequestContext, topic: OffsetCommitRequestTopic) -> TopicImage | None:
    if context.api_version >= _TOPIC_IDS_FROM:
        return services.image.topics_by_id.get(topic.topic_id)
    return services.image.topics.get(topic.name)


def _readable(
    services: Services, context: RequestContext, topics: list[OffsetCommitRequestTopic]
) -> list[OffsetCommitRequestTopic]:
    """Return the topics with the right to read, and unknown ids without asking the authorizer."""
    allows, by_id = services.authorizer.allows, services.image.topics_by_id
    principal, host = context.connection.principal, context.connection.client_host
    by_ids = context.api_version >= _TOPIC_IDS_FROM
    found = []
    for topic in topics:
        image = by_id.get(topic.topic_id)
        name = topic.name if image is None else image.name
        if (by_ids and image is None) or allows(principal, host, *_READ_TOPIC, name):
            found.append(topic)
    return found


def _to_join_again(response: OffsetCommitResponse) -> OffsetCommitResponse:
    """Tell the members of a lost group to join again, as heartbeats do."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                partition.error_code = ErrorCode.UNKNOWN_MEMBER_ID
    return response


def _with_denied_commits(
    asked: list[OffsetCommitRequestTopic], allowed: list[OffsetCommitRequestTopic], response: OffsetCommitResponse
) -> OffsetCommitResponse:
    """Add the refusals of denied topics to an answer about allowed topics, in the order of the request."""
    answered, taken = iter(response.topics), set(map(id, allowed))
    return OffsetCommitResponse(
        topics=[next(answered) if id(topic) in taken else _failed_commit(topic, _TOPIC_DENIED) for topic in asked]
    )


def _failed_commit(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = [OffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)


def _refused_commit(
    services: Services, context: RequestContext, topic: OffsetCommitRequestTopic, code: ErrorCode
) -> OffsetCommitResponseTopic:
    """Return the answer where nothing is coordinated: any broker knows which partitions there are."""
    image = _find(services, context, topic)
    if image is None:
        by_ids = context.api_version >= _TOPIC_IDS_FROM
        return _failed_commit(topic, ErrorCode.UNKNOWN_TOPIC_ID if by_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer = _failed_commit(topic, code)
    for partition in answer.partitions:
        if partition.partition_index not in image.partitions:
            partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return answer


@handles(ApiKey.OFFSET_FETCH)
def offset_fetch(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> Answer[OffsetFetchResponse | EncodedReply]:
    if context.api_version >= _GROUPS_FROM:
        return services.slices.reply(_fetched(services, context, request))
    group = _fetch(services, context, _only_group(request), request)
    confirmed = _confirmed(services, group.group_id) if _may_be_confirmed(group) else None
    response = _old_response(group, request, context)
    return response if confirmed is None else when_committed(response, confirmed)


def _fetched(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> Steps[Answer[OffsetFetchResponse | EncodedReply]]:
    answer = Portions(OffsetFetchResponse, "groups", context.api_version)
    commits = CommitsOfSlices[str](partial(_confirmed, services))
    for asked in request.groups:
        group = _fetch(services, context, asked, request)
        if _may_be_confirmed(group):
            commits.add(group.group_id)
        if answer.add(group, _GROUP + sum(len(topic.partitions) for topic in group.topics) // _OFFSETS_AN_ITEM):
            commits.take()
            yield None
    return commits.when_committed(answer.response())


def _confirmed(services: Services, *group_ids: str) -> Future[None]:
    """Return the future of the offsets of groups being committed, with a record that only their coordinator commits."""
    services.groups.confirm_offsets_by_append(*group_ids)
    return services.groups.committed(*group_ids)


def _may_be_confirmed(group: OffsetFetchResponseGroup) -> bool:
    """Return whether a record may be appended for the group: not for a client that has no right to the group."""
    return group.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Return the group of a request before version 8, in the form of newer requests."""
    if request.topics is None:
        return OffsetFetchRequestGroup(request.group_id, topics=None)
    topics = [
        OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
    ]
    return OffsetFetchRequestGroup(request.group_id, topics=topics)


def _old_response(
    group: OffsetFetchResponseGroup, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    """Return the answer about a group in the form before version 8."""
    if group.error_code and context.api_version < _WHOLE_ERROR_FROM:
        group.topics = [_failed_fetch(topic, group.error_code) for topic in _only_group(request).topics or ()]
        group.error_code = ErrorCode.NONE
    response = OffsetFetchResponse(error_code=group.error_code)
    for found in group.topics:
        partitions = [
            OffsetFetchResponsePartition(
                each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code
            )
            for each in found.partitions
        ]
        response.topics.append(OffsetFetchResponseTopic(found.name, partitions))
        if context.api_version == _ZOOKEEPER:
            for each in partitions:
                if each.committed_offset < 0 and not each.error_code:
                    each.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return response


def _fetch(
    services: Services, context: RequestContext, group: OffsetFetchRequestGroup, request: OffsetFetchRequest
) -> OffsetFetchResponseGroup:
    if not services.allows(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id):
        return OffsetFetchResponseGroup(group.group_id, [], ErrorCode.GROUP_AUTHORIZATION_FAILED)
    _create_for_zookeeper(services, context)
    error = services.groups.refusal(group.group_id)
    if error is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(group.group_id, [], error)
    asked = group.topics
    denied: list[OffsetFetchRequestTopics] = []
    if asked is not None:
        group.topics = []
        for topic in asked:
            (group.topics if _may_see(services, context, topic) else denied).append(topic)
    answer = services.groups.coordinator.offset_requests.fetch(group, request.require_stable, context.api_version)
    if answer.error_code:
        return answer
    if asked is None:
        answer.topics = [topic for topic in answer.topics if _may_see(services, context, topic)]
    answer.topics += [_failed_fetch(topic, _TOPIC_DENIED) for topic in denied]
    return answer


def _may_see(
    services: Services, context: RequestContext, topic: OffsetFetchRequestTopics | OffsetFetchResponseTopics
) -> bool:
    """Return whether the client may know of the topic; the authorizer is not asked about an unknown id."""
    image = services.image.topics_by_id.get(topic.topic_id)
    name = topic.name if image is None else image.name
    if not name and context.api_version >= _TOPIC_IDS_FROM:
        return True
    return services.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)


def _failed_fetch(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    partitions = [OffsetFetchResponsePartitions(index, -1, -1, "", code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions)


def _create_for_zookeeper(services: Services, context: RequestContext) -> None:
    """Create the coordinator's topic for clients of version 0, which look for no coordinator."""
    if context.api_version == _ZOOKEEPER and CONSUMER_OFFSETS not in services.image.topics:
        services.node.create_missing_topics([CONSUMER_OFFSETS])


@handles(ApiKey.OFFSET_DELETE)
def offset_delete(
    services: Services, context: RequestContext, request: OffsetDeleteRequest
) -> Answer[OffsetDeleteResponse]:
    group_id = request.group_id
    if not services.allows(context, AclOperation.DELETE, AclResourceType.GROUP, group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    host = services.groups
    if group_id:
        host.require(group_id)
    readable: list[OffsetDeleteRequestTopic] = []
    denied: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        may = services.allows(context, AclOperation.READ, AclResourceType.TOPIC, topic.name)
        (readable if may else denied).append(topic)
    answer = host.answer(group_id, host.coordinator.offset_requests.delete(OffsetDeleteRequest(group_id, readable)))
    return then(answer, partial(_with_denied_deletions, denied)) if denied else answer


def _with_denied_deletions(
    denied: list[OffsetDeleteRequestTopic], response: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    """Add the refusals of denied topics to an answer, unless the answer is an error of the group."""
    if response.error_code == ErrorCode.NONE:
        for topic in denied:
            indexes = (each.partition_index for each in topic.partitions)
            partitions = [OffsetDeleteResponsePartition(index, _TOPIC_DENIED) for index in indexes]
            response.topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
    return response
