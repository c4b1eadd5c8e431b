"""What a file of MirrorMaker 2 means."""

import pytest

from pykafka_broker.client.errors import Unusable
from pykafka_broker.tools.mirror_settings import Flow, beating, flows


def flow(**values: str) -> Flow:
    return Flow("A", "B", {key.replace("_", "."): text for key, text in values.items()})


def test_the_nearer_setting_of_a_client_wins() -> None:
    values = {
        "sasl.mechanism": "PLAIN",
        "B.bootstrap.servers": "b:1",
        "B.linger.ms": "1",
        "B.producer.linger.ms": "2",
        "A->B.producer.linger.ms": "3",
        "A->B.target.producer.linger.ms": "4",
        "A->B.source.producer.linger.ms": "5",
        "A->B.consumer.linger.ms": "6",
    }
    names = list(values)
    found = []
    for at in range(2, 7):
        one = Flow("A", "B", {name: values[name] for name in names[: at + 1]})
        found.append(one.properties("B", "producer")["linger.ms"])
    assert found == ["1", "2", "3", "4", "4"]
    assert Flow("A", "B", values).client("B")[1]["sasl.mechanism"] == "PLAIN"
    assert Flow("A", "B", values).properties("B", "consumer")["linger.ms"] == "6"


def test_syncs_are_kept_in_the_source_or_in_the_target() -> None:
    assert flow().syncs_topic == "mm2-offset-syncs.B.internal"
    there = Flow("A", "B", {"offset-syncs.topic.location": "target"})
    assert (there.syncs_at_target, there.syncs_topic) == (True, "mm2-offset-syncs.A.internal")
    with pytest.raises(Unusable, match="must be one of: source, target"):
        Flow("A", "B", {"offset-syncs.topic.location": "moon"}).check()


def test_heartbeats_of_others_go_on_whatever_topics_are_wanted() -> None:
    only = Flow("A", "B", {"topics": "orders"})
    assert [name for name in ("orders", "heartbeats", "C.heartbeats", "B.heartbeats", "x") if only.mirrors(name)] == [
        "orders",
        "heartbeats",
        "C.heartbeats",
    ]
    assert not Flow("A", "B", {"heartbeats.replication.enabled": "false"}).mirrors("heartbeats")
    identity = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    assert Flow("A", "B", identity).remote("orders") == "orders"
    assert Flow("A", "B", identity).remote("heartbeats") == "A.heartbeats"


def test_what_is_not_mirrored_back_has_heartbeats_all_the_same() -> None:
    values = {"clusters": "A, B", "A->B.enabled": "true"}
    assert [(each.source, each.target) for each in flows(values, [])] == [("A", "B")]
    assert [(each.source, each.target) for each in beating(values, [])] == [("B", "A")]
    assert beating(values, ["B"]) == []
    assert beating(values | {"B->A.emit.heartbeats.enabled": "false"}, []) == []
