"""Text to typed value and back, as Kafka's ConfigDef reads it.

Rule: a value that Kafka refuses is refused here with Kafka's own sentence, which names the key, the value and what is
allowed.
"""

from __future__ import annotations

import math
import re
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka_broker.config.registry import ConfigKey

Value = bool | int | float | str | list[str] | None


class ConfigType(IntEnum):
    """The type numbers of a DescribeConfigs answer (KIP-226, KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigError(ValueError):
    """A bad value of a key; the text is for the client or the operator."""


class UnusableError(ConfigError):
    """A well-formed value names something unusable: a missing file, or a file of another kind."""


def invalid(name: str, value: object, reason: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {name}: {reason}")


_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")  # of more digits Python's `int` makes an error of its own
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_COMMA = re.compile(r"\s*,\s*", re.ASCII)  # the blanks of Java
JAVA_BLANKS = "".join(map(chr, range(33)))  # String.trim() cuts these and nothing else


def java_integer(text: str, bits: int = 31) -> int:
    """Return a number as Java's parsers read one. Raises ValueError. bits: of the number, without its sign."""
    match = _INTEGER.fullmatch(text)
    if match is None or not -(1 << bits) <= (found := int("".join(match.groups()))) < 1 << bits:
        raise ValueError(f'For input string: "{text}"')
    return found


def java_double(text: str) -> float:
    """Return a floating-point number as `Double.parseDouble` reads one. Raises ValueError."""
    text = text.strip(JAVA_BLANKS)
    if hexadecimal := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(hexadecimal[1])
        except OverflowError:
            return math.copysign(math.inf, -1 if text[0] == "-" else 1)
    if not _DOUBLE.fullmatch(text):
        raise ValueError(f'For input string: "{text}"')
    return float(text[:-1] if text[-1] in "fFdD" else text)


def parse_type(name: str, text: str, kind: ConfigType) -> Value:
    """Return the typed value of `text`, not yet checked against the key's limits."""
    given, text = text, text.strip(JAVA_BLANKS)
    if kind in _BITS or kind is ConfigType.DOUBLE:
        try:
            return java_integer(text, _BITS[kind]) if kind in _BITS else java_double(text)
        except ValueError:
            raise invalid(name, given, f"Not a number of type {kind.name}") from None
    if kind is ConfigType.BOOLEAN:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise invalid(name, given, "Expected value to be either true or false")
    if kind is ConfigType.LIST:
        return _COMMA.split(text) if text else []
    return text


def parse_value(key: ConfigKey, text: str) -> Value:
    """Return the checked value of `text` for `key`; raises `ConfigError` in Kafka's words (ConfigDef.parse)."""
    value = parse_type(key.name, text, key.type)
    if key.minimum is not None or key.maximum is not None:
        _check_range(key, value)
    if key.allowed is not None and isinstance(value, str):
        _check_allowed(key, value)
    if key.rule is not None:
        _RULES[key.rule](key, value)
    return value


def format_value(value: Value) -> str | None:
    """Return the text of a typed value as Kafka prints values in DescribeConfigs."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, list):
        return ",".join(value)
    return str(value)


def _java_double(value: float) -> str:
    """Return Double.toString: plain between 1e-3 and 1e7, else with one digit before the point and an exponent."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for text in (f"{value:.{digits}e}" for digits in range(1, 18)) if float(text) == value)
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa}E{int(exponent)}"


def _check_range(key: ConfigKey, value: Value) -> None:
    assert isinstance(value, (int, float))
    if key.minimum is not None and value < key.minimum:
        raise invalid(key.name, format_value(value), f"Value must be at least {key.minimum}")
    if key.maximum is not None and value > key.maximum:
        raise invalid(key.name, format_value(value), f"Value must be no more than {key.maximum}")


def _check_allowed(key: ConfigKey, value: str) -> None:
    assert key.allowed is not None
    if key.rule == "any-case":
        if value.upper() not in (word.upper() for word in key.allowed):
            raise invalid(key.name, value, f"String must be one of (case insensitive): {', '.join(key.allowed)}")
    elif value not in key.allowed:
        raise invalid(key.name, value, f"String must be one of: {', '.join(key.allowed)}")


def _check_list(key: ConfigKey, value: Value) -> None:
    assert isinstance(value, list)
    if len(set(value)) != len(value):
        raise ConfigError(f"Configuration '{key.name}' values must not be duplicated.")
    for item in value:
        if not item:
            raise ConfigError(f"Configuration '{key.name}' values must not be empty.")
        if key.allowed is not None:
            _check_allowed(key, item)


def _check_repeatable_list(key: ConfigKey, value: Value) -> None:
    """Check a list; repeated members count once."""
    assert isinstance(value, list)
    value[:] = dict.fromkeys(value)
    _check_list(key, value)


def _check_non_empty_list(key: ConfigKey, value: Value) -> None:
    if not value:
        allowed = f"[{', '.join(key.allowed)}]" if key.allowed else "any non-empty value"
        raise ConfigError(f"Configuration '{key.name}' must not be empty. Valid values include: {allowed}")
    _check_list(key, value)


