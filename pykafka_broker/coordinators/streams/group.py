"""The state of a streams group (KIP-1071).

Rule: what stands in records is hard state and changes by replay alone. Soft are: how the topology fits the topics
(`configured`), who asked for a shutdown, and the epoch of the endpoint information; they begin anew with the broker.
"""

from __future__ import annotations

from collections.abc import Set
from enum import IntEnum

from pykafka_broker.coordinators.groups.epoch_group import ReconciledGroup, ReconciledMember, Since
from pykafka_broker.coordinators.groups.topics import Topics
from pykafka_broker.coordinators.streams.configured import ConfiguredTopology
from pykafka_broker.coordinators.streams.tasks import NONE_OWNED, NOTHING, Owned, Target
from pykafka_broker.coordinators.streams.topology import required_topics, topics_read
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import Endpoint
from pykafka_broker.protocol.stored.streams_group_topology_value import StreamsGroupTopologyValue

STREAMS_PROTOCOL_TYPE = "streams"
FIRST_ASSIGNMENT_EPOCH = 1
NO_TOPOLOGY = -1


class MemberState(IntEnum):
    """How far a member is with its target."""

    STABLE = 1
    UNREVOKED_TASKS = 2  # it has to give tasks back first
    UNRELEASED_TASKS = 3  # others have to
    UNKNOWN = 127  # written by a release that knows more states


class StreamsMember(ReconciledMember):
    """One stream thread."""

    __slots__ = ("client_tags", "endpoint", "process_id", "topology_epoch")
    NOTHING = NONE_OWNED
    STABLE = MemberState.STABLE
    UNREVOKED = MemberState.UNREVOKED_TASKS
    state: MemberState
    assigned: Owned
    revoking: Owned

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.previous_epoch = 0
        self.topology_epoch = NO_TOPOLOGY
        self.process_id = ""
        self.endpoint: Endpoint | None = None
        self.client_tags: dict[str, str] = {}

    def metadata(self) -> tuple[object, ...]:
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

    def assigned_since(self, subtopology: str | None, partition: int) -> int | None:
        """Since which epoch an active task is the member's, also while it is to be given back; None if it is not."""
        for owned in (self.assigned, self.revoking):
            since = owned.active.get(subtopology or "", {}).get(partition)
            if since is not None:
                return since
        return None


class StreamsGroup(ReconciledGroup[StreamsMember, Target]):
    """A group of stream threads that run one topology."""

    type_name = "streams"
    protocol_type = STREAMS_PROTOCOL_TYPE

    def __init__(self, group_id: str, topics: Topics) -> None:
        super().__init__(group_id, FIRST_ASSIGNMENT_EPOCH)
        self._topics = topics
        self.validated_topology_epoch = NO_TOPOLOGY
        self.assignment_configs: dict[str, str] = {}  # those that the last epoch was made with
        self.topology: StreamsGroupTopologyValue | None = None
        self._required: Set[str] | None = None  # by the topology, if that has been asked
        self._read_by: dict[str, str] | None = None
        self.configured: ConfiguredTopology | None = None
        self.shown: ConfiguredTopology | None = None  # as of the last new epoch, but for the one that made the group
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0

    # What the table and the offsets ask

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        return self.progress()

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and topic in self.read_by()

    def assigned_since(self, member: StreamsMember) -> Since:
        subtopology_of = self.read_by()

        def since(topic_id: bytes, partition: int) -> int | None:
            topic = self._topics.topics_by_id.get(topic_id)
            return member.assigned_since(None if topic is None else subtopology_of.get(topic.name), partition)

        return since

    # Members

    def target_of(self, member_id: str) -> Target:
        return self.targets.get(member_id, NOTHING)

    def with_change(self, member: StreamsMember) -> list[StreamsMember]:
        """The members as they will be with this one."""
        return list((self.members | {member.member_id: member}).values())

    def reads_any(self, topics: frozenset[str]) -> bool:
        """Whether the topology needs one of these topics, be there such a topic or not."""
        return not topics.isdisjoint(self.required())

    # The topology

    def required(self) -> Set[str]:
        """Every topic that the topology needs."""
        if self._required is None:
            self._required = frozenset() if self.topology is None else required_topics(self.topology)
        return self._required

    def read_by(self) -> dict[str, str]:
        """Topic to the subtopology that reads it."""
        if self._read_by is None:
            self._read_by = {} if self.topology is None else topics_read(self.topology)
        return self._read_by

    # By replay alone

    def set_topology(self, topology: StreamsGroupTopologyValue | None) -> None:
        self.topology = topology
        self.configured = None
        self.shown = None
        self._required = self._read_by = None

    def remove_member(self, member_id: str) -> None:
        super().remove_member(member_id)
        if not self.members:
            self.shutdown_member_id = None
