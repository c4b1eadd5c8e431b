"""Every sample value gets the verdict that Kafka 4.4.0 gave it, word for word (`recorder/` made the table)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.config.registry import broker_keys, client_metrics_keys, group_keys, topic_keys
from pykafka_broker.config.values import (
    ConfigError,
    ConfigType,
    format_value,
    java_double,
    java_integer,
    parse_type,
    parse_value,
    reset_duration_ms,
)

VERDICTS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("verdicts.json").read_text())
KEYS = {
    "broker": broker_keys(),
    "topic": topic_keys(),
    "group": group_keys(),
    "client_metrics": client_metrics_keys(),
}


@pytest.mark.parametrize(("scope", "name"), [(scope, name) for scope in VERDICTS for name in VERDICTS[scope]])
def test_verdict_is_kafkas(scope: str, name: str) -> None:
    key = KEYS[scope][name]
    for text, shown, error in VERDICTS[scope][name]:
        if error is not None:
            with pytest.raises(ConfigError) as caught:
                parse_value(key, text)
            assert str(caught.value) == error
        elif key.type is ConfigType.PASSWORD:
            assert parse_value(key, text) == text.strip()
        else:
            assert format_value(parse_value(key, text)) == shown


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("P1D", 86_400_000),
        ("PT2H", 7_200_000),
        ("P1DT2H3M4S", 93_784_000),
        ("PT0.25S", 250),
        ("PT1.005S", 1005),
        ("pt1m", 60_000),
        ("PT0S", 0),
        ("PT0.0005S", 0),
        ("PT-0.0005S", None),
        ("PT5\u017f", None),
        ("P1M2D", None),
        ("P1Y", None),
        ("P1DT", None),
        ("P1Dt", 86_400_000),
        ("tomorrow", None),
        ("P106751991167300D", 106_751_991_167_300 * 86_400_000),
        ("P106751991167301D", None),
        (f"PT{(1 << 63) - 1}S", ((1 << 63) - 1) * 1000),
        (f"PT{1 << 63}S", None),
        (f"PT1M{(1 << 63) - 1}S", None),
        (f"PT{'0' * 5000}1S", 1000),
        (f"PT{'9' * 5000}S", None),
    ],
)
def test_a_reset_by_duration_is_read_as_java_does(text: str, duration_ms: int | None) -> None:
    assert reset_duration_ms(f"by_duration:{text}") == duration_ms


@pytest.mark.parametrize(("name", "what"), [("retention.ms", "Not a number of type LONG"), ("preallocate", "Expected")])
def test_a_refusal_shows_the_value_with_its_blanks(name: str, what: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value  week  for configuration {name}: {what}"):
        parse_value(KEYS["topic"][name], " week ")


@pytest.mark.parametrize("digits", ["9" * 20, "9" * 5000, "-" + "9" * 5000])
@pytest.mark.parametrize("name", ["retention.ms", "max.message.bytes"])
def test_a_number_of_any_length_is_refused_in_kafkas_words(name: str, digits: str) -> None:
    key = KEYS["topic"][name]
    with pytest.raises(ConfigError) as caught:
        parse_value(key, digits)
    assert str(caught.value) == f"Invalid value {digits} for configuration {name}: Not a number of type {key.type.name}"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("0", 0), ("+1", 1), ("-1", -1), ("007", 7), ("0" * 5000 + "7", 7), ("-2147483648", -(1 << 31))],
        *[(text, None) for text in ("", "+", "1_0", " 1", "1 ", "1.0", "0x1", "2147483648", "1" * 5000)],
    ],
)
def test_an_integer_is_read_as_java_does(text: str, number: int | None) -> None:
    if number is None:
        with pytest.raises(ValueError, match="For input string"):
            java_integer(text)
    else:
        assert java_integer(text) == number


@pytest.mark.parametrize(("text", "expected"), [("5", 5), (" 0.5 ", 0.5), ("1e3", 1000), ("5d", 5), (".5F", 0.5)])
def test_fractions(text: str, expected: float) -> None:
    assert java_double(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x1p3", 8),
        ("0x1.8p3", 12),
        ("-0x.8p1", -1),
        ("0X1.P+3f", 8),
        ("0x1p99999", float("inf")),
        ("-0x1p99999", float("-inf")),
    ],
)
def test_hexadecimal_fractions(text: str, expected: float) -> None:
    assert java_double(text) == expected


def test_a_fraction_that_is_no_number() -> None:
    assert [str(java_double(text)) for text in ("NaN", "-NaN", "+NaN")] == ["nan"] * 3


@pytest.mark.parametrize("text", ["", "1_000", "inf", "nan", "1e", "0x1", "0xp3", "0x.p3"])
def test_what_is_no_fraction(text: str) -> None:
    with pytest.raises(ValueError, match="For input string"):
        java_double(text)


@pytest.mark.parametrize("scope", KEYS)
def test_defaults_pass_their_own_checks(scope: str) -> None:
    for key in KEYS[scope].values():
        if key.default_text is not None and not key.removed:
            assert parse_value(key, key.default_text) == key.default


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (1.0, "1.0"), (1e7, "1.0E7"), (1e-4, "1.0E-4"), (123456789.5, "1.234567895E8"), (0.0, "0.0")],
)
def test_doubles_print_as_java_prints_them(value: float, text: str) -> None:
    assert format_value(value) == text


def test_a_config_may_be_a_hexadecimal_fraction() -> None:
    assert parse_type("log.cleaner.min.cleanable.ratio", " 0x1p-1 ", ConfigType.DOUBLE) == 0.5


def test_a_list_is_cut_at_the_blanks_of_java() -> None:
    text = " a ,\tb\xa0,\x1fc\n,d"
    assert parse_type("metric.reporters", text, ConfigType.LIST) == ["a", "b\xa0", "\x1fc", "d"]
