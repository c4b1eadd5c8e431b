"""What is compared is what was expected, and no more."""

from __future__ import annotations

import pytest

from pykafka_broker.control.api.records import Header, NewRecord, Record
from pykafka_broker.control.comparing import difference, fits

FOUND = Record("t", 0, 7, 99, "CreateTime", "k", "v", [Header("h", "1")])


@pytest.mark.parametrize(
    "expected",
    [
        NewRecord(),
        NewRecord(value="v"),
        NewRecord(value_base64="dg=="),
        NewRecord(value="v", key="k", partition=0, timestamp=99, headers=[Header("h", "1")]),
    ],
)
def test_what_is_not_named_is_not_compared(expected: NewRecord) -> None:
    assert fits(expected, FOUND)
    assert difference([FOUND], [expected]) == ""


@pytest.mark.parametrize(
    "expected",
    [
        NewRecord(value="w"),
        NewRecord(key="l"),
        NewRecord(partition=1),
        NewRecord(timestamp=98),
        NewRecord(headers=[Header("h", "2")]),
    ],
)
def test_what_is_named_has_to_be_there(expected: NewRecord) -> None:
    assert not fits(expected, FOUND)
    assert difference([FOUND], [expected]).startswith("1 records, expected 1")


def test_nothing_where_something_should_be() -> None:
    assert difference([], [NewRecord(value="v")]) == (
        "0 records, expected 1 (- is missing, + is too much)\n- value b'v'"
    )
