"""The names of subjects and contexts."""

from __future__ import annotations

import pytest

from pykafka_broker.registry.problems import RegistryError
from pykafka_broker.registry.subjects import beside, checked, context_of, has_prefix, in_context, split


def test_a_name_has_its_context_before_it() -> None:
    assert split("orders") == (".", "orders")
    assert split(":.eu:orders") == (".eu", "orders")
    assert split(":.eu:a:b") == (".eu", "a:b")
    assert split(":orders") == (".", ":orders")
    assert context_of(":.eu:") == ".eu"
    assert checked(":.:orders") == "orders"


def test_a_reference_is_to_the_same_context() -> None:
    assert beside("part", "whole") == "part"
    assert beside("part", ":.eu:whole") == ":.eu:part"
    assert beside(":.us:part", ":.eu:whole") == ":.us:part"
    assert beside(":.:part", ":.eu:whole") == beside(":.:part", "whole") == "part"


def test_a_name_without_a_context_is_put_into_one() -> None:
    assert in_context("part", ".eu") == ":.eu:part"
    assert in_context("", ".eu") == ":.eu:"
    assert in_context(":.us:part", ".eu") == ":.us:part"
    assert in_context(":*:pa", ".eu") == ":*:pa"


def test_a_prefix_is_of_one_context_or_of_any() -> None:
    assert has_prefix("orders", "or")
    assert not has_prefix(":.eu:orders", "or")
    assert has_prefix(":.eu:orders", ":.eu:or")
    assert has_prefix(":.eu:orders", ":*:or")
    assert not has_prefix("orders", ":*:x")


@pytest.mark.parametrize("name", ["", ":.eu:__GLOBAL", "__EMPTY", "a\nb", "x" * 5000])
def test_what_is_no_subject_is_refused(name: str) -> None:
    with pytest.raises(RegistryError, match="is not a valid subject"):
        checked(name)
