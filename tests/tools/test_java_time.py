"""Moments and durations as Java reads them."""

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.tools.java_time import Unparseable, duration_ms, timestamp_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:00.5", 5),  # it is a number of milliseconds
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T01:00:00.000+0100", 0),
        ("1970-01-01T01:00:00.001+01", 1),
        ("1969-12-31T23:00:00.000-01", 0),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert timestamp_ms(text) == expected


_ODD = ("2023-11-14T22:13:20.1234", "2023-11-14T22:13:20.000+25:00", "2023-11-14T22:13:20.000+01:60")


@pytest.mark.parametrize(
    "text", ["", "2023-11-14", "2023-11-14T22:13:20", "2023-14-14T22:13:20.000", "xTy", "T", *_ODD]
)
def test_no_moment(text: str) -> None:
    with pytest.raises(Unparseable):
        timestamp_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT0S", 0),
        ("P1D", 86_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt1h", 3_600_000),
        ("-PT1H", -3_600_000),
        ("PT-1.5S", -1_500),
        ("-PT-1S", 1_000),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1h", "P1Y", "P1M", "PT1D", "PT1H "])
def test_no_duration(text: str) -> None:
    with pytest.raises(ClientError, match="Text cannot be parsed to a Duration"):
        duration_ms(text)
