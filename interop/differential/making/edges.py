"""Requests of the areas with one or two values replaced by values at the edge of what their type can hold.

Rule: the schema alone says where and what, so that every field of every API has its turn: none, empty, negative, the
greatest, named twice, unknown. A request that goes wrong comes beside the right one, and the sequence goes on.
"""

from __future__ import annotations

import copy
import inspect
import random
import re
import struct
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from interop.differential.steps import BY_NAME, Step, of, to_message
from interop.differential.world import NEVER
from pykafka_broker.protocol.runtime import EncodeError, Fields

SHARE = 0.3  # of the steps that have such a step before them
TRIES = 8  # at most, to find a change that the version can carry
INTEGERS = [-1, 0, 1, 2, -2, 3, -3, 9, 99, 127, -128, 32767, -32768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
FLOATS = [0.0, -1.0, 1e-9, 1e30, 0.5]
TEXTS = ["", "§a", "§none", "§" + "x" * 241, "§" + "x" * 4200, "§ b", "§é", "§\0"]
IDS = [{"hex": "00" * 16}, {"hex": "00" * 15 + "01"}, of("topic_id zz"), of("topic_id a"), of("topic_id b")]
BYTES = [{"hex": ""}, {"hex": "00"}, {"hex": "ff" * 40}]
LEAVES = {"of", "hex", "batches", "subscription", "assignment"}
KEPT_CLEAR_OF = re.compile(
    # It changes something for all later sequences, or ends a broker.
    r"UnregisterBroker\.|UpdateFeatures\.validate_only|(Add|Remove)RaftVoter\.cluster_id|SaslAuthenticate\."
    # Brokers' requests to each other name nothing twice, and no topic without partitions.
    r"|(Initialize|Read|Write|Delete)ShareGroupState(Summary)?\.topics(\.topic_id|\.partitions)?$"
    r"|WriteTxnMarkers\.markers(\.topics(\.partition_indexes)?|\.transaction_version)?$"
    # Kafka answers UNKNOWN_SERVER_ERROR to a session that no shard of its cache can have.
    r"|Fetch\.session_id"
    # Nobody fetches as a follower of itself, and Kafka resolves a regular expression some time later.
    r"|Fetch\.(replica_id|replica_state)|ConsumerGroupHeartbeat\.subscribed_topic_regex"
    # A member with partitions that takes another instance id never gets them back: Kafka makes the member anew, and
    # goes on counting the partitions as taken.
    r"|ConsumerGroupHeartbeat\.instance_id$"
    # Kafka never answers for a partition that does not exist.
    r"|DescribeShareGroupOffsets\.groups\.topics\.partitions$"
    # For a topic that the group does not read Kafka's answer varies.
    r"|ShareFetch\.topics(\.topic_id)?$"
    # What a client is to push has a number that depends on its id.
    r"|(GetTelemetrySubscriptions|PushTelemetry)\.client_instance_id$"
    # Kafka answers UNKNOWN_SERVER_ERROR to null records, or does not answer.
    r"|Produce\.topic_data\.partition_data\.records$"
    # These requests list everything, other sequences' items included.
    r"|ElectLeaders\.topic_partitions$|ListConfigResources\.resource_types$|(Metadata|DescribeTopicPartitions|DescribeLogDirs|DescribeUserScramCredentials)\.(topics|users)$"
)
REQUESTS_KEPT_CLEAR_OF = re.compile(
    # To an empty name Kafka answers an unknown error for all topics.
    r"DescribeTopicPartitions .*'name': ''"
    # To a topic without partitions Kafka answers an unknown error.
    r"|DescribeShareGroupOffsets .*'partitions': \[\]"
    # All sequences share the sessions of the group with the empty name.
    r"|Share(Fetch|Acknowledge) .*'group_id': ''"
    # Where members have no time to join or sync, chance decides whether the next request is still in time.
    r"|JoinGroup .*'rebalance_timeout_ms': (-\d+|\d{1,2})\b"
    # A few milliseconds may be enough for a controller, or not.
    r"|(CreateTopics|DeleteTopics|CreatePartitions|ElectLeaders|AlterPartitionReassignments) "
    r".*'timeout_ms': [1-9]\d{0,2}\b"
    # All configs of a broker, which has some that belong to the machine.
    r"|DescribeConfigs .*'resource_type': 4.*'configuration_keys': (\[\]|None)"
    # Kafka answers UNKNOWN_SERVER_ERROR to negative limits and unknown isolation levels.
    r"|(Share)?Fetch .*'((partition_)?max_bytes': -|isolation_level': (?![01]\b))"
    # To these it never answers; it loses a protocol that a member names twice.
    r"|AddPartitionsToTxn .*'transactions': \[\]|Produce .*'records': None"
    r"|AlterConfigs .*(?P<resource>'resource_type': -?\d+, 'resource_name': '[^']*').*(?P=resource)"
    r"|JoinGroup .*'protocols': \[.*(?P<protocol>'name': '[^']+').*(?P=protocol)"
)
ONCE = ("Produce", "Fetch", "OffsetCommit", "OffsetDelete", "ShareFetch", "ShareAcknowledge")
PARTITION = re.compile(r"'(?:index|partition|partition_index)': -?\d+|^\d+$")
SMALL = re.compile(r".*\.(num_partitions|count|max_wait_ms)$")


class Slot(NamedTuple):
    """A field of a request that is data: where it stands, its name there, its type, its path from the API's name."""

    holder: dict[str, Any]
    name: str
    annotation: str
    path: str
    module: Any


def edged(rng: random.Random, steps: list[Step], kept: int) -> list[Step]:
    """Put changed copies before some of the steps; the first ones, which make what the others need, stay alone."""
    found = steps[:kept]
    for step in steps[kept:]:
        changed = _changed(rng, step) if rng.random() < SHARE else None
        found += [step] if changed is None else [changed, step]
    return found


def _changed(rng: random.Random, step: Step) -> Step | None:
    for _ in range(TRIES):
        fields = copy.deepcopy(step.fields)
        for _ in range(rng.choice((1, 1, 2))):
            slots = [slot for slot in _slots(step, fields) if not KEPT_CLEAR_OF.match(slot.path)]
            if not slots:
                return None
            _change(rng, rng.choice(slots))
        changed = Step(step.api, step.version, fields, step.on, step.keep)
        clear = not REQUESTS_KEPT_CLEAR_OF.match(f"{step.api} {fields}") and not _answered_twice(changed)
        if fields != step.fields and clear and _can_be_sent(changed):
            return changed
    return None


def _answered_twice(step: Step) -> bool:
    """Return whether a topic or partition is named twice, in a request that this broker then answers twice.

    No client sends such a request.
    """
    if step.api not in ONCE:
        return False
    for topics in (step.fields.get(name) or () for name in ("topics", "topic_data", "forgotten_topics_data")):
        for key in ("topic", "name", "topic_id"):  # a version has only one of these
            named = [str(topic[key]) for topic in topics if topic.get(key) is not None]
            if len({*named}) < len(named):
                return True
        for topic in topics:
            partitions = topic.get("partitions") or topic.get("partition_data") or ()
            numbers = [PARTITION.findall(str(one))[:1] for one in partitions]
            if len({*map(str, numbers)}) < len(numbers):
                return True
    return False


def _can_be_sent(step: Step) -> bool:
    kind = BY_NAME[step.api].request_class()
    if not kind.MIN_VERSION <= step.version <= kind.MAX_VERSION:
        return False
    try:
        to_message(step, "d0000000-", stand_in).encode(step.version)
    except (EncodeError, struct.error):
        return False
    return True


def stand_in(what: str) -> Any:
    """Return what a reference may stand for, so that a request can be encoded before there are answers."""
    kind = what.split(" ", 1)[0]
    return b"\1" * 16 if kind == "topic_id" else NEVER.get(kind, "")


def _slots(step: Step, fields: dict[str, Any]) -> Iterator[Slot]:
    kind = BY_NAME[step.api].request_class()
    yield from _slots_of(kind, fields, step.api)


def _slots_of(kind: type[Fields], holder: dict[str, Any], path: str) -> Iterator[Slot]:
    module = sys.modules[kind.__module__]
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        if name == "self":
            continue
        annotation = str(parameter.annotation)
        slot = Slot(holder, name, annotation, f"{path}.{name}", module)
        yield slot
        inner = _class_of(annotation.removesuffix(" | None").removeprefix("list[").removesuffix("]"), module)
        value = holder.get(name)
        for item in value if isinstance(value, list) else [value]:
            if inner is not None and isinstance(item, dict) and not LEAVES & item.keys():
                yield from _slots_of(inner, item, slot.path)


def _class_of(annotation: str, module: Any) -> type[Fields] | None:
    found = getattr(module, annotation, None) if annotation[:1].isupper() else None
    return found if inspect.isclass(found) and issubclass(found, Fields) else None


def _change(rng: random.Random, slot: Slot) -> None:
    kind, nullable = slot.annotation.removesuffix(" | None"), slot.annotation.endswith(" | None")
    if nullable and rng.random() < 0.25:
        slot.holder[slot.name] = None
    elif kind.startswith("list["):
        slot.holder[slot.name] = _other_list(rng, slot.holder.get(slot.name), kind[5:-1], slot.module)
    elif (value := _other_value(rng, kind, at_most=99 if SMALL.match(slot.path) else 2**63)) is not None:
        slot.holder[slot.name] = value
    else:
        slot.holder[slot.name] = _empty(kind, slot.module)


def _empty(kind: str, module: Any) -> dict[str, Any]:
    """Return a struct with its defaults, as far as those are data."""
    found, values = _class_of(kind, module), dict[str, Any]()
    for name, parameter in inspect.signature(found.__init__).parameters.items() if found else ():
        default = parameter.default
        if isinstance(default, bytes):
            values[name] = {"hex": default.hex()}
        elif default == ():  # of a list or a struct
            values |= {name: []} if "list[" in str(parameter.annotation) else {}
        elif name != "self":
            values[name] = default
    return values


def _other_list(rng: random.Random, known: Any, kind: str, module: Any) -> list[Any]:
    items = known if isinstance(known, list) else []
    value = _other_value(rng, kind)
    new = _empty(kind, module) if value is None else value
    choices: list[list[Any]] = [[], [*items, new], [new, *items], [*items, *items[:1]], items[::-1]]
    return copy.deepcopy(rng.choice(choices))


def _other_value(rng: random.Random, kind: str, at_most: int = 2**63) -> Any:
    """Return a value of a scalar type; None for a struct."""
    if kind == "bool":
        return rng.random() < 0.5
    choices: dict[str, list[Any]] = {
        "int": [number for number in INTEGERS if number <= at_most],
        "float": FLOATS,
        "str": TEXTS,
        "bytes": [*IDS, *BYTES],
    }
    return copy.deepcopy(rng.choice(choices[kind])) if kind in choices else None
