"""Moments and durations as Java reads them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.tools.java_time import Unparseable, date_form, moment_before, timestamp_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:00.5", 5),  # it is a number of milliseconds
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T01:00:00.000+0100", 0),
        ("1970-01-01T01:00:00.001+01", 1),
        ("1969-12-31T23:00:00.000-01", 0),
        ("0001-01-01T00:00:00.000+01", -62_135_600_400_000),
        ("9999-12-31T23:59:59.999-01", 253_402_304_399_999),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123 ", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123Z behind", 1_700_000_000_123),
        (" 2023- 11-014T\t22:13: 20. 0123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123 +01:30", 1_699_994_600_123),
        ("2023-11-14T22:13:20.123+0130", 1_699_996_400_123),  # the minutes only with a colon
        ("2023-11-14T22:13:20.123+01:60", 1_699_996_400_123),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert timestamp_ms(text) == expected


_ODD = (
    "2023-11-14T22:13:20.1234",
    "2023-11-14T22:13:20.000+25:00",
    "2023-11-14T22:13:20.000 x",
    "2023-11-14T22 :13:20.000",
    "2023-11-14T22:13:20.000T-",
    "2023-11-14TT",
    "0-11-14T22:13:20.000",
    f"2023-11-14T22:13:20.{'9' * 30}",
)


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
    assert moment_before(0, text) == -expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1h", "P1Y", "P1M", "PT1D", "PT1H "])
def test_no_duration(text: str) -> None:
    with pytest.raises(ClientError, match="Text cannot be parsed to a Duration"):
        moment_before(0, text)


@pytest.mark.parametrize(
    ("text", "says"),  # said by Kafka's script
    [
        ("P99999999999999999999D", "Text cannot be parsed to a Duration: days"),
        ("P106751991167301D", "Text cannot be parsed to a Duration: days"),
        (f"P{'9' * 5000}D", "Text cannot be parsed to a Duration: days"),
        ("PT9999999999999999999H", "Text cannot be parsed to a Duration: hours"),
        ("PT1M9223372036854775807S", "Text cannot be parsed to a Duration: overflow"),
        ("PT9223372036854775807S", "Instant exceeds minimum or maximum instant"),
        ("P106751991167300D", "Instant exceeds minimum or maximum instant"),
        ("-PT9223372036854775807S", "long overflow"),
        ("P300000000000D", "long overflow"),
    ],
)
def test_no_moment_is_so_far_away(text: str, says: str) -> None:
    with pytest.raises(ClientError) as caught:
        moment_before(1_700_000_000_000, text)
    assert str(caught.value) == says


def test_a_moment_before_another_one() -> None:
    assert moment_before(1_700_000_000_000, "PT1.5S") == 1_699_999_998_500
    assert moment_before(0, "P106751991167D") == -106_751_991_167 * 86_400_000


_MORNING = datetime(2026, 11, 26, 9, 44, 3, 7000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "expected"),  # said by Kafka's script
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-11-26 09:44:03:007"),
        ("yyyyy MMM EEE", "02026 Nov Thu"),
        ("XXX Z z", "Z +0000 UTC"),
        ("YYYY-ww-uu", "2026-48-04"),
        ("G D F k K L W a", "AD 330 4 9 9 11 4 AM"),
        ("''", "'"),
        ("yy 'o''clock' h, EEEE MMMM", "26 o'clock 9, Thursday November"),
        ("", ""),
    ],
)
def test_dates_by_a_pattern_of_java(pattern: str, expected: str) -> None:
    assert date_form(pattern)(_MORNING) == expected


def test_a_date_of_another_zone() -> None:
    moment = datetime(2027, 1, 1, 0, 5, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))
    assert date_form("X XX XXX")(moment) == "-03 -0330 -03:30"
    assert date_form("Y w h k K")(moment) == "2027 1 12 24 0"


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("qqq", "Illegal pattern character 'q'"),
        ("yyyy-MM-dd b", "Illegal pattern character 'b'"),
        ("''x''", "Illegal pattern character 'x'"),
        ("yyyy'", "Unterminated quote"),
        ("'''''", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
    ],
)
def test_patterns_that_java_refuses(pattern: str, says: str) -> None:
    with pytest.raises(ClientError, match=says):
        date_form(pattern)
