"""ConsumerGroupHeartbeat (KIP-848), by the kind of group that it meets.

Rule: an empty classic group makes way for a consumer group, one with members is converted if the migration policy
allows it, and a group of any other kind is as good as missing.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups import stored
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup
from pykafka_broker.coordinators.groups.consumer import ConsumerProtocol
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup
from pykafka_broker.coordinators.groups.epoch_group import JOIN_EPOCH
from pykafka_broker.coordinators.groups.group import Caller, Group, GroupTable
from pykafka_broker.coordinators.groups.migration import Migration
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse


class ConsumerRequests:
    """The request of the consumer protocol."""

    def __init__(self, table: GroupTable, consumer: ConsumerProtocol, migration: Migration) -> None:
        self._table = table
        self._consumer = consumer
        self._migration = migration

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: int
    ) -> Effects[ConsumerGroupHeartbeatResponse]:
        """Join with epoch 0, go on, or leave with epoch -1 or -2."""
        effects: Effects[ConsumerGroupHeartbeatResponse] = Effects(key=request.group_id)
        try:
            self._consumer.check(request, caller)
            group = self._table.groups.get(request.group_id)
            if request.member_epoch < JOIN_EPOCH:
                if not isinstance(group, ConsumerGroup):
                    raise self._no_group(request.group_id, "Group")
                self._consumer.leave(group, request, effects, now)
            else:
                joins = request.member_epoch == JOIN_EPOCH
                consumer_group = self._group(request.group_id, group, joins, effects, now)
                self._consumer.heartbeat(consumer_group, request, caller, effects, now)
        except ApiError as error:
            reply = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return Effects(reply, key=request.group_id)
        return effects

    def _group(self, group_id: str, group: Group | None, joins: bool, effects: Effects[Any], now: int) -> ConsumerGroup:
        """The group, or what it will be once somebody has joined."""
        if isinstance(group, ConsumerGroup):
            return group
        if not joins or not (group is None or isinstance(group, ClassicGroup)):
            raise self._no_group(group_id, "Consumer group")
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                return self._migration.upgrade(group, effects, now)
            effects.records.append(stored.group_metadata_tombstone(group_id))
        return ConsumerGroup(group_id)

    def _no_group(self, group_id: str, what: str) -> ApiError:
        if group_id in self._table.groups:
            return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")
