"""The deadlines of the members of consumer, share and streams groups.

Rule: every heartbeat starts the member's session anew, and a member that has to give something back has its rebalance
timeout for it. Deadlines are soft: after a restart each member has both once more in full. They end with the record
that takes the member out, so that a member whose record the log refuses is not forgotten.
"""

from __future__ import annotations

from pykafka_broker.coordinators.groups.epoch_group import ReconciledMember
from pykafka_broker.coordinators.groups.group import Group
from pykafka_broker.coordinators.groups.timers import TimerKey, Timers


class MemberClocks:
    """The clocks of one kind of group; `kind` is its `type_name`, so that the table can stop them with the group."""

    def __init__(self, timers: Timers, kind: str) -> None:
        self._timers = timers
        self.session = f"{kind}-session"
        self.rebalance = f"{kind}-rebalance"

    def keep_alive(self, group: Group, member_id: str, deadline: int) -> None:
        """Start the member's session anew."""
        self._timers.set(TimerKey(self.session, group.group_id, member_id), deadline)

    def follow_state(self, group: Group, before: ReconciledMember, member: ReconciledMember, now: int) -> None:
        """Start or stop the rebalance timeout, if the member has moved."""
        if member.current() == before.current():
            return
        if member.state is member.UNREVOKED:
            self.await_revocation(group, member, now)
        else:
            self.stop_rebalance(group, member.member_id)

    def await_revocation(self, group: Group, member: ReconciledMember, now: int) -> None:
        key = TimerKey(self.rebalance, group.group_id, member.member_id)
        self._timers.set(key, now + member.rebalance_timeout_ms)

    def stop_rebalance(self, group: Group, member_id: str) -> None:
        """There is nothing to be given back any more."""
        self._timers.cancel(TimerKey(self.rebalance, group.group_id, member_id))

    def is_out(self, key: TimerKey, member: ReconciledMember) -> bool:
        """Whether a deadline that has passed still means something: the member may have given back in time."""
        return key.kind != self.rebalance or member.state is member.UNREVOKED
