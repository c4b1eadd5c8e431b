"""Java's regular expressions by Python's."""

from __future__ import annotations

import pytest

from pykafka_broker.security.tls.java_regex import compile_java, replacement


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
    "pattern", [r"[a&&b]", r"[a[b]]", r"\p{IsGreek}", r"[\P{Alpha}]", "(", "[", r"\k", r"\y", "a**"]
)
def test_what_python_has_no_words_for_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        compile_java(pattern)


def test_a_replacement_names_groups_by_number_or_name() -> None:
    pattern = compile_java("(?<a>x)(y)")
    assert replacement(r"\$1$2${a}$12b", pattern) == ["$", "1", 2, 1, 1, "2", "b"]
    for bad in ("$3", "$", "$x", "${b}", "a\\"):
        with pytest.raises(ValueError):
            replacement(bad, pattern)
