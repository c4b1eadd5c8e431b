"""Expressions of subscriptions, with Python's `re` as oracle where both mean the same."""

from __future__ import annotations

import re
from string import ascii_lowercase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups.re2 import MAX_WORK, Node, RegexError, _Builder, compile_regex

ATOMS = [
    "a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\W", r"\S", "^", "$", r"\b", r"\B", r"\.", "[]a]", "-",
    "(a|b)", "(?:ab|c)", "(?P<x>ab)", "(a*)", "(|b)", "[.-]", r"\x61", r"\n", "((?:a?){3})",
]  # fmt: skip
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?"]
PIECES = st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPEATS)).map("".join)
NAMES = st.text("abc.-_1A\n", max_size=8)


@pytest.mark.whole
@settings(max_examples=600)
@given(st.lists(PIECES, min_size=1, max_size=5), st.lists(NAMES, min_size=1, max_size=8))
def test_matches_what_pythons_re_matches(pieces: list[str], names: list[str]) -> None:
    pattern = "".join(pieces)
    try:
        # In Python `$` matches before a last newline too; RE2's does not.
        oracle = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    except re.error:  # a name defined twice, and the like: see the refusals below
        return
    regex = compile_regex(pattern)
    for name in names:
        if name or r"\B" not in pattern:  # to Python the empty string has no \B
            assert regex.matches(name) == (oracle.fullmatch(name) is not None), name


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("topic-[0-9]+", ["topic-1", "topic-42"], ["topic-", "xtopic-1", "topic-1x"]),
        ("(?i)ORDERS", ["orders", "Orders"], ["order"]),
        ("(?i:a)b", ["ab", "Ab"], ["aB"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        ("[[:alpha:]_]+", ["ab_"], ["a1"]),
        ("[^[:^digit:]]+", ["12"], ["1a"]),
        (r"\pL\p{Lu}\PN", ["aBc"], ["abc", "aB1"]),
        (r"\p{Greek}|\p{^Greek}x", ["ax"], ["a"]),
        ("", [""], ["a"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("(?s:.)(?-s:.)", ["\na"], ["\n\n"]),
        ("(?m)a$", ["a"], ["a\n"]),
        ("(?m)a$\n^b", ["a\nb"], []),
        ("a$\n?b|a\n^b", [], ["a\nb"]),
        ("\u212a", [], ["K"]),  # the Kelvin sign
        ("(?i)\u212a", ["k", "K"], []),
        (r"\141\x{62}", ["ab"], []),
        (r"(?i)\p{Ll}", ["a", "K", "S"], ["A"]),  # as Kafka's library has it
        (r"(?i)\p{Lu}", ["a", "A"], ["1"]),
        (r"\p{Unknown}|\P{Unknown}x", ["ax"], ["a"]),
        ("(?i)[\u017e-\u0180]", ["s", "S"], ["t"]),  # the long s is in it
        (r"\é|a", ["a"], ["b"]),
    ],
)
def test_syntax_of_re2(pattern: str, matching: list[str], others: list[str]) -> None:
    regex = compile_regex(pattern)
    assert [name for name in (*matching, *others) if regex.matches(name)] == matching


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[", "missing closing ]"),
        ("[a", "missing closing ]"),
        ("(", "missing closing )"),
        (")", "regexp/syntax: internal error"),
        ("*a", "missing argument to repetition operator"),
        ("(|*)", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("{?", "invalid nested repetition operator"),
        ("a{2,1}", "invalid repeat count"),
        ("a{1001}", "invalid repeat count"),
        (f"a{{{'9' * 5000}}}", "invalid repeat count"),
        (f"a{{1,{'9' * 5000}}}", "invalid repeat count"),
        ("\\", "trailing backslash at end of expression"),
        (r"\8", "invalid escape sequence"),
        (r"\1", "invalid escape sequence"),
        (r"\Z", "invalid escape sequence"),
        ("[z-a]", "invalid character class range"),
        (r"\p{Foo}", "invalid character class range"),
        ("[[:foo:]]", "invalid character class range"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?z)", "invalid or unsupported Perl syntax"),
        ("(?P<a b>c)", "invalid named capture"),
        ("(?P<a>b)(?P<a>c)", "duplicate capture group name"),
        ("(" * 200 + ")" * 200, "expression nests too deeply"),
        ("((a{1000}){1000})", "expression is too large"),
    ],
)
def test_refusals_in_the_words_of_kafkas_library(pattern: str, reason: str) -> None:
    with pytest.raises(RegexError, match=re.escape(reason)):
        compile_regex(pattern)


def test_no_expression_takes_more_than_linear_time() -> None:
    regex = compile_regex("(a*)*(a|aa)*(a?){30}b")
    steps = 0
    step = regex._step

    def counted(*arguments: object) -> object:
        nonlocal steps
        steps += 1
        return step(*arguments)  # type: ignore[arg-type]

    regex._step = counted  # type: ignore[method-assign, assignment]
    assert not regex.matches("a" * 2_000)
    assert steps < 100


def test_an_empty_repetition_costs_nothing() -> None:
    assert compile_regex("(" * 30 + "){1000}" * 30).matches("")  # a Kafka 4.4.0 takes such an expression, too
    assert compile_regex("(a" + "(" * 30 + "){1000}" * 30 + "b){2}").matches("abab")


@pytest.mark.parametrize("piece", ["()", "a{0}", "(){2,}", "(((((a){1}){1}){1}){1}){1}"])
def test_a_repetition_costs_no_more_than_its_states(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces without a state of their own are not added again for each of a thousand repetitions."""
    calls, add = 0, _Builder.add

    def counted(builder: _Builder, node: Node, then: int) -> int:
        nonlocal calls
        calls += 1
        return add(builder, node, then)

    monkeypatch.setattr(_Builder, "add", counted)
    regex = compile_regex(f"({piece * 15}b){{1000}}")
    assert calls <= 2 * len(regex._program)
    assert regex.matches(("a" * 15 + "b" if "a)" in piece else "b") * 1000)


@pytest.mark.parametrize("size", [20_001, 1_000_000])
@pytest.mark.parametrize("piece", ["{", "{1", "{1,"])
def test_a_large_expression_does_not_hold_up_others(piece: str, size: int) -> None:
    """A search from each bracket to the end of a megabyte would take minutes."""
    with pytest.raises(RegexError, match="expression is too large"):
        compile_regex(piece * size + "}")


@pytest.mark.parametrize(("size", "reason"), [(40_000, "missing closing ]"), (1_000_000, "expression is too large")])
def test_a_large_set_does_not_hold_up_others(size: int, reason: str) -> None:
    with pytest.raises(RegexError, match=reason):
        compile_regex("[:" * size)


def test_what_is_remembered_is_limited() -> None:
    regex = compile_regex("(a|b)*a(a|b){14}")
    names = [format(number, "018b").replace("0", "a").replace("1", "b") for number in range(0, 1 << 18, 301)]
    oracle = re.compile("(a|b)*a(a|b){14}")
    for name in names:
        assert regex.matches(name) == (oracle.fullmatch(name) is not None)
    assert len(regex._remembered) <= 5_000


def test_an_expression_whose_matches_take_too_long_is_refused() -> None:
    assert compile_regex("a{1000}").work > 1_000  # for its states alone
    regex = compile_regex("((.?){90}){100}x")  # a second of 18,000 states for each of these names
    with pytest.raises(RegexError, match="expression is too large"):
        regex.matches("a" * 249)
    assert sum(len(states) for (states, _), _ in regex._remembered) <= MAX_WORK


def test_thousands_of_names_are_no_work_for_a_usual_expression() -> None:
    regex = compile_regex("(orders|payments|customer-[a-z]+)[.-](v[0-9]+|dlq|retry-[0-9]{1,3})")
    names = [f"{kind}{mark}v{number}" for kind in ("orders", "customer-x") for mark in ".-" for number in range(2_500)]
    assert all(map(regex.matches, names))
    assert regex.work < MAX_WORK / 100
    regex = compile_regex("[a-z]{16}")
    assert all(regex.matches((first + second) * 8) for first in ascii_lowercase for second in ascii_lowercase)
    assert regex.work < MAX_WORK / 100


def test_a_list_of_thousands_of_names_is_an_expression() -> None:
    names = [f"topic-{number}" for number in range(1_500)]
    regex = compile_regex("|".join(names))
    assert all(map(regex.matches, names))
    assert not any(regex.matches(f"{first}opic") for first in "abcdefghijklmnopqrstuvwxyz0123456789._-")
