"""The arguments of a broker or a cluster for tests: what they say, and what is wrong with them.

Rule: a mistake is told at once, in the words of the caller's argument, before anything is started.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from pykafka_broker.testing.control_client import told_to_the_test

if TYPE_CHECKING:
    from pykafka_broker.testing.security_spec import SecuritySpec

__tracebackhide__ = told_to_the_test


def security_of(
    host: str,
    protocol: str | None,
    users: Mapping[str, str] | Iterable[str],
    acls: Iterable[str] | None,
    mechanisms: Iterable[str] | None,
    client_auth: str | None,
) -> SecuritySpec | None:
    """Return the security of a broker or a cluster, by arguments of `KafkaBroker`; None without any of them."""
    if protocol is None and not users and acls is None and mechanisms is None and client_auth is None:
        return None
    from pykafka_broker.testing.security_spec import SecuritySpec

    return SecuritySpec(protocol, users, acls, mechanisms, client_auth, host)


def config_text(value: object) -> str:
    """Return a value of a broker config in Kafka's form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def config_texts(config: Mapping[str, object] | None) -> dict[str, str]:
    """Return broker configs in Kafka's form. Raises TypeError for a wrong type."""
    if config is not None and not isinstance(config, Mapping):
        raise TypeError(f'config must be a dict of broker configs, such as {{"num.partitions": 3}}, not {config!r}')
    for name in config or ():
        check_type("the name of a broker config", name, str, "a string")
    return {name: config_text(value) for name, value in (config or {}).items()}


def check_known(names: Iterable[str], permission: str = "allow_unknown_config=True") -> None:
    """Check for unknown broker configs. Raises ValueError with similar names, and how to permit unknown configs."""
    from pykafka_broker.config.broker import unknown_configs
    from pykafka_broker.config.registry import broker_keys
    from pykafka_broker.control.problems import did_you_mean

    for name in unknown_configs(names):
        meant = did_you_mean(str(name).replace("_", "."), broker_keys())
        raise ValueError(f"unknown config {name}{meant} ({permission} lets it pass)")


def check_directory(what: str, path: str | os.PathLike[str] | None) -> None:
    """Check that a directory can stand in log.dirs by itself. Raises ValueError."""
    text = "" if path is None else os.fspath(path)
    if "," in text or text != text.strip():
        raise ValueError(f"{what} {text}: a comma separates directories in log.dirs, and blanks at their ends are none")


def check_release(emulate: object) -> None:
    """Check the type of a release's name: 2.10 as a number would be 2.1. Raises TypeError."""
    if emulate is not None:
        check_type("emulate", emulate, str, "a string, such as '2.8'")


def check_type(name: str, value: object, kind: type | tuple[type, ...], must_be: str) -> None:
    """Check an argument's type; a boolean is no number. Raises TypeError."""
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {must_be}, not {value!r}")


def check_name(name: str, value: object, known: Collection[str]) -> None:
    """Check an argument that is one of several names. Raises ValueError with similar names."""
    from pykafka_broker.control.problems import did_you_mean

    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}{did_you_mean(str(value), known)}")


def check_names(name: str, values: object, known: Collection[str]) -> None:
    """Check an argument that is a list of names. Raises TypeError for a single name, ValueError for an unknown one."""
    if isinstance(values, str) or not isinstance(values, Collection):
        raise TypeError(f"{name} must be a list of names: {name}=[{values!r}]")
    for each in values:
        check_name(name, each, known)
