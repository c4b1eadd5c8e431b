"""Names of clients from certificates.

Java's regular expressions by Python's.

From names of certificates to users: as Kafka's mapper does it.

From Kerberos principals to users, as Kafka's documentation has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.config.java_regex import compile_java
from pykafka_broker.security import principal_mapping
from pykafka_broker.security.principal_mapping import (
    KerberosNames,
    MappingRules,
    NoName,
    NoRuleApplies,
    Principals,
    replacement,
)
from tests.security.tls.certificates import authority


def test_a_name_is_mapped_once_whatever_comes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principal_mapping, "_REMEMBERED", 2)
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


def test_a_replacement_names_groups_by_number_or_name() -> None:
    pattern = compile_java("(?<a>x)(y)")
    assert replacement(r"\$1$2${a}$12b", pattern) == ["$", "1", 2, 1, 1, "2b"]
    for bad in ("$3", "$", "$x", "${b}", "a\\"):
        with pytest.raises(ValueError):
            replacement(bad, pattern)


ANSWERS: list[list[str]] = json.loads((Path(__file__).parent / "tls/names.json").read_text())["rules"]
SOONER = "RULE:.*/$3/"  # refused when the listener is bound: Kafka comes upon it with the first client


@pytest.mark.parametrize(("rules", "name", "answer"), ANSWERS)
def test_rules_give_the_users_that_kafka_gives(rules: str, name: str, answer: str) -> None:
    kind, _, message = answer.partition(": ")
    if rules == SOONER or (answer.startswith("! ") and kind != "! NoMatchingRule"):
        with pytest.raises(ValueError) as refused:
            MappingRules(rules)
        assert not message.startswith("Invalid rule") or str(refused.value) == message
    elif kind == "! NoMatchingRule":
        with pytest.raises(NoRuleApplies) as unmatched:
            MappingRules(rules).user(name)
        assert str(unmatched.value) == message
    else:
        assert MappingRules(rules).user(name) == answer


def test_only_rules_that_begin_with_the_default_leave_names_as_they_are() -> None:
    assert MappingRules("DEFAULT").is_default
    assert not MappingRules("RULE:a/b/,DEFAULT").is_default
    assert not MappingRules("").is_default


def kerberos_name(principal: str, *rules: str) -> str:
    return KerberosNames(rules or ("DEFAULT",), "R.COM").name_of(principal)


@pytest.mark.parametrize(
    ("principal", "rules", "expected"),
    [
        ("alice@R.COM", [], "alice"),
        ("kafka/host@R.COM", [], "kafka"),
        ("alice", [], "alice"),
        ("kafka/host", [], "kafka/host"),
        ("app@X.COM", ["RULE:[1:$1@$0](.*@X.COM)s/@.*//"], "app"),
        ("App@X.COM", ["RULE:[1:$1@$0](.*@X.COM)s/@.*///L"], "app"),
        ("app@X.COM", ["RULE:[1:$1@$0](.*@X.COM)s/@.*///U"], "APP"),
        ("app/host@X.COM", ["RULE:[2:$2.$1]"], "host.app"),
        ("app/host@X.COM", ["RULE:[1:$1]", "RULE:[2:$1]"], "app"),
        ("aaa@X.COM", ["RULE:[1:$1]s/a/b/"], "baa"),
        ("aaa@X.COM", ["RULE:[1:$1]s/a/b/g"], "bbb"),
        ("alice@X.COM", ["RULE:[1:$1](bob)s/bob/x/", "RULE:[1:$1]s/(al)(.*)/$2$1/"], "iceal"),
        ("alice@R.COM", ["RULE:[1:$1@$0](.*@X.COM)s/@.*//", "DEFAULT"], "alice"),
    ],
)
def test_the_first_rule_that_applies_gives_the_name(principal: str, rules: list[str], expected: str) -> None:
    assert kerberos_name(principal, *rules) == expected


@pytest.mark.parametrize(
    ("principal", "rules"),
    [
        ("alice@X.COM", []),
        ("alice@X.COM", ["RULE:[2:$1]"]),
        ("alice@X.COM", ["RULE:[1:$1@$0]"]),
        ("app/host@X.COM", ["RULE:[2:$1/$2]"]),
        ("alice@X.COM", ["RULE:[1:$1]s/.*//"]),
        ("a/b/c@R.COM", []),
        ("", []),
        ("@R.COM", []),
    ],
)
def test_without_one_there_is_no_name(principal: str, rules: list[str]) -> None:
    with pytest.raises(NoName):
        kerberos_name(principal, *rules)


@pytest.mark.parametrize("form", ["$1$2", "$12", "$1$", "$$1"])
def test_a_form_of_parts_that_there_are_not_gives_no_name(form: str) -> None:
    """No later rule helps, in Kafka's KerberosShortNamer neither."""
    with pytest.raises(NoName):
        kerberos_name("ada@R.COM", f"RULE:[1:{form}]", "DEFAULT")


