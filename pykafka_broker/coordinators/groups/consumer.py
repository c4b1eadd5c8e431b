"""The consumer protocol (KIP-848): ConsumerGroupHeartbeat, and the end of members that leave or fall silent.

Rule: a heartbeat that brings nothing new and asks for nothing costs a few comparisons; every other heartbeat works on a
copy of its member and leaves its changes as records. A member first gives back the partitions that are not in its
target; only then does it follow the group to the new epoch, and it gets a partition only when no other member has it
any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

from pykafka_broker.coordinators.groups.assignors import ASSIGNORS, GroupSpec, MemberSpec
from pykafka_broker.coordinators.groups.consumer_group import (
    UNOWNED,
    ConsumerGroup,
    ConsumerGroupMember,
    MemberState,
    Owned,
    ResolvedRegex,
    frozen_target,
    partition_metadata_tombstone,
    regex_record,
)
from pykafka_broker.coordinators.groups.epoch_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    EpochChange,
    EpochProtocol,
    Target,
)
from pykafka_broker.coordinators.groups.group import BEHIND_BLANKS, Caller, GroupTable, invalid_request, is_blank
from pykafka_broker.coordinators.groups.java_order import in_hash_order
from pykafka_broker.coordinators.groups.re2 import MAX_WORK, RegexError, compile_regex
from pykafka_broker.coordinators.groups.subscriptions import names_read
from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN = "consumer-join"  # deadline of a classic member that has to join again
SYNC = "consumer-sync"  # deadline of a classic member that has joined, for its SyncGroup

# Turn a consumer group into a classic group if without the leaving members only classic members are left; True if done.
Downgrade = Callable[[ConsumerGroup, list[ConsumerGroupMember], CoordinatorResult[Any], int], bool]


ReportedTopics = list[Any] | None  # topic_partitions of a heartbeat: the partitions that the member has; None: no news


class Claim(NamedTuple):
    """The identity in a request, not yet checked.

    member_id: The member id of the request.
    epoch: The member epoch of the request.
    owned: The partitions that the member reports as its own.
    is_classic: The member speaks the classic protocol, in which a static member need not leave before it comes back.
    """

    member_id: str
    instance_id: str | None = None
    epoch: int = JOIN_EPOCH
    owned: ReportedTopics = None
    is_classic: bool = False

    @property
    def joins(self) -> bool:
        return self.epoch == JOIN_EPOCH


class ConsumerProtocol(EpochProtocol[ConsumerGroup]):
    """All requests and deadlines of consumer groups, except for members of the classic protocol."""

    def __init__(self, table: GroupTable) -> None:
        super().__init__(table)
        self.downgrade: Downgrade = lambda group, leaving, result, now: False  # Migration sets its own

    # Heartbeat

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        result: CoordinatorResult[Any],
        now: int,
    ) -> None:
        """Let a member join, or follow the group. Raises ApiError: The refusal of the heartbeat."""
        if self._is_idle(group, request, caller) and not (
            group.regexes
            and caller.may_see is not None
            and any(rights_are_old(self._table, resolved, now) for resolved in group.regexes.values())
        ):
            result.reply = self._answer(group, request.member_id, request.member_epoch, now)
            return
        member_id = request.member_id or self._table.new_id()
        self.check_room(group, member_id, request.instance_id)
        claim = Claim(member_id, request.instance_id, request.member_epoch, request.topic_partitions)
        before = self.find_member(group, claim, result)
        change = ConsumerMemberChange(self._table, group, before, result, now, caller.may_see)
        change.member.take_request(request, caller)
        change.subscribe()
        change.reconcile(change.retarget(), request.topic_partitions)
        member = change.member
        self.follow_state(group, before, member, now)
        reply = result.reply = self._answer(group, member_id, member.epoch, now)
        if claim.joins or _is_full(request) or member.assigned != before.assigned:
            owned = member.assigned.items()
            reply.assignment = Assignment([TopicPartitions(topic_id, sorted(since)) for topic_id, since in owned])

    def _is_idle(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> bool:
        """Return whether neither the member nor the group has news, as with most heartbeats."""
        member = group.members.get(request.member_id)
        return (
            member is not None
            and request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
            and member.state is MemberState.STABLE
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.topic_partitions is None
            and request.rebalance_timeout_ms == -1
            and request.server_assignor is None
            and request.rack_id is None
            and (request.instance_id is None or request.instance_id == member.instance_id)
            and not group.metadata_stale
            and member.classic is None
            and member.client_id == caller.client_id
            and member.client_host == caller.client_host
        )

    def _answer(self, group: ConsumerGroup, member_id: str, epoch: int, now: int) -> ConsumerGroupHeartbeatResponse:
        """Start the member's session anew, and return the answer to a heartbeat."""
        settings = self._table.group_settings(group.group_id)
        self._timers.set_session(group, member_id, now + settings.consumer_session_timeout_ms)
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms
        )

    def check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        """Raise GROUP_MAX_SIZE_REACHED for a new member of a full group, before 4.4 also for a returning static one."""
        returns = self._table.config.is_of_4_4 and group.static_member(instance_id) is not None
        if member_id not in group.members and not returns:
            group.check_room(self._table.config.group_consumer_max_size)

    # The member of a request

    def find_member(self, group: ConsumerGroup, claim: Claim, result: CoordinatorResult[Any]) -> ConsumerGroupMember:
        """Return the claimed member, or a new member. Raises ApiError."""
        if claim.joins:
            return self._find_joining(group, claim, result)
        member = group.claimed_member(claim.member_id, claim.instance_id)
        group.check_epoch(member, claim.epoch, lambda: _is_subset(claim.owned, member.assigned))
        return member

    def _find_joining(self, group: ConsumerGroup, claim: Claim, result: CoordinatorResult[Any]) -> ConsumerGroupMember:
        member_id, instance_id = claim.member_id, claim.instance_id
        existing = group.static_member(instance_id)
        if existing is None:
            member = group.members.get(member_id)
            return ConsumerGroupMember(member_id) if member is None else member
        if not claim.is_classic and existing.classic is None and existing.epoch != LEAVE_STATIC_EPOCH:
            raise group.unreleased(member_id, existing)
        return group.in_place_of(existing, member_id, result)

    # Leaving

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, result: CoordinatorResult[Any], now: int
    ) -> None:
        """Remove a member with epoch -1; with epoch -2 keep the place of a static member for a session."""
        epoch = request.member_epoch
        result.reply = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=epoch)
        member = group.claimed_member(request.member_id, request.instance_id)
        if request.instance_id is None or epoch != LEAVE_STATIC_EPOCH:
            self.fence(group, [member], result, now)
            return
        assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
        self.put_away(group, member, assigned, result)

    def fence(
        self, group: ConsumerGroup, leaving: list[ConsumerGroupMember], result: CoordinatorResult[Any], now: int
    ) -> None:
        """Remove members, or turn the group back if only classic members are left."""
        if leaving and not self.downgrade(group, leaving, result, now):
            super().fence(group, leaving, result, now)

    def next_epoch(self, group: ConsumerGroup, leaving: list[ConsumerGroupMember]) -> list[CoordinatorRecord]:
        wanted = group.subscriptions.patterns_after(leaving, ()) if group.regexes else ()
        unused = [regex_record(group.group_id, pattern, None) for pattern in group.regexes if pattern not in wanted]
        new_hash = self._table.read.hash(group.names_read(leaving, (), group.regexes))
        return [*unused, group.records.epoch(group.group_id, group.epoch + 1, new_hash)]

    # Time

    def session_ms(self, group: ConsumerGroup, member: ConsumerGroupMember) -> int:
        """Return the session timeout: a classic member's own, else the group's config."""
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self._table.group_settings(group.group_id).consumer_session_timeout_ms


