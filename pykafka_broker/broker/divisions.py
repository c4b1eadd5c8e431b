"""Which requests can be answered in parts.

Rule: a request is here if what it asks about is answered element by element, so that the answers to its parts, one
after the other, are the answer to the whole. Where an element that is named again matters, the division says how.
Where elements hang together in another way the request is not here, or its handler does its own slices.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, NamedTuple

from pykafka_broker.broker.produce_size import COUNTED_FROM_BYTES, names_many_partitions
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.cutting import PART_ITEMS
from pykafka_broker.protocol.runtime import ZERO_UUID

_DIVIDED_FROM_BYTES = 8 << 10
_COMMIT_BYTES = 64 << 10  # of a commit: below it, all of its offsets are one batch
_LOG_ITEMS = 20  # where each may open a log


class Again(Enum):
    """What becomes of an element that a request names more than once."""

    ANSWERED = "every time, as if it were the only one"
    ONCE = "one answer where it is named first; the handler looks at the first and the last time only"
    TOLD = "every time, and the handler asks `RequestContext.repeated`"


class Division(NamedTuple):
    """How one API's requests are divided.

    asked, answered: the lists of the request and of its answer, outermost first, whose elements belong together.
    again: what an element is named by is in `named_by`, or what that says of it, or is the element itself.
    items: of a part; so many that they take no more than some milliseconds.
    from_bytes: shorter requests are served whole.
    trait: what an element of a request in some version says of all of them, or None; the handler finds it in
        `RequestContext.traits`.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    again: Again = Again.ANSWERED
    named_by: tuple[str, ...] | Callable[[Any], Hashable] = ()
    items: int = PART_ITEMS
    from_bytes: int = _DIVIDED_FROM_BYTES
    trait: Callable[[Any, int], str | None] | None = None


# Of the topics of a Metadata request.
INVALID_TOPIC, BY_ID = "invalid topic", "by id"
IDS_FROM = 12


def topic_trait(topic: Any, version: int) -> str | None:
    """One that can't be meant refuses them all, and with one that is asked for by its id, names count for nothing."""
    has_id = topic.topic_id != ZERO_UUID
    if (has_id if version < IDS_FROM else False) or (topic.name is None and not has_id):
        return INVALID_TOPIC
    return BY_ID if has_id else None


def topic_named(topic: Any) -> str | bytes | None:
    """By its id, whatever name stands beside that, or by its name."""
    return topic.name if topic.topic_id == ZERO_UUID else topic.topic_id  # type: ignore[no-any-return]


_PARTITIONS = ("topics", "partitions")
_INDEXES = ("topics", "partition_indexes")
_INDEX = ("partition_index",)
_RESOURCE = ("resource_type", "resource_name")
_STATES = Division(_PARTITIONS, ("results", "partitions"))
_DESCRIBED = Division(("group_ids",), ("groups",))

