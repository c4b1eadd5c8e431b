"""What a heartbeat makes of a member of a streams group.

Rule: the order of the records is Kafka's: member, topology, group epoch, targets, current assignment.
Only how the topology fits the topics, which can be worked out again at any time, is kept in the group at once.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups.epoch_group import EpochChange
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.streams import stored
from pykafka_broker.coordinators.streams.assignor import MemberSpec, assign
from pykafka_broker.coordinators.streams.checks import check_tasks
from pykafka_broker.coordinators.streams.configured import ASSIGNMENT_DELAYED, ConfiguredTopology, configure
from pykafka_broker.coordinators.streams.group import NO_TOPOLOGY, StreamsGroup, StreamsMember
from pykafka_broker.coordinators.streams.reconciliation import reconcile
from pykafka_broker.coordinators.streams.tasks import NOTHING, Target, told
from pykafka_broker.coordinators.streams.topology import as_stored, is_other, required_topics
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import Status
from pykafka_broker.protocol.stored.streams_group_topology_value import StreamsGroupTopologyValue

STANDBYS = "num.standby.replicas"


def assignment_configs(table: GroupTable, group_id: str) -> dict[str, str]:
    """What the assignor is told, in the form that is stored with each epoch."""
    return {STANDBYS: str(table.group_settings(group_id).streams_num_standby_replicas)}


def next_targets(
    group: StreamsGroup,
    members: list[StreamsMember],
    configured: ConfiguredTopology,
    configs: dict[str, str],
    epoch: int,
    now: int,
    records: list[CoordinatorRecord],
) -> dict[str, Target]:
    """Compute the targets of these members for a group epoch; records for what changes are added. While the topology
    does not fit, nobody has a task."""
    specs = {member.member_id: MemberSpec(member.process_id, group.target_of(member.member_id)) for member in members}
    task_counts = configured.task_counts if configured.is_ready else {}
    targets = assign(specs, task_counts, configured.stateful, int(configs.get(STANDBYS, "0")))
    for member_id, target in targets.items():
        if target != group.targets.get(member_id):
            records.append(stored.target(group.group_id, member_id, target))
    records.append(stored.target_metadata(group.group_id, epoch, now))
    return targets


class MemberChange(EpochChange[StreamsGroup, StreamsMember]):
    """From what a member was to what a heartbeat makes of it."""

    def __init__(
        self, table: GroupTable, group: StreamsGroup, before: StreamsMember, effects: Effects[Any], now: int
    ) -> None:
        super().__init__(table, group, before, effects, now)
        self.statuses: list[Status] = []
        self._bump = False

    def take_over(self, request: StreamsGroupHeartbeatRequest) -> None:
        """Write down the member, and the topology if it is the group's first."""
        if self.member.metadata() != self.before.metadata() or self.member.member_id not in self._group.members:
            self.records.append(stored.member_metadata(self._group.group_id, self.member))
            self._bump = True
        self.topology = self._take_topology(request)
        self.configured = self._configure()
        if self.configured.is_ready:
            check_tasks(self.configured.task_counts, request.active_tasks, request.standby_tasks, request.warmup_tasks)

    def _take_topology(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupTopologyValue:
        known = self._group.topology
        new = None if request.topology is None else as_stored(request.topology)
        if known is None:
            if new is None:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            self.records.append(stored.topology(self._group.group_id, new))
            return new
        if new is not None and is_other(known, new):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    # The topics

    def _configure(self) -> ConfiguredTopology:
        """How the topology fits the topics that there are now."""
        group = self._group
        self.metadata_hash = group.metadata_hash
        configured = group.configured
        if (
            configured is not None
            and not group.metadata_stale
            and configured.metadata_hash == group.metadata_hash  # or else the epoch that told of it was never written
        ):
            return configured
        topics = self._table.topics
        self.metadata_hash = self._table.hashes.of_group(self._required())
        self._bump |= self.metadata_hash != group.metadata_hash
        if configured is None or configured.metadata_hash != self.metadata_hash:
            configured = group.configured = configure(self.topology, topics, self.metadata_hash)
        group.metadata_stale = False
        return configured

    def _required(self) -> Set[str]:
        if self.topology is self._group.topology:
            return self._group.required()
        return required_topics(self.topology)

    def bump(self, configs: dict[str, str]) -> None:
        """Start a new group epoch if members, topics or settings have changed."""
        group = self._group
        validated = self.topology.epoch if self.configured.is_ready else NO_TOPOLOGY
        if self._bump or validated != group.validated_topology_epoch or configs != group.assignment_configs:
            self.group_epoch += 1
            group.shown = self.configured
            self.records.append(
                stored.group_epoch(group.group_id, self.group_epoch, self.metadata_hash, validated, configs)
            )

    # Target and assignment

    def retarget(self, configs: dict[str, str], is_delayed: bool) -> tuple[int, Target]:
        """The member's target and its epoch; a new one for all if the group epoch is ahead and nothing delays it."""
        group, member_id = self._group, self.member.member_id
        if is_delayed:
            self._note_delay("initial rebalance delay")
            return group.assignment_epoch, NOTHING
        if self.group_epoch <= group.assignment_epoch:
            return group.assignment_epoch, group.target_of(member_id)
        interval_ms = self._table.group_settings(group.group_id).streams_assignment_interval_ms
        if not group.may_retarget(interval_ms, self._now):
            self._note_delay("assignment interval")
            return group.assignment_epoch, group.target_of(member_id)
        members = group.with_change(self.member)
        targets = next_targets(group, members, self.configured, configs, self.group_epoch, self._now, self.records)
        return self.group_epoch, targets[member_id]

    def _note_delay(self, what: str) -> None:
        self.statuses.append(Status(ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {what}."))

    def reconcile(self, epoch: int, target: Target, request: StreamsGroupHeartbeatRequest) -> None:
        """Move the member on, and write down where it is now."""
        member = self.member
        if member.is_reconciled_to(epoch):
            return
        has = None
        if request.active_tasks is not None:
            has = Target(told(request.active_tasks), told(request.standby_tasks), told(request.warmup_tasks))
        before = member.current()
        reconcile(self._group, member, epoch, target, has)
        if member.current() != before:
            self.records.append(stored.current_assignment(self._group.group_id, member))
