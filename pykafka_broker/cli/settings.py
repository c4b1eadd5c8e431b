"""The static configuration from command line, environment and file.

Rule: the environment wins over the file, the command line over the environment, and all win over the defaults of a
development broker. A broker for tests gets `QUICK_GROUPS` as well.

`KAFKA_...` variables are read as the container images of Kafka read them. `KAFKA_LOG_RETENTION_MS` is
`log.retention.ms`: the prefix goes, the rest is lower case, `_` is a dot, `__` an underscore, `___` a dash.
`CLUSTER_ID` is the cluster of the data directory. Variables that start Java or its logging, and those of Kubernetes for
a service named "kafka", are no configs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pykafka_broker.config.extensions import EMULATE, STRICT
from pykafka_broker.config.group import limits_of
from pykafka_broker.config.properties import read_properties_file

# -- environment


CLUSTER_ID = "CLUSTER_ID"
_PREFIX = "KAFKA_"
_OTHER_PREFIX = "KAFKA_CFG_"  # a family of images writes KAFKA_CFG_LOG_RETENTION_MS

NOT_CONFIGS = {
    "KAFKA_CLASSPATH",
    "KAFKA_DEBUG",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_HOME",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_OPTS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
}
_NOT_CONFIG_PATTERN = re.compile(
    r"KAFKA_LOG4J_\w+"
    r"|KAFKA_SERVICE_(HOST|PORT)\w*"
    r"|KAFKA_PORT_\d+_(TCP|UDP)\w*"
    r"|KAFKA_\w+_(SERVICE_(HOST|PORT)\w*|PORT_\d+_(TCP|UDP)\w*)"
)
_SERVICE_URL = re.compile(r"(tcp|udp)://")
_RUNS = {1: ".", 2: "_", 3: "-"}


def configs_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the broker settings among the variables."""
    return {
        config_name(name): value
        for name, value in environment.items()
        if name.startswith(_PREFIX) and not is_ignored(name, value)
    }


def cluster_id_of(environment: Mapping[str, str]) -> str:
    """Return the cluster id for the data directory, which a new directory gets; empty if unset."""
    return environment.get(CLUSTER_ID, "").strip()


def is_ignored(name: str, value: str) -> bool:
    if name in NOT_CONFIGS or _NOT_CONFIG_PATTERN.fullmatch(name):
        return True
    return name.endswith("_PORT") and _SERVICE_URL.match(value) is not None  # KAFKA_PORT=tcp://10.0.0.1:9092


def config_name(variable: str) -> str:
    prefix = _OTHER_PREFIX if variable.startswith(_OTHER_PREFIX) else _PREFIX
    rest = variable.removeprefix(prefix).lower()
    return re.sub("_{1,3}", lambda run: _RUNS[len(run[0])], rest)


# -- settings


# Defaults of a single node for development that differ from Kafka's: closed to the network, controller as well, and no
# wait for further members when a group's first member joins.
DEVELOPMENT = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
# Settings for quick groups in tests. In the newer protocols the broker sets the heartbeat interval: a member learns
# within QUICK_HEARTBEAT_MS that partitions are revoked or free. A classic member sets its interval itself, and may have
# a session as short as it likes.
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
# How long a member without a connection stays in its group: longer than the silence of clients with default settings
# (3 s) and their pause before they connect again (1 s), so that no live member is removed.
ABSENT_MEMBER_MS = 5_000
DEVELOPMENT_NODE = "1"
LOOPBACK = "127.0.0.1"
DEVELOPMENT_LISTENER = f"PLAINTEXT://{LOOPBACK}:9092"
_LISTENER_KEYS = ("listeners", "host.name", "port")
_DIRECTORY_KEYS = ("log.dirs", "log.dir")
# The config keys that an option sets, and that `--override` may not set beside it.
KEYS_OF_OPTIONS = {
    "--listen": _LISTENER_KEYS,
    "--data-dir": _DIRECTORY_KEYS,
    "--ephemeral": _DIRECTORY_KEYS,
    "--emulate": (EMULATE,),
    "--strict": (STRICT,),
}


class UsageError(Exception):
    """A mistake in the command line or the file."""


def read_file(path: str) -> dict[str, str]:
    try:
        return read_properties_file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def parse_overrides(pairs: Sequence[str]) -> dict[str, str]:
    overrides = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--override {pair}: it must be KEY=VALUE")
        overrides[name.strip()] = value
    return overrides


def own_options(emulate: str | None, strict: bool) -> list[str]:
    """Return short options in the form of `--override`."""
    options = {EMULATE: emulate, STRICT: "true" if strict else None}
    return [f"{name}={value}" for name, value in options.items() if value is not None]


def listener_settings(listen: Sequence[str], protocol_map: str | None) -> dict[str, str]:
    """Return the settings for the addresses of `--listen`.

    The first address is the listener PLAINTEXT. The others have names of their own, which are added to `protocol_map`,
    the present `listener.security.protocol.map`.
    """
    names = ["PLAINTEXT", *(f"PLAINTEXT_{number}" for number in range(2, len(listen) + 1))]
    settings = {"listeners": ",".join(f"{name}://{_address(text)}" for name, text in zip(names, listen, strict=False))}
    if len(listen) > 1:
        known = [] if protocol_map is None else [protocol_map]
        settings["listener.security.protocol.map"] = ",".join([*known, *(f"{name}:PLAINTEXT" for name in names)])
    return settings


def _address(text: str) -> str:
    """Return `HOST:PORT` for an address.

    A port alone is on 127.0.0.1; with a colon in front it is on all interfaces, as in Kafka's `listeners`.
    """
    host, colon, port = text.rpartition(":")
    if not re.fullmatch("[0-9]{1,5}", port) or "/" in host:
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
    """Return all settings before the start of the broker; the strongest layer wins."""
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
    """Return the settings of `QUICK_GROUPS` to add: no present setting, and no setting with present limits."""
    return {
        name: value
        for name, value in QUICK_GROUPS.items()
        if name not in settings and settings.keys().isdisjoint(limits_of(name))
    }


def development_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the development defaults for keys without a setting."""
    added = {name: value for name, value in DEVELOPMENT.items() if name not in settings}
    if "broker.id" not in settings and "node.id" not in settings:
        added["node.id"] = DEVELOPMENT_NODE
    if not any(name in settings for name in _LISTENER_KEYS):
        added["listeners"] = DEVELOPMENT_LISTENER
    return added
