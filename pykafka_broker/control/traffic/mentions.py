"""The topics, partitions, groups and transactional ids of a message.

Rule: fields are recognised by their names in Kafka's schemas, which mean the same in all messages; the few exceptions
are listed by name. A topic id is looked up; an unknown id is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Protocol, get_args, get_origin, get_type_hints

from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.enums import CoordinatorType
from pykafka_broker.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.runtime import ZERO_UUID, Fields

_PARTITION = ("partition_index", "partition", "partition_id", "index")
_PARTITIONS = ("partitions", "partition_indexes")  # as lists of numbers
_TOPIC = ("topic", "topic_name")
_GROUPS = ("groups", "groups_names", "group_ids")  # as lists of texts
_TRANSACTIONAL_ID = ("transactional_id", "v3_and_below_transactional_id")
_TOPIC_RESOURCE = 2
NO_PARTITION = None

Place = tuple[str, int | None]  # a topic and one of its partitions, or the topic as a whole
FetchedSession = int | tuple[str, str]  # the id of a fetch session; group and member of a share session


class Known(Protocol):
    """Facts beyond a single message."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the topic with an id."""

    def has_topic(self, topic: str) -> bool:
        """Return whether a topic of the name is known."""

    def fetched(self, session: FetchedSession) -> Iterable[tuple[str | bytes, int]]:
        """Return the topics, by name or id, and partitions of a fetch or share session."""

    def log_end(self, topic: str, partition: int, size: int) -> FileSlice | None:
        """Return the last bytes of a partition's log; None where no file here has as many."""


class Mentions:
    """The topics, groups and transactional ids of a message.

    `all_topics`: the message is about all topics, as Metadata may be, or all of a group.
    """

    __slots__ = ("all_topics", "groups", "places", "transactional_ids")

    def __init__(self) -> None:
        self.all_topics = False
        self.places: dict[Place, None] = {}
        self.groups: set[str] = set()
        self.transactional_ids: set[str] = set()


def session_of(message: Any) -> FetchedSession | None:
    """Return the session of a fetch that continues one, and so need not name the partitions again."""
    if getattr(message, "share_session_epoch", 0) > 0:
        return message.group_id or "", message.member_id or ""
    return getattr(message, "session_id", 0) or None


def mentions_of(message: Any, known: Known) -> Mentions:
    """Return everything the message names; for a fetch, the rest of the session too."""
    found = Mentions()
    if message is not None:
        _read(message, known, found)
        session = session_of(message)
        for topic, partition in () if session is None else known.fetched(session):
            name = topic if isinstance(topic, str) else known.topic_name(topic)
            if name is not None:
                found.places[name, partition] = None
    return found


@cache
def mentionable(api_key: int) -> Mentions:
    """Return everything that requests of an API can name: the mentions of a request with every field filled."""
    found = Mentions()
    for key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
        one = mentions_of(_filled(SPECS[api_key].request_class(), key_type), _Anything())
        found.places |= one.places
        found.groups |= one.groups
        found.transactional_ids |= one.transactional_ids
    return found


def _filled(kind: type[Fields], key_type: CoordinatorType) -> Fields:
    """Return a struct with something in all of its lists and texts."""
    struct = kind()
    hints = get_type_hints(kind.__init__, vars(import_module(kind.__module__)))
    for name in struct.__match_args__:
        setattr(struct, name, _something(name, hints[name], getattr(struct, name), key_type))
    return struct


def _something(name: str, kind: Any, present: Any, key_type: CoordinatorType) -> Any:
    """Return a value for a field of a type; the present one where no mention depends on it."""
    if get_origin(kind) is UnionType:  # a nullable field
        kind = get_args(kind)[0]
    if get_origin(kind) is list:
        return [_something(name, get_args(kind)[0], 0, key_type)]
    if kind is str:
        return "x"
    if isinstance(kind, type) and issubclass(kind, Fields):
        return _filled(kind, key_type)
    return {"key_type": int(key_type), "resource_type": _TOPIC_RESOURCE, "topic_id": b"x" * 16}.get(name, present)


class _Anything:
    """Facts for a message that is about nothing in particular."""

    def topic_name(self, topic_id: bytes) -> str:
        return "x"

    def has_topic(self, topic: str) -> bool:
        return True

    def fetched(self, session: FetchedSession) -> Iterable[tuple[str | bytes, int]]:
        return ()

    def log_end(self, topic: str, partition: int, size: int) -> None:
        return None


