"""The listeners of a broker: what it binds and what it tells clients.

Rule: a client is told to come back to the address that it dialled, unless `advertised.listeners` names another for that
listener. In a cluster the other nodes have to know an address, so there a listener without a host is advertised with
the name of this machine, as Kafka does.
"""

from __future__ import annotations

import re
import socket

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.roles import roles_of
from pykafka_broker.config.values import invalid

_ENDPOINT = re.compile(r"^([A-Za-z0-9_.-]+)://\[?([^\[\]/]*?)\]?:(\d{1,9})$")

_MAX_PORT = 65535
PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
_PROTOCOL_MAP = "listener.security.protocol.map"
_PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)


class Listener:
    """An endpoint. `port` is 0 until a free port is bound."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        advertised: tuple[str, int] | None = None,
        protocol: str = PLAINTEXT,
        *,
        for_controllers: bool = False,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.advertised = advertised
        self.protocol = protocol
        self.for_controllers = for_controllers

    @property
    def has_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)


def parse_endpoint(key: str, text: str) -> tuple[str, str, int]:
    """Return name, host and port of `NAME://HOST:PORT`."""
    match = _ENDPOINT.match(text.strip())
    if match is None:
        raise invalid(key, text, "it must be NAME://HOST:PORT")
    if int(match[3]) > _MAX_PORT:
        raise invalid(key, text, f"its port must be within 0 to {_MAX_PORT}")
    return match[1].upper(), match[2], int(match[3])


def listeners_of(config: BrokerConfig) -> list[Listener]:
    """Return the listeners of `listeners` and `advertised.listeners`; listeners for clients come first."""
    roles = roles_of(config)
    protocols = _security_protocols(config)
    advertised = _advertised(config)
    controllers = _controllers(config)
    listeners: dict[str, Listener] = {}
    for text in config.listeners:
        name, host, port = parse_endpoint("listeners", text)
        protocol = protocols.get(name, name)
        if name in listeners:
            raise invalid("listeners", text, f"there is another listener with the name {name}")
        if protocol not in _PROTOCOLS:
            raise invalid("listeners", text, f"no security protocol is defined for listener {name}")
        if port and any(port == each.port and _overlap(host or "0.0.0.0", each.host) for each in listeners.values()):
            raise invalid("listeners", text, f"there is another listener on port {port}")
        told = advertised.get(name)
        if told is None and not host and port and not roles.alone and name not in controllers:
            told = socket.getfqdn(), port
        listeners[name] = Listener(name, host or "0.0.0.0", port, told, protocol, for_controllers=name in controllers)
    if not roles.controller and any(each.for_controllers for each in listeners.values()):
        raise invalid("listeners", ",".join(config.listeners), "this node is no controller")
    if roles.broker and all(each.for_controllers for each in listeners.values()):
        raise invalid("listeners", ",".join(config.listeners), "it must name a listener for clients")
    for name in advertised:
        if name not in listeners and name not in controllers:
            raise invalid("advertised.listeners", name, "there is no listener with that name")
    return sorted(listeners.values(), key=lambda each: each.for_controllers)


def _overlap(host: str, other: str) -> bool:
    """Return whether two hosts are the same, or one is all addresses of IPv4 and the other is none of IPv6."""
    return host == other or ("0.0.0.0" in (host, other) and ":" not in host + other)


def _advertised(config: BrokerConfig) -> dict[str, tuple[str, int]]:
    addresses = {}
    for text in config.advertised_listeners or ():
        name, host, port = parse_endpoint("advertised.listeners", text)
        if host in ("0.0.0.0", "::"):
            raise invalid("advertised.listeners", text, "it must name a host that clients can dial")
        addresses[name] = (host or socket.getfqdn(), port)
    return addresses


def security_protocol_of(config: BrokerConfig, name: str) -> str:
    """Return the security protocol of a listener's name, on all nodes. Raises ConfigError."""
    protocol = _security_protocols(config).get(name, name)
    if protocol not in _PROTOCOLS:
        raise invalid(_PROTOCOL_MAP, config[_PROTOCOL_MAP], f"no security protocol is defined for listener {name}")
    return protocol


def _security_protocols(config: BrokerConfig) -> dict[str, str]:
    """Return `listener.security.protocol.map`: "NAME:PROTOCOL,...".

    As in Kafka, a controller's listener needs no entry where the map is not set at all.
    """
    known = {} if _PROTOCOL_MAP in config.static else dict.fromkeys(_controllers(config), PLAINTEXT)
    pairs = (
        entry.strip().partition(":") for entry in config.listener_security_protocol_map.split(",") if entry.strip()
    )
    return known | {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}


def _controllers(config: BrokerConfig) -> set[str]:
    return {name.upper() for name in config.controller_listener_names or ()}
