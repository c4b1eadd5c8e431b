"""Configs as records, and the effect of a new min.insync.replicas on the replicas that are eligible to lead."""

from __future__ import annotations

from pykafka_broker.cluster.config_changes import config_records
from pykafka_broker.cluster.elections import broker_returns
from pykafka_broker.cluster.records import RecordType
from pykafka_broker.protocol.enums import ConfigResourceType
from tests.cluster.parts import all_told, cluster_of, partition_in

KEY = "min.insync.replicas"


def kinds(records: list[object]) -> list[int]:
    return [record.message.API_KEY for record in records]  # type: ignore[attr-defined]


def test_with_another_minimum_nobody_is_eligible_any_more() -> None:
    cluster = cluster_of(min_insync_replicas="2")
    topic, _ = partition_in(cluster, isr=(1,), elr=(2,))
    other, _ = partition_in(cluster, isr=(1,), elr=(2,), name="other")
    records = config_records(cluster.image, ConfigResourceType.TOPIC, "t", {KEY: "1", "retention.ms": "5"})
    assert kinds([*records]) == [RecordType.CONFIG, RecordType.CLEAR_ELR, RecordType.CONFIG]
    delta = cluster.apply(records)
    assert (topic.partitions[0].elr, topic.partitions[0].partition_epoch) == ((), 8)
    assert (other.partitions[0].elr, other.partitions[0].partition_epoch) == ((2,), 7)
    assert delta.changed_partitions == [(topic, topic.partitions[0])]
    cluster.apply(config_records(cluster.image, ConfigResourceType.BROKER, "", {KEY: "1"}))
    assert (other.partitions[0].elr, topic.partitions[0].partition_epoch) == ((), 8)


def test_nothing_is_said_of_it_where_the_minimum_stays_or_nobody_can_be() -> None:
    cluster = cluster_of(min_insync_replicas="2")
    cluster.image.configs[ConfigResourceType.BROKER, ""] = {KEY: "2"}
    assert kinds([*config_records(cluster.image, ConfigResourceType.BROKER, "", {KEY: "2"})]) == [RecordType.CONFIG]
    assert kinds([*config_records(cluster.image, ConfigResourceType.BROKER, "1", {"log.dirs": "x"})]) == [
        RecordType.CONFIG
    ]
    without = cluster_of(elr=False)
    assert kinds([*config_records(without.image, ConfigResourceType.TOPIC, "t", {KEY: "1"})]) == [RecordType.CONFIG]


def test_a_partition_that_waits_for_a_leader_can_still_get_one() -> None:
    cluster = cluster_of(min_insync_replicas="2")
    topic, _ = partition_in(cluster, (1, 2), isr=(), elr=(1, 2), last_known=(1,))
    other, _ = partition_in(cluster, isr=(1,), elr=(2,), name="other")
    cluster.apply(config_records(cluster.image, ConfigResourceType.TOPIC, "t", {KEY: "1"}))
    cluster.apply(config_records(cluster.image, ConfigResourceType.BROKER, "", {KEY: "1"}))
    assert (topic.partitions[0].elr, topic.partitions[0].last_known_elr) == ((1, 2), (1,))
    assert other.partitions[0].elr == ()
    cluster.image.brokers[1].fenced = True
    assert all_told(broker_returns(cluster.controller, 2)) == [{"isr": [2], "elr": [], "last_known": [], "leader": 2}]
