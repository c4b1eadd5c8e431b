"""Schemas and versions, as they are kept."""

from __future__ import annotations

from typing import NamedTuple

AVRO = "AVRO"


class Reference(NamedTuple):
    """Another schema that a schema needs: under which name it asks for it, and where that is registered."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """Two of them are one schema, with one id, when all of this is equal."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str = ""  # JSON, or nothing
    rule_set: str = ""  # the same


class Version(NamedTuple):
    """A schema under a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False
    written_ms: int = 0  # the time of its record
