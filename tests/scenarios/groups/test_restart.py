"""After every scenario the broker is restarted: what its log says is what it was, also after a compaction."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from pykafka_broker.broker.coordinators.coordinator_log import read_batches
from pykafka_broker.coordinators.groups.classic_group import EMPTY, STABLE, ClassicGroup
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup
from pykafka_broker.coordinators.groups.coordinator import GroupCoordinator
from pykafka_broker.coordinators.record import decode
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS
from pykafka_broker.records.record import BatchRecord, iter_records
from tests.scenarios.groups.local import LocalWorld
from tests.scenarios.groups.scripts import SCENARIOS
from tests.scenarios.groups.settings import CONFIG
from tests.scenarios.groups.stage import Stage


def offsets(coordinator: GroupCoordinator) -> dict[str, list[tuple[Any, ...]]]:
    return {
        group_id: sorted(
            (topic, partition, one.offset, one.leader_epoch, one.metadata, one.commit_timestamp, one.log_offset)
            for topic, partition, one in coordinator.offsets.partitions(group_id)
        )
        for group_id in coordinator.offsets.groups
    }


def consumer_state(group: ConsumerGroup) -> tuple[Any, ...]:
    members = {
        member_id: (member.metadata(), member.current(), group.targets.get(member_id))
        for member_id, member in group.members.items()
    }
    epochs = (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp)
    return epochs, members, group.static_members, group.partition_epochs, set(group.regexes)


def classic_state(group: ClassicGroup) -> tuple[Any, ...]:
    members = {
        member.member_id: (member.instance_id, member.metadata(group.protocol_name), member.assignment)
        for member in group.members.values()
    }
    return group.state, group.generation, group.protocol_type, group.protocol_name, group.leader, members


def settled(group: ClassicGroup) -> bool:
    """Return whether the log holds the group's whole state: a rebalance or a pending member id is not written."""
    return group.state in (STABLE, EMPTY) and not (group.state is EMPTY and group.generation == 0)


def assert_same(after: GroupCoordinator, before: GroupCoordinator) -> None:
    """Check that all that the log holds of `before` is there again."""
    assert offsets(after) == offsets(before)
    for group_id, group in before.groups.items():
        again = after.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            assert isinstance(again, ConsumerGroup)
            assert consumer_state(again) == consumer_state(group)
        elif isinstance(group, ClassicGroup) and settled(group):
            assert isinstance(again, ClassicGroup)
            assert classic_state(again) == classic_state(group)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_restart_changes_nothing(name: str, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, f"{name}-000000", CONFIG)
    stage = Stage(world)
    stage.ready()
    SCENARIOS[name](stage)
    before = world.broker.groups.coordinator
    compacted = load_compacted(world)
    world.restart()
    after = world.broker.groups.coordinator
    assert_same(after, before)
    assert set(after.groups) == set(before.groups)
    assert_same(compacted, before)


def load_compacted(world: LocalWorld) -> GroupCoordinator:
    """Load the newest record of each key, in the order of the log and without tombstones, as compaction leaves them."""
    groups = world.broker.groups
    table = groups.coordinator.table
    loaded = GroupCoordinator(table.config, table.topics, str)
    for index in range(groups.shards.count):
        newest: dict[bytes | None, BatchRecord] = {}
        for header, batch in read_batches(groups.shards.partition(index).log):
            if not header.is_control:
                newest |= {record.key: record for record in iter_records(batch, header)}
        for record in sorted(newest.values(), key=lambda record: record.offset):
            decoded = decode(record.key or b"", record.value, GROUP_RECORDS)
            if decoded is not None and decoded.value is not None:
                loaded.replay(decoded, world.now, record.offset)
    return loaded
