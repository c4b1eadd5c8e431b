"""Which group protocols a cluster offers, who may be sent away before a heartbeat is looked at, and what members of a
group are told that there is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from typing import Protocol

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.letting_go import let_go
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import AllowAll, Operation, Resource
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.coordinators.groups.many_names import OrderedNames, ordered
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.steps import Pace


class Heartbeat(Protocol):
    """Of a member that names the topics it wants."""

    subscribed_topic_names: list[str] | None


FEATURES = {"consumer": "group.version", "streams": "streams.version"}


def offers(services: Services, protocol: str) -> bool:
    """Whether the protocol is among `group.coordinator.rebalance.protocols` and its feature is finalized."""
    return (
        services.image.features.get(FEATURES[protocol], 0) >= 1
        and protocol in services.config.group_coordinator_rebalance_protocols
    )


def may_name(services: Services, context: RequestContext, topics: Collection[str]) -> Generator[None, None, None]:
    """Raises what a member is told that names more than a record can hold, or topics that it may not describe."""
    if isinstance(topics, OrderedNames):
        if topics.size > most_bytes(services):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    else:
        yield from may_hold(services, lambda: topics)
    if type(services.authorizer) is AllowAll:
        return
    pace = Pace()
    for name in topics:
        services.authorise(context, Operation.DESCRIBE, Resource.TOPIC, name)
        if pace.due():
            yield


def may_name_many(
    services: Services, context: RequestContext, request: Heartbeat, names: list[str]
) -> Generator[None, None, None]:
    """The same of so many that they are put in order first, as the request has them from then on."""
    found = yield from ordered(names, most_bytes(services))
    request.subscribed_topic_names = found  # type: ignore[assignment]  # nobody changes them
    yield from let_go(names)
    yield from may_name(services, context, found)


def most_bytes(services: Services) -> int:
    """What a record of a group can hold."""
    return services.topic_config(CONSUMER_OFFSETS).max_message_bytes


def may_hold(services: Services, texts: Callable[[], Iterable[str]]) -> Generator[None, None, None]:
    """Raises UNKNOWN_SERVER_ERROR, as Kafka does, for what no record of a group can hold, each text once."""
    most, pace = most_bytes(services), Pace()
    for unique in (False, True):
        size, seen = 0, set[str]()
        for text in texts():
            if pace.due():
                yield
            if unique:
                if text in seen:
                    continue
                seen.add(text)
            size += len(text) + 1
            if unique and size > most:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if size <= most:
            return


def heartbeat_refusal(services: Services, is_offered: bool, group_id: str) -> ErrorCode:
    """UNSUPPORTED_VERSION, or what is wrong with the coordinator of the group. That a group has no name is told with
    the other things that a heartbeat may lack."""
    if not is_offered:
        return ErrorCode.UNSUPPORTED_VERSION
    return services.groups.refusal(group_id) if group_id else ErrorCode.NONE


def may_lack_groups(services: Services) -> bool:
    """Whether this broker has taken the place of another one, of which clients stay connected and groups may be lost.
    Their members are to join again; told that there is no group they would give up for good.
    """
    return services.node.setup.leader_epoch >= 0


def verdict(services: Services, error: int, member_epoch: int) -> int:
    """What a member is told whose heartbeat was refused."""
    lost = error == ErrorCode.GROUP_ID_NOT_FOUND and member_epoch > 0 and may_lack_groups(services)
    return ErrorCode.UNKNOWN_MEMBER_ID if lost else error
