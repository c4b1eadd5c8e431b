"""Whose configs are meant, as `kafka-configs` is told: `--topic t`, or `--entity-type topics --entity-name t`.

Rule: an entity that is not named stands for all of its type; one whose name is empty is the default of its type.
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import Sequence
from typing import NamedTuple

from pykafka_broker.client.properties import integer
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.tools.frame import ToolParser, UsageError

RESOURCES = {
    "topics": ConfigResourceType.TOPIC,
    "brokers": ConfigResourceType.BROKER,
    "broker-loggers": ConfigResourceType.BROKER_LOGGER,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
    "groups": ConfigResourceType.GROUP,
}
QUOTAS = {"users": "user", "clients": "client-id", "ips": "ip"}
TYPES = (*RESOURCES, *QUOTAS)
_WITH_DEFAULTS = ("brokers", *QUOTAS)
_NAMED = {  # in the order in which Kafka's tool looks at them
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "ip": "ips",
    "client_metrics": "client-metrics",
    "group": "groups",
}
_DEFAULTS = {
    "client_defaults": "clients",
    "user_defaults": "users",
    "broker_defaults": "brokers",
    "ip_defaults": "ips",
}
DEFAULT = ""


class Entity(NamedTuple):
    """name: None for all of the type, DEFAULT for what holds for those without a value of their own."""

    type: str
    name: str | None

    @property
    def singular(self) -> str:
        return self.type[:-1]


def add_entities(parser: ToolParser) -> None:
    add = parser.add_argument
    add("--entity-type", action="append", default=[], metavar="TYPE", help=f"whose configs: {', '.join(TYPES)}")
    add("--entity-name", action="append", default=[], dest="entity_names", metavar="NAME", help="the name of it")
    add(
        "--entity-default",
        action="append_const",
        const=DEFAULT,
        dest="entity_names",
        help="what holds for those of the type that have no value of their own",
    )
    for flag, kind in _NAMED.items():
        add(f"--{flag.replace('_', '-')}", metavar="NAME", help=f"the same as --entity-type {kind} --entity-name NAME")
    for flag, kind in _DEFAULTS.items():
        text = f"the same as --entity-type {kind} --entity-default"
        add(f"--{flag.replace('_', '-')}", action="store_true", help=text)


def entities_of(options: argparse.Namespace, action: str) -> list[Entity]:
    """One, or a user and a client. Raises UsageError."""
    named = [
        Entity(kind, getattr(options, flag)) for flag, kind in _NAMED.items() if getattr(options, flag) is not None
    ]
    named += [Entity(kind, DEFAULT) for flag, kind in _DEFAULTS.items() if getattr(options, flag)]
    if named and (options.entity_type or options.entity_names):
        raise UsageError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    names: list[str | None] = [*options.entity_names, *[None] * len(options.entity_type)]
    for kind in options.entity_type:
        if kind in QUOTAS and len(options.entity_names) > len(options.entity_type):
            raise UsageError("More entity names specified than entity types")
        if kind not in _WITH_DEFAULTS and DEFAULT in options.entity_names:
            raise UsageError(f"--entity-default must not be specified with --{action} of {kind}")
    found = named or [Entity(kind, name) for kind, name in zip(options.entity_type, names, strict=False)]
    _check(found, action)
    return found


def _check(entities: Sequence[Entity], action: str) -> None:
    types = [each.type for each in entities]
    if not types:
        raise UsageError("At least one entity type must be specified")
    for kind in types:
        if kind not in TYPES:
            raise UsageError(f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)}")
    if len(set(types)) < len(types):
        raise UsageError(f"Duplicate entity type(s) specified: {', '.join(sorted(set(types)))}")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise UsageError("Only 'users' and 'clients' entity types may be specified together")
    for each in entities:
        _check_name(each, action)


def _check_name(entity: Entity, action: str) -> None:
    kind, name = entity
    if name == DEFAULT and kind not in _WITH_DEFAULTS:
        raise UsageError(f"--entity-default must not be specified with --{action} of {kind}")
    if name is None and kind in _WITH_DEFAULTS and action == "alter":
        raise UsageError(f"An entity-name or default entity must be specified with --alter of {kind}")
    if name is None and kind not in _WITH_DEFAULTS and (action == "alter" or kind == "broker-loggers"):
        raise UsageError(f"An entity name must be specified with --{action} of {kind}")
    if kind in ("brokers", "broker-loggers") and name and not _is_integer(name):
        raise UsageError(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    if kind == "ips" and name:
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            raise UsageError(
                f"The entity name for ips must be a valid IP or resolvable host, but it is: {name}"
            ) from None


def _is_integer(text: str) -> bool:
    try:
        integer(text)
    except ValueError:
        return False
    return True