def _is_subset(owned: ReportedTopics, assigned: Owned) -> bool:
    return owned is not None and all(
        topic.topic_id in assigned and assigned[topic.topic_id].keys() >= set(topic.partitions) for topic in owned
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the client has sent all fields, as after an error: then the answer needs the assignment."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


# Checks of a heartbeat alone

MEMBER_CHOOSES_ID_FROM = 1


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, table: GroupTable) -> None:
    """Check the request alone, in Kafka's order and with Kafka's words, which clients show to people.

    Raises INVALID_REQUEST, UNSUPPORTED_ASSIGNOR: The request is wrong.
    """
    epoch = request.member_epoch
    member_id = request.member_id
    if (version >= MEMBER_CHOOSES_ID_FROM or epoch != JOIN_EPOCH) and member_id < BEHIND_BLANKS and is_blank(member_id):
        raise invalid_request("MemberId can't be empty.")
    values = (request.group_id, request.instance_id, request.rack_id)
    for name, value in zip(("GroupId", "InstanceId", "RackId"), values, strict=True):
        if value is not None and value < BEHIND_BLANKS and is_blank(value):
            raise invalid_request(f"{name} can't be empty.")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise invalid_request("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise invalid_request("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise invalid_request(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == LEAVE_STATIC_EPOCH:
        if request.instance_id is None:
            raise invalid_request("InstanceId can't be null.")
    elif epoch < LEAVE_EPOCH:
        raise invalid_request("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in table.consumer_assignors:
        supported = ", ".join(in_hash_order(table.consumer_assignors))
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}.",
        )


# The change of a member by a request


MaySee = Callable[[str], bool]


def rights_are_old(table: GroupTable, resolved: ResolvedRegex, now: int) -> bool:
    """Return whether the rights for a pattern's topics are due for a check: no metadata tells of changed rights.

    A check in the future, by the clock of an earlier coordinator, was too long ago.
    """
    return not 0 <= now - resolved.resolved_at < table.config.group_consumer_regex_refresh_interval_ms


class ConsumerMemberChange(EpochChange[ConsumerGroup, ConsumerGroupMember]):
    """The change of a member by a request.

    The order of the records is Kafka's: member, patterns, group epoch, targets, current assignment.
    """

    def __init__(
        self,
        table: GroupTable,
        group: ConsumerGroup,
        before: ConsumerGroupMember,
        result: CoordinatorResult[Any],
        now: int,
        may_see: MaySee | None,
    ) -> None:
        """Begin with a copy of `before`.

        Args:
            may_see: Whether the caller may see a topic: a pattern stands for no other topics.
        """
        super().__init__(table, group, before, result, now)
        self.target_epoch = group.assignment_epoch
        self.regexes = group.regexes  # as of after the change
        self.subscription_changed = False
        self._has_old_patterns = False  # whether patterns are left for the next heartbeats to resolve
        self._may_see = may_see

    # Subscription

    def subscribe(self) -> None:
        """Record the member and the patterns, and start a new group epoch if the topics of the group change."""
        group, member, before = self._group, self.member, self.before
        if member.metadata() != before.metadata():
            self.records.append(group.member_record(member))
        names_changed = member.topic_names != before.topic_names
        regex_changed = (member.topic_regex or None) != (before.topic_regex or None)
        self.subscription_changed = names_changed or regex_changed
        topics_changed = self._resolve_regexes()
        bump = names_changed or regex_changed or topics_changed or self._assignor_changed()
        if bump or group.metadata_stale:
            self._update_metadata(bump)

    def _assignor_changed(self) -> bool:
        """Return whether the member's vote changes the group's assignor, which begins an epoch since 4.4."""
        group = self._group
        if not self._table.config.is_of_4_4 or self.member.server_assignor == self.before.server_assignor:
            return False
        default = self._table.consumer_assignors[0]
        chosen = group.preferred_assignor(group.members.values()) or default
        return chosen != (group.preferred_assignor(self.members()) or default)

    def _update_metadata(self, bump: bool) -> None:
        group = self._group
        names = group.names_read(group.replaced_by(self.member), (self.member,), self.regexes)
        new_hash = self._table.read.hash(names)
        if bump or new_hash != group.metadata_hash:
            self.group_epoch += 1
            self.records.append(group.records.epoch(group.group_id, self.group_epoch, new_hash))
        else:
            # Else stale until the new hash is replayed: the log may refuse the record.
            group.metadata_stale = self._has_old_patterns
        if group.has_partition_metadata:
            self.records.append(partition_metadata_tombstone(group.group_id))

    # Patterns

    def _resolve_regexes(self) -> bool:
        """Drop unused patterns, and resolve new patterns and patterns older than the newest topic.

        Of the old ones, those that would take too long now are left to the next heartbeats.

        Returns:
            Whether the topics behind a pattern have changed.
        """
        group, member = self._group, self.member
        wanted = group.subscriptions.patterns_after(group.replaced_by(member), (member,))
        if not wanted and not group.regexes:
            return False
        regexes = {pattern: resolved for pattern, resolved in group.regexes.items() if pattern in wanted}
        gone = [pattern for pattern in group.regexes if pattern not in wanted]
        self.records += [regex_record(group.group_id, pattern, None) for pattern in gone]
        changed, work = False, 0
        for pattern in sorted(wanted):
            known = regexes.get(pattern)
            if known is not None and not self._is_old(known):
                continue
            if known is not None and work >= MAX_WORK:
                self._has_old_patterns = True
                continue
            try:
                expression = compile_regex(pattern)
                topics = frozenset(filter(self._may_see, filter(expression.matches, self._table.topics.topics)))
                work += expression.work
            except RegexError as error:
                if known is None:
                    message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error.message}."
                    raise ApiError(error.code, message) from None
                # Accepted by a release with other rules, or while there were fewer topics.
                topics, work = known.topics, MAX_WORK
            regexes[pattern] = resolved = ResolvedRegex(topics, self._table.metadata_version, self._now)
            self.records.append(regex_record(group.group_id, pattern, resolved))
            changed |= known is None or known.topics != topics
        self.regexes = regexes
        return changed

    def _is_old(self, resolved: ResolvedRegex) -> bool:
        if resolved.version < self._table.newest_topic_version:
            return True
        return self._may_see is not None and rights_are_old(self._table, resolved, self._now)

    # Target and assignment

    def retarget(self) -> Target:
        """Return the member's target; assign anew if the group epoch is ahead and the last target old enough."""
        group = self._group
        interval_ms = self._table.group_settings(group.group_id).consumer_assignment_interval_ms
        if self.group_epoch > group.assignment_epoch and group.may_retarget(interval_ms, self._now):
            targets = next_target(
                self._table, group, self.regexes, self.members(), self.group_epoch, self._now, self.records
            )
            self.target_epoch = self.group_epoch
            return targets[self.member.member_id]
        return group.target_of(self.member)

    def reconcile(self, target: Target, owned: ReportedTopics) -> None:
        """Move the member as far as possible, and record the new assignment."""
        member = self.member
        if not self.subscription_changed and member.is_reconciled_to(self.target_epoch):
            return
        before = member.current()
        ids = self._table.read.ids(names_read(member, self.regexes))
        Reconciliation(self._group, member, ids, self.target_epoch, target, self.subscription_changed, owned).step()
        self.record_step(before)


