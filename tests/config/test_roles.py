"""Roles of a node, by Kafka's own config keys."""

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.roles import Roles, roles_of
from pykafka_broker.peers import Address


def roles(**settings: str) -> Roles:
    return roles_of(BrokerConfig({name.replace("_", "."): value for name, value in settings.items()}))


def test_a_node_without_a_file_is_alone() -> None:
    assert roles() == Roles(True, True, True, {}, ())


def test_a_node_whose_controller_nobody_can_dial_is_alone() -> None:
    found = roles(process_roles="broker,controller", controller_listener_names="C", listeners="PLAINTEXT://:9092")
    assert found.alone
    assert not found.observes


def test_one_that_binds_a_controller_listener_is_there_for_others() -> None:
    found = roles(
        process_roles="broker,controller",
        controller_listener_names="C",
        listeners="PLAINTEXT://:9092,C://:9093",
        controller_quorum_voters="1@localhost:9093",
    )
    assert not found.alone
    assert found.voters == {1: Address("localhost", 9093, "C")}
    assert found.bootstrap == (Address("localhost", 9093, "C"),)


def test_a_broker_observes_the_quorum_of_others() -> None:
    found = roles(
        process_roles="broker", controller_listener_names="C", controller_quorum_bootstrap_servers="a:1,[::1]:2"
    )
    assert found.observes
    assert not found.alone
    assert found.bootstrap == (Address("a", 1, "C"), Address("::1", 2, "C"))
