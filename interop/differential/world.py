"""The ids that one broker's answers have given so far. Rule: an id gets the same name on both brokers, so identity is
compared although values are not. Other values are compared as they are, but for those that differ from run to run.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any

from interop.differential.records import plain_batches
from interop.differential.steps import PREFIX, Step
from pykafka_broker.protocol.messages.share_fetch_response import ShareFetchResponse
from pykafka_broker.protocol.runtime import ZERO_UUID, Fields

KEPT = ("producer_id", "producer_epoch", "member_id", "generation_id", "member_epoch", "session_id")
KEPT_TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")  # None in an answer: unchanged
MEMBER_ID_REQUIRED = 79
NOW_FROM = 1_700_000_000_000  # steps write earlier times, so anything later came from a clock
LEFT_OUT = {"throttle_time_ms", "min_version"}  # this broker serves old versions that Kafka 4 has removed
UNSTEADY = {"port", "usable_bytes", "total_bytes", "finalized_features_epoch", "log_dir", "cluster_id", "directory_id"}
UUID_TEXT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The values for references to something that no answer has given: no broker makes such values.
NEVER = {
    "producer_id": 987_654_321,
    "producer_epoch": 0,
    "member_id": "nobody",
    "generation_id": 77,
    "member_epoch": 77,
    "session_id": 987_654_321,
    **dict.fromkeys(KEPT_TASKS, ()),
}
# The answers that list what all sequences have made, and the field that says which sequence an item belongs to.
LISTED = {
    "list_groups_response": "group_id",
    "list_transactions_response": "transactional_id",
    "list_config_resources_response": "resource_name",
}
# Most lists of Kafka's answers have the order of a hash table, which means nothing. These lists are ordered.
IN_ORDER = {"records", "synonyms", "replica_nodes", "isr_nodes"}
# A streams group's lists have the order of tables whose keys are all known: ids of members, subtopologies, partitions.
OF_STREAMS = ".streams_group_"
IN_ORDER_OF_STREAMS = {"members", "active_tasks", "standby_tasks", "partitions", "partitions_by_user_endpoint"}
OF_A_SEQUENCE = re.compile(r"d\d{7}-")


class World:
    """The ids and topics of one run of a sequence on one broker."""

    def __init__(self, prefix: str, stranger: str = "") -> None:
        self.prefix, self._stranger = prefix, stranger
        self._given: dict[str, Any] = {}
        self._names: dict[tuple[str, Any], str] = {}
        self._lives: dict[str, int] = {}
        self.topics: dict[str, int] = {}  # how many partitions there should be

    def resolve(self, what: str) -> Any:
        kind, name = what.split(" ", 1)
        if kind == "host":
            return self._stranger
        if kind == "topic_id":
            return self._given.get(what, name.encode().ljust(16, b"\1")[:16])
        return self._given.get(what, NEVER[kind])

    def learn(self, step: Step, answer: Any) -> None:
        self._count_partitions(step, answer)
        named = [*(getattr(answer, "topics", None) or ()), *(getattr(answer, "responses", None) or ())]
        for topic in named:
            if getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID and getattr(topic, "name", None):
                self._learn_topic(topic.name.replace(self.prefix, ""), bytes(topic.topic_id))
        if step.keep and getattr(answer, "error_code", 0) in (0, MEMBER_ID_REQUIRED):
            for kind in KEPT:
                value = getattr(answer, kind, None)
                if value not in (None, "", -1) or (kind == "member_epoch" and value == -1):
                    self._given[f"{kind} {step.keep}"] = value
                    if not kind.endswith(("epoch", "generation_id")):
                        self._names.setdefault((kind, value), f"<{kind} {step.keep}>")
            for role in KEPT_TASKS:
                if getattr(answer, role, None) is not None:
                    self._given[f"{role} {step.keep}"] = getattr(answer, role)

    def _count_partitions(self, step: Step, answer: Any) -> None:
        if step.fields.get("validate_only"):
            return
        if step.api == "CreateTopics":
            asked = {topic["name"].replace(PREFIX, self.prefix): topic for topic in step.fields["topics"]}
            for topic in answer.topics:
                if topic.error_code == 0:
                    assigned = asked[topic.name].get("assignments", ())
                    self.topics[topic.name] = len(assigned) or max(asked[topic.name]["num_partitions"], 1)
        elif step.api == "DeleteTopics":
            self.topics |= {topic.name: 0 for topic in answer.responses if topic.error_code == 0 and topic.name}
        elif step.api == "CreatePartitions":
            counts = {topic["name"].replace(PREFIX, self.prefix): topic["count"] for topic in step.fields["topics"]}
            self.topics |= {topic.name: counts[topic.name] for topic in answer.results if topic.error_code == 0}

    def _learn_topic(self, name: str, topic_id: bytes) -> None:
        if ("topic_id", topic_id) not in self._names:
            self._lives[name] = self._lives.get(name, 0) + 1
            self._names["topic_id", topic_id] = f"<topic_id {name} {self._lives[name]}>"
        self._given[f"topic_id {name}"] = topic_id

    def plain(self, value: Any, field: str = "", in_order: bool = False) -> Any:
        """Return an answer as plain JSON data, without values that may differ and without items of other sequences."""
        if field == "records" and value is not None:
            return plain_batches(value, self)
        if isinstance(value, ShareFetchResponse):
            value.responses = with_news(value.responses)
        if field == "acquired_records":
            return runs(value)
        if type(value).__name__ == "TopicPartitions":
            # Which member gets which of a topic's partitions depends on the order of a hash table.
            return {"topic_id": self.plain(value.topic_id, "topic_id"), "partitions": len(value.partitions)}
        if isinstance(value, Fields):
            ordered = IN_ORDER_OF_STREAMS if OF_STREAMS in type(value).__module__ else IN_ORDER
            names = (name for name in type(value).__match_args__ if name not in LEFT_OUT)
            return {name: self.plain(getattr(value, name), name, name in ordered) for name in names}
        if field == "responses" and value and type(value[0]).__name__ == "FetchableTopicResponse":
            value = merged(value)
        if isinstance(value, list | tuple):
            if field == "members":
                self._name_members(value)
            items = [self.plain(item, field) for item in value if not self._is_others(item)]
            return items if in_order else sorted(items, key=repr)
        return self._scalar(value, field)

    def _name_members(self, members: Sequence[Any]) -> None:
        """Name the members that have no name yet, in the order of their other fields.

        Their ids are random, and so is the order in which an answer lists them.
        """

        def known_by(member: Any) -> list[str]:
            told = (getattr(member, name) for name in type(member).__match_args__ if name != "member_id")
            plain = (bytes(value) if isinstance(value, memoryview) else value for value in told)
            return [repr(value) for value in plain if isinstance(value, str | bytes | int | None)]

        for member in sorted((one for one in members if isinstance(one, Fields)), key=known_by):
            self.plain(getattr(member, "member_id", ""), "member_id")

    def _is_others(self, item: Any) -> bool:
        name = getattr(item, LISTED.get(type(item).__module__.rpartition(".")[2], ""), "")
        return bool(OF_A_SEQUENCE.match(name)) and not name.startswith(self.prefix)

    def _scalar(self, value: Any, field: str) -> Any:
        if (
            field.endswith("error_message") or field == "documentation"
        ):  # the texts may differ; compared is whether there is one
            return "<text>" if value else value
        if field in UNSTEADY:
            return f"<{field}>"
        if field in ("member_id", "leader") and isinstance(value, str) and value:
            return self._member(value)
        if field == "producer_id":
            return self._names.get((field, value), value)
        if field == "session_id" and value != 0:
            return "<session_id>"
        if isinstance(value, bytes | memoryview):
            return self._bytes(bytes(value), field)
        if isinstance(value, str):
            return "<path>" if field == "value" and value.startswith("/") else self._text(value)
        if isinstance(value, int) and value >= NOW_FROM and not isinstance(value, bool) and value < 1 << 62:
            return "<now>"
        return value

    def _member(self, value: str) -> str:
        known = self._names.get(("member_id", value))
        if known is None and not UUID_TEXT.search(value):
            return self._text(value)
        return known or self._names.setdefault(("member_id", value), f"<member {len(self._names)}>")

    def _bytes(self, value: bytes, field: str) -> str:
        if field == "topic_id" or (len(value) == 16 and ("topic_id", value) in self._names):
            return "" if value == ZERO_UUID else self._names.get(("topic_id", value), self._unknown_id(value))
        return value.replace(self.prefix.encode(), PREFIX.encode()).hex()

    def _unknown_id(self, value: bytes) -> str:
        """Return the plain form of an id that a step made up, or of a topic that no answer has named yet."""
        return value.hex() if value.endswith(b"\1") else "<topic_id>"

    def _text(self, value: str) -> str:
        text = value.replace(self.prefix, PREFIX)
        for (kind, known), name in self._names.items():
            if kind == "topic_id":
                text = text.replace(base64.urlsafe_b64encode(known).decode().rstrip("="), name)
        return text


def with_news(responses: list[Any]) -> list[Any]:
    """Return a share fetch's topics without partitions that have no news: whether those are listed is chance."""
    for topic in responses:
        topic.partitions = [
            one for one in topic.partitions if one.acquired_records or one.error_code or one.acknowledge_error_code
        ]
    return [topic for topic in responses if topic.partitions]


def runs(acquired: list[Any]) -> list[list[int]]:
    """Return first offset, last offset and delivery count of each run. Kafka's own splits mean nothing."""
    found: list[list[int]] = []
    for one in acquired:
        if found and found[-1][1] + 1 == one.first_offset and found[-1][2] == one.delivery_count:
            found[-1][1] = one.last_offset
        else:
            found.append([one.first_offset, one.last_offset, one.delivery_count])
    return found


def merged(responses: list[Any]) -> list[Any]:
    """Return a fetch's responses with each topic once: Kafka repeats a topic after another topic's partitions."""
    found: dict[Any, Any] = {}
    for one in responses:
        known = found.setdefault((one.topic, bytes(one.topic_id)), type(one)(one.topic, one.topic_id))
        known.partitions += one.partitions
    return list(found.values())
