"""StreamsGroupHeartbeat v0-v1 (KIP-1071), StreamsGroupTopologyDescriptionUpdate v0 (KIP-1331).

StreamsGroupHeartbeat: epoch 0 joins with a topology, -1 leaves; the answer carries tasks when there are new ones, and
statuses. Internal topics that the topology lacks are created at once, and the next heartbeat finds them. The status
tells why a topic can't be created, for two heartbeat intervals; the next heartbeat tells where the controller is
another node. Versions: 1 the recovery lag, and whether a description of the topology is wanted.

StreamsGroupTopologyDescriptionUpdate: a client's description of its topology, for a plug-in. Kafka comes with no
plug-in, and this broker has none: the answer is Kafka's without one, and no heartbeat asks for a description.
"""

from __future__ import annotations

from pykafka_broker.broker.api.consumer_group_heartbeat import (
    check_heartbeat_of_group,
    may_hold,
    may_name,
    offers,
    verdict,
)
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, all_of, when_committed
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS, are_plain, name_problem
from pykafka_broker.coordinators.streams.topology import MISSING_INTERNAL_TOPICS, mentioned
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Topology
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from pykafka_broker.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from pykafka_broker.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

_MOST_FAILURES = 1_000
_QUOTA_EXCEEDED = "The throttling quota has been exceeded."


@handles(ApiKey.STREAMS_GROUP_HEARTBEAT)
def streams_group_heartbeat(
    services: Services, context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> Answer[StreamsGroupHeartbeatResponse]:
    check_heartbeat_of_group(services, context, offers(services, "streams"), request.group_id)
    if request.topology is not None:
        problem = _problem(services, context, request.topology)
        if problem is not None:
            return StreamsGroupHeartbeatResponse(error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=problem)
    host = services.groups
    if request.group_id:
        host.require(request.group_id)
    effects = host.coordinator.streams.heartbeat(request, host.caller(context), services.clock.now)
    host.apply(effects)
    host.heard(context, request.group_id, request.member_id)
    reply = effects.reply
    reply.error_code = verdict(services, reply.error_code, request.member_epoch)
    host.confirm_by_append(request.group_id, reply.error_code)
    committed = host.committed(request.group_id)
    if effects.missing_topics:
        problem = _create(services, context, effects.missing_topics, 2 * reply.heartbeat_interval_ms)
        committed = all_of(committed, services.metadata.committed())
        for status in reply.status or ():
            if problem and status.status_code == MISSING_INTERNAL_TOPICS:
                status.status_detail += f"; {problem}."
    return when_committed(reply, committed)


@handles(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE)
def topology_description_update(
    services: Services, context: RequestContext, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="The broker has no streams group topology description plugin configured.",
    )


def _problem(services: Services, context: RequestContext, topology: Topology) -> str | None:
    """Return the problem with the names in a topology, in Kafka's words, or None."""
    may_hold(services, [each.subtopology_id for each in topology.subtopologies])
    names = mentioned(topology)
    may_hold(services, names)
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    invalid = [] if are_plain(names) else [name for name in names if name_problem(name) is not None]
    if prohibited:
        return f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
    if invalid:
        return f"Topic names {','.join(invalid)} are not valid topic names."
    may_name(services, context, names)
    return None


def _create(services: Services, context: RequestContext, topics: list[CreatableTopic], told_ms: int) -> str:
    """Create internal topics if the client may create all; return the problem, empty if none.

    A failure is told for `told_ms`, and then the topic is tried again, as in Kafka.
    """
    if not services.allows(context, AclOperation.CREATE, AclResourceType.CLUSTER, log=False):
        denied = [
            each.name
            for each in topics
            if not services.allows(context, AclOperation.CREATE, AclResourceType.TOPIC, each.name)
        ]
        if denied:
            return f"Unauthorized to CREATE on topics {', '.join(denied)}"
    failures, clock = services.groups.creation_failures, services.clock
    for name in [name for name, (_, until) in failures.items() if until <= clock.now]:
        del failures[name]

    def refused(results: list[CreatableTopicResult]) -> None:
        for result in results:
            if result.error_code and len(failures) < _MOST_FAILURES:
                # Every error but one has a message.
                failures[result.name] = result.error_message or _QUOTA_EXCEEDED, clock.now + told_ms

    wanted = [topic for topic in topics if topic.name not in failures]
    if wanted:
        refused(services.metadata.create_topics(wanted, context, refused))
    told = [f"{topic.name} ({failures[topic.name][0]})" for topic in topics if topic.name in failures]
    return f"Creation failed: {', '.join(told)}" if told else ""
