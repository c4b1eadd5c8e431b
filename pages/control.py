"""Every operation of the control API, from the functions that carry them out."""

from __future__ import annotations

from typing import Any

from pages.markdown import code, plain, table
from pykafka_broker.control.operations import REQUIRED, Operation, Text, operations
from pykafka_broker.control.schema import describe, in_words

_HEAD = """# Control API

What a test may ask of a broker beyond Kafka's protocol: HTTP with JSON, in any language. `broker.control_url` is its
address in Python; another broker has it with `--control 127.0.0.1:9644`. `GET /openapi.json` there describes all of
this for programs. Each operation is also a method of `KafkaBroker`, and a command: `pykafka-broker control
create-topic orders`.

A refusal is JSON of the type `application/problem+json` with `title`, `status` and `detail`; where an error of
Kafka's protocol is behind it, `code` names it. A broker with a control token wants it as `Authorization: Bearer
TOKEN`. A request that comes from a page of another site is refused.
"""


def control() -> str:
    return _HEAD + "".join(f"\n{_described(each)}" for each in operations())


def _described(operation: Operation) -> str:
    text = plain(operation.text).rstrip(".")
    head = f"## {operation.name.replace('_', '-')}\n\n`{operation.method} {operation.path}`\n\n{text}.\n"
    rows = [
        (code(name), place if kind is not Text else "body, as text", _kind(kind), _default(default))
        for name, kind, default, place in operation.parameters
    ]
    return head + (f"\n{table(('parameter', 'in', 'type', 'where it is not given'), rows)}" if rows else "")


def _default(default: Any) -> str:
    return "must be given" if default is REQUIRED else "" if default is None else code(str(default))


def _kind(kind: Any) -> str:
    return "text" if kind is Text else in_words(describe(kind, {}), code, plain)
