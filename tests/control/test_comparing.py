"""The comparison of found records with expected ones: only the fields that were given count."""

from __future__ import annotations

from base64 import b64decode

import pytest

from pykafka_broker.control.api.records import Header, RecordAnswer
from pykafka_broker.control.comparing import (
    ExpectedMatcher,
    ExpectedRecord,
    contents_of,
    difference,
    line_of,
    missing,
)
from pykafka_broker.control.problems import Problem

FOUND = RecordAnswer("t", 0, 7, 99, "CreateTime", "k", "v", [Header("h", "1"), Header("i", None)])
JSON = RecordAnswer(
    "t", 0, 8, 99, "CreateTime", None, '{"id": 1,  "lines": [1, 2.0, true], "of": {"b": 1, "a": null}}', []
)
TOMBSTONE = RecordAnswer("t", 0, 9, 99, "CreateTime", "k", None, [])


def found(*values: str | None, partition: int = 0, key: str | None = None) -> list[RecordAnswer]:
    return [RecordAnswer("t", partition, n, 99, "CreateTime", key, value, []) for n, value in enumerate(values)]


def expected(*values: object) -> list[ExpectedRecord]:
    return [ExpectedRecord(value=each) for each in values]


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        (FOUND, ExpectedRecord()),
        (FOUND, ExpectedRecord(value="v")),
        (FOUND, ExpectedRecord(value_base64="dg==")),
        (FOUND, ExpectedRecord(value="v", key="k", partition=0, timestamp=99, headers=[Header("h", "1")])),
        (FOUND, ExpectedRecord(headers=[Header("i", None), Header("h", "1")])),
        (TOMBSTONE, ExpectedRecord(key="k", value=None, headers=[])),
        (JSON, ExpectedRecord(key=None, value={"of": {"a": None, "b": 1}, "lines": [1, 2, True], "id": 1})),
        (JSON, ExpectedRecord(value=JSON.value)),
        (found("7")[0], ExpectedRecord(value=7)),
        (found("v", key=' {"a":1}')[0], ExpectedRecord(key={"a": 1})),
    ],
)
def test_what_is_not_named_is_not_compared(record: RecordAnswer, wanted: ExpectedRecord) -> None:
    assert ExpectedMatcher(wanted).fits(record)
    assert difference([record], [wanted]) == ""


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        (FOUND, ExpectedRecord(value="w")),
        (FOUND, ExpectedRecord(key="l")),
        (FOUND, ExpectedRecord(partition=1)),
        (FOUND, ExpectedRecord(timestamp=98)),
        (FOUND, ExpectedRecord(headers=[Header("h", "2")])),
        (FOUND, ExpectedRecord(headers=[Header("h", "1"), Header("h", "1")])),
        (FOUND, ExpectedRecord(headers=[])),
        (FOUND, ExpectedRecord(value=None)),
        (FOUND, ExpectedRecord(key=None)),
        (FOUND, ExpectedRecord(value={})),
        (TOMBSTONE, ExpectedRecord(value="")),
        (TOMBSTONE, ExpectedRecord(value={})),
        (JSON, ExpectedRecord(value={"id": 1, "lines": [1, 2, True]})),
        (JSON, ExpectedRecord(value={"of": {"a": None, "b": 1}, "lines": [1, 2, 1], "id": 1})),
        (JSON, ExpectedRecord(value='{"id":1,"lines":[1,2.0,true],"of":{"b":1,"a":null}}')),
        (found("[" * 100_000)[0], ExpectedRecord(value=[])),
        (found("1\0")[0], ExpectedRecord(value=1)),  # as UTF-16 it would be 1
        (found("v", key="{\0}\0")[0], ExpectedRecord(key={})),
    ],
)
def test_what_is_named_has_to_be_there(record: RecordAnswer, wanted: ExpectedRecord) -> None:
    assert not ExpectedMatcher(wanted).fits(record)
    assert difference([record], [wanted]).startswith("1 record, expected 1")


def test_a_value_that_is_there_twice_is_a_mistake() -> None:
    with pytest.raises(Problem, match="both value and value_base64 are given"):
        ExpectedMatcher(ExpectedRecord(value="v", value_base64="dg=="))


def test_nothing_where_something_should_be() -> None:
    assert difference([], expected("v")) == "0 records, expected 1 (- missing, + unexpected)\n- value 'v'"
    assert difference(found("v"), []) == "1 record, expected 0 (- missing, + unexpected)\n+ 0@0 value 'v'"


def test_what_is_compared_is_shown_and_aborted_records_say_so() -> None:
    aborted = RecordAnswer("t", 0, 7, 99, "CreateTime", "k", "v", [Header("h", "1")], transaction="aborted")
    wanted = ExpectedRecord(value={"id": 1}, key=None, headers=[], timestamp=1)
    assert difference([aborted, JSON], [wanted]).splitlines()[1:] == [
        '- key None, value {"id": 1}, no headers, timestamp 1',
        "+ 0@7 key 'k', value 'v', header h '1', timestamp 99 (aborted)",
        '+ 0@8 key None, value {"id": 1, "lines": [1, 2.0, true], "of": {"a": null, "b": 1}}, no headers, timestamp 99',
    ]


