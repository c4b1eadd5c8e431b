"""From the records of consumer groups to their state: patterns besides the types that `EpochReplay` knows."""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.groups import consumer_stored
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup, ConsumerMember, ResolvedRegex
from pykafka_broker.coordinators.groups.epoch_replay import EpochReplay, KeyTypes, Kind, no_more
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.protocol.stored.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from pykafka_broker.protocol.stored.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from pykafka_broker.protocol.stored.consumer_group_metadata_key import ConsumerGroupMetadataKey
from pykafka_broker.protocol.stored.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from pykafka_broker.protocol.stored.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from pykafka_broker.protocol.stored.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from pykafka_broker.protocol.stored.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)

KIND = Kind(
    ConsumerGroup,
    ConsumerGroup,
    ConsumerMember,
    no_more,
    consumer_stored.take_member_metadata,
    consumer_stored.take_current_assignment,
    consumer_stored.read_target,
)
KEYS = KeyTypes(
    ConsumerGroupMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
)


def consumer_replay(table: GroupTable) -> EpochReplay[ConsumerGroup]:
    return EpochReplay(
        table,
        KIND,
        KEYS,
        {ConsumerGroupPartitionMetadataKey: _partition_metadata, ConsumerGroupRegularExpressionKey: _regex},
    )


def _partition_metadata(group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
    group.has_partition_metadata = value is not None


def _regex(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: Any) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