@pytest.mark.parametrize("rule", ["", "NONE", "RULE:", "RULE:[x:$1]", "RULE:[1:$1](()s/a/b/", "RULE:[1:$1]s/(/b/"])
def test_a_rule_that_can_not_be_read_ends_the_start(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"principal\.to\.local\.rules"):
        KerberosNames([rule], "R.COM")


def test_a_group_that_there_is_not_ends_the_start() -> None:
    with pytest.raises(ConfigError, match=r"principal\.to\.local\.rules"):
        KerberosNames([r"RULE:[1:$1]s/a/$5/"], "R.COM")


@pytest.mark.parametrize(
    ("principal", "rule", "expected"),  # as Kafka 4.4's KerberosShortNamer answers; None: NoMatchingRule
    [
        ("adm\u00efn@X.COM", r"RULE:[1:$1](\w+)", None),
        ("adm\u0663@X.COM", r"RULE:[1:$1](adm\d)", None),
        ("a\u2028b@X.COM", "RULE:[1:$1](a.b)", None),
        ("aaa@X.COM", r"RULE:[1:$1]s/\p{Lower}/b/", "baa"),
        ("aaa@X.COM", r"RULE:[1:$1]s/a/\$x/", "$xaa"),
        ("aaa@X.COM", r"RULE:[1:$1]s/a/\\x/", r"\xaa"),
        ("aaa@X.COM", r"RULE:[1:$1]s/a/x\yz/g", "xyzxyzxyz"),
        ("ab@X.COM", "RULE:[1:$1]s/.*?/x/g", "xaxbx"),
        ("ab@X.COM", "RULE:[1:$1]s/b??/x/", "xab"),
    ],
)
def test_expressions_for_kerberos_are_those_of_java(principal: str, rule: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(NoName):
            kerberos_name(principal, rule)
    else:
        assert kerberos_name(principal, rule) == expected


@pytest.mark.parametrize(
    ("name", "rule", "expected"),  # as Kafka 4.4's SslPrincipalMapper answers
    [
        ("CN=a\rb", "RULE:^CN=(.*)$/$1/", None),
        ("CN=a\u2028b", "RULE:^CN=(.*)$/$1/", None),
        ("CN=a\r", "RULE:^CN=a.?$/x/", None),
        ("CN=a\rb", "RULE:(?s)^CN=(.*)$/$1/", "a\rb"),
        ("CN=a\rb", "RULE:^CN=([^x]*)$/$1/", "a\rb"),
    ],
)
def test_a_dot_is_no_end_of_a_line_of_java(name: str, rule: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(NoRuleApplies):
            MappingRules(rule).user(name)
    else:
        assert MappingRules(rule).user(name) == expected


def test_behind_an_empty_match_the_next_one_begins_a_character_later() -> None:
    """Kafka 4.4's SslPrincipalMapper answers the same."""
    assert MappingRules("RULE:(.*?)/x/").user("CN=a") == "xCxNx=xax"
    assert MappingRules("RULE:(.*?)//").user("CN=a") == "CN=a"


@pytest.mark.parametrize(
    ("replaced", "expected"),  # as Kafka 4.4's SslPrincipalMapper answers
    [("$1@$3", "x@$3"), ("$33$1", "$33x"), ("$10", "x0")],
)
def test_a_group_that_there_is_not_is_text_beside_one_that_there_is(replaced: str, expected: str) -> None:
    assert MappingRules(f"RULE:^CN=(.*?),(.*)$/{replaced}/").user("CN=x,O=y") == expected
