"""The common part of all kinds of group: the table of groups, and their deadlines.

Rule: a group is found by its id alone, and an id belongs to one kind at a time. Requests of the wrong kind are
answered as if the group were missing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.config.values import assignor_name
from pykafka_broker.coordinators.groups.subscriptions import TopicsRead
from pykafka_broker.coordinators.groups.topics import ClusterTopics, TopicHashes
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

UNKNOWN_MEMBER = ""  # the member id before the coordinator has given one
CONSUMER_PROTOCOL_TYPE = "consumer"


class Caller(NamedTuple):
    """The client of a request, as far as the coordinator keeps the connection's data."""

    version: int
    client_id: str
    client_host: str  # as Kafka writes it: with a slash, "/127.0.0.1"
    may_see: Callable[[str], bool] | None = None  # whether the client may see a topic, by name; None: all topics


class GroupIdentity(Protocol):
    """The id and the kind of a group."""

    group_id: str
    type_name: str  # "classic", "consumer", "share", "streams"


class AnyGroup(GroupIdentity, Protocol):
    """A group of any kind, as the table, ListGroups and the offsets see a group."""

    goes_when_empty: bool  # whether the group goes with its last offset; share groups stay until they are deleted

    @property
    def protocol_type(self) -> str: ...

    @property
    def state_name(self) -> str: ...

    @property
    def is_empty(self) -> bool: ...

    def read_among(self, topics: frozenset[str]) -> frozenset[str]:
        """Return the topics of `topics` that live members read."""

    @property
    def members(self) -> Mapping[str, object]:
        """Return the members by id."""

    def has_dynamic_member(self, member_id: str) -> bool:
        """Return whether the member is known or awaited, and not static (KIP-345)."""

    def expiry_base(self) -> Callable[[int], int] | None:
        """Return a function from an offset's commit time to the start of the retention, or None while nothing may
        expire.
        """

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool
    ) -> Callable[[bytes, int], ErrorCode] | None:
        """Raise if the member may not commit.

        Returns:
            None, or a function from a partition (topic id, index) to the error of a commit for this partition.
        """

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise if the member may not read the group's offsets."""

    def check_offset_delete(self) -> None:
        """Raise if all offsets of the group have to stay."""

    def check_delete(self) -> None:
        """Raise if the group may not be deleted."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones of all records of the group, offsets apart."""


def invalid_request(message: str) -> ApiError:
    """Return INVALID_REQUEST with a message, which clients show to people."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


BEHIND_BLANKS = "!"  # a text of blanks is less
_BLANKS = "".join(map(chr, range(ord(BEHIND_BLANKS))))


def is_blank(text: str) -> bool:
    """Return whether a text is empty after Java's `trim`, which takes away control characters and spaces."""
    return not text.strip(_BLANKS)


K = TypeVar("K", bound=AnyGroup)
WallAt = Callable[[int], int]  # from a time of the steady clock to the wall clock's


def unchanged(now: int) -> int:
    """Return `now`, as if the wall clock was never set."""
    return now


