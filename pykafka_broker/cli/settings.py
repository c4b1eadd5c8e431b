"""From command line, environment and file to one static configuration.

Rule: the file gives way to the environment, the environment to the command line, and all of them win over what a
development broker is given where nothing is set. A broker for tests is given `QUICK_GROUPS` as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka_broker.cli.commands import is_like_a_command, what_was_meant
from pykafka_broker.cli.environment import configs_of
from pykafka_broker.config.extensions import EMULATE, STRICT
from pykafka_broker.config.group import limits_of
from pykafka_broker.config.properties import parse_properties

# What one node for development needs otherwise than Kafka's defaults: it is not open to the network, it is controller
# as well, and a group's first member is not kept waiting for others.
DEVELOPMENT = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
# What makes groups as quick as a test wants. Of the protocols whose members are told by the broker how often to ask, a
# member learns within this interval that it has to give something up, or that something is free; a classic member asks
# as often as its own settings say, and may have a session as short as it likes.
QUICK_HEARTBEAT_MS = "100"
QUICK_GROUPS = {
    "group.min.session.timeout.ms": "100",
    **{
        f"group.{protocol}.{rest}": value
        for protocol in ("consumer", "share", "streams")
        for rest, value in {
            "min.heartbeat.interval.ms": QUICK_HEARTBEAT_MS,
            "heartbeat.interval.ms": QUICK_HEARTBEAT_MS,
            "assignment.interval.ms": "0",
            "min.session.timeout.ms": "1000",
        }.items()
    },
}
# How long a member is waited for whose connection has closed: longer than clients by their defaults are silent (3 s),
# and than they wait before they connect again (1 s), so that one that is still there is never given up.
ABSENT_MEMBER_MS = 5_000
DEVELOPMENT_NODE = "1"
LOOPBACK = "127.0.0.1"
DEVELOPMENT_LISTENER = f"PLAINTEXT://{LOOPBACK}:9092"
_LISTENER_KEYS = ("listeners", "host.name", "port")


class UsageError(Exception):
    """The command line or the file can't be understood."""


def read_file(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="latin-1", newline="") as file:  # the encoding in which Kafka reads it
            return parse_properties(file.read())
    except FileNotFoundError as error:
        raise UsageError(_no_such_file(path, error)) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _no_such_file(path: str, error: OSError) -> str:
    """Who mistypes a command has named a file that is not there."""
    if is_like_a_command(path):
        return f"{path} is neither a command nor a file: {what_was_meant(path)}"
    return f"cannot read {path}: {error.strerror}"


def parse_overrides(pairs: Sequence[str]) -> dict[str, str]:
    overrides = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--override {pair}: it must be key=value")
        overrides[name.strip()] = value
    return overrides


def own_options(emulate: str | None, strict: bool) -> list[str]:
    """The options that say it more shortly, as they are said to `--override`."""
    options = {EMULATE: emulate, STRICT: "true" if strict else None}
    return [f"{name}={value}" for name, value in options.items() if value is not None]


def listener_settings(listen: Sequence[str], protocol_map: str | None) -> dict[str, str]:
    """What the addresses of `--listen` mean: the first is the listener PLAINTEXT, the others have names of their own,
    which are added to `protocol_map`, `listener.security.protocol.map` as it is."""
    names = ["PLAINTEXT", *(f"PLAINTEXT_{number}" for number in range(2, len(listen) + 1))]
    settings = {"listeners": ",".join(f"{name}://{_address(text)}" for name, text in zip(names, listen, strict=False))}
    if len(listen) > 1:
        known = [] if protocol_map is None else [protocol_map]
        settings["listener.security.protocol.map"] = ",".join([*known, *(f"{name}:PLAINTEXT" for name in names)])
    return settings


def _address(text: str) -> str:
    """A port alone is one of this machine's own (127.0.0.1); with a colon before it, of all interfaces, as in Kafka's
    `listeners`."""
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or "/" in host:
        raise UsageError(f"--listen {text}: it must be HOST:PORT, :PORT (all network interfaces) or PORT (127.0.0.1)")
    return f"{host}:{port}" if colon else f"{LOOPBACK}:{port}"


def static_settings(
    file: str | None,
    environment: Mapping[str, str],
    overrides: Sequence[str],
    listen: Sequence[str],
    data_dir: str | None,
    quick_groups: bool = False,
) -> dict[str, str]:
    """All that is set before the broker starts, the strongest layer on top."""
    settings = read_file(file) if file else {}
    settings |= configs_of(environment)
    settings |= parse_overrides(overrides)
    if listen:
        settings |= listener_settings(listen, settings.get("listener.security.protocol.map"))
    if data_dir is not None:
        settings["log.dirs"] = data_dir
    if quick_groups:
        settings = quick_settings(settings) | settings
    return development_settings(settings) | settings


def quick_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of `QUICK_GROUPS` that are added: none that is set, nor a value for which somebody else has set limits."""
    return {
        name: value
        for name, value in QUICK_GROUPS.items()
        if name not in settings and settings.keys().isdisjoint(limits_of(name))
    }


def development_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What is added where `settings` are silent."""
    added = {name: value for name, value in DEVELOPMENT.items() if name not in settings}
    if "broker.id" not in settings and "node.id" not in settings:
        added["node.id"] = DEVELOPMENT_NODE
    if not any(name in settings for name in _LISTENER_KEYS):
        added["listeners"] = DEVELOPMENT_LISTENER
    return added