def next_target(
    table: GroupTable,
    group: ConsumerGroup,
    regexes: Mapping[str, ResolvedRegex],
    members: list[ConsumerGroupMember],
    epoch: int,
    now: int,
    records: list[CoordinatorRecord],
) -> dict[str, Target]:
    """Compute the members' targets for a group epoch, and add records for changed targets."""
    topics = table.topics
    assign = ASSIGNORS[group.preferred_assignor(members) or table.consumer_assignors[0]]
    before = {member.member_id: group.target_of(member) for member in members}
    read = {(member.topic_names, member.topic_regex): member for member in members}
    ids = {subscription: table.read.ids(names_read(member, regexes)) for subscription, member in read.items()}
    specs = {
        member.member_id: MemberSpec(
            member.instance_id, ids[member.topic_names, member.topic_regex], before[member.member_id]
        )
        for member in group.in_table_order(members)
    }
    names = in_hash_order(sorted(topics.topics_by_id[topic_id].name for topic_id in set[bytes]().union(*ids.values())))
    counts = {topic.id: len(topic.partitions) for topic in map(topics.topics.__getitem__, names)}
    # As Kafka sees it, names and an expression together make a subscription of no other member's kind.
    differ = len(read) > 1 or any(named and expression for named, expression in read)
    assigned = assign(GroupSpec(specs, counts, differ))
    targets = {member.member_id: frozen_target(assigned[member.member_id]) for member in members}
    records += group.target_records(targets, epoch, now)
    return targets


