"""All operations as an OpenAPI 3.1 document.

Rule: the whole document comes from the operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykafka_broker import __version__
from pykafka_broker.control.control import Control
from pykafka_broker.control.operations import JSON_LINES, REQUIRED, Lines, Operation, Text, operations
from pykafka_broker.control.schema import describe, write

_PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "What is wrong, and what is allowed (RFC 9457)",
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "description": "the name of the error of Kafka's protocol that is behind it"},
    },
    "required": ["title", "status", "detail"],
}
_REFUSED = {
    "description": "What is wrong, and what is allowed",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the document, as values for JSON."""
    named: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, named)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pykafka-broker control API",
            "version": __version__,
            "description": "What a test may ask of the broker beyond Kafka's protocol",
        },
        "paths": paths,
        "components": {"schemas": dict(sorted(named.items())), "securitySchemes": {"token": _TOKEN}},
        "security": [{}, {"token": []}],
    }


_TOKEN = {"type": "http", "scheme": "bearer", "description": "asked for where the broker was given a control token"}


def _operation(operation: Operation, named: dict[str, Any]) -> dict[str, Any]:
    summary, _, rest = operation.text.partition(". ")
    described: dict[str, Any] = {"operationId": operation.name, "summary": summary.rstrip(".")}
    if rest:
        described["description"] = rest
    parameters = [
        {
            "name": name,
            "in": place,
            "required": place == "path" or default is REQUIRED,
            "schema": _with_default(describe(kind, named), default),
        }
        for name, kind, default, place in operation.parameters
        if place != "body"
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.text_parameter is not None:
        content = {"text/plain": {"schema": {"type": "string"}}}
        described["requestBody"] = {"required": True, "content": content}
    elif operation.takes_json:
        described["requestBody"] = _body(operation, named)
    described["responses"] = {"200": _answer(operation, named), "default": _REFUSED}
    return described


def _body(operation: Operation, named: dict[str, Any]) -> dict[str, Any]:
    fields = [each for each in operation.parameters if each.place == "body"]
    required = [each.name for each in fields if each.default is REQUIRED]
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {each.name: _with_default(describe(each.kind, named), each.default) for each in fields},
    }
    if required:
        schema["required"] = required
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


def _with_default(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    """Return the schema of a parameter with the default value; a default of null is left out."""
    return schema if default is REQUIRED or default is None else schema | {"default": write(default)}


def _answer(operation: Operation, named: dict[str, Any]) -> dict[str, Any]:
    if operation.answer is Text:
        return {"description": "text", "content": {"text/plain": {"schema": {"type": "string"}}}}
    if operation.answer is Lines:
        return {"description": "JSON, one value a line", "content": {JSON_LINES: {"schema": {"type": "string"}}}}
    schema = describe(operation.answer, named)
    return {"description": "done", "content": {"application/json": {"schema": schema}}}


def openapi(control: Control) -> dict[str, Any]:
    """Return the API as an OpenAPI 3.1 document."""
    return document(operations())
