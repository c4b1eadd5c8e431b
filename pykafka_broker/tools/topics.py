"""`kafka-topics`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.configs import Resource, describe_configs, source_of
from pykafka_broker.client.errors import ClientError, KafkaError
from pykafka_broker.client.properties import integer, java_split
from pykafka_broker.client.topics import (
    PARTITIONS_IN_AN_ANSWER,
    PartitionView,
    TopicView,
    create_partitions,
    create_topic,
    delete_topics,
    describe_topics,
    list_reassignments,
    list_topics,
)
from pykafka_broker.protocol.enums import ConfigResourceType, ConfigSource, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.list_partition_reassignments_response import OngoingPartitionReassignment
from pykafka_broker.protocol.runtime import ZERO_UUID, parse_uuid_text, uuid_text
from pykafka_broker.tools.frame import Tool, ToolParser, matcher
from pykafka_broker.tools.json_file import repeated

# -- descriptions


_NOT_TOLD = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class Part(NamedTuple):
    """A partition with all properties used by filters."""

    view: PartitionView
    move: OngoingPartitionReassignment | None
    min_isr: int
    live: frozenset[int]

    @property
    def replication_factor(self) -> int:
        """Return the replication factor, without replicas added by a reassignment."""
        added = len(self.move.adding_replicas) if self.move else 0
        return len(self.view.replicas) - added

    @property
    def has_leader(self) -> bool:
        return self.view.leader >= 0

    def line(self, topic: str) -> str:
        view = self.view
        fields = [
            f"Topic: {topic}",
            f"Partition: {view.partition}",
            f"Leader: {view.leader if self.has_leader else 'none'}",
            f"Replicas: {_ids(view.replicas)}",
            f"Isr: {_ids(view.isr)}",
        ]
        if self.move:
            fields += [
                f"Adding Replicas: {_ids(self.move.adding_replicas)}",
                f"Removing Replicas: {_ids(self.move.removing_replicas)}",
            ]
        fields += [f"Elr: {_ids(view.elr)}", f"LastKnownElr: {_ids(view.last_known_elr)}"]
        return "\t" + "\t".join(fields)

    def data(self) -> dict[str, Any]:
        view = self.view
        return {
            "partition": view.partition,
            "leader": view.leader if self.has_leader else None,
            "replicas": view.replicas,
            "isr": view.isr,
            "adding_replicas": list(self.move.adding_replicas) if self.move else [],
            "removing_replicas": list(self.move.removing_replicas) if self.move else [],
            "elr": view.elr,
            "last_known_elr": view.last_known_elr,
        }


_OVERRIDES = "topics_with_overrides"
_FILTERS: dict[str, Callable[[Part], bool]] = {  # of partitions, by flag
    "under_replicated_partitions": lambda part: part.replication_factor > len(part.view.isr),
    "under_min_isr_partitions": lambda part: len(part.view.isr) < part.min_isr,
    "at_min_isr_partitions": lambda part: len(part.view.isr) == part.min_isr,
    "unavailable_partitions": lambda part: part.view.leader not in part.live,
}


def _ids(nodes: list[int] | None) -> str:
    return "N/A" if nodes is None else ",".join(map(str, nodes))


async def describe(tool: Tool, client: Client, names: list[str], *, by_id: bool = False) -> list[dict[str, Any]]:
    """Print topics and return plain data for JSON. by_id: the user named an id."""
    topics = await describe_topics(client, names, limit=tool.options.limit, by_id=by_id)
    resources = [Resource(ConfigResourceType.TOPIC, name) for name in topics]
    configs = await describe_configs(client, resources) if resources else {}
    moves = await _reassignments(client, topics)
    live = frozenset(client.nodes)
    shown = []
    for resource in resources:
        topic = topics[resource.name]
        values = {each.name: each.value or "" for each in configs[resource]}
        minimum = int(values.get("min.insync.replicas", "1"))
        own = {
            each.name: each.value or ""
            for each in configs[resource]
            if source_of(resource, each) is not ConfigSource.DEFAULT_CONFIG
        }
        parts = [
            Part(each, moves.get(TopicPartition(topic.name, each.partition)), minimum, live)
            for each in topic.partitions
        ]
        shown.append(_print(tool, topic, own, parts))
    return [each for each in shown if each is not None]


def _print(tool: Tool, topic: TopicView, own: dict[str, str], parts: list[Part]) -> dict[str, Any] | None:
    flags = [flag for flag in (_OVERRIDES, *_FILTERS) if tool.given(flag)]
    passing = passing_partitions(parts, flags)
    whole = not flags or (flags == [_OVERRIDES] and own)
    factor = parts[0].replication_factor if parts else 0
    if whole:
        listed = ",".join(f"{name}={value}" for name, value in sorted(own.items()))
        tool.print(
            f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(parts)}\t"
            f"ReplicationFactor: {factor}\tConfigs: {listed}"
        )
    for each in passing:
        tool.print(each.line(topic.name))
    if not whole and not passing:
        return None
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "is_internal": topic.is_internal,
        "partition_count": len(parts),
        "replication_factor": factor,
        "configs": own,
        "partitions": [each.data() for each in passing],
    }


def passing_partitions(parts: list[Part], flags: Sequence[str]) -> list[Part]:
    """Return the partitions that any of the filters lets pass; without filters, all partitions."""
    filters = [_FILTERS[flag] for flag in flags if flag in _FILTERS]
    if not filters:
        return [] if flags else parts
    return [each for each in parts if any(passes(each) for passes in filters)]


async def _reassignments(
    client: Client, topics: dict[str, TopicView]
) -> dict[TopicPartition, OngoingPartitionReassignment]:
    """Return the reassignments of topics; empty if the broker can't or won't tell."""
    wanted = {topic.name: [each.partition for each in topic.partitions] for topic in topics.values()}
    try:
        return await list_reassignments(client, wanted) if wanted else {}
    except KafkaError as error:
        if error.code not in _NOT_TOLD:
            raise
        return {}


# -- the tool


FAILURE = "Error while executing topic command : "

_COLLIDING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
_NO_DELETED_CONFIG = (
    "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully removed in "
    "future releases."
)
_MAX_REPLICATION_FACTOR = 32767


def options(parser: ToolParser) -> None:
    add = parser.option
    parser.add_connection()
    add("--list", "list topics")
    add("--describe", "describe topics: partitions, replicas, configs")
    add("--create", "create a topic")
    add("--alter", "add partitions to topics")
    add("--delete", "delete topics")
    add("--topic NAME", "the topic; all but --create take a regular expression")
    add("--topic-id ID", "describe the topic with this id")
    add("--partitions N", "how many partitions; by default the broker's", type=integer)
    add("--replication-factor N", "how many replicas; by default the broker's", type=integer)
    add("--replica-assignment 1:2,2:3,...", "the brokers of each partition, the leader first")
    add("--config KEY=VALUE ...", "a config of the new topic; may be repeated", default=[])
    add("--delete-config", action="append", help="no longer supported, as in Kafka: use pykafka-broker configs")
    add("--if-exists", "with --describe, --alter, --delete: no error if it does not exist")
    add("--if-not-exists", "with --create: no error if it exists")
    add("--exclude-internal", "leave out internal topics")
    add("--topics-with-overrides", "only topics with configs of their own")
    add("--under-replicated-partitions", "only partitions with replicas out of sync")
    add("--under-min-isr-partitions", "only partitions with fewer replicas in sync than min.insync.replicas")
    add("--at-min-isr-partitions", "only partitions with exactly min.insync.replicas in sync")
    add("--unavailable-partitions", "only partitions without a leader")
    size = {"type": integer, "default": PARTITIONS_IN_AN_ANSWER}
    add("--partition-size-limit-per-response N", "most partitions in one answer", dest="limit", **size)


async def run(tool: Tool) -> int:
    act = _RUN[_check(tool)]
    client = tool.connect()
    try:
        async with client:
            await act(tool, client)
    except ClientError as error:
        return tool.fail(f"{FAILURE}{error}", error)
    return 0


def _check(tool: Tool) -> str:
    """Return the action, and check which flags go with it. Raises ToolUsageError."""
    action = tool.one_of(*_RUN)
    if action not in ("list", "describe"):
        tool.required("topic")
    tool.only_with("partitions", "create", "alter")
    tool.only_with("replication_factor", "create")
    tool.only_with("replica_assignment", "create", "alter")
    tool.only_with("config", "create")
    if tool.given("delete_config"):
        tool.warn(_NO_DELETED_CONFIG)
    for flag in (*_FILTERS, _OVERRIDES):
        tool.only_with(flag, "describe")
    tool.only_with("if_exists", "describe", "alter", "delete")
    tool.only_with("if_not_exists", "create")
    tool.only_with("exclude_internal", "list", "describe")
    if action == "create":
        tool.never_with("replica_assignment", "partitions", "replication_factor")
    for flag in _FILTERS:
        tool.never_with(flag, _OVERRIDES)
    if action == "alter":
        tool.required("partitions")
    return action


async def _list(tool: Tool, client: Client) -> None:
    tool.result = await _names(tool, client)
    for name in tool.result:
        tool.print(name)


async def _describe(tool: Tool, client: Client) -> None:
    options = tool.options
    try:
        topic_id = ZERO_UUID if options.topic_id is None else parse_uuid_text(options.topic_id)
    except ValueError as error:
        raise ClientError(str(error)) from None
    if topic_id != ZERO_UUID:
        names = [each.name for each in await list_topics(client) if each.topic_id == topic_id and each.name]
        what = f"TopicId '{options.topic_id}'"
    else:
        names = await _names(tool, client)
        what = f"Topic '{options.topic}'"
    if not names and (options.topic or topic_id != ZERO_UUID) and not options.if_exists:
        raise ClientError(f"{what} does not exist as expected")
    tool.result = await describe(tool, client, names, by_id=topic_id != ZERO_UUID)


async def _create(tool: Tool, client: Client) -> None:
    options = tool.options
    if not options.topic:
        raise ClientError("The given topic name '' cannot be represented in a request.")
    if "." in options.topic or "_" in options.topic:
        tool.print(_COLLIDING)
    partitions, factor = options.partitions, options.replication_factor
    if partitions is not None and partitions < 1:
        raise ClientError("The partitions must be greater than 0")
    if factor is not None and not 1 <= factor <= _MAX_REPLICATION_FACTOR:
        raise ClientError(f"The replication factor must be between 1 and {_MAX_REPLICATION_FACTOR} inclusive")
    tool.result = {"name": options.topic, "created": False}
    try:
        await create_topic(
            client,
            options.topic,
            partitions=-1 if partitions is None else partitions,
            replication_factor=-1 if factor is None else factor,
            assignment=_assignment(options.replica_assignment),
            configs=_configs(options.config),
        )
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or not options.if_not_exists:
            raise
        return
    tool.result["created"] = True
    tool.print(f"Created topic {options.topic}.")


async def _alter(tool: Tool, client: Client) -> None:
    options = tool.options
    names = await _existing(tool, client)
    assignments: dict[str, list[list[int]]] | None = None
    if options.replica_assignment is not None:
        whole, found = _assignment(options.replica_assignment), await describe_topics(client, names)
        assignments = {name: whole[len(found[name].partitions) :] for name in names if name in found}
    tool.result = [{"name": name, "partition_count": options.partitions} for name in names]
    if names:
        await create_partitions(client, dict.fromkeys(names, options.partitions), assignments)


async def _delete(tool: Tool, client: Client) -> None:
    names = await _existing(tool, client)
    tool.result = [{"name": name, "deleted": True} for name in names]
    if names:
        await delete_topics(client, names)


async def _existing(tool: Tool, client: Client) -> list[str]:
    names = await _names(tool, client)
    if not names and tool.options.topic and not tool.options.if_exists:
        raise ClientError(f"Topic '{tool.options.topic}' does not exist as expected")
    return names


async def _names(tool: Tool, client: Client) -> list[str]:
    """Return the topics named by `--topic`, or all topics."""
    wanted: Callable[[str], Any] = bool if tool.options.topic is None else matcher(tool.options.topic)
    internal = not tool.options.exclude_internal
    topics = [each for each in await list_topics(client) if internal or not each.is_internal]
    return [each.name for each in topics if each.name and wanted(each.name)]


def _assignment(text: str | None) -> list[list[int]]:
    """Read an assignment: `1:2,2:3` is two partitions of two replicas each. Raises ClientError."""
    found: list[list[int]] = []
    for index, part in enumerate(java_split(",", text) if text else []):
        replicas = [_number(each.strip()) for each in java_split(":", part)]
        if twice := repeated(replicas):
            listed = ", ".join(map(str, twice))
            raise ClientError(f"Partition replica lists may not contain duplicate entries: {listed}")
        found.append(replicas)
        if len(replicas) != len(found[0]):
            raise ClientError(f"Partition {index} has different replication factor: {replicas}")
    return found


def _number(text: str) -> int:
    try:
        return integer(text)
    except ValueError as error:
        raise ClientError(str(error)) from None


def _configs(pairs: list[str]) -> dict[str, str]:
    found = {}
    for each in pairs:
        pair = java_split(r"\s*=\s*", each)
        if len(pair) != 2:
            reason = 'Invalid topic config: all configs to be added must be in the format "key=val".'
            raise ClientError(f"requirement failed: {reason}")
        found[pair[0].strip()] = pair[1].strip()
    return found


_RUN: dict[str, Callable[[Tool, Client], Awaitable[None]]] = {
    "list": _list,
    "describe": _describe,
    "create": _create,
    "alter": _alter,
    "delete": _delete,
}
