"""Expressions of Java match here what they match there, or are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pykafka_broker.config.java_regex import JavaRegexError, compile_java

TOLD = json.loads(Path(__file__).with_name("java_regexes.json").read_text(encoding="utf-8"))  # by a Java 17
REFUSED = "E"
NOT_SAID = {"[a&&&&b]", "[a&&&b]", "(?x)a b", "(?u)a", r"\p{IsAlphabetic}", r"\p{javaLowerCase}", "(?<=a+)b"}


def matched(expression: str) -> str:
    try:
        compiled = compile_java(expression)
    except JavaRegexError:
        return REFUSED
    return "".join("1" if compiled.fullmatch(subject) else "0" for subject in TOLD["subjects"])


def test_expressions_match_what_java_says() -> None:
    for expression, told in TOLD["expressions"].items():
        assert matched(expression) == (REFUSED if expression in NOT_SAID else told), expression


@pytest.mark.parametrize(
    ("pattern", "matches", "does_not"),
    [
        (r"\p{Alpha}+", "abZ", "a1"),
        (r"[\p{Digit}x]+", "1x2", "y"),
        (r"\P{Upper}", "a", "A"),
        (r"\Qa.b\E.", "a.bc", "axbc"),
        (r"\Qa.b", "a.b", "axb"),
        (r"(?<one>a)\k<one>", "aa", "ab"),
        (r"a\z", "a", "a\n"),
        (r"(?<=a)|b", "b", "a"),
        (r"\w+", "az_9", "é"),
        (r"[^]]a", "ba", "]a"),
        (r"a*+b", "aab", "aa"),
        (r"\[a\]", "[a]", "a"),
    ],
)
def test_an_expression_matches_what_it_matches_in_java(pattern: str, matches: str, does_not: str) -> None:
    assert compile_java(pattern).fullmatch(matches)
    assert not compile_java(pattern).fullmatch(does_not)


@pytest.mark.parametrize(
    ("pattern", "subject", "found"),
    [
        (r"\B", "", (0, 0)),
        (r"\s\Z", "\r\n", (1, 2)),
        (r"\s$", "\r\n", (1, 2)),
        (r"(?m)\r$", "\r\n", None),
        (r"(?m)^\n", "\r\n", None),
        (r"(?m)^\n", "\n\n", (0, 1)),
        (r"(?m)^", "", None),
    ],
)
def test_the_ends_of_lines_are_where_java_finds_them(pattern: str, subject: str, found: tuple[int, int] | None) -> None:
    match = compile_java(pattern).search(subject)
    assert (match.span() if match else None) == found


def test_what_only_python_knows_is_refused() -> None:
    for expression in ("(?P<n>a)", "(?#x)a", "(a)(?(1)b)", r"\Aa\Y", "x{,3}", "a{"):
        with pytest.raises(JavaRegexError):
            compile_java(expression)


@pytest.mark.parametrize("expression", sorted(NOT_SAID))
def test_what_python_can_not_say_is_refused_in_words(expression: str) -> None:
    with pytest.raises(JavaRegexError, match=r"not supported|fixed-width"):
        compile_java(expression)


def test_characters_with_several_ways_to_be_written() -> None:
    for expression in (r"\x41", r"\u0041", r"\x{41}", r"\0101", "(?i)a", r"\QA\E", r"\cA\cB|A"):
        assert compile_java(expression).fullmatch("A"), expression
    assert compile_java(r"\t\n\r\f\a\e\cA").fullmatch("\t\n\r\f\a\x1b\x01")
    assert compile_java("a.b").fullmatch("a\nb") is None
    assert compile_java("(?s)a.b").fullmatch("a\nb")
    assert compile_java("(?m)a\n^b$").fullmatch("a\nb")
