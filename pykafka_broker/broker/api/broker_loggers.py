"""The levels of this process's loggers as a BROKER_LOGGER resource (KIP-412).

Rule: levels are told and taken in Kafka's words; Python's CRITICAL is FATAL, and TRACE is below DEBUG. `root` is the
logger of the whole package: a program that embeds the broker keeps its own root logger to itself.
"""

from __future__ import annotations

import logging

from pykafka_broker.config.describe import ConfigEntry, ConfigSource
from pykafka_broker.config.values import ConfigType
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

ROOT = "root"
PACKAGE = "pykafka_broker"
LEVELS = {
    "TRACE": logging.DEBUG - 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def loggers() -> dict[str, logging.Logger]:
    """Every logger of the package that has been used, by name."""
    known = logging.Logger.manager.loggerDict
    names = (name for name, entry in known.items() if isinstance(entry, logging.Logger))
    found = {name: logging.getLogger(name) for name in sorted(names) if name.startswith(f"{PACKAGE}.")}
    return {ROOT: logging.getLogger(PACKAGE), **found}


def level_name(level: int) -> str:
    """The word for a level, and for one in between the next lower one's."""
    return max((value, name) for name, value in LEVELS.items() if value <= max(level, LEVELS["TRACE"]))[1]


def describe_loggers() -> list[ConfigEntry]:
    return [
        ConfigEntry(
            name,
            level_name(logger.getEffectiveLevel()),
            ConfigSource.DYNAMIC_BROKER_LOGGER,
            ConfigType.UNKNOWN,
            False,
            False,
            [],
        )
        for name, logger in loggers().items()
    ]


def check_level(name: str, level: str | None) -> None:
    """Raises INVALID_CONFIG for a logger or a level that there is not."""
    if name not in loggers():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is not None and level not in LEVELS:
        words = ", ".join(sorted(LEVELS))
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are "
            f"{words}",
        )


def set_level(name: str, level: str | None) -> None:
    """None: the logger follows its parent again."""
    loggers()[name].setLevel(logging.NOTSET if level is None else LEVELS[level])