def _check_non_empty(key: ConfigKey, value: Value) -> None:
    if value == "":
        raise invalid(key.name, "", "String must be non-empty")


def _check_gzip_level(key: ConfigKey, value: Value) -> None:
    if value not in (-1, *range(1, 10)):
        raise invalid(key.name, value, "Value must be between 1 and 9 or equal to -1")


_THROTTLED = re.compile(r"[0-9]+:[0-9]+")
_REPLICAS = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def _check_throttled_replicas(key: ConfigKey, value: Value) -> None:
    assert isinstance(value, list)
    if value == ["*"] or all(_THROTTLED.fullmatch(item) for item in value) or not any(value):
        return
    reason = f"{key.name} must be the literal '*' or a list of replicas in the following format: {_REPLICAS}"
    raise invalid(key.name, f"[{', '.join(value)}]", reason)


_VOTER = re.compile(r"[0-9]+@(?:[^:@]+|\[[^]]+\]):[0-9]+")
_SERVER = re.compile(r"(?:[^:@/ ]+|\[[^]]+\]):[0-9]+")


def _check_quorum_voters(key: ConfigKey, value: Value) -> None:
    assert isinstance(value, list)
    if not all(_VOTER.fullmatch(item) for item in value):
        form = "Each entry should be in the form `{id}@{host}:{port}`."
        raise ConfigError(f"Invalid configuration value for {key.name}. {form}")


def _check_bootstrap_servers(key: ConfigKey, value: Value) -> None:
    assert isinstance(value, list)
    for item in value:
        if not _SERVER.fullmatch(item):
            form = 'Each entry should be in the form "{host}:{port}"'
            raise ConfigError(f"Failed to parse host name from {item} for the configuration {key.name}. {form}")


_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"([+-]?)P(?:([+-]?[0-9]+)D)?(T(?:([+-]?[0-9]+)H)?(?:([+-]?[0-9]+)M)?(?:([+-]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS = {2: ("days", 86_400), 4: ("hours", 3_600), 5: ("minutes", 60), 6: ("seconds", 1)}  # by group of _DURATION


def is_long(number: int) -> bool:
    """Return whether 64 bits hold a number."""
    return -(1 << 63) <= number < 1 << 63


def java_duration_ms(text: str) -> int:
    """Return the milliseconds, rounded down, of `PnDTnHnMn.nS` as Java's Duration reads it.

    Raises ValueError in Java's words: months and years have no fixed length, and 64 bits hold the seconds.
    """
    match = _DURATION.fullmatch(text)
    if match is None or match[3] == "T" or not any(match[at] for at in _UNITS):
        raise ValueError("Text cannot be parsed to a Duration")
    total = 0
    for at, (unit, seconds) in _UNITS.items():
        try:
            part = java_integer(match[at] or "0", 63) * seconds
        except ValueError:
            part = 1 << 63
        if not is_long(part):
            raise ValueError(f"Text cannot be parsed to a Duration: {unit}")
        total += part
    if not is_long(total):
        raise ValueError("Text cannot be parsed to a Duration: overflow")
    fraction_ns = int((match[7] or "").ljust(9, "0")) * (-1 if (match[6] or "").startswith("-") else 1)
    return (total * 1_000_000_000 + fraction_ns) * (-1 if match[1] == "-" else 1) // 1_000_000


def reset_duration_ms(value: str) -> int | None:
    """Return the milliseconds of `by_duration:P1DT2H`, a value of `auto.offset.reset`; None for any other value."""
    if not value.startswith(_BY_DURATION):
        return None
    try:
        found = java_duration_ms(value.removeprefix(_BY_DURATION))
    except ValueError:
        return None
    return found if found >= 0 else None


def _check_offset_reset(key: ConfigKey, value: Value) -> None:
    assert isinstance(value, str)
    if value in ("latest", "earliest") or reset_duration_ms(value) is not None:
        return
    form = "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    raise invalid(key.name, value, f"Invalid value `{value}` for configuration {key.name}. {form}")


_RULES = {
    "any-case": lambda key, value: None,  # only changes the comparison with `allowed`
    "bootstrap-servers": _check_bootstrap_servers,
    "gzip-level": _check_gzip_level,
    "list": _check_list,
    "non-empty": _check_non_empty,
    "non-empty-list": _check_non_empty_list,
    "offset-reset": _check_offset_reset,
    "quorum-voters": _check_quorum_voters,
    "repeatable-list": _check_repeatable_list,
    "throttled-replicas": _check_throttled_replicas,
}


_ASSIGNOR_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
    "org.apache.kafka.coordinator.group.assignor.SimpleAssignor": "simple",
    "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor": "sticky",
}


def assignor_name(value: str) -> str:
    """Return the name of an assignor of the coordinator's, which a config may tell by its class."""
    return _ASSIGNOR_CLASSES.get(value, value)
