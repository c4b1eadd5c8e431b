"""What all kinds of group have in common, and the table of groups.

Rule: a group is found by its id alone, and an id belongs to one kind at a time. Requests of the wrong kind are
answered as if the group were missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.coordinators.groups.timers import Timers
from pykafka_broker.coordinators.groups.topic_hash import TopicHashes
from pykafka_broker.coordinators.groups.topics import Topics
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
