"""From command line, environment and file to one static configuration.

Rule: the file gives way to the environment, the environment to the command line, and all of them win over what a
development broker is given where nothing is set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka_broker.cli.environment import configs_of
from pykafka_broker.config.properties import parse_properties

# What one node for development needs otherwise than Kafka's defaults: it is not open to the network, it is controller
# as well, and a group's first member is not kept waiting for others.
DEVELOPMENT = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
DEVELOPMENT_NODE = "1"
DEVELOPMENT_LISTENER = "PLAINTEXT://127.0.0.1:9092"
_LISTENER_KEYS = ("listeners", "host.name", "port")


class UsageError(Exception):
    """The command line or the file can't be understood."""


def read_file(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="latin-1", newline="") as file:  # the encoding in which Kafka reads it
            return parse_properties(file.read())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def parse_overrides(pairs: Sequence[str]) -> dict[str, str]:
    overrides = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--override {pair}: it must be key=value")
        overrides[name.strip()] = value
    return overrides


def static_settings(
    file: str | None, environment: Mapping[str, str], overrides: Sequence[str], listen: str | None, data_dir: str | None
) -> dict[str, str]:
    """All that is set before the broker starts, the strongest layer on top."""
    settings = read_file(file) if file else {}
    settings |= configs_of(environment)
    settings |= parse_overrides(overrides)
    if listen is not None:
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isdigit() or "/" in host:
            raise UsageError(f"--listen {listen}: it must be HOST:PORT")
        settings["listeners"] = f"PLAINTEXT://{host}:{port}"
    if data_dir is not None:
        settings["log.dirs"] = data_dir
    return development_settings(settings) | settings


def development_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What is added where `settings` are silent."""
    added = {name: value for name, value in DEVELOPMENT.items() if name not in settings}
    if "broker.id" not in settings and "node.id" not in settings:
        added["node.id"] = DEVELOPMENT_NODE
    if not any(name in settings for name in _LISTENER_KEYS):
        added["listeners"] = DEVELOPMENT_LISTENER
    return added
