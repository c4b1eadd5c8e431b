"""The state of a share group's membership (KIP-932).

Rule: all of it is hard state, made of records by replay, but for what its coordinator is about to initialize; a request
works on a copy of its member. Members share partitions, so nothing has to be given back before somebody else gets it.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.coordinators.groups.epoch_group import FIRST_GROUP_EPOCH, EpochGroup, EpochMember
from pykafka_broker.coordinators.groups.topics import Topics as ClusterTopics
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

Target = dict[bytes, frozenset[int]]  # topic id -> partitions
Topics = dict[bytes, tuple[str, frozenset[int]]]  # topic id -> name and partitions


class ShareMember(EpochMember):
    """One member of a share group."""

    __slots__ = ("topic_names",)
    assigned: Target

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.topic_names: frozenset[str] = frozenset()

    def metadata(self) -> tuple[object, ...]:
        return self.rack_id, self.client_id, self.client_host, self.topic_names


class ShareGroup(EpochGroup[ShareMember, Target]):
    """A share group."""

    type_name = "share"
    protocol_type = "share"
    goes_when_empty = False  # it knows which partitions have a state with the share coordinator

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, FIRST_GROUP_EPOCH)
        self.initialized: Topics = {}  # what has a state with the share coordinator
        self.has_state_record = False
        self.asked_epoch = 0  # no coordinator has initialized partitions under a later group epoch
        self.is_initializing = False

    # What the table and the offsets ask

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topic_names for member in self.members.values())

    def reads_any(self, topics: frozenset[str]) -> bool:
        """Whether a member names one of these topics, be there such a topic or not."""
        return any(not topics.isdisjoint(member.topic_names) for member in self.members.values())

    def expiry_base(self) -> Callable[[int], int] | None:
        """Share groups have no committed offsets that could expire."""
        return None

    def check_offset_delete(self) -> None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """There are none to see."""

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, transactional: bool
    ) -> Callable[[bytes, int], ErrorCode] | None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    # Members

    def with_member(self, member: ShareMember) -> list[ShareMember]:
        """The members as they will be with this one."""
        return [*(one for one in self.members.values() if one.member_id != member.member_id), member]


# ShareGroupDescribe

ASSIGNOR = "simple"


def describe(group: ShareGroup, topics: ClusterTopics) -> DescribedGroup:
    """Return the group with its members, without the topics that have been deleted."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_describe_member(member, topics) for member in group.members.values()],
    )


def _describe_member(member: ShareMember, topics: ClusterTopics) -> Member:
    assigned = [
        TopicPartitions(topic_id, topic.name, sorted(partitions))
        for topic_id, partitions in member.assigned.items()
        if (topic := topics.topics_by_id.get(topic_id)) is not None
    ]
    return Member(
        member.member_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        sorted(member.topic_names),
        Assignment(assigned),
    )
