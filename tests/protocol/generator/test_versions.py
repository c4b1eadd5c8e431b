"""Version ranges as the schemas write them."""

from __future__ import annotations

import pytest

from protocol.generator.versions import NONE, UNBOUNDED, Versions


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", Versions(3, 3)), ("2-5", Versions(2, 5)), ("7+", Versions(7, UNBOUNDED)), ("none", NONE), (None, NONE)],
)
def test_parse(text: str | None, expected: Versions) -> None:
    assert Versions.parse(text) == expected
    assert str(expected) == (text or "none")


def test_contains_and_iterates() -> None:
    assert 5 in Versions.parse("2-5")
    assert 6 not in Versions.parse("2-5")
    assert list(Versions.parse("2-5")) == [2, 3, 4, 5]
    assert not NONE
    assert 0 not in NONE


def test_below() -> None:
    assert Versions.parse("1+").below(3) == Versions(1, 2)
    assert not Versions.parse("3+").below(3)
