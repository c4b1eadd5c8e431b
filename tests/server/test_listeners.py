"""Listeners: the addresses that are bound, and the addresses that clients are told."""

from __future__ import annotations

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.server.listeners import listeners_of


def made(**settings: str) -> list[tuple[str, str, int, tuple[str, int] | None]]:
    config = BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})
    return [(one.name, one.host, one.port, one.advertised) for one in listeners_of(config)]


def test_one_listener_tells_nothing_by_itself() -> None:
    assert made(listeners="PLAINTEXT://127.0.0.1:0") == [("PLAINTEXT", "127.0.0.1", 0, None)]


def test_no_host_is_every_address_and_brackets_are_of_ipv6() -> None:
    assert made(listeners="PLAINTEXT://:9092")[0][1] == "0.0.0.0"
    assert made(listeners="PLAINTEXT://[::1]:9092")[0][1] == "::1"


def test_each_listener_has_its_own_advertised_address() -> None:
    found = made(
        listeners="inside://10.0.0.1:9092,OUTSIDE://0.0.0.0:9093,CONTROLLER://:9094",
        advertised_listeners="OUTSIDE://broker.example:443",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        controller_listener_names="CONTROLLER",
    )
    assert found == [
        ("INSIDE", "10.0.0.1", 9092, None),
        ("OUTSIDE", "0.0.0.0", 9093, ("broker.example", 443)),
        ("CONTROLLER", "0.0.0.0", 9094, None),
    ]


def test_a_listener_has_the_protocol_that_its_name_stands_for() -> None:
    config = BrokerConfig(
        {
            "listeners": "SSL://:1,INSIDE://:2,OUTSIDE://:3",
            "listener.security.protocol.map": "SSL:SSL,INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_SSL",
        }
    )
    found = [(each.name, each.protocol, each.has_tls, each.has_sasl) for each in listeners_of(config)]
    assert found == [
        ("SSL", "SSL", True, False),
        ("INSIDE", "SASL_PLAINTEXT", False, True),
        ("OUTSIDE", "SASL_SSL", True, True),
    ]


@pytest.mark.parametrize(
    ("listeners", "why"),
    [
        ("PLAINTEXT", "it must be NAME://HOST:PORT"),
        ("PLAINTEXT://127.0.0.1", "it must be NAME://HOST:PORT"),
        ("PLAINTEXT://127.0.0.1:65536", "its port must be within 0 to 65535"),
        ("OUTSIDE://127.0.0.1:9092", "no security protocol is defined for listener OUTSIDE"),
    ],
)
def test_a_bad_listener_names_key_value_and_reason(listeners: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {listeners} for configuration listeners: .*{why}"):
        made(listeners=listeners)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"listeners": "C://:1", "controller_listener_names": "c"},
            "Invalid value C://:1 for configuration listeners: it must name a listener for clients",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,plaintext://b:2"},
            "Invalid value plaintext://b:2 for configuration listeners: there is another listener with the name",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,SSL://a:1"},
            "Invalid value SSL://a:1 for configuration listeners: there is another listener on port 1",
        ),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:1,SSL://:1"},
            "Invalid value SSL://:1 for configuration listeners: there is another listener on port 1",
        ),
        (
            {"listeners": "PLAINTEXT://:1", "advertised_listeners": "OTHER://a:1"},
            "Invalid value OTHER for configuration advertised.listeners: there is no listener with that name",
        ),
        (
            {"listeners": "PLAINTEXT://:1", "advertised_listeners": "PLAINTEXT://0.0.0.0:1"},
            "Invalid value PLAINTEXT://0.0.0.0:1 for configuration advertised.listeners: it must name a host",
        ),
    ],
)
def test_listeners_that_contradict_each_other(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        made(**settings)
    assert str(refused.value).startswith(message)


def test_in_a_cluster_a_listener_without_a_host_has_the_name_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "here.example")
    member = {
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "101@127.0.0.1:9093",
        "listeners": "PLAINTEXT://:9092,TWO://:9094",
        "advertised.listeners": "PLAINTEXT://:9095",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TWO:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    assert made(**member) == [
        ("PLAINTEXT", "0.0.0.0", 9092, ("here.example", 9095)),
        ("TWO", "0.0.0.0", 9094, ("here.example", 9094)),
    ]


def test_controllers_may_be_advertised() -> None:
    found = made(
        listeners="PLAINTEXT://:1,CONTROLLER://:2",
        advertised_listeners="PLAINTEXT://a:1,CONTROLLER://a:2",
        controller_listener_names="CONTROLLER",
    )
    assert found == [("PLAINTEXT", "0.0.0.0", 1, ("a", 1)), ("CONTROLLER", "0.0.0.0", 2, ("a", 2))]


def test_a_controller_alone_has_no_listener_for_clients() -> None:
    settings = {"process_roles": "controller", "controller_listener_names": "CONTROLLER"}
    assert made(listeners="CONTROLLER://:2", **settings) == [("CONTROLLER", "0.0.0.0", 2, None)]


def test_a_broker_of_other_controllers_binds_no_listener_of_theirs() -> None:
    with pytest.raises(ConfigError, match="this node is no controller"):
        made(listeners="PLAINTEXT://:1,C://:2", controller_listener_names="C", process_roles="broker")
