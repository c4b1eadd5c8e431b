"""The wishes of old tools: what they wrote into ZooKeeper, as requests of Kafka's protocol.

Rule: functions of what was found and of the metadata, without ZooKeeper. A wish that is fulfilled already has no
request. The broker decides about each request as about any client's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.protocol.enums import by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_client_quotas_request as quotas
from pykafka_broker.protocol.messages import alter_partition_reassignments_request as reassignments
from pykafka_broker.protocol.messages import create_partitions_request as partitions
from pykafka_broker.protocol.messages import create_topics_request as topics
from pykafka_broker.protocol.messages import delete_topics_request as deletions
from pykafka_broker.protocol.messages import elect_leaders_request as elections
from pykafka_broker.protocol.messages import incremental_alter_configs_request as configs
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.zookeeper import forms

_TIMEOUT_MS = 30_000
_UNREADABLE = (AttributeError, KeyError, OverflowError, TypeError, ValueError)  # OverflowError: int(Infinity)
_SET, _DELETE = 0, 1  # operations of IncrementalAlterConfigs
Assignment = Mapping[int, Sequence[int]]  # brokers by partition
# The wish is fulfilled all the same, perhaps by somebody else.
_FULFILLED = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
)


class ToolWish(NamedTuple):
    """A request for the broker, and the node that the tool wrote."""

    path: str
    request: Message


def assignment_of(node: Any) -> dict[int, list[int]]:
    """Return the brokers by partition in the node of a topic; nothing where the node is not to be read."""
    try:
        return {int(index): [int(broker) for broker in brokers] for index, brokers in node["partitions"].items()}
    except _UNREADABLE:
        return {}


def config_of(node: Any) -> dict[str, str]:
    """Return the settings in a node below /config."""
    found = node.get("config") if isinstance(node, dict) else None
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def partitions_of(node: Any) -> list[tuple[str, int, list[int]]]:
    """Return the partitions that a node of /admin names, with their brokers if it names some."""
    try:
        return [(str(p["topic"]), int(p["partition"]), [*map(int, p.get("replicas", ()))]) for p in node["partitions"]]
    except _UNREADABLE:
        return []


def topic_creation(name: str, assignment: Assignment, config: Mapping[str, str]) -> Message:
    wanted = topics.CreatableTopic(
        name,
        -1,
        -1,
        [topics.CreatableReplicaAssignment(index, [*brokers]) for index, brokers in sorted(assignment.items())],
        [topics.CreatableTopicConfig(key, value) for key, value in config.items()],
    )
    return topics.CreateTopicsRequest([wanted], _TIMEOUT_MS)


def topic_growth(name: str, assignment: Assignment, known: int) -> Message:
    """Return the request for the partitions from `known` on."""
    added = [partitions.CreatePartitionsAssignment([*assignment[index]]) for index in sorted(assignment)[known:]]
    wanted = partitions.CreatePartitionsTopic(name, len(assignment), added)
    return partitions.CreatePartitionsRequest([wanted], _TIMEOUT_MS)


def topic_deletion(name: str) -> Message:
    return deletions.DeleteTopicsRequest([deletions.DeleteTopicState(name)], timeout_ms=_TIMEOUT_MS)


def reassignment(wanted: Sequence[tuple[str, int, list[int]]]) -> Message:
    named = by_topic((name, reassignments.ReassignablePartition(index, brokers)) for name, index, brokers in wanted)
    asked = [reassignments.ReassignableTopic(*topic) for topic in named.items()]
    return reassignments.AlterPartitionReassignmentsRequest(_TIMEOUT_MS, topics=asked)


def preferred_election(wanted: Sequence[tuple[str, int, list[int]]]) -> Message:
    named = by_topic((name, index) for name, index, _ in wanted)
    asked = [elections.TopicPartitions(*topic) for topic in named.items()]
    return elections.ElectLeadersRequest(0, asked, _TIMEOUT_MS)


def config_change(path: str, wanted: Mapping[str, str], image: MetadataImage) -> Message | None:
    """Return the request for these settings, and no others, at a path below /config; None where they are in force."""
    present, resource = forms.settings(image, path), forms.resource_of(path)
    wanted = {key: value for key, value in wanted.items() if not forms.is_hidden(key)}
    if resource is not None:
        ops = [configs.AlterableConfig(key, _SET, value) for key, value in wanted.items() if present.get(key) != value]
        ops += [configs.AlterableConfig(key, _DELETE, None) for key in present if key not in wanted]
        return configs.IncrementalAlterConfigsRequest([configs.AlterConfigsResource(*resource, ops)]) if ops else None
    numbers = {key: float(value) for key, value in wanted.items() if _is_number(value)}
    known = {key: str(float(value)) for key, value in present.items()}  # as text, NaN equals itself
    changed = [quotas.OpData(key, new) for key, new in numbers.items() if known.get(key) != str(new)]
    changed += [quotas.OpData(key, remove=True) for key in present if key not in numbers]
    entity = [quotas.EntityData(kind, name) for kind, name in forms.quota_of(path)]
    return quotas.AlterClientQuotasRequest([quotas.EntryData(entity, changed)]) if changed and entity else None


def _is_number(text: str) -> bool:
    """Return whether a setting is a quota: users have credentials beside theirs, which are not taken over."""
    try:
        float(text)
    except ValueError:
        return False
    return True


# -- answers


def refusals(answer: Any) -> Iterator[tuple[ErrorCode, str]]:
    """Yield what an answer refuses: errors anywhere in it, with a text."""
    code = getattr(answer, "error_code", 0)
    if ErrorCode(code) not in _FULFILLED:
        yield ErrorCode(code), getattr(answer, "error_message", None) or ErrorCode(code).name
    for name in getattr(answer, "__slots__", ()):
        value = getattr(answer, name)
        if isinstance(value, list):
            for each in value:
                yield from refusals(each)


def begun_reassignments(wanted: Sequence[tuple[str, int, list[int]]], answer: Any) -> list[tuple[str, int, list[int]]]:
    """Return the reassignments that an answer does not refuse; none without an answer, or if it refuses the whole."""
    if answer is None or answer.error_code:
        return []
    parts = ((topic.name, each) for topic in answer.responses for each in topic.partitions)
    refused = {(name, each.partition_index) for name, each in parts if each.error_code}
    return [each for each in wanted if each[:2] not in refused]
