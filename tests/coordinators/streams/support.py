"""A group coordinator with a log and a hand-moved clock, and stream threads that talk to it."""

from __future__ import annotations

from typing import Any

from pykafka_broker.config import BrokerConfig
from pykafka_broker.coordinators.effects import Effects, KeyValue
from pykafka_broker.coordinators.groups.coordinator import GroupCoordinator
from pykafka_broker.coordinators.groups.group import Caller
from pykafka_broker.coordinators.streams.group import StreamsGroup
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

START = 1_000_000
CALLER = Caller(0, "client", "/127.0.0.1")
SETTINGS = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.session.timeout.ms": "45000",
}
Tasks = dict[str, list[int]]


class Topic:
    """A topic of so many partitions."""

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.id = name.encode().ljust(16, b".")
        self.partitions = dict.fromkeys(range(partitions))


class TopicTable:
    """The part of the metadata that groups look at."""

    def __init__(self, **partitions: int) -> None:
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        for name, count in partitions.items():
            self.add(name, count)

    def add(self, name: str, partitions: int) -> None:
        topic = self.topics[name] = Topic(name, partitions)
        self.topics_by_id[topic.id] = topic


class Machine:
    """Appends and replays at once, and keeps the log."""

    def __init__(self, **config: str) -> None:
        settings = SETTINGS | {key.replace("_", "."): value for key, value in config.items()}
        self.config = BrokerConfig(settings)
        self.topics = TopicTable()
        self.group_config: dict[str, str] = {}
        self.now = START
        self.log: list[KeyValue] = []
        self.missing: list[CreatableTopic] = []
        self.coordinator = self._new()

    def _new(self) -> GroupCoordinator:
        return GroupCoordinator(self.config, self.topics, lambda: "id", lambda group_id: self.group_config)

    def group(self, group_id: str = "g") -> StreamsGroup:
        group = self.coordinator.groups[group_id]
        assert isinstance(group, StreamsGroup)
        return group

    def topic(self, name: str, partitions: int) -> None:
        """Create a topic, or let it grow."""
        self.topics.add(name, partitions)
        self.coordinator.on_topics_changed([name], True, len(self.topics.topics))

    def run(self, effects: Effects) -> Any:
        """Append, replay, answer; returns the reply."""
        for key_value in effects.records:
            self.coordinator.replay(*key_value, self.now, len(self.log), -1)
            self.log.append(key_value)
        return effects.reply

    def beat(self, member_id: str, epoch: int, owned: Tasks | None = None, **fields: Any) -> Any:
        """A heartbeat of one member; `owned` are its active tasks."""
        if owned is not None:
            fields |= {"active_tasks": task_ids(owned), "warmup_tasks": []}
            fields["standby_tasks"] = task_ids(fields.pop("standby", {}))
        request = StreamsGroupHeartbeatRequest("g", member_id, epoch, **fields)
        effects = self.coordinator.streams_heartbeat(request, CALLER, self.now)
        self.missing = effects.missing_topics
        return self.run(effects)

    def join(self, member_id: str, topology: Topology, **fields: Any) -> Any:
        fields.setdefault("process_id", f"process-{member_id}")
        fields.setdefault("rebalance_timeout_ms", 10_000)
        return self.beat(member_id, 0, {}, topology=topology, **fields)

    def wait(self, ms: int) -> None:
        """Let the time pass, deadline by deadline."""
        end = self.now + ms
        while (due := self.coordinator.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.run(self.coordinator.on_deadline(self.now))
        self.now = end

    def restart(self) -> None:
        """As after a crash: what is in the log is all that is left."""
        self.coordinator = self._new()
        for offset, key_value in enumerate(self.log):
            self.coordinator.replay(*key_value, self.now, offset, -1)
        for effects in self.coordinator.on_loaded(list(self.coordinator.groups), self.now):
            self.run(effects)


def task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(name, partitions) for name, partitions in tasks.items()]


def told(task_ids_: list[Any] | None) -> Tasks | None:
    """Tasks of an answer, None where it has none."""
    return None if task_ids_ is None else {one.subtopology_id: one.partitions for one in task_ids_}


def word_count(epoch: int = 0) -> Topology:
    """Split and send on by word, then count."""
    return Topology(
        epoch,
        [
            Subtopology("0", ["lines"], repartition_sink_topics=["words"]),
            Subtopology(
                "1", repartition_source_topics=[TopicInfo("words")], state_changelog_topics=[TopicInfo("counts")]
            ),
        ],
    )
