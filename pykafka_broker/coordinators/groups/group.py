"""What all kinds of group have in common, the table of groups, and their deadlines.

Rule: a group is found by its id alone, and an id belongs to one kind at a time. Requests of the wrong kind are
answered as if the group were missing.
"""

from __future__ import annotations

import heapq
import struct
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.coordinators.groups.topics import TopicHashes, Topics
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

UNKNOWN_MEMBER = ""  # the member id of a member that has none yet
CONSUMER_PROTOCOL_TYPE = "consumer"


class Caller(NamedTuple):
    """Who asks: what the coordinator keeps of a connection."""

    version: int
    client_id: str
    client_host: str  # as Kafka writes it: with a slash, "/127.0.0.1"
    may_see: Callable[[str], bool] | None = None  # a topic, by its name; None where everybody may see all


class Group(Protocol):
    """What the table, ListGroups and the offsets need of a group of any kind."""

    group_id: str
    type_name: str  # "classic", "consumer", "share", "streams"
    goes_when_empty: bool  # with the last of its offsets; share groups stay until they are deleted

    @property
    def protocol_type(self) -> str: ...

    @property
    def state_name(self) -> str: ...

    @property
    def is_empty(self) -> bool: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    @property
    def members(self) -> Mapping[str, object]:
        """By their ids."""

    def has_dynamic_member(self, member_id: str) -> bool:
        """Whether the group has this member, or waits for its join, and it is not a static one (KIP-345)."""

    def expiry_base(self) -> Callable[[int], int] | None:
        """From an offset's commit time to the time at which its retention starts, or None while nothing may expire."""

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool
    ) -> Callable[[bytes, int], ErrorCode] | None:
        """Raise if this member may not commit. Returns None, or what says of one partition (topic id, index) whether
        it may.
        """

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise if this member may not read the group's offsets."""

    def check_offset_delete(self) -> None:
        """Raise if no offset of this group may be deleted."""

    def check_delete(self) -> None:
        """Raise if the group may not be deleted."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones of all records of the group, offsets apart."""


WallAt = Callable[[int], int]  # what the wall clock shows at a time of the steady one


def unchanged(now: int) -> int:
    """The wall clock was never set."""
    return now


class GroupTable:
    """The groups and what their rules share: deadlines, settings, topics, and a source of unique ids."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        new_id: Callable[[], str],
        group_config: Callable[[str], Mapping[str, str]] = lambda group_id: {},
        wall_at: WallAt = unchanged,
    ) -> None:
        self.config = config
        self.wall_at = wall_at
        self.topics = topics
        self.new_id = new_id  # a random UUID as text, 36 characters
        self.group_config = group_config  # the overrides of a GROUP config resource
        self.groups: dict[str, Group] = {}
        self.timers = Timers()
        self.hashes = TopicHashes(topics)
        self.metadata_version = 0  # grows with every change of the cluster's metadata
        self.newest_topic_version = 0  # the one at which the last topic was created
        self._settings: dict[frozenset[tuple[str, str]], GroupConfig] = {}
        self._settings_of: BrokerConfig | None = None

    def group_settings(self, group_id: str) -> GroupConfig:
        """The configs of one group, over the broker's."""
        if self._settings_of is not self.config:
            self._settings.clear()
            self._settings_of = self.config
        overrides = self.group_config(group_id)
        key = frozenset(overrides.items())
        settings = self._settings.get(key)
        if settings is None:
            settings = self._settings[key] = GroupConfig.resolve(self.config, overrides)
        return settings

    def existing(self, group_id: str) -> Group:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def remove(self, group_id: str) -> None:
        """Drop a group and its deadlines; one of another kind may already have its own under this id."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            self.timers.cancel_group(group_id, group.type_name)


# Deadlines


MEMBER_CLOCKS = ("session", "rebalance", "join", "sync")  # behind the name of a protocol they make kinds of deadlines


class TimerKey(NamedTuple):
    """What a deadline is for: `kind` says which of the machine's rules runs when it is reached."""

    kind: str
    group_id: str
    member_id: str = ""