def test_what_a_schema_reads_is_shown_as_read() -> None:
    one, other = ("AAAAAAEC", "AAAAAAEE")
    record = RecordAnswer("t", 0, 7, 99, "CreateTime", None, None, [], key_base64="AA==", value_base64=one)
    wanted = ExpectedRecord(value_base64=other)
    readable = {b64decode(one): "1 (AVRO, schema 1)", b64decode(other): "2 (AVRO, schema 1)"}
    lines = ["- value 2 (AVRO, schema 1)", "+ 0@7 value 1 (AVRO, schema 1)"]
    assert difference([record], [wanted], readable).splitlines()[1:] == lines
    assert missing([record], [wanted], readable) == ([], lines[:1])
    assert line_of(record, readable) == "0@7 key '\\x00', value 1 (AVRO, schema 1)"
    assert contents_of(record) == [b"\0", b64decode(one)]
    assert contents_of(ExpectedRecord(value={"id": 1}, key="k")) == [b"k", None]


def test_the_shortest_difference_is_shown_with_a_little_around_it() -> None:
    records = found(*(str(n) for n in range(100) if n != 50))
    assert difference(records, expected(*(str(n) for n in range(100)))).splitlines() == [
        "99 records, expected 100 (- missing, + unexpected)",
        "  ... 48 records as expected",
        "  value '48'",
        "  value '49'",
        "- value '50'",
        "  ... 49 records as expected",
    ]


def test_long_differences_are_cut() -> None:
    many = difference(found(*("x" * 2_000 for _ in range(500))), expected(*("y" * 2_000 for _ in range(500))))
    assert len(many) < 10_000
    assert many.splitlines()[-1] == "... and 960 lines more"


def test_of_two_long_lines_the_part_that_differs_is_shown() -> None:
    text = difference(found("x" * 900 + "found" + "x" * 900), expected("x" * 900 + "named" + "x" * 900))
    missing_line, found_line = text.splitlines()[1:]
    assert "named" in missing_line
    assert "found" in found_line
    assert max(len(missing_line), len(found_line)) < 260


@pytest.mark.parametrize("swapped", [False, True])
def test_of_several_partitions_each_expected_record_has_one_of_its_own(swapped: bool) -> None:
    records = [*found("v", key="k"), *found("w", key="k", partition=1), *found("w", key="l", partition=2)]
    wanted = [ExpectedRecord(value="w"), ExpectedRecord(key="k"), ExpectedRecord(key="k", value="v")]
    wanted = wanted[::-1] if swapped else wanted
    assert difference(records, wanted) == ""
    crossing = [
        *found("v", key="k"),
        *found("w", key="k", partition=1),
    ]
    assert difference(crossing, [ExpectedRecord(key="k"), ExpectedRecord(value="v")]) == ""
    assert difference(crossing, [ExpectedRecord(value="v"), ExpectedRecord(value="v")]).splitlines()[1:] == [
        "- value 'v'",
        "+ 1@0 value 'w'",
    ]


def test_many_records_of_several_partitions_are_compared_at_once() -> None:
    records = [*found(*map(str, range(0, 20_000, 2))), *found(*map(str, range(1, 20_000, 2)), partition=1)]
    assert difference(records, expected(*range(20_000))) == ""


def test_what_is_contained_is_found_among_others_and_in_any_order() -> None:
    records = found("1", "2", "3")
    assert missing(records, expected("3", "1")) == ([records[2], records[0]], [])
    assert missing(records, expected("3", "3", "4")) == ([records[2]], ["- value '3'", "- value '4'"])


def test_the_order_within_each_of_several_partitions_counts() -> None:
    records = [*found("a", "b"), *found("a", "c", partition=1)]
    for right in ("abac", "aabc", "aacb", "acab"):
        assert difference(records, expected(*right)) == ""
    for wrong in ("baac", "caab", "abca"[::-1]):
        assert "has another order:" in difference(records, expected(*wrong))
    apart = [*found("a", "b"), *found("c", partition=1)]
    assert difference(apart, expected(*"bca")).splitlines()[1:] == [
        "partition 0 has another order:",
        "- value 'b'",
        "  value 'a'",
        "+ 0@1 value 'b'",
    ]


def test_the_order_of_many_equal_records_is_found_soon() -> None:
    records = [each for partition in range(6) for each in found(*("same",) * 40, partition=partition)]
    assert difference(records, expected(*("same",) * 240)) == ""


def test_a_found_record_has_the_form_of_the_expected_one_above() -> None:
    there = found("1", '{"b":2,"a":1}', "3")
    told = difference(there, expected("one", {"a": 0, "b": 2}, 4)).splitlines()[1:]
    assert told == [
        "- value 'one'",
        "+ 0@0 value '1'",
        '- value {"a": 0, "b": 2}',
        '+ 0@1 value {"a": 1, "b": 2}',
        "- value 4",
        "+ 0@2 value 3",
    ]
    assert difference(there, []).splitlines()[2] == """+ 0@1 value '{"b":2,"a":1}'"""
