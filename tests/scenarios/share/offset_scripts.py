"""Start offsets of share groups: described, altered, deleted; and the state APIs beneath them.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.protocol.messages import (
    delete_share_group_state_request,
    initialize_share_group_state_request,
    read_share_group_state_request,
    read_share_group_state_summary_request,
    write_share_group_state_request,
)
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.runtime import uuid_text
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts
from tests.scenarios.share.actors import ACCEPT, RELEASE, ShareAdmin
from tests.scenarios.share.session_scripts import earliest

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def offsets_are_described(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 2, "one")
    other = s.topic("u")
    admin.offsets()
    admin.offsets({topic: [0, 1, 7], other: [0], "nowhere": [0]})
    admin.offsets({})
    admin.offsets(group=f"{s.group}-nobody")
    admin.offsets(group="")
    admin.produce(topic, *"abc")
    one.fetch(topic)
    admin.offsets({topic: [0]})
    one.ack({(topic, 0): [(1, 1, [ACCEPT])]})
    admin.offsets({topic: [0]})


@scenario
def offsets_are_altered(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 2, "one")
    other = s.topic("u")
    admin.produce(topic, *"abcdef")
    admin.alter({(topic, 0): 2})
    one.beat(-1)
    admin.offsets()
    admin.alter({(topic, 0): 1, (topic, 9): 0, (other, 0): 0, ("nowhere", 0): 0})
    s.wait(200)
    admin.offsets()
    admin.describe_share()
    one.epoch = 0
    one.enter(topic)
    one.fetch(topic)
    one.ack({(topic, 0): [(1, 1, [ACCEPT])]})
    admin.offsets()
    one.fetch(epoch=-1)
    one.beat(-1)
    admin.alter({(topic, 0): 99})
    admin.alter({(topic, 0): -1})
    admin.offsets()
    admin.alter({}, group=f"{s.group}-nobody")
    admin.alter({(topic, 0): 0}, group=f"{s.group}-nobody")
    admin.alter({(topic, 0): 0}, group="")
    admin.list_groups()


@scenario
def offsets_of_negative_partitions_are_altered(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 2, "one")
    other = s.topic("u")
    admin.produce(topic, *"abcdef")
    one.beat(-1)
    admin.alter({(topic, -1): 2})
    admin.alter({(topic, 0): 2, (topic, -1): 2})
    admin.alter({(topic, -1): 2, (other, 0): 0})
    admin.alter({("nowhere", -1): 2})
    s.wait(200)
    admin.offsets()
    admin.alter({(topic, -1): 2}, group=f"{s.group}-nobody")
    admin.list_groups()
    admin.alter({(topic, 1): 0})
    admin.offsets()


@scenario
def offsets_are_deleted(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 2, "one")
    other = s.topic("u")
    admin.delete_share_offsets(topic)
    one.beat(-1)
    admin.delete_share_offsets(topic, other, "nowhere")
    s.wait(200)
    admin.offsets()
    admin.offsets({topic: [0]})
    admin.delete_share_offsets(topic)
    admin.delete_share_offsets(topic, group=f"{s.group}-nobody")
    admin.delete_share_offsets(topic, group="")
    one.epoch = 0
    one.enter(topic)
    admin.offsets()


class StateTalk(ShareAdmin):
    """Requests that a real cluster's brokers send to its share coordinator."""

    def __init__(self, stage: Stage, name: str, topic: str) -> None:
        super().__init__(stage, name)
        self.topic = stage.topic_id(topic)

    def find(self, key: str) -> Any:
        return self.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)

    def initialize(self, epoch: int, start: int, partition: int = 0, topic: bytes | None = None) -> Any:
        m = initialize_share_group_state_request
        data = m.InitializeStateData(topic or self.topic, [m.PartitionData(partition, epoch, start)])
        return self.ask(m.InitializeShareGroupStateRequest(self.group, [data]))

    def read(self, leader_epoch: int, partition: int = 0, topic: bytes | None = None) -> Any:
        m = read_share_group_state_request
        data = m.ReadStateData(topic or self.topic, [m.PartitionData(partition, leader_epoch)])
        return self.ask(m.ReadShareGroupStateRequest(self.group, [data]))

    def summary(self, leader_epoch: int, partition: int = 0, version: int = 1) -> Any:
        m = read_share_group_state_summary_request
        data = m.ReadStateSummaryData(self.topic, [m.PartitionData(partition, leader_epoch)])
        return self.ask(m.ReadShareGroupStateSummaryRequest(self.group, [data]), version)

    def write(
        self,
        epoch: int,
        leader_epoch: int,
        start: int,
        *batches: tuple[int, int, int, int],
        partition: int = 0,
        complete: int = 0,
        version: int = 1,
        topic: bytes | None = None,
    ) -> Any:
        m = write_share_group_state_request
        written = [m.StateBatch(*batch) for batch in batches]
        part = m.PartitionData(partition, epoch, leader_epoch, start, complete, written)
        request = m.WriteShareGroupStateRequest(self.group, [m.WriteStateData(topic or self.topic, [part])])
        return self.ask(request, version)

    def delete(self, partition: int = 0, topic: bytes | None = None) -> Any:
        m = delete_share_group_state_request
        data = m.DeleteStateData(topic or self.topic, [m.PartitionData(partition)])
        return self.ask(m.DeleteShareGroupStateRequest(self.group, [data]))


