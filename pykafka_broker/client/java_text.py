"""Text as Java reads it. Rule: a number is digits of ASCII behind a sign, where Python takes `1_0` and ` 1` too."""

from __future__ import annotations

import math
import re

_DIGITS = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


def integer(text: str) -> int:
    """Of 32 bits, as `Integer.parseInt`. Raises ValueError."""
    return _within(text, 32)


def long(text: str) -> int:
    """Of 64 bits, as `Long.parseLong`. Raises ValueError."""
    return _within(text, 64)


def double(text: str) -> float:
    """As `Double.parseDouble`. Raises ValueError."""
    text = text.strip()
    if hexadecimal := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(hexadecimal[1])
        except OverflowError:
            return math.copysign(math.inf, -1 if text[0] == "-" else 1)
    if not _DOUBLE.fullmatch(text):
        raise ValueError(f'For input string: "{text}"')
    return float(text[:-1] if text[-1] in "fFdD" else text)


def java_split(separator: str, text: str) -> list[str]:
    """As `String.split`, which leaves out what is empty at the end. separator: a regular expression."""
    found = re.split(separator, text)
    while text and found and not found[-1]:
        found.pop()
    return found


def _within(text: str, bits: int) -> int:
    limit = 1 << bits - 1
    if _DIGITS.fullmatch(text) and -limit <= int(text) < limit:
        return int(text)
    raise ValueError(f'For input string: "{text}"')
