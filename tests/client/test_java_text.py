"""Text that Java and Python read differently."""

from collections.abc import Callable

import pytest

from pykafka_broker.client.java_text import double, integer, java_split, long


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("-7", -7), ("+5", 5), ("007", 7), ("2147483647", 2**31 - 1)])
def test_numbers(text: str, expected: int) -> None:
    assert integer(text) == long(text) == expected


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_0", "x", "1.0", "\u0661", "+", "-9223372036854775809"])
@pytest.mark.parametrize("read", [integer, long])
def test_what_is_no_number(read: Callable[[str], int], text: str) -> None:
    with pytest.raises(ValueError, match="For input string"):
        read(text)


def test_how_large_a_number_may_be() -> None:
    assert long("2147483648") == 2**31
    assert integer("-2147483648") == -(2**31)
    with pytest.raises(ValueError, match="2147483648"):
        integer("2147483648")


@pytest.mark.parametrize(("text", "expected"), [("5", 5), (" 0.5 ", 0.5), ("1e3", 1000), ("5d", 5), (".5F", 0.5)])
def test_fractions(text: str, expected: float) -> None:
    assert double(text) == expected


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
    assert double(text) == expected


def test_a_fraction_that_is_no_number() -> None:
    assert [str(double(text)) for text in ("NaN", "-NaN", "+NaN")] == ["nan"] * 3


@pytest.mark.parametrize("text", ["", "1_000", "inf", "nan", "1e", "0x1", "0xp3", "0x.p3"])
def test_what_is_no_fraction(text: str) -> None:
    with pytest.raises(ValueError, match="For input string"):
        double(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("a,b", ["a", "b"]), ("a,,", ["a"]), (",a", ["", "a"]), (",", []), ("", [""])]
)
def test_split(text: str, expected: list[str]) -> None:
    assert java_split(",", text) == expected
