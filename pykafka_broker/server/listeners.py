"""The listeners of a broker: what it binds and what it tells clients.

Rule: a client is told to come back to the address that it dialled, unless `advertised.listeners` names another for that
listener.
"""

from __future__ import annotations

import re

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.values import invalid

_ENDPOINT = re.compile(r"^([A-Za-z0-9_.-]+)://\[?([^\[\]/]*?)\]?:(\d+)$")


class Listener:
    """One endpoint. `port` is 0 until a free one is bound."""

    __slots__ = ("advertised", "host", "name", "port")

    def __init__(self, name: str, host: str, port: int, advertised: tuple[str, int] | None = None) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.advertised = advertised


def parse_endpoint(key: str, text: str) -> tuple[str, str, int]:
    """Name, host and port of `NAME://HOST:PORT`."""
    match = _ENDPOINT.match(text.strip())
    if match is None or int(match[3]) > 65535:
        raise invalid(key, text, "it must be NAME://HOST:PORT")
    return match[1].upper(), match[2], int(match[3])


def listeners_of(config: BrokerConfig) -> list[Listener]:
    """The listeners that `listeners` and `advertised.listeners` name; only PLAINTEXT is served."""
    protocols = _security_protocols(config)
    advertised = {
        name: (host, port)
        for name, host, port in (
            parse_endpoint("advertised.listeners", text) for text in config.advertised_listeners or ()
        )
    }
    listeners: list[Listener] = []
    for text in config.listeners:
        name, host, port = parse_endpoint("listeners", text)
        protocol = protocols.get(name, name)
        if name in (config.controller_listener_names or ()):
            continue  # one process is broker and controller here: nobody dials a controller
        if protocol != "PLAINTEXT":
            raise invalid("listeners", text, f"security protocol {protocol} is not served, only PLAINTEXT")
        listeners.append(Listener(name, host or "0.0.0.0", port, advertised.get(name)))
    return listeners


def _security_protocols(config: BrokerConfig) -> dict[str, str]:
    """`listener.security.protocol.map`: "NAME:PROTOCOL,..."."""
    pairs = (
        entry.strip().partition(":") for entry in config.listener_security_protocol_map.split(",") if entry.strip()
    )
    return {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}