@scenario
def state_of_a_partition(s: Stage) -> None:
    topic = s.topic("t", 2)
    talk = StateTalk(s, "talk", topic)
    talk.find(f"{s.group}:{uuid_text(talk.topic)}:0")
    s.wait(1000)
    talk.read(0)
    talk.summary(0)
    talk.write(0, 0, 0, (0, 4, 2, 1))
    talk.delete()
    talk.initialize(3, 5)
    talk.initialize(2, 1)
    talk.initialize(3, 6)
    talk.read(0)
    talk.summary(0)
    talk.write(3, 0, 6, (6, 9, 2, 1), (10, 12, 0, 1), complete=4)
    talk.read(0)
    talk.summary(0)
    talk.summary(0, version=0)
    talk.write(3, 2, -1, (8, 10, 0, 2), version=0)
    talk.read(2)
    talk.summary(2)
    talk.write(3, 1, 7)
    talk.write(2, 2, 7)
    talk.write(4, 2, 7)
    talk.read(1)
    talk.read(5)
    talk.summary(1)
    talk.write(3, 4, 8)
    talk.write(3, 5, 10, (10, 12, 4, 1), complete=3)
    talk.read(-1)
    talk.summary(-1)
    talk.write(4, 5, 11, (5, 3, 0, 1))
    talk.initialize(4, -1)
    talk.read(6)
    talk.initialize(5, 0, partition=7)
    talk.read(0, partition=7)
    talk.initialize(5, 0, topic=b"\7" * 16)
    talk.read(0, topic=b"\7" * 16)
    talk.write(0, 0, 0, topic=b"\7" * 16)
    talk.delete(topic=b"\7" * 16)
    talk.initialize(-1, -1, partition=1)
    talk.read(0, partition=1)
    talk.delete()
    talk.delete()
    talk.read(0)
    talk.initialize(0, 0)
    talk.read(0)


@scenario
def state_follows_acknowledgements(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 1, "one")
    talk = StateTalk(s, "talk", topic)
    talk.read(0)
    admin.produce(topic, *"abcdef")
    one.fetch(topic)
    talk.read(0)
    one.ack({(topic, 0): [(1, 1, [ACCEPT]), (3, 4, [RELEASE])]})
    talk.read(0)
    talk.summary(-1)
    one.ack({(topic, 0): [(0, 0, [ACCEPT])]})
    talk.read(0)
    one.fetch()
    talk.read(0)
    s.wait(2500)
    talk.read(0)
    talk.summary(-1)
    one.fetch()
    one.fetch(epoch=-1)
    talk.read(0)


@scenario
def topic_is_made_anew(s: Stage) -> None:
    topic, admin, (one,) = earliest(s, 1, "one")
    admin.produce(topic, *"abc")
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 1, [ACCEPT])]})
    admin.offsets({topic: [0]})
    admin.delete_topic(topic)
    s.wait(500)
    admin.offsets({topic: [0]})
    admin.offsets()
    s.topic("t")
    admin.produce(topic, *"xy")
    one.resubscribe(topic)
    one.fetch(topic, epoch=0)
    admin.offsets({topic: [0]})
