"""Members of streams groups (KIP-1071), and the topologies that they bring.

Rule: as in `actors`, a verb sends exactly one request. A topology is told as lists of topics; names of internal topics
start with the scenario's, so that they meet no other's.
"""

from __future__ import annotations

import re
from typing import Any

from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from tests.scenarios.groups.actors import SESSION_MS, Actor
from tests.scenarios.groups.stage import Stage

TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32
TOPIC_CONFIG_SOURCE = 1  # set on the topic itself
TOPICS = re.compile(r"(?<=missing: ).*")
Tasks = dict[str, list[int]]


def one_step(*topics: str, changelogs: list[TopicInfo] | None = None, epoch: int = 0) -> Topology:
    """Return a topology of one subtopology."""
    return Topology(epoch, [Subtopology("0", list(topics), state_changelog_topics=changelogs or [])])


def two_steps(topic: str, repartition: TopicInfo, changelog: TopicInfo, epoch: int = 0) -> Topology:
    """Return the topology of a word count: one subtopology splits lines into words, the next one counts them."""
    return Topology(
        epoch,
        [
            Subtopology("0", [topic], repartition_sink_topics=[repartition.name]),
            Subtopology("1", repartition_source_topics=[repartition], state_changelog_topics=[changelog]),
        ],
    )


def joined(*topics: str, repartition: list[TopicInfo] | None = None, epoch: int = 0) -> Topology:
    """Return a topology of one subtopology whose topics must all have the same number of partitions."""
    inner = repartition or []
    group = CopartitionGroup(list(range(len(topics))), [], list(range(len(inner))))
    return Topology(
        epoch, [Subtopology("0", list(topics), repartition_source_topics=inner, copartition_groups=[group])]
    )


class StreamsMember(Actor):
    """A member of a streams group, which for the broker is one stream thread."""

    def __init__(self, stage: Stage, name: str, topology: Topology, process: str = "") -> None:
        super().__init__(stage, name)
        self.member_id = name
        self.topology = topology
        self.process = process or f"process-of-{name}"
        self.epoch = 0
        self.endpoint_epoch = -1

    def beat(
        self, epoch: int | None = None, owned: Tasks | None = None, standby: Tasks | None = None, **fields: Any
    ) -> Any:
        """Send a heartbeat. owned: the active tasks by subtopology; with them it names the standby tasks too."""
        if owned is not None:
            fields.setdefault("active_tasks", _tasks(owned))
            fields.setdefault("standby_tasks", _tasks(standby or {}))
            fields.setdefault("warmup_tasks", [])
        fields.setdefault("member_id", self.member_id)
        fields.setdefault("endpoint_information_epoch", self.endpoint_epoch)
        request = StreamsGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.group),
            member_epoch=self.epoch if epoch is None else epoch,
            **fields,
        )
        answer = self.ask(request, 0)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.endpoint_epoch = answer.endpoint_information_epoch
        return answer

    def receive(self) -> Any:
        """Return the next answer, and note it with the fields that are not null: in this answer null and empty differ.

        Topics in a status text are sorted: Kafka names them in the order of its hash tables.
        """
        answer = self.wire.receive()
        asked = self._asked.pop(0)
        if isinstance(answer, StreamsGroupHeartbeatResponse):
            for status in answer.status or []:
                status.status_detail = TOPICS.sub(_in_order, status.status_detail)
            given = ("status", "active_tasks", "standby_tasks", "warmup_tasks", "partitions_by_user_endpoint")
            asked += f" [{' '.join(name for name in given if getattr(answer, name) is not None)}]"
        self.stage.note(self.name, asked, answer)
        return answer

    def join(self, **fields: Any) -> Any:
        fields.setdefault("rebalance_timeout_ms", SESSION_MS)
        fields.setdefault("topology", self.topology)
        fields.setdefault("process_id", self.process)
        fields.setdefault("client_tags", [])
        if "active_tasks" in fields:
            return self.beat(0, **fields)
        return self.beat(0, owned={}, **fields)

    def settle(self) -> None:
        """Wait until internal topics are created."""
        self.stage.world.settle()

    def describe_streams(self, *groups: str, operations: bool = False) -> Any:
        return self.ask(StreamsGroupDescribeRequest(list(groups) or [self.group], operations), 0)

    def show_topic(self, suffix: str) -> None:
        """Record a topic's number of partitions and its own configs."""
        name = f"{self.stage.world.name}-{suffix}"
        self.stage.topic_id(name)
        self.wire.send(MetadataRequest([MetadataRequestTopic(name=name)], False), 12)
        partitions = len(self.wire.receive().topics[0].partitions)
        resource = DescribeConfigsResource(TOPIC_RESOURCE, name, None)
        self.wire.send(DescribeConfigsRequest([resource]), 4)
        configs = [
            f"{one.name}={one.value}"
            for one in self.wire.receive().results[0].configs
            if one.config_source == TOPIC_CONFIG_SOURCE
        ]
        self.stage.lines.append(f"{suffix}: {partitions} partitions, {sorted(configs)}")


def endpoint(port: int) -> Endpoint:
    return Endpoint("somewhere", port)


def tags(**tags_: str) -> list[KeyValue]:
    return [KeyValue(key, value) for key, value in tags_.items()]


def _tasks(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology, partitions) for subtopology, partitions in tasks.items()]


def _in_order(topics: re.Match[str]) -> str:
    return ", ".join(sorted(topics[0].split(", ")))


def inner(s: Stage, suffix: str, partitions: int = 0, **configs: str) -> TopicInfo:
    """Return the description of an internal topic of the scenario."""
    pairs = [KeyValue(name.replace("_", "."), value) for name, value in configs.items()]
    return TopicInfo(f"{s.world.name}-{suffix}", partitions, 0, pairs)
