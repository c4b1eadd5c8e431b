"""A reason why two schemas are not compatible, as Confluent's registry tells one of JSON Schema or Protobuf."""

from __future__ import annotations


def reason(kind: str, path: str) -> str:
    """`kind` in its words, `path` from the root of the schema; `{new}` and `{old}` are put in later."""
    says = kind.replace("_", " ").capitalize()
    path = path.replace("{", "{{").replace("}", "}}")
    return (
        f'{{{{errorType:"{kind}", description:"{says} at path \'{path}\' in the {{new}} schema, compared with the '
        f'{{old}} schema"}}}}'
    )
