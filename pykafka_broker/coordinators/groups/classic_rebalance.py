"""The rebalance of a classic group: from the first join to the members' shares.

Rule: `prepare` opens the join phase and `complete_join` closes it; both leave answers to waiting requests in the
`Effects` that they are given. Deadlines run on the table's timers and come back through `on_timer`.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups import stored
from pykafka_broker.coordinators.groups.classic_group import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
    ClassicMember,
)
from pykafka_broker.coordinators.groups.group import UNKNOWN_MEMBER, GroupTable, TimerKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse

# A new member has no id to send heartbeats under; if its first join waits longer than this, it has gone away.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


class ClassicRebalance:
    """The phases of a rebalance, for all classic groups of a table."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._timers = table.timers
        # What is left of the initial delay, by group: (next wait, remaining after it).
        self._initial_delays: dict[str, tuple[int, int]] = {}

    # Sessions

    def keep_alive(self, member: ClassicMember, now: int, timeout_ms: int | None = None) -> None:
        """Start the member's session anew."""
        self._timers.set(member.session_key, now + (member.session_timeout_ms if timeout_ms is None else timeout_ms))

    def end_session(self, member: ClassicMember) -> None:
        self._timers.cancel(member.session_key)

    # Join phase

    def prepare_or_complete(self, group: ClassicGroup, effects: Effects[Any], now: int) -> None:
        """A member came, changed or went: rebalance, or close the join phase that is open if nobody is missing any
        more.
        """
        if group.can_rebalance:
            self.prepare(group, effects, now)
        else:
            self.complete_join_if_all_are_here(group, effects, now)

    def prepare(self, group: ClassicGroup, effects: Effects[Any], now: int) -> None:
        """Open the join phase."""
        if group.state is COMPLETING_REBALANCE:
            # Whoever waits for a share of the old generation has to join again.
            for member in group.members.values():
                member.assignment = b""
            self.share_out(group, {}, effects, now, ErrorCode.REBALANCE_IN_PROGRESS)
        self._timers.cancel(group.sync_key)
        initial = group.state is EMPTY
        group.move_to(PREPARING_REBALANCE, now)
        if initial:
            self._start_initial_delay(group, effects, now)
        elif group.all_joined:
            self.complete_join(group, effects, now)
        else:
            self._timers.set(group.join_key, now + group.rebalance_timeout_ms)

    def _start_initial_delay(self, group: ClassicGroup, effects: Effects[Any], now: int) -> None:
        delay = self._table.config.group_initial_rebalance_delay_ms
        if delay == 0:
            self.complete_join(group, effects, now)
            return
        self._initial_delays[group.group_id] = (delay, max(group.rebalance_timeout_ms - delay, 0))
        self._timers.set(group.join_key, now + delay)

    def _continue_initial_delay(self, group: ClassicGroup, effects: Effects[Any], now: int) -> None:
        delay, remaining = self._initial_delays.pop(group.group_id)
        if not group.new_member_added or remaining == 0:
            self.complete_join(group, effects, now)
            return
        group.new_member_added = False
        next_delay = min(self._table.config.group_initial_rebalance_delay_ms, remaining)
        self._initial_delays[group.group_id] = (next_delay, max(remaining - delay, 0))
        self._timers.set(group.join_key, now + next_delay)

    def complete_join_if_all_are_here(self, group: ClassicGroup, effects: Effects[Any], now: int) -> None:
        """Close the join phase, unless it is the first one, whose end is a matter of the initial delay."""
        if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY and group.all_joined:
            self.complete_join(group, effects, now)

    def complete_join(self, group: ClassicGroup, effects: Effects[Any], now: int) -> None:
        """Close the join phase: whoever has not joined is out (static members stay), the others get the new
        generation.
        """
        self._timers.cancel(group.join_key)
        self._initial_delays.pop(group.group_id, None)
        group.new_member_added = False
        for member in [m for m in group.members.values() if m.join_token is None and m.instance_id is None]:
            group.remove(member.member_id)
            self.end_session(member)
        if group.state is DEAD:
            return
        if not group.elect_joined_leader() and group.members:
            # Only static members are left and none of them has come: wait until one does or their sessions end.
            self._timers.set(group.join_key, now + group.rebalance_timeout_ms)
            return
        group.next_generation(now)
        if group.state is EMPTY:
            effects.records.append(stored.group_metadata(group, {}))
            return
        members = described_members(group)
        for member in group.members.values():
            self.answer_join(group, member, effects, members if member.member_id == group.leader else [])
            self.keep_alive(member, now)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._timers.set(group.sync_key, now + group.rebalance_timeout_ms)

    def answer_join(
        self, group: ClassicGroup, member: ClassicMember, effects: Effects[Any], members: list[JoinGroupResponseMember]
    ) -> None:
        """Tell a waiting member the current generation; a static member may have nobody waiting."""
        token = group.wait_for_join(member, None)
        if token is not None:
            effects.complete(token, generation_reply(group, member, members))

    # Sync phase

    def share_out(
        self,
        group: ClassicGroup,
        shares: dict[str, bytes],
        effects: Effects[Any],
        now: int,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Answer all waiting SyncGroup requests with the member's share, or with an error."""
        failed = error is not ErrorCode.NONE
        for member in group.members.values():
            if member.sync_token is None:
                continue
            reply = SyncGroupResponse(
                error_code=error,
                protocol_type=None if failed else group.protocol_type_or_none,
                protocol_name=None if failed else group.protocol_name,
                assignment=shares.get(member.member_id, b""),
            )
            effects.complete(member.sync_token, reply)
            member.sync_token = None
            self.keep_alive(member, now)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """The member has asked for its share; the last one stops the clock."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._timers.cancel(group.sync_key)

    # Departures

    def remove_member(self, group: ClassicGroup, member: ClassicMember, effects: Effects[Any], now: int) -> None:
        """A member has timed out."""
        token = group.wait_for_join(member, None)
        if token is not None:  # it may still be there, so let it ask again
            effects.complete(
                token,
                JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=UNKNOWN_MEMBER),
            )
        group.remove(member.member_id)
        if group.state in (STABLE, COMPLETING_REBALANCE):
            self.prepare_or_complete(group, effects, now)
        elif group.state is PREPARING_REBALANCE and group.all_joined:
            self.complete_join(group, effects, now)

    # Deadlines

    def on_timer(self, key: TimerKey, group: ClassicGroup, effects: Effects[Any], now: int) -> None:
        """Run what `key` stands for."""
        if key.kind == "classic-session":
            self._session_ended(group, key.member_id, effects, now)
        elif key.kind == "classic-join":
            if group.state is PREPARING_REBALANCE:
                if group.group_id in self._initial_delays:
                    self._continue_initial_delay(group, effects, now)
                else:
                    self.complete_join(group, effects, now)
        elif key.kind == "classic-sync":
            self._sync_ended(group, effects, now)

    def _session_ended(self, group: ClassicGroup, member_id: str, effects: Effects[Any], now: int) -> None:
        if member_id in group.pending_joins:
            group.remove(member_id)
            if group.state is PREPARING_REBALANCE and group.all_joined:
                self.complete_join(group, effects, now)
            return
        member = group.members.get(member_id)
        if member is None:
            return
        waits = member.join_token is not None or member.sync_token is not None
        if waits and not member.is_new:
            return  # its session starts anew with the answer
        self.remove_member(group, member, effects, now)

    def _sync_ended(self, group: ClassicGroup, effects: Effects[Any], now: int) -> None:
        """Members that never asked for their share of the generation are out."""
        if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_syncs:
            return
        for member_id in list(group.pending_syncs):
            self._timers.cancel(group.members[member_id].session_key)
            group.remove(member_id)
        self.prepare(group, effects, now)


def described_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """What the leader is told of everybody."""
    return [
        JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata(group.protocol_name))
        for member in group.members.values()
    ]


def generation_reply(
    group: ClassicGroup, member: ClassicMember, members: list[JoinGroupResponseMember], leader: str | None = None
) -> JoinGroupResponse:
    """The current generation, as an answer to JoinGroup."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type_or_none,
        protocol_name=group.protocol_name,
        leader=leader if leader is not None else group.leader or "",
        member_id=member.member_id,
        members=members,
    )
