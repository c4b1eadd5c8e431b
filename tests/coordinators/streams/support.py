"""Stream threads that talk to a group coordinator."""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.groups.group import Caller
from pykafka_broker.coordinators.record import CoordinatorResult
from pykafka_broker.coordinators.streams.group import StreamsGroup
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.coordinators import machine

CALLER = Caller(0, "client", "/127.0.0.1")
Tasks = dict[str, list[int]]


class Machine(machine.Machine):
    """A group coordinator with one streams group, "g"."""

    def __init__(self, **config: str) -> None:
        super().__init__(**config)
        self.missing: list[CreatableTopic] = []

    def group(self, group_id: str = "g") -> StreamsGroup:
        group = self.coordinator.groups[group_id]
        assert isinstance(group, StreamsGroup)
        return group

    def run(self, effects: CoordinatorResult[Any], producer_id: int = -1) -> Any:
        """Do the same, and assert that the group knows who has which task."""
        reply = super().run(effects, producer_id)
        for group in self.coordinator.groups.values():
            if isinstance(group, StreamsGroup):
                members = group.members.items()
                found = {(task, member_id) for member_id, member in members for task in member.tasks()}
                assert found == {(task, member_id) for task, ids in group._holders.items() for member_id in ids}
        return reply

    def beat(self, member_id: str, epoch: int, owned: Tasks | None = None, **fields: Any) -> Any:
        """Send a heartbeat of one member; `owned` are its active tasks."""
        if owned is not None:
            fields |= {"active_tasks": task_ids(owned), "warmup_tasks": []}
            fields["standby_tasks"] = task_ids(fields.pop("standby", {}))
        request = StreamsGroupHeartbeatRequest("g", member_id, epoch, **fields)
        effects = self.coordinator.streams.heartbeat(request, CALLER, self.now)
        self.missing = effects.missing_topics
        return self.run(effects)

    def join(self, member_id: str, topology: Topology, **fields: Any) -> Any:
        fields.setdefault("process_id", f"process-{member_id}")
        fields.setdefault("rebalance_timeout_ms", 10_000)
        return self.beat(member_id, 0, {}, topology=topology, **fields)


def task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(name, partitions) for name, partitions in tasks.items()]


def told(task_ids_: list[Any] | None) -> Tasks | None:
    """Return the tasks of an answer, None where it has none."""
    return None if task_ids_ is None else {one.subtopology_id: one.partitions for one in task_ids_}


def word_count(epoch: int = 0) -> Topology:
    """Return the topology of a word count: split lines and send them on by word, then count."""
    return Topology(
        epoch,
        [
            Subtopology("0", ["lines"], repartition_sink_topics=["words"]),
            Subtopology(
                "1", repartition_source_topics=[TopicInfo("words")], state_changelog_topics=[TopicInfo("counts")]
            ),
        ],
    )
