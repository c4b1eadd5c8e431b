"""After every scenario the broker is restarted: what its log says is what it was."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from pykafka_broker.coordinators.groups.classic_group import EMPTY, STABLE, ClassicGroup
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup
from pykafka_broker.coordinators.groups.coordinator import GroupCoordinator
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


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_restart_changes_nothing(name: str, tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, f"{name}-000000", CONFIG)
    stage = Stage(world)
    stage.ready()
    SCENARIOS[name](stage)
    before = world.broker.groups.coordinator
    world.restart()
    after = world.broker.groups.coordinator
    assert offsets(after) == offsets(before)
    for group_id, group in before.groups.items():
        again = after.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            assert isinstance(again, ConsumerGroup)
            assert consumer_state(again) == consumer_state(group)
        elif isinstance(group, ClassicGroup) and settled(group):
            assert isinstance(again, ClassicGroup)
            assert classic_state(again) == classic_state(group)
    assert set(after.groups) == set(before.groups)
