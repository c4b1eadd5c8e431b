"""One change of one member of a group that is led by epochs, on its way.

Rule: nothing here touches the group's hard state: the member is a copy, and what is to become of the group is in
`records`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups.epoch_group import EpochGroup, EpochMember
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.record import CoordinatorRecord

G = TypeVar("G", bound=EpochGroup[Any, Any])
M = TypeVar("M", bound=EpochMember)


class EpochChange(Generic[G, M]):
    """From what a member was to what a request makes of it; the kinds of groups say how."""

    def __init__(self, table: GroupTable, group: G, before: M, effects: Effects[Any], now: int) -> None:
        self._table = table
        self._group = group
        self._now = now
        self.before = before
        self.member = before.copy()
        self.records: list[CoordinatorRecord] = effects.records
        self.group_epoch = group.epoch  # as it will be
