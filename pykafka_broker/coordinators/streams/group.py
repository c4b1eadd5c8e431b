"""The state of a streams group (KIP-1071).

Rule: what stands in records is hard state and changes by replay alone. Soft are: how the topology fits the topics
(`configured`), who asked for a shutdown, and the epoch of the endpoint information; they begin anew with the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from pykafka_broker.coordinators.groups.group import Topics
from pykafka_broker.coordinators.streams.configured import ConfiguredTopology
from pykafka_broker.coordinators.streams.tasks import NONE_OWNED, NOTHING, Owned, Target
from pykafka_broker.coordinators.streams.topology import required_topics, topics_read
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import Endpoint
from pykafka_broker.protocol.stored.streams_group_topology_value import StreamsGroupTopologyValue

STREAMS_PROTOCOL_TYPE = "streams"
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
FIRST_GROUP_EPOCH = 1
FIRST_ASSIGNMENT_EPOCH = 1
NO_TOPOLOGY = -1
COMMIT_VERSION = 9  # the first OffsetCommit that knows member epochs


class MemberState(IntEnum):
    """How far a member is with its target."""

    STABLE = 1
    UNREVOKED_TASKS = 2  # it has to give tasks back first
    UNRELEASED_TASKS = 3  # others have to
    UNKNOWN = 127  # written by a release that knows more states


class StreamsMember:
    """One stream thread; requests work on a `copy`."""

    __slots__ = (
        "client_host",
        "client_id",
        "client_tags",
        "endpoint",
        "epoch",
        "instance_id",
        "member_id",
        "owned",
        "previous_epoch",
        "process_id",
        "rack_id",
        "rebalance_timeout_ms",
        "revoking",
        "state",
        "topology_epoch",
    )

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.instance_id: str | None = None
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.rebalance_timeout_ms = -1
        self.topology_epoch = NO_TOPOLOGY
        self.process_id = ""
        self.endpoint: Endpoint | None = None
        self.client_tags: dict[str, str] = {}
        self.epoch = 0
        self.previous_epoch = 0
        self.state = MemberState.STABLE
        self.owned = NONE_OWNED
        self.revoking = NONE_OWNED

    def copy(self) -> StreamsMember:
        """The same member; what it refers to is shared and never changed."""
        copy = StreamsMember.__new__(StreamsMember)
        for name in StreamsMember.__slots__:
            setattr(copy, name, getattr(self, name))
        return copy

    def metadata(self) -> tuple[object, ...]:
        """What a StreamsGroupMemberMetadata record says."""
        return (
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.topology_epoch,
            self.process_id,
            self.endpoint,
            self.client_tags,
        )

    def current(self) -> tuple[object, ...]:
        """What a StreamsGroupCurrentMemberAssignment record says."""
        return self.epoch, self.previous_epoch, self.state, self.owned, self.revoking

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def move_to(self, epoch: int, state: MemberState, owned: Owned, revoking: Owned) -> None:
        """A step of the reconciliation."""
        self.previous_epoch, self.epoch = self.epoch, epoch
        self.state = state
        self.owned = owned
        self.revoking = revoking


class StreamsGroup:
    """A group of stream threads that run one topology."""

    type_name = "streams"
    protocol_type = STREAMS_PROTOCOL_TYPE

    def __init__(self, group_id: str, topics: Topics) -> None:
        self.group_id = group_id
        self._topics = topics
        self.epoch = FIRST_GROUP_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = NO_TOPOLOGY
        self.assignment_configs: dict[str, str] = {}  # those that the last epoch was made with
        self.assignment_epoch = FIRST_ASSIGNMENT_EPOCH
        self.assignment_timestamp = 0
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Target] = {}
        self.topology: StreamsGroupTopologyValue | None = None
        self.configured: ConfiguredTopology | None = None
        self.metadata_stale = True  # topics may have changed since metadata_hash was computed
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0

    # What the table and the offsets ask

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in topics_read(self.topology)

    def expiry_base(self) -> Callable[[int], int] | None:
        return lambda committed_at: committed_at

    def check_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def check_offset_delete(self) -> None:
        """Any time: topics that are read are kept one by one."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        if self.member(member_id or "").epoch != member_epoch:
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool
    ) -> Callable[[bytes, int], ErrorCode] | None:
        """An older epoch may still commit for a task that was the member's own at that epoch (KIP-1251)."""
        if epoch < 0 and not self.members:
            return None
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not transactional and version < COMMIT_VERSION:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if epoch == member.epoch:
            return None
        if epoch > member.epoch or self.topology is None:
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)
        subtopology_of = topics_read(self.topology)

        def check(topic_id: bytes, partition: int) -> ErrorCode:
            topic = self._topics.topics_by_id.get(topic_id)
            subtopology = None if topic is None else subtopology_of.get(topic.name)
            for owned in (member.owned, member.revoking):
                since = owned.active.get(subtopology or "", {}).get(partition)
                if since is not None:
                    return ErrorCode.NONE if epoch >= since else ErrorCode.STALE_MEMBER_EPOCH
            return ErrorCode.STALE_MEMBER_EPOCH

        return check

    # Members

    def member(self, member_id: str) -> StreamsMember:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def target_of(self, member_id: str) -> Target:
        return self.targets.get(member_id, NOTHING)

    def with_change(self, member: StreamsMember) -> list[StreamsMember]:
        """The members as they will be with this one."""
        return list((self.members | {member.member_id: member}).values())

    def reads_any(self, topics: frozenset[str]) -> bool:
        """Whether the topology needs one of these topics, be there such a topic or not."""
        return self.topology is not None and not topics.isdisjoint(required_topics(self.topology))

    # By replay alone

    def set_member(self, member: StreamsMember) -> None:
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        if not self.members:
            self.shutdown_member_id = None
