"""Rules that make names of Kerberos principals, as Kafka's documentation has them."""

from __future__ import annotations

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.kerberos_names import KerberosNames, NoName


def name(principal: str, *rules: str) -> str:
    return KerberosNames(rules or ("DEFAULT",), "R.COM").name_of(principal)


@pytest.mark.parametrize(
    ("principal", "rules", "expected"),
    [
        ("alice@R.COM", [], "alice"),
        ("kafka/host@R.COM", [], "kafka"),
        ("alice", [], "alice"),
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
    assert name(principal, *rules) == expected


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
        name(principal, *rules)


@pytest.mark.parametrize("rule", ["", "NONE", "RULE:", "RULE:[x:$1]", "RULE:[1:$1](()s/a/b/", "RULE:[1:$1]s/(/b/"])
def test_a_rule_that_can_not_be_read_ends_the_start(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"principal\.to\.local\.rules"):
        KerberosNames([rule], "R.COM")


def test_a_group_that_there_is_not_ends_the_start() -> None:
    with pytest.raises(ConfigError, match=r"principal\.to\.local\.rules"):
        KerberosNames([r"RULE:[1:$1]s/a/$5/"], "R.COM")