# From a member's partitions to its target


UNKNOWN_STATE = (
    "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
)


class Reconciliation(NamedTuple):
    """A step of a member towards the target. (Kafka: CurrentAssignmentBuilder)"""

    group: ConsumerGroup
    member: ConsumerGroupMember
    topic_ids: Set[bytes]  # of the subscription: a target may be older
    target_epoch: int
    target: Target
    subscription_changed: bool
    owned_topics: ReportedTopics

    def step(self) -> None:
        """Move the member as far as possible now."""
        member = self.member
        if (member.state is MemberState.STABLE and member.epoch == self.target_epoch) or (
            member.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(member.revoking)
        ):
            self._drop_unsubscribed()
        elif member.state is MemberState.UNKNOWN:
            if self.owned_topics is None or self.owned_topics:
                raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, UNKNOWN_STATE)
            self._advance(self.target_epoch)
        else:
            self._advance(member.epoch)

    def _still_owns(self, revoking: Owned) -> bool:
        """Return whether the member has, or may still have, a partition of `revoking`."""
        if self.owned_topics is None:
            return True
        return any(
            not revoking.get(topic.topic_id, {}).keys().isdisjoint(topic.partitions) for topic in self.owned_topics
        )

    def _drop_unsubscribed(self) -> None:
        """Take back at once the partitions of topics from which the member has just unsubscribed.

        Before the target is reached nothing else changes: the target waits for others.
        """
        if not self.subscription_changed:
            return
        member = self.member
        kept = {topic_id: owned for topic_id, owned in member.assigned.items() if topic_id in self.topic_ids}
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

    def _advance(self, epoch: int) -> None:
        """Give back and take over partitions. epoch: the member's until nothing is left to give back."""
        member = self.member
        kept: Owned = {}
        revoking: Owned = {}
        wanted: dict[bytes, list[int]] = {}
        others_have_some = False
        for topic_id in dict.fromkeys((*self.target, *member.assigned)):
            target = self.target.get(topic_id, frozenset()) if topic_id in self.topic_ids else frozenset()
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
            kept[topic_id] = kept.get(topic_id, {}) | dict.fromkeys(partitions, self.target_epoch)
        state = MemberState.UNRELEASED_PARTITIONS if others_have_some else MemberState.STABLE
        member.move_to(self.target_epoch, state, kept, {})

    def _is_free(self, topic_id: bytes, partition: int) -> bool:
        return self.group.partition_epoch(topic_id, partition) == UNOWNED or partition in self.member.revoking.get(
            topic_id, {}
        )
