"""The settings of a flow: what is mirrored, under which names, and with which clients."""

from __future__ import annotations

import pytest

from pykafka_broker.client.errors import Unusable
from pykafka_broker.tools.mirror_flow import Flow, beating, flows
from tests.tools.mirrored_names import GROUPS, POLICIES, TOPICS, Policy, copies


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
    # Kafka docs: "If set to false, heartbeats topics will only be replicated if the topic filter allows."
    assert not Flow("A", "B", {"heartbeats.replication.enabled": "false", "topics": "orders"}).mirrors("heartbeats")
    assert Flow("A", "B", {"heartbeats.replication.enabled": "false"}).mirrors("heartbeats")
    identity = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    assert Flow("A", "B", identity).remote("orders") == "orders"
    assert Flow("A", "B", identity).remote("heartbeats") == "A.heartbeats"


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_what_goes_over_goes_over_with_mirror_maker(policy: Policy) -> None:
    lines = (line.partition(" = ") for line in policy.settings.splitlines())
    there = Flow("from", "to", {name: value for name, _, value in lines})
    assert {there.remote(each) for each in TOPICS if there.mirrors(each)} == copies(policy)
    assert [each for each in GROUPS if not there.wants_group(each)] == policy.groups.split()


@pytest.mark.parametrize("separator", [".", "-"])
def test_internal_topics_are_never_mirrored(separator: str) -> None:
    every = Flow("B", "C", {"topics": ".*", "topics.exclude": "", "replication.policy.separator": separator})
    internal = [
        each.replace(":", separator)
        for each in ("mm2-offsets:B:internal", "mm2-offset-syncs:C:internal", "A:checkpoints:internal")
    ]
    assert every.checkpoints_topic == f"B{separator}checkpoints{separator}internal"
    names = [
        *internal,
        every.checkpoints_topic,
        "__consumer_offsets",
        ".hidden",
        "internal",
        "mm2",
        "A:x".replace(":", separator),
    ]
    assert [name for name in names if every.mirrors(name)] == ["internal", "mm2", f"A{separator}x"]


def test_a_name_that_ends_with_the_separator_has_no_source() -> None:
    every = Flow("A", "B", {})
    found = [name for name in ("B.", "B..", "C.B.", "B.x", "C.B.x", "B..x", "B") if every.mirrors(name)]
    assert found == ["B.", "B..", "C.B.", "B"]


def test_the_separator_of_internal_topics_may_stay_the_default() -> None:
    separate = {"replication.policy.internal.topic.separator.enabled": "false"}
    dotted = Flow("A", "B", {"replication.policy.separator": "-"} | separate)
    assert (dotted.syncs_topic, dotted.checkpoints_topic) == ("mm2-offset-syncs.B.internal", "A.checkpoints.internal")


def test_what_is_not_mirrored_back_has_heartbeats_all_the_same() -> None:
    values = {"clusters": "A, B", "A->B.enabled": "true"}
    assert [(each.source, each.target) for each in flows(values, [])] == [("A", "B")]
    assert [(each.source, each.target) for each in beating(values, [])] == [("B", "A")]
    assert beating(values, ["B"]) == []
    assert beating(values | {"B->A.emit.heartbeats.enabled": "false"}, []) == []


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(Unusable, match=r"for configuration replication\.policy\.separator"):
        flow(replication_policy_separator=" ").check()
