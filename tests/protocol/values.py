"""Values for every message, in Kafka's own JSON form. Rule: a message, version and variant always give the same values.

Variants: `default` (what the schema says), `rich` (everything set, two elements an array), `null` (null wherever it is
allowed, tags at their defaults), `long` (lengths and counts of two varint bytes).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

from hypothesis import HealthCheck, Phase, settings

from protocol.generator.schema import Field, Message, StructType, load_messages
from pykafka_broker.protocol import runtime
from pykafka_broker.protocol.runtime import Fields, parse_uuid_text, uuid_text

SCHEMAS = Path(__file__).resolve().parents[2] / "protocol" / "schemas"
VARIANTS = ("default", "rich", "null", "long")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
DEFAULTS = {"string": "", "bytes": "", "records": "", "bool": False, "float64": 0.0}


@cache
def messages() -> dict[str, Message]:
    """Return the schema of every message by name."""
    return {message.name: message for message in load_messages(SCHEMAS)}


def message_class(message: Message) -> type[runtime.Message]:
    """Return the generated class."""
    loaded: type[runtime.Message] = getattr(message_module(message), message.name)
    return loaded


def message_module(message: Message) -> ModuleType:
    """Return the generated module, with the message's class and those of its structs."""
    return import_module(f"pykafka_broker.protocol.{message.folder}.{message.module}")


def values(message: Message, version: int, variant: str) -> dict[str, Any]:
    """Return the message's values as Kafka's JSON converters read them."""
    return _Filler(message, version, variant).struct(message.root, message.name)


class _Filler:
    def __init__(self, message: Message, version: int, variant: str) -> None:
        self.message = message
        self.version = version
        self.variant = variant

    def struct(self, struct_type: StructType, path: str) -> dict[str, Any]:
        filled = {}
        for field in struct_type.fields:
            if self.version in field.versions:
                if self.version in field.tagged and self.variant in ("default", "null"):
                    continue
                filled[_json_name(field)] = self.field(field, f"{path}.{field.name}")
        return filled

    def field(self, field: Field, path: str) -> Any:
        if self.variant == "null" and self.version in field.nullable:
            return None
        if self.variant == "default":
            return self.default(field, path)
        if field.array:
            return [self.single(field, f"{path}.{index}") for index in range(self.count(field))]
        return self.single(field, path)

    def count(self, field: Field) -> int:
        if self.variant != "long":
            return 2
        return 1 if field.is_struct else 140

    def default(self, field: Field, path: str) -> Any:
        if field.default_is_null and self.version in field.nullable:
            return None
        if field.array:
            return []
        if field.is_struct:
            return self.struct(self.message.structs[field.type], path)
        if field.type == "uuid":
            return uuid_text(runtime.ZERO_UUID)
        if field.type in BITS:
            return int(field.default or "0", 0)
        if field.type == "bool":
            return field.default == "true"
        return (field.default if field.type == "string" and field.default != "null" else None) or DEFAULTS[field.type]

    def single(self, field: Field, path: str) -> Any:
        seed = crc32(f"{path}.{self.variant}".encode())
        if field.is_struct:
            return self.struct(self.message.structs[field.type], path)
        if field.type == "uuid":
            return uuid_text(b"".join(crc32(bytes([part]), seed).to_bytes(4, "big") for part in range(4)))
        if field.type == "string":
            text = f"{field.name}-{seed % 1000}{'-é' if seed % 3 == 0 else ''}"
            return text * 20 if self.variant == "long" and not field.array else text
        if field.type in ("bytes", "records"):
            return b64encode(
                bytes((seed + step) % 256 for step in range(300 if self.variant == "long" else 5))
            ).decode()
        if field.type == "bool":
            return field.default != "true"
        if field.type == "float64":
            return seed / 7
        return _integer(field, seed)


def _integer(field: Field, seed: int) -> int:
    bits = BITS[field.type]
    number = (seed * 0x9E3779B97F4A7C15 >> 7) % (1 << bits)
    if field.type.startswith("int") and number >= 1 << (bits - 1):
        number -= 1 << bits
    default = 0 if field.default in (None, "null") else int(field.default, 0)
    return number + 1 if number == default else number


def _json_name(field: Field) -> str:
    return field.name[0].lower() + field.name[1:]


def from_json(message: Message, filled: dict[str, Any]) -> runtime.Message:
    """Return an object of the generated class with these values."""
    made = _struct_from_json(message, message.root, filled)
    assert isinstance(made, runtime.Message)
    return made


def _struct_from_json(message: Message, struct_type: StructType, filled: dict[str, Any]) -> Fields:
    arguments = {
        field.python: _field_from_json(message, field, filled[_json_name(field)])
        for field in struct_type.fields
        if _json_name(field) in filled
    }
    made: Fields = getattr(message_module(message), struct_type.name)(**arguments)
    return made


def _field_from_json(message: Message, field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.array:
        return [_single_from_json(message, field, element) for element in value]
    return _single_from_json(message, field, value)


def _single_from_json(message: Message, field: Field, value: Any) -> Any:
    if field.is_struct:
        return _struct_from_json(message, message.structs[field.type], value)
    if field.type == "uuid":
        return parse_uuid_text(value)
    return b64decode(value) if field.type in ("bytes", "records") else value


def examples(count: int) -> settings:
    """Return Hypothesis settings for a number of made-up messages, the same ones in each run."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