class GroupTable:
    """The groups and the common ground of all rules: deadlines, settings, topics, and a source of unique ids."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: ClusterTopics,
        new_id: Callable[[], str],
        group_config: Callable[[str], Mapping[str, str]] = lambda group_id: {},
        wall_at: WallAt = unchanged,
    ) -> None:
        self.config = config
        self.wall_at = wall_at
        self.topics = topics
        self.new_id = new_id  # a random UUID as text, 36 characters
        self.group_config = group_config  # the overrides of a GROUP config resource
        self.groups: dict[str, AnyGroup] = {}
        self.timers = Timers()
        self.read = TopicsRead(topics, TopicHashes(topics))
        self.metadata_version = 0  # grows with every change of the cluster's metadata
        self.newest_topic_version = 0  # the metadata version of the last topic's creation
        self._settings: dict[frozenset[tuple[str, str]], GroupConfig] = {}
        self._settings_of: BrokerConfig | None = None

    def group_settings(self, group_id: str) -> GroupConfig:
        """Return the configs of a group over the broker's."""
        if self._settings_of is not self.config:
            self._settings.clear()
            self._settings_of = self.config
        overrides = self.group_config(group_id)
        key = frozenset(overrides.items())
        settings = self._settings.get(key)
        if settings is None:
            settings = self._settings[key] = GroupConfig.resolve(self.config, overrides)
        return settings

    @property
    def consumer_assignors(self) -> list[str]:
        """Return the names of the assignors of consumer groups; the first one is the default."""
        return [assignor_name(value) for value in self.config.group_consumer_assignors]

    def existing(self, group_id: str) -> AnyGroup:
        """Return the group. Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def of_kind(self, group_id: str, kind: type[K], what: str = "Group") -> K:
        """Return the group. Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        group = self.groups.get(group_id)
        if isinstance(group, kind):
            return group
        if group is not None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.type_name} group.")
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")

    def remove(self, group_id: str) -> None:
        """Drop a group and all deadlines of the group's kind.

        A group of another kind under the same id may already have deadlines of its own.
        """
        group = self.groups.pop(group_id, None)
        if group is not None:
            self.timers.cancel_group(group_id, group.type_name)

    def put_back(self, group_id: str, before: AnyGroup | None) -> None:
        """Drop a group in favour of the group before, if any, since the log has refused the change."""
        self.remove(group_id)
        if before is not None:
            self.groups[group_id] = before


# Deadlines


_FEW_STALE = 500  # heap entries
MEMBER_CLOCKS = ("session", "rebalance", "join", "sync")  # with a protocol's name before them: kinds of deadlines


class TimerKey(NamedTuple):
    """The subject of a deadline; `kind` names the rule to run at the deadline."""

    kind: str
    group_id: str
    member_id: str = ""


class Timers:
    """A set of deadlines in epoch milliseconds, by key.

    Setting a deadline anew, as every heartbeat does, costs one dict entry; the heap is put right when an entry comes to
    its top, or when most of it is stale.
    """

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._of_group: dict[str, set[TimerKey]] = {}
        self._queued: dict[TimerKey, int] = {}  # the earliest heap entry of each key; a key's other entries are stale
        self._heap: list[tuple[int, TimerKey]] = []

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._deadlines

    def set(self, key: TimerKey, deadline: int) -> None:
        """Replace the deadline of `key`."""
        if key not in self._deadlines:
            self._of_group.setdefault(key.group_id, set()).add(key)
            if len(self._heap) > 2 * len(self._deadlines) + _FEW_STALE:
                self._rebuild()
        self._deadlines[key] = deadline
        queued = self._queued.get(key)
        if queued is None or queued > deadline:
            self._queued[key] = deadline
            heapq.heappush(self._heap, (deadline, key))

    def set_session(self, group: GroupIdentity, member_id: str, deadline: int) -> None:
        """Replace the deadline of a member's session."""
        self.set(TimerKey(f"{group.type_name}-session", group.group_id, member_id), deadline)

    def cancel(self, key: TimerKey) -> None:
        """Forget `key`; unknown keys are fine."""
        if self._deadlines.pop(key, None) is not None:
            self._leave_group(key)

    def _leave_group(self, key: TimerKey) -> None:
        keys = self._of_group[key.group_id]
        keys.discard(key)
        if not keys:
            del self._of_group[key.group_id]

    def _rebuild(self) -> None:
        """Make the heap anew, without the entries of cancelled keys."""
        self._queued = dict(self._deadlines)
        self._heap = [(deadline, key) for key, deadline in self._queued.items()]
        heapq.heapify(self._heap)

    def cancel_member(self, group_id: str, protocol: str, member_id: str) -> None:
        """Forget all deadlines of a protocol for a member."""
        for clock in MEMBER_CLOCKS:
            self.cancel(TimerKey(f"{protocol}-{clock}", group_id, member_id))

    def cancel_group(self, group_id: str, protocol: str) -> None:
        """Forget all deadlines of a protocol for a group."""
        kinds = f"{protocol}-"
        for key in [key for key in self._of_group.get(group_id, ()) if key.kind.startswith(kinds)]:
            self.cancel(key)

    def next_deadline(self) -> int | None:
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
        """Remove and return a key after the deadline, or return None."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        _, key = heapq.heappop(self._heap)
        del self._queued[key], self._deadlines[key]
        self._leave_group(key)
        return key
