"""The check of Avro compatibility against fastavro, which reads all written data, and against Avro's own library."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse as avro_parse
from fastavro.utils import generate_many
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pykafka_broker.registry.avro import parse
from pykafka_broker.registry.problems import InvalidSchema

PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
ENUMS = st.builds(
    lambda symbols, default: (
        {"type": "enum", "name": "E", "symbols": symbols} | ({"default": symbols[0]} if default else {})
    ),
    st.lists(st.sampled_from("ABC"), min_size=1, max_size=3, unique=True),
    st.booleans(),
)
FIXED = st.builds(lambda size: {"type": "fixed", "name": "F", "size": size}, st.integers(1, 2))


def _record(fields: list[tuple[str, Any, bool]], name: str) -> dict[str, Any]:
    listed = []
    for field, kind, with_default in fields:
        has = {"name": field, "type": kind}
        may_be_null = isinstance(kind, list) and kind[0] == "null"
        listed.append(has | {"default": None} if with_default and may_be_null else has)
    return {"type": "record", "name": name, "fields": listed}


def _wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    unions = st.lists(inner.filter(lambda each: not isinstance(each, list)), min_size=1, max_size=3)
    fields = st.lists(
        st.tuples(st.sampled_from("abc"), inner | unions, st.booleans()), max_size=3, unique_by=lambda each: each[0]
    )
    return (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda values: {"type": "map", "values": values}, inner)
        | unions
        | st.builds(_record, fields, st.sampled_from(["R", "S"]))
    )


SCHEMAS = st.recursive(PRIMITIVES | ENUMS | FIXED, _wider, max_leaves=4)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SCHEMAS, SCHEMAS)
def test_what_is_called_compatible_is_read(reader: Any, writer: Any) -> None:
    try:
        new, old = parse(json.dumps(reader), {}), parse(json.dumps(writer), {})
    except InvalidSchema:
        assume(False)
    agrees = not new.differences(old)
    checker = ReaderWriterCompatibilityChecker()
    theirs = checker.get_compatibility(avro_parse(json.dumps(reader)), avro_parse(json.dumps(writer)))
    assert agrees == (theirs.compatibility is SchemaCompatibilityType.compatible), theirs.messages
    if agrees:
        for value in generate_many(writer, 5):
            data = io.BytesIO()
            fastavro.schemaless_writer(data, writer, value)
            data.seek(0)
            fastavro.schemaless_reader(data, writer, reader)


@given(SCHEMAS)
def test_a_canonical_text_is_its_own(schema: Any) -> None:
    try:
        canonical = parse(json.dumps(schema), {}).canonical
    except InvalidSchema:
        assume(False)
    assert parse(canonical, {}).canonical == canonical
    assert not parse(canonical, {}).differences(parse(json.dumps(schema), {}))
