"""Avro data read as JSON, and data that was made to harm its reader."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from pykafka_broker.registry import avro
from pykafka_broker.registry.avro import Reading, parse

LIST = {"type": "record", "name": "List", "fields": [{"name": "next", "type": ["null", "List"]}]}
EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "nothing", "type": "null"},
        {"name": "truth", "type": "boolean"},
        {"name": "number", "type": "int"},
        {"name": "long", "type": "long"},
        {"name": "float", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "enum", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "same", "type": ["null", "Colour"]},
        {"name": "array", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "map", "type": {"type": "map", "values": "long"}},
        {"name": "fixed", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "list", "type": LIST},
    ],
}


def written(schema: Any, value: Any) -> bytes:
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


def read(schema: Any, data: bytes) -> Any:
    return Reading(data).value(parse(json.dumps(schema), {}).type)


def test_every_type_comes_as_it_was_written() -> None:
    value = {
        "nothing": None,
        "truth": True,
        "number": -(2**31),
        "long": 2**63 - 1,
        "float": 0.5,
        "double": -1e300,
        "enum": "BLUE",
        "same": "RED",
        "array": ["Äpfel", None, ""],
        "map": {"a": -1, "b": 0},
        "fixed": b"\xff\x00",
        "list": {"next": {"next": None}},
    }
    assert read(EVERYTHING, written(EVERYTHING, value)) == {**value, "fixed": "\u00ff\u0000"}


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": "int", "logicalType": "date"}, date(2026, 2, 28), "2026-02-28"),
        ({"type": "int", "logicalType": "time-millis"}, time(12, 30, 1, 5000), "12:30:01.005000"),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
            "2026-01-02 03:04:05.000006+00:00",
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            datetime(1969, 12, 31, 23, 59),
            "1969-12-31 23:59:00",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-12.30"), "-12.30"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
            Decimal("123456789012345678901234567890123456.78"),
            "123456789012345678901234567890123456.78",
        ),
    ],
)
def test_a_logical_type_is_told_as_text(schema: Any, value: Any, told: str) -> None:
    assert read(schema, written(schema, value)) == told


@pytest.mark.parametrize("number", [2**62, -(2**62)])
def test_a_time_that_no_calendar_has_stays_a_number(number: int) -> None:
    assert read({"type": "long", "logicalType": "timestamp-millis"}, written("long", number)) == number


@pytest.mark.parametrize("number", [-1, 86_400_000])
def test_a_time_that_no_day_has_stays_a_number(number: int) -> None:
    assert read({"type": "int", "logicalType": "time-millis"}, written("int", number)) == number


@pytest.mark.parametrize("name", [["date"], {"date": 1}, 1, None, "no-such-type"])
def test_a_senseless_logical_type_is_none(name: object) -> None:
    assert read({"type": "int", "logicalType": name}, written("int", 5)) == 5


def test_blocks_may_say_how_long_they_are() -> None:
    assert read({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x02\x06\x00") == [1, 2, 3]


def test_a_number_that_json_lacks_is_text() -> None:
    assert read("double", written("double", float("inf"))) == "inf"


@pytest.mark.parametrize(
    ("schema", "data", "why"),
    [
        ("long", b"\x80", "ends within a number"),
        ("long", b"\xff" * 20, "ends within a number"),
        ("string", b"\x06ab", "shorter than it says"),
        ("bytes", b"\x03ab", "shorter than it says"),
        ("string", b"\x02\xff", "utf-8"),
        (["null", "int"], b"\x04", "number 2 of 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", "number -1 of 1"),
    ],
)
def test_what_does_not_fit_is_refused(schema: Any, data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(schema, data)


def test_data_nested_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="nested deeper than"):
        read(LIST, b"\x02" * 1_000_000 + b"\x00")


def test_a_record_that_always_holds_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="nested deeper than"):
        read({"type": "record", "name": "R", "fields": [{"name": "self", "type": "R"}]}, b"")


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "Empty", "fields": []}])
def test_a_few_bytes_do_not_become_very_many_items(monkeypatch: pytest.MonkeyPatch, items: Any) -> None:
    monkeypatch.setattr(avro, "_MOST_VALUES", 1_000)
    with pytest.raises(ValueError, match="more than 1000 values"):
        read({"type": "array", "items": items}, b"\xfe\xff\xff\xff\xff\x3f\x00")


def test_nor_do_types_that_hold_each_other_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "_MOST_VALUES", 1_000)
    kind: Any = {"type": "record", "name": "R0", "fields": []}
    for number in range(1, 40):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{number - 1}"}]
        kind = {"type": "record", "name": f"R{number}", "fields": fields}
    with pytest.raises(ValueError, match="more than 1000 values"):
        read(kind, b"")
