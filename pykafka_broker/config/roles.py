"""A node's roles in its cluster, from Kafka's own keys (KIP-500): `process.roles`, the controllers, their listeners.

Rule: a node is a controller for others only where one of `controller.listener.names` is among its `listeners`; without
that it is alone, and its own controller.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.addresses import split_address
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.peers import Address


class Roles(NamedTuple):
    """A node's roles and controllers.

    `voters`: the nodes of `controller.quorum.voters` by id; `bootstrap`: where a quorum is asked for its leader.
    """

    broker: bool
    controller: bool
    alone: bool
    voters: dict[int, Address]
    bootstrap: tuple[Address, ...]

    @property
    def observes(self) -> bool:
        """Return whether other nodes are the controllers."""
        return not self.controller


def roles_of(config: BrokerConfig) -> Roles:
    """Return the roles in settings of checked form."""
    roles = config.process_roles or ["broker", "controller"]
    names = [name.upper() for name in config.controller_listener_names or ()]
    bound = any(text.strip().partition("://")[0].upper() in names for text in config.listeners or ())
    listener = names[0] if names else "CONTROLLER"
    controller = "controller" in roles
    if controller and not bound:
        return Roles("broker" in roles, controller, True, {}, ())
    voters = dict(_voter(text, listener) for text in config.controller_quorum_voters)
    bootstrap = tuple(_server(text, listener) for text in config.controller_quorum_bootstrap_servers)
    return Roles("broker" in roles, controller, False, voters, bootstrap or tuple(voters.values()))


def _voter(text: str, listener: str) -> tuple[int, Address]:
    id_, _, server = text.strip().partition("@")
    return int(id_), _server(server, listener)


def _server(text: str, listener: str) -> Address:
    host, port = split_address(text.strip())
    return Address(host, int(port), listener)
