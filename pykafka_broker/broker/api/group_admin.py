"""Administration of groups: ListGroups v0-v5, DescribeGroups v0-v6, ConsumerGroupDescribe v0-v1 (KIP-848),
ShareGroupDescribe v1 (KIP-932), StreamsGroupDescribe v0-v1 (KIP-1071), DeleteGroups v0-v3.

ListGroups: a client sees the groups that it may describe, or all if it may describe the cluster. Filters are compared
without case; an unknown state or type matches nothing. NotReady of streams groups is asked for as NOT_READY. Versions:
4 states (KIP-518), 5 types (KIP-848).

Descriptions: each group is answered by itself, in the order of the request. DescribeGroups shows groups of the classic
protocol: a missing group is "Dead" without an error before version 6 and GROUP_ID_NOT_FOUND from then on; a group of
another kind counts as missing (KIP-1043). For the others a group of another kind is GROUP_ID_NOT_FOUND, which is how an
admin client learns to ask DescribeGroups. Versions: of DescribeGroups 3 authorized operations (KIP-430), 4 static
members, 6 errors with a message; of ConsumerGroupDescribe 1 tells members of the classic protocol from others;
of StreamsGroupDescribe 1 has the assignor, and says that no description of the topology is stored (KIP-1331).

DeleteGroups: each group is answered by itself; only an empty group can be deleted, with its offsets (KIP-229) and the
state of a share group (KIP-932). Versions: 2 is the flexible encoding, 3 has the message of an error that only a
plug-in for topologies of streams groups could bring about (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pykafka_broker.broker.api.consumer_group_heartbeat import offers
from pykafka_broker.broker.coordinators.shards import CommitsOfSlices
from pykafka_broker.broker.coordinators.share_host import is_enabled
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply, M, Portions
from pykafka_broker.broker.requests.router import handles, handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps, when_committed
from pykafka_broker.cluster.authorizer import NOT_ASKED
from pykafka_broker.coordinators.share.share_group import ShareGroup, Topics
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import consumer_group_describe_response as consumer
from pykafka_broker.protocol.messages import share_group_describe_response as share
from pykafka_broker.protocol.messages import streams_group_describe_response as streams
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from pykafka_broker.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from pykafka_broker.steps import Pace

_NOT_FOUND_FROM = 6
_ASSIGNOR_NAMES_FROM = 1  # of StreamsGroupDescribe
# The states of a topology's description. No plug-in keeps descriptions here, as in a Kafka without a plug-in.
_NOT_WANTED, _NOT_STORED = 0, 1
_GROUP, _MEMBER, _CLASSIC_MEMBER, _DELETION = 3, 3, 1, 8  # each takes as long as so many items of `Pace`
_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


@handles(ApiKey.LIST_GROUPS)
def list_groups(services: Services, context: RequestContext, request: ListGroupsRequest) -> Answer[ListGroupsResponse]:
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    sees_all = services.allows(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER, log=False)
    response = ListGroupsResponse(
        groups=[
            ListedGroup(group.group_id, group.protocol_type, group.state_name, group.type_name)
            for group in services.groups.listed().groups.values()
            if (not states or _state_word(group.state_name) in states) and (not types or group.type_name in types)
            if sees_all
            or services.allows(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id, log=False)
        ]
    )
    return when_committed(response, services.groups.shards.all_committed())


def _state_word(state: str) -> str:
    """Return the word, in lower case, by which a client asks for groups in a state."""
    return "not_ready" if state == "NotReady" else state.lower()


@handles_in_steps(ApiKey.DESCRIBE_GROUPS)
def describe_groups(
    services: Services, context: RequestContext, request: DescribeGroupsRequest
) -> Steps[Answer[DescribeGroupsResponse | EncodedReply]]:
    groups = Portions(DescribeGroupsResponse, "groups", context.api_version)
    commits = CommitsOfSlices[str](services.groups.committed)
    for group_id in request.groups:
        described = _classic_group(services, context, group_id)
        commits.add(group_id)
        described.authorized_operations = NOT_ASKED
        if described.error_code == ErrorCode.NONE and request.include_authorized_operations:
            described.authorized_operations = services.rights(context).operations(AclResourceType.GROUP, group_id)
        if groups.add(described, _GROUP + _CLASSIC_MEMBER * len(described.members)):
            commits.take()
            yield None
    return commits.when_committed(groups.response())


def _classic_group(services: Services, context: RequestContext, group_id: str) -> DescribedGroup:
    if not services.allows(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
        return DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id)
    error = services.groups.refusal(group_id)
    if error is not ErrorCode.NONE:
        return DescribedGroup(error, None, group_id)
    try:
        return services.groups.coordinator.describe_classic(group_id)
    except ApiError as missing:
        if context.api_version < _NOT_FOUND_FROM:
            return DescribedGroup(group_id=group_id, group_state="Dead")
        return DescribedGroup(missing.code, missing.message, group_id, "Dead")


@handles_in_steps(ApiKey.CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(
    services: Services, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Steps[Answer[consumer.ConsumerGroupDescribeResponse | EncodedReply]]:
    def described(group_id: str) -> tuple[consumer.DescribedGroup, Iterable[str]]:
        group = services.groups.coordinator.describe_consumer(group_id)
        assignments = (each for member in group.members for each in (member.assignment, member.target_assignment))
        return group, (each.topic_name for assignment in assignments for each in assignment.topic_partitions)

    enabled, response = offers(services, "consumer"), consumer.ConsumerGroupDescribeResponse
    return _describe_each(services, context, request, enabled, described, consumer.DescribedGroup, response)


@handles_in_steps(ApiKey.SHARE_GROUP_DESCRIBE)
def share_group_describe(
    services: Services, context: RequestContext, request: ShareGroupDescribeRequest
) -> Steps[Answer[share.ShareGroupDescribeResponse | EncodedReply]]:
    def described(group_id: str) -> tuple[share.DescribedGroup, Iterable[str]]:
        group = services.groups.coordinator.describe_share(group_id)
        return group, (each.topic_name for member in group.members for each in member.assignment.topic_partitions)

    enabled, response = is_enabled(services.image.features), share.ShareGroupDescribeResponse
    return _describe_each(services, context, request, enabled, described, share.DescribedGroup, response)


@handles_in_steps(ApiKey.STREAMS_GROUP_DESCRIBE)
def streams_group_describe(
    services: Services, context: RequestContext, request: StreamsGroupDescribeRequest
) -> Steps[Answer[streams.StreamsGroupDescribeResponse | EncodedReply]]:
    def described(group_id: str) -> tuple[streams.DescribedGroup, Iterable[str]]:
        group = services.groups.coordinator.describe_streams(group_id)
        topics: list[str] = []
        for each in group.topology.subtopologies or () if group.topology is not None else ():
            topics += (*each.source_topics, *each.repartition_sink_topics)
            topics += (topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
        if context.api_version >= _ASSIGNOR_NAMES_FROM:
            group.assignor_name = services.groups.coordinator.table.group_settings(group_id).streams_assignor_name
            group.topology_description_status = _NOT_STORED if request.include_topology_description else _NOT_WANTED
        return group, topics

    enabled, response = offers(services, "streams"), streams.StreamsGroupDescribeResponse
    return _describe_each(services, context, request, enabled, described, streams.DescribedGroup, response)


def _describe_each(
    services: Services,
    context: RequestContext,
    request: ConsumerGroupDescribeRequest | ShareGroupDescribeRequest | StreamsGroupDescribeRequest,
    enabled: bool,
    described: Callable[[str], tuple[Any, Iterable[str]]],
    kind: type[Any],
    response: type[M],
) -> Steps[Answer[M | EncodedReply]]:
    """Answer with a description or an error for each group, as the group is at one moment.

    Args:
        described: returns a group's description, and the topics that a client must have the right to describe.
        kind: the class of a description, whose first fields are error code, error message and group id.
    """
    groups, pace = Portions(response, "groups", context.api_version), Pace()
    commits = CommitsOfSlices[str](services.groups.committed)
    for group_id in request.group_ids:
        try:
            if not enabled:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
            services.authorise(context, AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
            if not group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            services.groups.require(group_id)
            commits.add(group_id)
            group, named = described(group_id)
            topics = list(named)
            if pace.due(1 + len(topics)):
                commits.take()
                yield None
            for topic in dict.fromkeys(topics):
                if not services.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic):
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN_TOPICS)
                if pace.due():
                    commits.take()
                    yield None
            group.authorized_operations = NOT_ASKED
            if request.include_authorized_operations:
                group.authorized_operations = services.rights(context).operations(AclResourceType.GROUP, group_id)
        except ApiError as error:
            group, topics = kind(error.code, error.message, group_id), []
        if groups.add(group, _GROUP + _MEMBER * len(group.members) + len(topics)):
            commits.take()
            yield None
    return commits.when_committed(groups.response())


@handles_in_steps(ApiKey.DELETE_GROUPS, outlives_client=True)
def delete_groups(
    services: Services, context: RequestContext, request: DeleteGroupsRequest
) -> Steps[Answer[DeleteGroupsResponse]]:
    results, pace = [], Pace()
    commits = CommitsOfSlices[str](services.groups.committed)
    for group_id in dict.fromkeys(request.groups_names):
        results.append(DeletableGroupResult(group_id, (yield from _delete(services, context, group_id, commits))))
        commits.add(group_id)
        if pace.due(_DELETION):
            commits.take()
            yield None
    return commits.when_committed(DeleteGroupsResponse(results=results))


def _delete(
    services: Services, context: RequestContext, group_id: str, commits: CommitsOfSlices[str]
) -> Steps[ErrorCode]:
    host = services.groups
    try:
        services.authorise(context, AclOperation.DELETE, AclResourceType.GROUP, group_id)
        if group_id:
            host.require(group_id)
        if isinstance(host.coordinator.groups.get(group_id), ShareGroup):
            commits.take()
            yield from host.confirmed(group_id)
            yield from _delete_share_states(services, group_id)
            host.require(group_id)  # it may have another coordinator by now
        deletion = host.coordinator.delete_group(group_id)
        host.apply(deletion)
    except ApiError as refused:
        return refused.code
    return deletion.reply


def _delete_share_states(services: Services, group_id: str) -> Steps[None]:
    """Delete the states of a share group without members.

    A member that joins meanwhile keeps the group, whose partitions begin anew.
    """
    group = services.groups.coordinator.groups.get(group_id)
    if not isinstance(group, ShareGroup) or not group.is_empty:
        return
    yield from delete_states(services, group_id, group.initialized)
    group = services.groups.coordinator.groups.get(group_id)
    if isinstance(group, ShareGroup) and not group.is_empty:
        services.groups.require(group_id)
        services.groups.apply(services.groups.coordinator.share.forget_topics(group_id, [*group.deleting]))


def delete_states(services: Services, group_id: str, topics: Topics) -> Steps[None]:
    """Delete a share group's states of `topics`, for good.

    The group's records say before that the topics are being deleted, and after a failure that they are initialized.
    """
    host, membership = services.groups, services.groups.coordinator.share
    host.apply(membership.delete_topics(group_id, topics))
    try:
        yield from services.shares.forget_topics(group_id, topics)
    except ApiError:
        host.require(group_id)
        host.apply(membership.initialized(group_id, {}, topics))
        raise
