"""Registries: error codes, API keys, stored records by type, config keys. Rule: they import no message; classes load on
use."""

from __future__ import annotations

import json
from pathlib import Path

from protocol.generator.emit import MADE_BY, MARK
from protocol.generator.schema import Message, snake

CONFIG_TYPES = {"BOOLEAN": "bool", "DOUBLE": "float", "LIST": "list[str]", "INT": "int", "SHORT": "int", "LONG": "int"}
STORED_AREAS = {"group-coordinator": "GROUP", "transaction-coordinator": "TRANSACTION", "share-coordinator": "SHARE"}


def errors_module(path: Path) -> str:
    """Return the module of `ErrorCode`, from the facts about errors."""
    errors = json.loads(path.read_text())
    retriable = [error["name"] for error in errors if error["retriable"]]
    lines = [
        MARK,
        '"""Error codes of the protocol (Kafka docs, "Protocol: Error Codes")."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "",
        "",
        "class ErrorCode(IntEnum):",
        '    """Every error that a response can carry."""',
        "",
    ]
    lines += [f"    {error['name']} = {error['code']}" for error in errors]
    lines += [
        "",
        "    @classmethod",
        "    def _missing_(cls, value: object) -> ErrorCode:",
        '        """Return UNKNOWN_SERVER_ERROR for a code of a newer Kafka (Kafka: Errors.forCode)."""',
        "        return cls.UNKNOWN_SERVER_ERROR",
        "",
        "    @property",
        "    def retriable(self) -> bool:",
        '        """Return whether a client may send the same request again."""',
        "        return self in _RETRIABLE",
        "",
        "",
        "_RETRIABLE = frozenset(",
        "    {",
        *(f"        ErrorCode.{name}," for name in retriable),
        "    }",
        ")",
    ]
    return "\n".join(lines) + "\n"


def api_keys_module(messages: list[Message], ahead: dict[str, int]) -> str:
    """Return the module of `ApiKey` and `SPECS`.

    Args:
        ahead: the newest version that is spoken of each API with versions that are not, by name.
    """
    requests = sorted((m for m in messages if m.kind == "request"), key=lambda m: m.api_key or 0)
    lines = [
        MARK,
        '"""API keys and what is known of each API without loading its messages."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "",
        "from pykafka_broker.protocol.specs import ApiSpec",
        "",
        "",
        "class ApiKey(IntEnum):",
        '    """Every API of the protocol, those that only older releases serve among them."""',
        "",
    ]
    names = {request.api_key: request.name.removesuffix("Request") for request in requests}
    lines += [f"    {snake(name).upper()} = {key}" for key, name in names.items()]
    lines += ["", "", "SPECS: dict[int, ApiSpec] = {"]
    for request in requests:
        flexible = request.flexible.low if request.flexible else None
        name = names[request.api_key]
        stable = ahead.get(name, request.versions.high - request.latest_unstable)
        lines.append(
            f"    {request.api_key}: ApiSpec("
            f'{request.api_key}, "{name}", {request.versions.low}, {request.versions.high}, {stable}, {flexible}, '
            f"{_tuple(request.listeners)}),"
        )
    return "\n".join([*lines, "}"]) + "\n"


def _tuple(names: tuple[str, ...]) -> str:
    return f"({', '.join(json.dumps(name) for name in names)}{',' if len(names) == 1 else ''})"


def stored_keys_module(messages: list[Message]) -> str:
    """Return a module of the records of Kafka's own topics, by type number."""
    lines = [
        MARK,
        '"""The records of Kafka\'s own topics, by the type number in a record. Classes load on first use."""',
        "",
        "from __future__ import annotations",
        "",
        "from pykafka_broker.protocol.specs import RecordSpec, ValueSpec",
        "",
        "# __cluster_metadata: a value is frame version, type and version as varints, then the message.",
        "METADATA_RECORDS: dict[int, ValueSpec] = {",
        *_values(messages, "metadata"),
        "}",
        "# __remote_log_metadata: a value is framed in the same way.",
        "REMOTE_LOG_RECORDS: dict[int, ValueSpec] = {",
        *_values(messages, "storage"),
        "}",
        "# Coordinators: a key is type (int16) and message in version 0; a value is version (int16) and message.",
    ]
    for area, name in STORED_AREAS.items():
        lines.append(f"{name}_RECORDS: dict[int, RecordSpec] = {{")
        keys = {m.api_key: m for m in messages if m.area == area and m.kind == "coordinator-key"}
        values = {m.api_key: m for m in messages if m.area == area and m.kind == "coordinator-value"}
        for number in sorted(keys, key=lambda key: key or 0):
            lines.append(f'    {number}: RecordSpec({number}, "{keys[number].name}", "{values[number].name}"),')
        lines.append("}")
    return "\n".join(lines) + "\n"


def _values(messages: list[Message], area: str) -> list[str]:
    chosen = sorted(
        (m for m in messages if m.area == area and m.kind == "metadata" and m.api_key is not None),
        key=lambda m: m.api_key or 0,
    )
    return [f'    {m.api_key}: ValueSpec({m.api_key}, "{m.name}"),' for m in chosen]


def config_attributes_module(path: Path) -> str:
    """Return the broker's config keys as typed attributes, so mypy knows `config.log_retention_ms`."""
    keys = json.loads(path.read_text())["broker"]
    lines = [
        f"{MADE_BY}; changes belong into data.json.",
        '"""The broker\'s keys as typed attributes; `None` is a key that Kafka leaves unset."""',
        "",
        "",
        "class BrokerAttributes:",
    ]
    for name, fact in sorted(keys.items()):
        optional = " | None" if fact["default"] is None else ""
        lines.append(f"    {name.replace('.', '_')}: {CONFIG_TYPES.get(fact['type'], 'str')}{optional}")
    return "\n".join(lines) + "\n"
