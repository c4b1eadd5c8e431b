"""From names of certificates to users: as Kafka's mapper does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pykafka_broker.security.tls.mapping_rules import MappingRules, NoRuleApplies

ANSWERS: list[list[str]] = json.loads(Path(__file__).with_name("names.json").read_text())["rules"]
# Refused when the listener is bound: what Kafka comes upon with the first client, or has and Python has not.
SOONER = ("RULE:.*/$3/", "RULE:^CN=([a-z&&[^b]]+).*/$1/,DEFAULT")


@pytest.mark.parametrize(("rules", "name", "answer"), ANSWERS)
def test_rules_give_the_users_that_kafka_gives(rules: str, name: str, answer: str) -> None:
    kind, _, message = answer.partition(": ")
    if rules in SOONER or (answer.startswith("! ") and kind != "! NoMatchingRule"):
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
