"""Writes `pykafka_broker/config/attributes.py`: the broker's keys as typed attributes, so that mypy knows
`config.log_retention_ms`."""

from __future__ import annotations

from pathlib import Path

from pykafka_broker.config.registry import ConfigKey, broker_keys
from pykafka_broker.config.values import ConfigType

TARGET = Path(__file__).parents[3] / "pykafka_broker" / "config" / "attributes.py"
PYTHON_TYPES = {ConfigType.BOOLEAN: "bool", ConfigType.DOUBLE: "float", ConfigType.LIST: "list[str]"}
PYTHON_TYPES |= dict.fromkeys((ConfigType.INT, ConfigType.SHORT, ConfigType.LONG), "int")
HEADER = '''"""The broker's keys as typed attributes; `None` is a key that Kafka leaves unset. Made from data.json."""


class BrokerAttributes:
'''


def annotation(key: ConfigKey) -> str:
    python_type = PYTHON_TYPES.get(key.type, "str")
    return f"    {key.name.replace('.', '_')}: {python_type}{' | None' if key.default is None else ''}\n"


def source() -> str:
    keys = broker_keys()
    return HEADER + "".join(annotation(keys[name]) for name in sorted(keys))


if __name__ == "__main__":
    TARGET.write_text(source())