# By the lowest version, newest first.
DIVISIONS: dict[ApiKey, tuple[tuple[int, Division], ...]] = {
    ApiKey.LIST_OFFSETS: ((0, Division(_PARTITIONS, _PARTITIONS, Again.ONCE, _INDEX, _LOG_ITEMS)),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ((0, Division(_PARTITIONS, _PARTITIONS, items=_LOG_ITEMS)),),
    ApiKey.DELETE_RECORDS: ((0, Division(_PARTITIONS, _PARTITIONS, Again.ONCE, _INDEX, _LOG_ITEMS)),),
    ApiKey.METADATA: ((0, Division(("topics",), ("topics",), Again.ONCE, topic_named, trait=topic_trait)),),
    # One of a broker's resources alone takes a millisecond.
    ApiKey.DESCRIBE_CONFIGS: ((0, Division(("resources",), ("results",), items=3, from_bytes=128)),),
    ApiKey.ALTER_CONFIGS: ((0, Division(("resources",), ("responses",), Again.TOLD, _RESOURCE)),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ((0, Division(("resources",), ("responses",), Again.TOLD, _RESOURCE)),),
    ApiKey.ELECT_LEADERS: (
        (0, Division(("topic_partitions", "partitions"), ("replica_election_results", "partition_result"))),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ((0, Division(_PARTITIONS, ("responses", "partitions"))),),
    ApiKey.DESCRIBE_PRODUCERS: ((0, Division(_INDEXES, _PARTITIONS, items=_LOG_ITEMS)),),
    ApiKey.DESCRIBE_TRANSACTIONS: ((0, Division(("transactional_ids",), ("transaction_states",))),),
    ApiKey.FIND_COORDINATOR: ((4, Division(("coordinator_keys",), ("coordinators",))),),
    ApiKey.LEAVE_GROUP: ((3, Division(("members",), ("members",))),),
    ApiKey.OFFSET_COMMIT: ((0, Division(_PARTITIONS, _PARTITIONS, from_bytes=_COMMIT_BYTES)),),
    ApiKey.OFFSET_FETCH: (
        (8, Division(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"))),
        (0, Division(_INDEXES, _PARTITIONS)),
    ),
    ApiKey.OFFSET_DELETE: ((0, Division(_PARTITIONS, _PARTITIONS)),),
    ApiKey.DESCRIBE_GROUPS: ((0, Division(("groups",), ("groups",))),),
    ApiKey.DELETE_GROUPS: ((0, Division(("groups_names",), ("results",), Again.ONCE)),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ((0, _DESCRIBED),),
    ApiKey.SHARE_GROUP_DESCRIBE: ((0, _DESCRIBED),),
    ApiKey.STREAMS_GROUP_DESCRIBE: ((0, _DESCRIBED),),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ((0, _STATES),),
    ApiKey.READ_SHARE_GROUP_STATE: ((0, _STATES),),
    ApiKey.WRITE_SHARE_GROUP_STATE: ((0, _STATES),),
    ApiKey.DELETE_SHARE_GROUP_STATE: ((0, _STATES),),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ((0, _STATES),),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        (0, Division(("groups", "topics", "partitions"), ("groups", "topics", "partitions"))),
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ((0, Division(("topics",), ("responses",))),),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ((0, Division(("topics",), ("responses",))),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ((0, Division(("users",), ("results",), Again.ONCE, ("name",))),),
}


# Requests that can't be divided, and the list that their handlers only go through: see `cut_list.py`.
READ_ANEW: dict[ApiKey, tuple[str, ...]] = {
    ApiKey.PRODUCE: ("topic_data", "partition_data"),
    ApiKey.SHARE_FETCH: _PARTITIONS,
    ApiKey.SHARE_ACKNOWLEDGE: _PARTITIONS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("topics",),
}

# Requests that can't be divided, and yet are read in slices if they are longer than this.
_WHOLE_FROM_BYTES: dict[ApiKey, int] = {
    ApiKey.PRODUCE: COUNTED_FROM_BYTES,  # and if it names many partitions
    ApiKey.FETCH: 64 << 10,  # below it, one that waits yields
}


def giant_bytes(api_key: ApiKey) -> int:
    """Requests that are longer are for `giants.py`."""
    divisions = DIVISIONS.get(api_key)
    return divisions[0][1].from_bytes if divisions else _WHOLE_FROM_BYTES.get(api_key, _DIVIDED_FROM_BYTES)


def is_giant(api_key: ApiKey, frame: memoryview | bytes, body: int, version: int) -> bool:
    """Whether a request that is longer is one. A long one without many elements there is of one kind only."""
    return api_key is not ApiKey.PRODUCE or names_many_partitions(frame, body, version)


def division_of(api_key: ApiKey, version: int) -> Division | None:
    """How a request of that version is divided, if it can be."""
    return next((division for lowest, division in DIVISIONS.get(api_key, ()) if version >= lowest), None)


__all__ = ["READ_ANEW", "Again", "Division", "division_of", "giant_bytes", "is_giant"]
