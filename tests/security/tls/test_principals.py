"""Who a client is by its certificate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka_broker.security.tls import principals
from pykafka_broker.security.tls.mapping_rules import MappingRules
from pykafka_broker.security.tls.principals import Principals
from tests.security.tls.certificates import authority


def test_a_name_is_mapped_once_whatever_comes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principals, "_REMEMBERED", 2)
    asked: list[str] = []

    def guarded(user: Callable[[str], str], name: str) -> str:
        asked.append(name)
        return user(name)

    found = Principals(MappingRules("RULE:^CN=(a.*)$/$1/U"), guarded)
    alice, bob, third = (authority().issue(name, ()).der() for name in ("alice", "bob", "c"))
    for _ in range(3):
        assert found.of(alice) == "User:ALICE"
        with pytest.raises(ValueError, match="No rules apply to CN=bob"):
            found.of(bob)
    assert asked == ["CN=alice", "CN=bob"]
    with pytest.raises(ValueError, match="No rules"):
        found.of(third)
    assert found.of(alice) == "User:ALICE"
    assert asked == ["CN=alice", "CN=bob", "CN=c", "CN=alice"]


def test_without_rules_nothing_is_guarded() -> None:
    def never(user: Callable[[str], str], name: str) -> str:
        raise AssertionError

    assert Principals(MappingRules("DEFAULT"), never).of(authority().der) == "User:CN=Test CA"
