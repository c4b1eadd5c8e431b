"""Configs as records, and the effect of a new min.insync.replicas on the replicas that are eligible to lead."""

from __future__ import annotations

import pytest

from pykafka_broker.cluster.config_changes import ConfigOp, config_records, incremental_alter_configs
from pykafka_broker.cluster.elections import broker_returns
from pykafka_broker.cluster.records import RecordType
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType
from tests.cluster.parts import all_told, cluster_of, partition_in
from tests.cluster.support import Cluster

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


BROKER, GROUP = ConfigResourceType.BROKER, ConfigResourceType.GROUP


def changed(cluster: Cluster, kind: int, name: str, *ops: ConfigOp) -> dict[str, str | None]:
    """Return what the records of the changes say, and apply them."""
    records = incremental_alter_configs(cluster.controller, kind, name, ops)
    cluster.apply(records)
    return {record.message.name: record.message.value for record in records}


def setting(key: str, value: str) -> ConfigOp:
    return ConfigOp(key, AlterConfigOp.SET, value)


def test_a_member_that_is_appended_twice_is_there_once() -> None:
    cluster = Cluster()
    for _ in range(2):
        append = ConfigOp("log.cleanup.policy", AlterConfigOp.APPEND, "compact,compact, compact")
        assert changed(cluster, BROKER, "", append) == {"log.cleanup.policy": "delete,compact"}


def test_a_broker_writes_what_stays_too_and_nobody_else() -> None:
    """The files that a broker's settings name are read again, even if the names stay."""
    cluster = Cluster()
    for kind, name, key in ((BROKER, "1", "log.retention.ms"), (GROUP, "g", "consumer.session.timeout.ms")):
        told = [changed(cluster, kind, name, setting(key, "50000")) for _ in range(2)]
        assert told == [{key: "50000"}, {key: "50000"} if kind == BROKER else {}]


def test_what_is_for_all_brokers_is_checked_behind_the_settings_of_this_one() -> None:
    cluster, key = Cluster(), "log.local.retention.ms"
    cluster.controller.config = cluster.controller.config.with_dynamic({}, {"log.retention.ms": "1000"})
    assert changed(cluster, BROKER, "", setting(key, "1000")) == {key: "1000"}
    with pytest.raises(ApiError, match="Value must not be more than"):
        changed(cluster, BROKER, "", setting(key, "2000"))


def test_records_that_are_kept_for_ever_may_be_near_for_any_time() -> None:
    both = setting("log.retention.ms", "-1"), setting("log.local.retention.ms", "5")
    assert changed(Cluster(), BROKER, "", *both) == {"log.retention.ms": "-1", "log.local.retention.ms": "5"}


def test_a_match_may_end_with_equals_signs() -> None:
    """Kafka takes the pattern apart with String.split, which drops empty parts at the end."""
    match = setting("match", "client_id=b==")
    assert changed(Cluster(), ConfigResourceType.CLIENT_METRICS, "m", match) == {"match": "client_id=b=="}
