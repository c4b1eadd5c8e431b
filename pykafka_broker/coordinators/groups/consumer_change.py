"""What a request makes of a member of a consumer group.

Rule: the order of the records is Kafka's: member, patterns, group epoch, targets, current assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups import consumer_stored
from pykafka_broker.coordinators.groups.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    ResolvedRegex,
    Target,
    topics_read,
)
from pykafka_broker.coordinators.groups.consumer_target import next_target
from pykafka_broker.coordinators.groups.epoch_group import EpochChange
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.groups.re2 import RegexError, compile_regex
from pykafka_broker.coordinators.groups.reconciliation import OwnedTopics, Reconciliation
from pykafka_broker.coordinators.groups.topics import topic_ids
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

MaySee = Callable[[str], bool]


def rights_are_old(table: GroupTable, resolved: ResolvedRegex, now: int) -> bool:
    """Whether it is time to ask again who may see the topics behind a pattern: no metadata tells of that."""
    return now >= resolved.resolved_at + table.config.group_consumer_regex_refresh_interval_ms


class MemberChange(EpochChange[ConsumerGroup, ConsumerMember]):
    """From what a member was to what a request makes of it."""

    def __init__(
        self,
        table: GroupTable,
        group: ConsumerGroup,
        before: ConsumerMember,
        effects: Effects[Any],
        now: int,
        may_see: MaySee | None,
    ) -> None:
        """`may_see`: which topics a pattern may stand for, as far as who asks is allowed to know."""
        super().__init__(table, group, before, effects, now)
        self.target_epoch = group.assignment_epoch
        self.regexes = group.regexes  # as they will be
        self.subscription_changed = False
        self._may_see = may_see

    # Subscription

    def subscribe(self) -> None:
        """Write down the member and what its patterns stand for, and start a new group epoch if that changes what the
        group reads."""
        group, member, before = self._group, self.member, self.before
        if member.metadata() != before.metadata():
            self.records.append(consumer_stored.member_metadata(group.group_id, member))
        names_changed = member.topic_names != before.topic_names
        regex_changed = (member.topic_regex or None) != (before.topic_regex or None)
        self.subscription_changed = names_changed or regex_changed
        topics_changed = self._resolve_regexes()
        bump = names_changed or regex_changed or topics_changed
        if bump or group.metadata_stale:
            self._update_metadata(bump)

    def _update_metadata(self, bump: bool) -> None:
        group = self._group
        names = topics_read(self._table.topics, self._members(), self.regexes)
        new_hash = self._table.hashes.of_group(names)
        if bump or new_hash != group.metadata_hash:
            self.group_epoch += 1
            self.records.append(consumer_stored.group_epoch(group.group_id, self.group_epoch, new_hash))
        else:
            group.metadata_stale = False  # not before the new hash is written: the log may refuse it
        if group.has_partition_metadata:
            self.records.append(consumer_stored.partition_metadata_tombstone(group.group_id))

    def _members(self) -> list[ConsumerMember]:
        return self._group.with_change(self._replaced(), self.member)

    def _replaced(self) -> ConsumerMember | None:
        """The static member whose place this one takes, if there is one."""
        instance_id = self.member.instance_id
        return None if instance_id is None else self._group.static_member(instance_id)

    # Patterns

    def _resolve_regexes(self) -> bool:
        """Drop the patterns that nobody has any more, and resolve those that are new or older than the newest topic.
        Returns whether the topics behind one of them have changed."""
        group = self._group
        wanted = {member.topic_regex for member in self._members() if member.topic_regex}
        if not wanted and not group.regexes:
            return False
        regexes = {pattern: resolved for pattern, resolved in group.regexes.items() if pattern in wanted}
        gone = [pattern for pattern in group.regexes if pattern not in wanted]
        self.records += [consumer_stored.regex(group.group_id, pattern, None) for pattern in gone]
        changed = False
        for pattern in sorted(wanted):
            known = regexes.get(pattern)
            if known is not None and not self._is_old(known):
                continue
            try:
                expression = compile_regex(pattern)
            except RegexError as error:
                if known is not None:
                    continue  # it was taken by a release that knew better
                raise _invalid_regex(pattern, error) from None
            topics = frozenset(filter(self._may_see, filter(expression.matches, self._table.topics.topics)))
            regexes[pattern] = resolved = ResolvedRegex(topics, self._table.metadata_version, self._now)
            self.records.append(consumer_stored.regex(group.group_id, pattern, resolved))
            changed |= known is None or known.topics != topics
        self.regexes = regexes
        return changed

    def _is_old(self, resolved: ResolvedRegex) -> bool:
        if resolved.version < self._table.newest_topic_version:
            return True
        return self._may_see is not None and rights_are_old(self._table, resolved, self._now)

    # Target and assignment

    def retarget(self) -> Target:
        """The member's target; a new one for all if the group epoch is ahead and the last one is old enough."""
        group = self._group
        interval_ms = self._table.group_settings(group.group_id).consumer_assignment_interval_ms
        if self.group_epoch > group.assignment_epoch and group.may_retarget(interval_ms, self._now):
            targets = next_target(
                self._table, group, self.regexes, self._members(), self.group_epoch, self._now, self.records
            )
            self.target_epoch = self.group_epoch
            return targets[self.member.member_id]
        return group.target_of(self.member)

    def reconcile(self, target: Target, says_it_owns: OwnedTopics) -> None:
        """Move the member on, and write down where it is now."""
        member = self.member
        if not self.subscription_changed and member.is_reconciled_to(self.target_epoch):
            return
        before = member.current()
        ids = topic_ids(self._table.topics, topics_read(self._table.topics, [member], self.regexes))
        Reconciliation(
            self._group, member, ids, self.target_epoch, target, self.subscription_changed, says_it_owns
        ).step()
        if member.current() != before:
            self.records.append(consumer_stored.current_assignment(self._group.group_id, member))


def _invalid_regex(pattern: str, error: RegexError) -> ApiError:
    message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
