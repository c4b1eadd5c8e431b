"""The arguments of a broker or a cluster for tests: what they say, and what is wrong with them.

Rule: a mistake is told at once, in the words of the caller's argument, before anything is started.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection, Iterable, Mapping, Set

from pykafka_broker.testing.control_client import told_to_the_test

__tracebackhide__ = told_to_the_test


def config_text(value: object) -> str:
    """Return a value of a broker config in Kafka's form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def listed(text: str) -> list[str]:
    """Return the elements of a config that is a list, as Kafka reads them."""
    return [each.strip() for each in text.split(",")]


def config_texts(config: Mapping[str, object] | None) -> dict[str, str]:
    """Return broker configs in Kafka's form. Raises TypeError for a wrong type, whose text would pass for a value."""
    if config is not None and not isinstance(config, Mapping):
        raise TypeError(f'config must be a dict of broker configs, such as {{"num.partitions": 3}}, not {config!r}')
    for name, value in (config or {}).items():
        check_type("the name of a broker config", name, str, "a string")
        if value is None or isinstance(value, (bytes, bytearray, Mapping, Set)):
            raise TypeError(f"config {name} must be text, a number, a boolean or a list, not {value!r}")
    return {name: config_text(value) for name, value in (config or {}).items()}


def check_known(names: Iterable[str], permission: str | None = "allow_unknown_config=True") -> None:
    """Check for unknown broker configs. Raises ValueError with similar names, and how to permit unknown configs where
    the caller can.
    """
    from pykafka_broker.config.broker import unknown_configs
    from pykafka_broker.config.registry import broker_keys
    from pykafka_broker.control.problems import did_you_mean

    for name in unknown_configs(names):
        meant = did_you_mean(str(name).replace("_", "."), broker_keys())
        how = "" if permission is None else f" ({permission} lets it pass)"
        raise ValueError(f"unknown config {name}{meant}{how}")


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


def check_count(name: str, count: int, least: int = 1) -> None:
    """Check a number of things. Raises TypeError, or ValueError for a number below `least`.

    With 0 where one is the least, an assertion or a wait would succeed whatever happens.
    """
    check_type(name, count, int, "an integer")
    if count < least:
        vain = ", with which nothing could fail" if least == 1 else ""
        raise ValueError(f"{name} must be at least {least}, not {count}{vain}")


MOST_TIMEOUT_S = 3600


def check_timeout(timeout: float, name: str = "timeout") -> None:
    """Check a timeout. Raises TypeError, or ValueError for one below 0 or above an hour."""
    check_type(name, timeout, (int, float), "a number of seconds")
    if not 0 <= timeout <= MOST_TIMEOUT_S:
        raise ValueError(f"{name} is in seconds, at least 0 and at most {MOST_TIMEOUT_S}, not {timeout}")


def check_topic_config(config: object, hint: str = "") -> None:
    """Raise TypeError for topic configs that are no dict."""
    if config is not None and not isinstance(config, Mapping):
        raise TypeError(f"config must be a dict of topic configs, not {config!r}{hint}")


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECONDS = range(10**9, 10**10)  # of 2001 to 2286; as milliseconds, of the first months of 1970


def epoch_ms(name: str, time: datetime.datetime | float) -> int:
    """Return a time in milliseconds since 1970.

    Args:
        time: a datetime with a time zone, seconds as a float, or milliseconds as an int.

    Raises:
        TypeError: `time` is none of them.
        ValueError: `time` are whole seconds, which would be a time in 1970, or a datetime without a time zone, which
            would be another time on another machine.
    """
    check_type(name, time, (int, float, datetime.datetime), "a datetime, seconds as a float or milliseconds as an int")
    if isinstance(time, datetime.datetime):
        if time.tzinfo is None:
            raise ValueError(f"{name} is {time!r} without a time zone: datetime.now(UTC) has one")
        return (time.astimezone(datetime.UTC) - _EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(time, float):
        return int(time * 1000)
    if time in _SECONDS:
        raise ValueError(f"{name}={time} are seconds, and an int is milliseconds: pass {time}000, or a datetime")
    return time


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
