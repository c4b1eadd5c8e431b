"""Tokens in compact form are read strictly."""

from __future__ import annotations

import pytest

from pykafka_broker.security.sasl.jws import InvalidToken, json_object, json_of, parts_of, text_claim, time_claim
from tests.security.sasl.bearer import encoded


def test_three_parts_make_a_token() -> None:
    assert parts_of("a.b.") == ["a", "b", ""]
    for token in ("", "a", "a.b", "a.b.c.d", "." * 100_000):
        with pytest.raises(InvalidToken):
            parts_of(token)


def test_a_part_is_an_object_in_base64() -> None:
    assert json_object(encoded({"a": "ü>?"})) == {"a": "ü>?"}
    for part in ("", "a", "=", "e30=", "{}", "+/+/", "ab cd", encoded([]), encoded("{"), encoded('{"a":1}x')):
        with pytest.raises(InvalidToken):
            json_object(part)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":1,"a":2}', "NaN", "-Infinity", '{"a":' * 5000])
def test_json_that_is_none(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        json_of(text.encode())


def test_a_claim_of_text_is_there_and_not_blank() -> None:
    assert text_claim({"sub": " a "}, "sub") == " a "
    for found in (None, 5, "", "\t ", ["a"], {"a": 1}):
        with pytest.raises(InvalidToken, match="sub"):
            text_claim({"sub": found}, "sub")


def test_a_claim_of_text_has_whole_characters() -> None:
    assert text_claim(json_object(encoded('{"sub":"\\ud83d\\ude00"}')), "sub") == "\U0001f600"
    for found in ("\\ud83d", "\\ude00", "a\\udfffb"):
        with pytest.raises(InvalidToken, match="its claim sub has half a character"):
            text_claim(json_object(encoded(f'{{"sub":"{found}"}}')), "sub")


def test_a_time_is_a_number_of_seconds() -> None:
    assert time_claim({}, "exp") is None
    assert time_claim({"exp": 5}, "exp") == 5.0
    assert time_claim({"exp": 5.25}, "exp") == 5.25
    for found in ("5", True, [5], 1 << 40, 1e300, float("inf"), -(1 << 41)):
        with pytest.raises(InvalidToken, match="exp"):
            time_claim({"exp": found}, "exp")
