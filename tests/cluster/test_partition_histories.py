"""Histories of one partition, by chance: brokers come, go, crash and lose what they had not synced, leaders change the
ISR, operators reassign and change their minds. Whoever is elected cleanly has every committed record.

A model keeps each broker's log. A record is committed once all in sync have it while they are enough; that is the
promise that `acks=all` makes, and what ELR is for (KIP-966).
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from pykafka_broker.cluster.config_changes import config_records
from pykafka_broker.cluster.elections import broker_leaves, broker_returns, elect_leaders, unclean_shutdown
from pykafka_broker.cluster.feature_updates import update_features
from pykafka_broker.cluster.features import ELR_VERSION
from pykafka_broker.cluster.image import NO_LEADER, PartitionImage
from pykafka_broker.cluster.partition_change import RECOVERING, topic_config
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.replication_control import alter_partition, alter_partition_reassignments, is_reassigning
from pykafka_broker.protocol.enums import ConfigResourceType, UpgradeType
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.cluster.parts import cluster_of, partition_in

BROKERS = (1, 2, 3, 4, 5)
MIN_INSYNC = "min.insync.replicas"


class History:
    """A random history. `logs`: each broker's records. `committed`: the records that must not be lost."""

    def __init__(self, seed: int, *, elr: bool) -> None:
        self.chance = random.Random(seed)
        self.cluster = cluster_of(len(BROKERS), elr=elr, min_insync_replicas="2")
        self.topic, _ = partition_in(self.cluster, tuple(self.chance.sample(BROKERS, 3)))
        self.logs: dict[int, list[int]] = {broker: [] for broker in BROKERS}
        self.committed: list[int] = []
        self.next_record = 0
        self.story: list[str] = []

    @property
    def partition(self) -> PartitionImage:
        return self.topic.partitions[0]

    @property
    def has_elr(self) -> bool:
        return self.cluster.image.features.get(ELR_VERSION, 0) > 0

    def fenced(self, broker: int) -> bool:
        return self.cluster.image.brokers[broker].fenced

    # -- what the controller decides

    def decide(self, records: Iterable[ApiMessageAndVersion]) -> None:
        for record in records:
            before = self.partition
            self.cluster.apply([record])
            after = self.partition
            if after.leader not in (NO_LEADER, before.leader):
                if after.leader_recovery_state == RECOVERING:
                    self.committed = common(self.committed, self.logs[after.leader])
                assert self.committed == self.logs[after.leader][: len(self.committed)], "a committed record is lost"
        self.check()

    def check(self) -> None:
        partition, replicas = self.partition, set(self.partition.replicas)
        assert len(replicas) == len(partition.replicas) == len(partition.directories)
        assert set(partition.isr) <= replicas
        assert set(partition.elr) <= replicas - set(partition.isr) or not self.has_elr
        assert set(partition.adding_replicas) | set(partition.removing_replicas) <= replicas
        assert replicas - set(partition.removing_replicas)
        assert partition.leader == NO_LEADER or partition.leader in partition.isr
        assert partition.isr or self.has_elr

    # -- what happens

    def append(self) -> None:
        if self.partition.leader != NO_LEADER:
            self.next_record += 1
            self.logs[self.partition.leader].append(self.next_record)

    def replicate(self) -> None:
        """Let a follower take over its leader's records, perhaps not all of them."""
        leader = self.partition.leader
        followers = [each for each in self.partition.replicas if each != leader and not self.fenced(each)]
        if leader == NO_LEADER or not followers:
            return
        follower = self.chance.choice(followers)
        kept = len(common(self.logs[follower], self.logs[leader]))
        end = max(kept, len(self.logs[leader]) - self.chance.choice((0, 0, 0, 1)))
        self.logs[follower] = self.logs[leader][:end]
        self.advance()

    def advance(self) -> None:
        isr, leader = self.partition.isr, self.partition.leader
        enough = min(topic_config(self.cluster.controller, "t").min_insync_replicas, len(self.partition.replicas))
        if leader != NO_LEADER and len(isr) >= enough:
            everybody = self.logs[leader]
            for broker in isr:
                everybody = common(everybody, self.logs[broker])
            if len(everybody) > len(self.committed):
                self.committed = list(everybody)

    def alter(self) -> None:
        """Let the leader drop a broker from the ISR, or add one that has all committed records."""
        leader = self.partition.leader
        if leader == NO_LEADER:
            return
        wanted = [leader]
        for broker in self.partition.replicas:
            has_all = self.committed == self.logs[broker][: len(self.committed)]
            if broker != leader and has_all and not self.fenced(broker) and self.chance.random() < 0.8:
                wanted.append(broker)
        brokers = self.cluster.image.brokers
        members = [BrokerState(broker, brokers[broker].epoch) for broker in wanted]
        data = PartitionData(0, self.partition.leader_epoch, [], members, 0, self.partition.partition_epoch)
        topics = [TopicData(topic_id=self.topic.id, partitions=[data])]
        request = AlterPartitionRequest(leader, brokers[leader].epoch, topics)
        self.decide(alter_partition(self.cluster.controller, request).records)
        self.advance()

    def fence(self) -> None:
        self.leave(self.chance.choice(BROKERS))

    def leave(self, broker: int) -> None:
        if not self.fenced(broker):
            self.decide(broker_leaves(self.cluster.controller, broker))
            self.cluster.image.brokers[broker].fenced = True

    def unfence(self) -> None:
        self.come_back(self.chance.choice(BROKERS))

    def come_back(self, broker: int) -> None:
        if self.fenced(broker):
            records = list(broker_returns(self.cluster.controller, broker))
            self.cluster.image.brokers[broker].fenced = False
            self.decide(records)

    def crash(self) -> None:
        """Crash a broker. With ELRs, which let the controller allow for it, up to three records of its log are lost."""
        broker = self.chance.choice(BROKERS)
        self.leave(broker)
        if self.has_elr:
            log = self.logs[broker]
            self.logs[broker] = log[: self.chance.randint(max(0, len(log) - 3), len(log))]
        self.decide(unclean_shutdown(self.cluster.controller, broker))

    def reassign(self) -> None:
        self.ask_for(self.chance.sample(BROKERS, self.chance.randint(1, 3)))

    def call_off(self) -> None:
        self.ask_for(None)

    def ask_for(self, target: list[int] | None) -> None:
        topic = ReassignableTopic("t", [ReassignablePartition(0, target)])
        request = AlterPartitionReassignmentsRequest(topics=[topic])
        self.decide(alter_partition_reassignments(self.cluster.controller, request).records)

    def elect_preferred(self) -> None:
        request = ElectLeadersRequest(0, None)
        self.decide(elect_leaders(self.cluster.controller, request).records)

    def change_minimum(self) -> None:
        values = {MIN_INSYNC: self.chance.choice(("1", "2", "3"))}
        self.decide(config_records(self.cluster.image, ConfigResourceType.TOPIC, "t", values))
        self.advance()

    def switch_elr(self) -> None:
        level, kind = (0, UpgradeType.SAFE_DOWNGRADE) if self.has_elr else (1, UpgradeType.UPGRADE)
        if level == 0 and not self.partition.isr:
            return  # nobody could ever lead it again, with Kafka as well
        request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(ELR_VERSION, level, upgrade_type=kind)])
        self.decide(update_features(self.cluster.controller, request, 2).records)

    # -- the end

    def heal(self) -> None:
        for broker in BROKERS:
            self.come_back(broker)
        for _ in range(10):
            leader = self.partition.leader
            assert leader != NO_LEADER, "everybody is back, and nobody leads"
            for broker in self.partition.replicas:
                self.logs[broker] = list(self.logs[leader])
            self.chance = Willing()
            self.alter()
        assert not is_reassigning(self.partition)
        assert set(self.partition.isr) == set(self.partition.replicas)
        assert self.partition.elr == () or not self.has_elr


class Willing(random.Random):
    """A source of chance that takes every chance."""

    def random(self) -> float:
        return 0.0


def common(one: list[int], other: list[int]) -> list[int]:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return one[:same]


OFTEN = ("append", "replicate", "replicate", "alter")
EVENTS = (
    *OFTEN * 3,
    "fence",
    "fence",
    "unfence",
    "unfence",
    "unfence",
    "crash",
    "reassign",
    "call_off",
    "elect_preferred",
)


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("first_seed", range(0, 400, 100))
def test_who_is_elected_has_what_is_committed(first_seed: int, elr: bool) -> None:
    for seed in range(first_seed, first_seed + 100):
        history = History(seed, elr=elr)
        events = EVENTS + (("change_minimum", "switch_elr") if elr else ("change_minimum",))
        try:
            for _ in range(80):
                event = history.chance.choice(events)
                history.story.append(event)
                getattr(history, event)()
            history.heal()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error} after {history.story[-12:]}") from error