def _read(struct: Any, known: Known, found: Mentions) -> None:
    _read_names(struct, found)
    for name in struct.__match_args__:
        field = getattr(struct, name)
        if field is None:
            found.all_topics |= name == "topics" or isinstance(struct, ElectLeadersRequest)
        elif isinstance(struct, DescribeTopicPartitionsRequest):
            found.all_topics |= field == []
        if isinstance(field, Fields):  # such as the topology of a Streams application
            field = [field]
        if not isinstance(field, list) or not field or name.startswith("forgotten") or name.endswith("regex"):
            continue
        if isinstance(field[0], str):
            if "topic" in name:
                found.places.update(((topic, NO_PARTITION), None) for topic in field)
            elif name in _GROUPS:
                found.groups.update(field)
            elif name == "transactional_ids":
                found.transactional_ids.update(field)
        elif isinstance(field[0], Fields):
            for item in field:
                topic = topic_of(name, item, known)
                if topic is None:
                    _read(item, known, found)
                else:
                    indexes: list[int | None] = [*partitions_of(item)] or [NO_PARTITION]
                    found.places.update(((topic, each), None) for each in indexes)


def _read_names(struct: Any, found: Mentions) -> None:
    group_id = getattr(struct, "group_id", None)
    if group_id:
        found.groups.add(group_id)
    for name in _TRANSACTIONAL_ID:
        if transactional_id := getattr(struct, name, None):
            found.transactional_ids.add(transactional_id)
    key_type = getattr(struct, "key_type", None)
    if key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):  # FindCoordinator
        keys = {struct.key, *struct.coordinator_keys} - {""}
        (found.groups if key_type == CoordinatorType.GROUP else found.transactional_ids).update(keys)


def topic_of(list_name: str, item: Any, known: Known) -> str | None:
    """Return the topic of an item in a list; None if the item is about something else."""
    topic_id = getattr(item, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID:
        return known.topic_name(topic_id) or ""
    for name in _TOPIC:
        if hasattr(item, name):
            return str(getattr(item, name))
    if hasattr(item, "resource_type"):
        return item.resource_name if item.resource_type == _TOPIC_RESOURCE else None
    if hasattr(item, "name") and ("topic" in list_name or list_name in ("responses", "results")):
        return item.name or ""
    return None


def partitions_of(item: Any) -> list[int]:
    """Return the partitions an item about a topic names."""
    index = partition_of(item)
    if index is not None:
        return [index]
    return [index for field in _partition_lists(item) for each in field if (index := _index_of(each)) is not None]


def _partition_lists(item: Any) -> Iterator[list[Any]]:
    """Yield the lists of partitions of an item: of indexes, or of structs that name one."""
    for name in item.__match_args__:
        field = getattr(item, name)
        first = field[0] if isinstance(field, list) and field else None
        of_indexes = name in _PARTITIONS and isinstance(first, int)
        if of_indexes or (isinstance(first, Fields) and partition_of(first) is not None):
            yield field


def _index_of(partition: Any) -> int | None:
    return partition if isinstance(partition, int) else partition_of(partition)


def partition_of(item: Any) -> int | None:
    for name in _PARTITION:
        index = getattr(item, name, None)
        if isinstance(index, int):
            return index
    return None


Wanted = Callable[[str, int | None], bool]


def keep(struct: Any, wanted: Wanted, known: Known) -> bool:
    """Keep only wanted topics and partitions in a message; return whether any are left."""
    left = False
    for name in struct.__match_args__:
        field = getattr(struct, name)
        if not isinstance(field, list) or not field:
            continue
        if isinstance(field[0], str) and "topic" in name:
            field[:] = [topic for topic in field if wanted(topic, NO_PARTITION)]
            left = left or bool(field)
        elif isinstance(field[0], Fields):
            field[:] = [item for item in field if _keep_item(name, item, wanted, known)]
            left = left or bool(field)
    return left


def _keep_item(list_name: str, item: Any, wanted: Wanted, known: Known) -> bool:
    topic = topic_of(list_name, item, known)
    if topic is None:
        return keep(item, wanted, known)
    if not partitions_of(item):
        return wanted(topic, NO_PARTITION)
    index = partition_of(item)
    if index is not None:
        return wanted(topic, index)
    left = False
    for field in _partition_lists(item):
        field[:] = [each for each in field if wanted(topic, _index_of(each))]
        left = left or bool(field)
    return left
