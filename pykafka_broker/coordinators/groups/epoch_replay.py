"""From the records of consumer, share and streams groups to their state: the five types that all of them have.

Rule: a record creates the group that it is about, and a group goes with the tombstone of its epoch. A tombstone for
what is not there is nothing special: compaction may have taken the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from pykafka_broker.coordinators.groups.epoch_group import EpochGroup
from pykafka_broker.coordinators.groups.group import GroupTable

G = TypeVar("G", bound=EpochGroup[Any, Any])


class Kind(NamedTuple):
    """How one kind of group meets its records."""

    group: type[Any]  # an EpochGroup
    new_group: Callable[[str], Any]  # by group id
    new_member: Callable[[str], Any]  # by member id
    take_epoch: Callable[[Any, Any], None]  # (group, value): what the record of the epoch says besides
    take_metadata: Callable[[Any, Any], None]  # (member, value)
    take_assignment: Callable[[Any, Any], None]  # (member, value)
    read_target: Callable[[Any], Any]  # (value)


class KeyTypes(NamedTuple):
    """The keys of the five types."""

    epoch: type
    member_metadata: type
    target_metadata: type
    target: type
    current_assignment: type


def no_more(group: Any, value: Any) -> None:
    """For kinds whose record of the epoch says nothing else."""


class EpochReplay(Generic[G]):
    """Takes over the records of one kind of group; `more` are the types that this kind alone has."""

    def __init__(
        self,
        table: GroupTable,
        kind: Kind,
        keys: KeyTypes,
        more: dict[type, Callable[[G, Any, Any], None]],
    ) -> None:
        self._table = table
        self._kind = kind
        rules = (self._epoch, self._member, self._target_metadata, self._target, self._current_assignment)
        self._rules: dict[type, Callable[[G, Any, Any], None]] = dict(zip(keys, rules, strict=True)) | more

    def takes(self, key: Any) -> bool:
        return type(key) in self._rules

    def replay(self, key: Any, value: Any) -> None:
        """Take over one record; `takes` has said yes to its key."""
        group: Any = self._table.groups.get(key.group_id)
        if not isinstance(group, self._kind.group):
            if value is None:
                return
            # A classic group of this name has made way, or was only there because of its offsets.
            group = self._table.groups[key.group_id] = self._kind.new_group(key.group_id)
        self._rules[type(key)](group, key, value)

    def _epoch(self, group: G, key: Any, value: Any) -> None:
        if value is None:
            self._table.remove(group.group_id)
            return
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        self._kind.take_epoch(group, value)

    def _member(self, group: G, key: Any, value: Any) -> None:
        if value is None:
            group.remove_member(key.member_id)
            self._table.timers.cancel_member(group.group_id, group.type_name, key.member_id)
        else:
            self._change(group, key.member_id, lambda member: self._kind.take_metadata(member, value))

    def _target_metadata(self, group: G, key: Any, value: Any) -> None:
        group.assignment_epoch = -1 if value is None else value.assignment_epoch
        group.assignment_timestamp = 0 if value is None else value.assignment_timestamp

    def _target(self, group: G, key: Any, value: Any) -> None:
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = self._kind.read_target(value)

    def _current_assignment(self, group: G, key: Any, value: Any) -> None:
        if value is not None:
            self._change(group, key.member_id, lambda member: self._kind.take_assignment(member, value))
        elif key.member_id in group.members:
            self._change(group, key.member_id, lambda member: member.withdraw())

    def _change(self, group: G, member_id: str, change: Callable[[Any], None]) -> None:
        """Put a changed copy in a member's place, or a new member in none's."""
        known = group.members.get(member_id)
        member = self._kind.new_member(member_id) if known is None else known.copy()
        change(member)
        group.set_member(member)