class Timers:
    """A set of deadlines in epoch milliseconds, one for each key.

    Setting a deadline anew, as every heartbeat does, costs one dict entry; the heap is put right when an entry comes to
    its top.
    """

    __slots__ = ("_deadlines", "_heap", "_queued")

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._queued: dict[TimerKey, int] = {}  # the earliest heap entry of each key; others of that key are stale
        self._heap: list[tuple[int, TimerKey]] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._deadlines

    def set(self, key: TimerKey, deadline: int) -> None:
        """Replace the deadline of `key`."""
        self._deadlines[key] = deadline
        queued = self._queued.get(key)
        if queued is None or queued > deadline:
            self._queued[key] = deadline
            heapq.heappush(self._heap, (deadline, key))

    def cancel(self, key: TimerKey) -> None:
        """Forget `key`; unknown keys are fine."""
        self._deadlines.pop(key, None)

    def cancel_member(self, group_id: str, protocol: str, member_id: str) -> None:
        """Forget all deadlines that one protocol has set for a member."""
        for clock in MEMBER_CLOCKS:
            self._deadlines.pop(TimerKey(f"{protocol}-{clock}", group_id, member_id), None)

    def cancel_group(self, group_id: str, protocol: str) -> None:
        """Forget all deadlines that one protocol has set for a group."""
        kinds = f"{protocol}-"
        for key in [key for key in self._deadlines if key.group_id == group_id and key.kind.startswith(kinds)]:
            del self._deadlines[key]

    def deadline(self, key: TimerKey) -> int | None:
        return self._deadlines.get(key)

    def next_deadline(self) -> int | None:
        """The earliest deadline of all."""
        heap = self._heap
        while heap:
            queued, key = heap[0]
            if self._queued.get(key) != queued:
                heapq.heappop(heap)
                continue
            deadline = self._deadlines.get(key)
            if deadline == queued:
                return queued
            heapq.heappop(heap)
            if deadline is None:
                del self._queued[key]
            else:
                self._queued[key] = deadline
                heapq.heappush(heap, (deadline, key))
        return None

    def pop(self, now: int) -> TimerKey | None:
        """Take out one key whose deadline has been reached."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        _, key = heapq.heappop(self._heap)
        del self._queued[key], self._deadlines[key]
        return key


# Members whose connection has closed


DISCONNECTED = "disconnected"


class DisconnectedMembers:
    """Which connection each member last used, and the deadlines of members whose connection is closed.

    On brokers for tests a member that does not come back on another connection within `patience_ms` is removed as if
    its session had ended. Without a patience a session lasts as long as its timeout says, as in Kafka. A static member
    (KIP-345) is left alone: its return is expected within its session timeout.
    """

    def __init__(self, table: GroupTable, patience_ms: int | None) -> None:
        self._table = table
        self._patience_ms = patience_ms
        self._connection_of: dict[TimerKey, int] = {}
        self._members_of: defaultdict[int, set[TimerKey]] = defaultdict(set)

    def heard(self, connection_id: int, group_id: str, member_id: str) -> None:
        """A member has asked for something, and was answered; whoever is none is not kept."""
        if self._patience_ms is None:
            return
        key = TimerKey(DISCONNECTED, group_id, member_id)
        before = self._connection_of.get(key)
        if before == connection_id or not self._is_waited_for(key):
            return
        if before is not None:
            self._members_of[before].discard(key)
        self._connection_of[key] = connection_id
        self._members_of[connection_id].add(key)
        self._table.timers.cancel(key)

    def closed(self, connection_id: int, now: int) -> None:
        """Its members have to be heard of on another one."""
        if self._patience_ms is None:
            return
        for key in self._members_of.pop(connection_id, ()):
            del self._connection_of[key]
            self._table.timers.set(key, now + self._patience_ms)

    def loaded(self, group: Group, now: int) -> None:
        """The group was read from the log of a broker whose connections this one has: its members have to be heard of
        on one of them."""
        if self._patience_ms is None:
            return
        for member_id in group.members:
            self._table.timers.set(TimerKey(DISCONNECTED, group.group_id, member_id), now + self._patience_ms)

    def on_deadline(self, key: TimerKey, now: int) -> None:
        """Its patience is over: the session of the member ends now. One that waits for a rebalance stays until that
        is done, so it is looked at again."""
        group = self._table.groups.get(key.group_id)
        if group is None or self._patience_ms is None or not self._is_waited_for(key):
            return
        self._table.timers.set(TimerKey(f"{group.type_name}-session", key.group_id, key.member_id), now)
        self._table.timers.set(key, now + self._patience_ms)

    def _is_waited_for(self, key: TimerKey) -> bool:
        group = self._table.groups.get(key.group_id)
        return group is not None and group.has_dynamic_member(key.member_id)


# The order of a Java HashMap


_SLOTS = 16
_FILLED_TO = 0.75  # then there are twice as many


def hash_order(names: list[str], among: int = 0) -> list[str]:
    """Those that fall into the same slot stay as they are. `among`: how many the map has, if they are not all of it."""
    slots = _SLOTS
    while max(among, len(names)) > slots * _FILLED_TO:
        slots *= 2
    return sorted(names, key=lambda name: _spread(name) & (slots - 1))


def _spread(name: str) -> int:
    """String.hashCode, with its upper half over the lower one."""
    units = name.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code ^ code >> 16
