"""Members whose connection has closed, where the broker is for tests.

Rule: a member that was last heard of on a connection that has closed, and is not heard of again for so long, is given
up as if its session had ended. Without a patience nobody is: then a session lasts as long as its timeout says, as in
Kafka. A static member (KIP-345) is left alone: it is expected back within its session timeout.
"""

from __future__ import annotations

from collections import defaultdict

from pykafka_broker.coordinators.groups.group import Group, GroupTable
from pykafka_broker.coordinators.groups.timers import TimerKey

ABSENT = "absent"


class AbsentMembers:
    """Which connection each member was last heard of on, and the deadlines of those whose connection is gone."""

    def __init__(self, table: GroupTable, patience_ms: int | None) -> None:
        self._table = table
        self._patience_ms = patience_ms
        self._connection_of: dict[TimerKey, int] = {}
        self._members_of: defaultdict[int, set[TimerKey]] = defaultdict(set)

    def heard(self, connection_id: int, group_id: str, member_id: str) -> None:
        """A member has asked for something, and was answered; whoever is none is not kept."""
        if self._patience_ms is None:
            return
        key = TimerKey(ABSENT, group_id, member_id)
        before = self._connection_of.get(key)
        if before == connection_id or not self._is_waited_for(key):
            return
        if before is not None:
            self._members_of[before].discard(key)
        self._connection_of[key] = connection_id
        self._members_of[connection_id].add(key)
        self._table.timers.cancel(key)

    def closed(self, connection_id: int, now: int) -> None:
        """Its members have to be heard of on another one."""
        if self._patience_ms is None:
            return
        for key in self._members_of.pop(connection_id, ()):
            del self._connection_of[key]
            self._table.timers.set(key, now + self._patience_ms)

    def loaded(self, group: Group, now: int) -> None:
        """The group was read from the log of a broker whose connections this one has: its members have to be heard of
        on one of them."""
        if self._patience_ms is None:
            return
        for member_id in group.members:
            self._table.timers.set(TimerKey(ABSENT, group.group_id, member_id), now + self._patience_ms)

    def on_deadline(self, key: TimerKey, now: int) -> None:
        """Its patience is over: the session of the member ends now. One that waits for a rebalance stays until that
        is done, so it is looked at again."""
        group = self._table.groups.get(key.group_id)
        if group is None or self._patience_ms is None or not self._is_waited_for(key):
            return
        self._table.timers.set(TimerKey(f"{group.type_name}-session", key.group_id, key.member_id), now)
        self._table.timers.set(key, now + self._patience_ms)

    def _is_waited_for(self, key: TimerKey) -> bool:
        group = self._table.groups.get(key.group_id)
        return group is not None and group.has_dynamic_member(key.member_id)
