"""From the records of streams groups to their state: the topology besides the types that `EpochReplay` knows."""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.groups.epoch_replay import EpochReplay, KeyTypes, Kind
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.streams import stored
from pykafka_broker.coordinators.streams.group import StreamsGroup, StreamsMember
from pykafka_broker.protocol.stored.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from pykafka_broker.protocol.stored.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from pykafka_broker.protocol.stored.streams_group_metadata_key import StreamsGroupMetadataKey
from pykafka_broker.protocol.stored.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from pykafka_broker.protocol.stored.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from pykafka_broker.protocol.stored.streams_group_topology_key import StreamsGroupTopologyKey


def streams_replay(table: GroupTable) -> EpochReplay[StreamsGroup]:
    kind = Kind(
        StreamsGroup,
        lambda group_id: StreamsGroup(group_id, table.topics),
        StreamsMember,
        stored.take_epoch,
        stored.take_member_metadata,
        stored.take_current_assignment,
        stored.read_target,
    )
    keys = KeyTypes(
        StreamsGroupMetadataKey,
        StreamsGroupMemberMetadataKey,
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupCurrentMemberAssignmentKey,
    )
    return EpochReplay(table, kind, keys, {StreamsGroupTopologyKey: _topology})


def _topology(group: StreamsGroup, key: StreamsGroupTopologyKey, value: Any) -> None:
    group.set_topology(value)
