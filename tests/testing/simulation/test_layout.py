"""Settings of the nodes of a simulated cluster."""

from __future__ import annotations

import pytest

from pykafka_broker.testing.simulation.layout import CONTROLLER_ID, SimulatedLayout


def layout(
    brokers: int, config: dict[str, str] | None = None, racks: list[str] | None = None, emulate: str | None = None
) -> SimulatedLayout:
    return SimulatedLayout(brokers, config or {}, racks, emulate, None)


def test_a_broker_alone_is_its_own_controller() -> None:
    alone = layout(1)
    assert alone.nodes == [alone.controller] == [1]
    assert "process.roles" not in alone.settings(1)


def test_several_brokers_have_a_controller_of_their_own() -> None:
    three = layout(3, racks=["a", "b", "c"])
    assert three.nodes == [1, 2, 3, CONTROLLER_ID]
    roles = [three.settings(id)["process.roles"] for id in three.nodes]
    assert roles == ["broker", "broker", "broker", "controller"]
    assert [three.settings(id)["broker.rack"] for id in three.brokers] == ["a", "b", "c"]
    assert "broker.rack" not in three.settings(CONTROLLER_ID)


def test_internal_topics_have_as_many_replicas_as_there_are_brokers_up_to_three() -> None:
    name = "offsets.topic.replication.factor"
    assert [layout(brokers).settings(1)[name] for brokers in (2, 3, 5)] == ["2", "3", "3"]


def test_a_setting_of_the_user_comes_last() -> None:
    assert layout(3, {"min.insync.replicas": "2"}).settings(1)["min.insync.replicas"] == "2"


def test_brokers_that_pass_for_another_release_reach_each_other_as_what_they_are() -> None:
    assert layout(2, emulate="3.9").has_inner_listeners
    assert not layout(2).has_inner_listeners


@pytest.mark.parametrize(
    ("brokers", "racks", "wrong"), [(0, None, "at least one broker"), (2, ["a"], "1 racks for 2 brokers")]
)
def test_what_no_cluster_can_be_is_refused(brokers: int, racks: list[str] | None, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        layout(brokers, racks=racks)
