"""How a member of a consumer group gets from what it has to what it should have (KIP-848).

Rule: it first gives back what is not in its target; only then does it follow the group to the new epoch, and it gets a
partition only when nobody else has it any more.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from pykafka_broker.coordinators.groups.consumer_group import (
    UNOWNED,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Owned,
    Target,
)
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

UNKNOWN_STATE = (
    "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
)

OwnedTopics = list[Any] | None  # topic_partitions of a heartbeat: what the member says it has; None: no news


class Reconciliation:
    """One step of one member."""

    def __init__(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        topic_ids: Set[bytes],
        target_epoch: int,
        target: Target,
        subscription_changed: bool,
        says_it_owns: OwnedTopics,
    ) -> None:
        self._group = group
        self._member = member
        self._topic_ids = topic_ids  # what it subscribes to: a target may be older than the subscription
        self._target_epoch = target_epoch
        self._target = target
        self._subscription_changed = subscription_changed
        self._says_it_owns = says_it_owns

    def step(self) -> None:
        """Move the member as far as it can go now."""
        member = self._member
        if (member.state is MemberState.STABLE and member.epoch == self._target_epoch) or (
            member.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(member.revoking)
        ):
            self._drop_unsubscribed()
        elif member.state is MemberState.UNKNOWN:
            if self._says_it_owns is None or self._says_it_owns:
                raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, UNKNOWN_STATE)
            self._go_on(self._target_epoch)
        else:
            self._go_on(member.epoch)

    def _still_owns(self, revoking: Owned) -> bool:
        """Whether the member has, or may still have, one of these."""
        if self._says_it_owns is None:
            return True
        return any(
            not revoking.get(topic.topic_id, {}).keys().isdisjoint(topic.partitions) for topic in self._says_it_owns
        )

    def _drop_unsubscribed(self) -> None:
        """The target waits for others or is reached, but what the member has just unsubscribed from goes at once."""
        if not self._subscription_changed:
            return
        member = self._member
        kept = {topic_id: owned for topic_id, owned in member.assigned.items() if topic_id in self._topic_ids}
        if len(kept) == len(member.assigned):
            return
        revoking = dict(member.revoking)
        for topic_id, owned in member.assigned.items():
            if topic_id not in kept:
                revoking[topic_id] = revoking.get(topic_id, {}) | owned
        if self._still_owns(revoking):
            member.move_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
        else:
            member.move_to(member.epoch, member.state, kept, member.revoking)

    def _go_on(self, epoch: int) -> None:
        member = self._member
        kept: Owned = {}
        revoking: Owned = {}
        wanted: dict[bytes, list[int]] = {}
        others_have_some = False
        for topic_id in dict.fromkeys((*self._target, *member.assigned)):
            target = self._target.get(topic_id, frozenset()) if topic_id in self._topic_ids else frozenset()
            assigned = member.assigned.get(topic_id, {})
            stays = {partition: since for partition, since in assigned.items() if partition in target}
            goes = {partition: since for partition, since in assigned.items() if partition not in target}
            comes = [p for p in sorted(target) if p not in assigned]
            free = [p for p in comes if self._is_free(topic_id, p)]
            others_have_some |= len(free) < len(comes)
            if stays:
                kept[topic_id] = stays
            if goes:
                revoking[topic_id] = goes
            if free:
                wanted[topic_id] = free
        if revoking and self._still_owns(revoking):
            member.move_to(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
            return
        for topic_id, partitions in wanted.items():
            kept[topic_id] = kept.get(topic_id, {}) | dict.fromkeys(partitions, self._target_epoch)
        state = MemberState.UNRELEASED_PARTITIONS if others_have_some else MemberState.STABLE
        member.move_to(self._target_epoch, state, kept, {})

    def _is_free(self, topic_id: bytes, partition: int) -> bool:
        return self._group.partition_epoch(topic_id, partition) == UNOWNED or partition in self._member.revoking.get(
            topic_id, {}
        )
