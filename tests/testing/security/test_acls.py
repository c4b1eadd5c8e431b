"""What sentences about rights mean, and what is told of one that means nothing."""

from __future__ import annotations

import pytest

from pykafka_broker.cluster.authorizer import Operation, Resource
from pykafka_broker.testing.security.acls import parse_acls

USERS = ("alice", "bob")
ALLOW, DENY = 3, 2
LITERAL, PREFIXED = 3, 4


def parsed(sentence: str) -> list[tuple[object, ...]]:
    names = ("principal", "host", "permission_type", "operation", "resource_type", "pattern_type", "resource_name")
    return [tuple(getattr(each, name) for name in names) for each in parse_acls([sentence], USERS).entries]


@pytest.mark.parametrize(
    ("sentence", "meaning"),
    [
        (
            "alice may read topic orders",
            ("User:alice", "*", ALLOW, Operation.READ, Resource.TOPIC, LITERAL, "orders"),
        ),
        (
            "bob may not write topic orders from 10.0.0.1",
            ("User:bob", "10.0.0.1", DENY, Operation.WRITE, Resource.TOPIC, LITERAL, "orders"),
        ),
        ("bob may read group team-*", ("User:bob", "*", ALLOW, Operation.READ, Resource.GROUP, PREFIXED, "team-")),
        ("anyone may describe topic *", ("User:*", "*", ALLOW, Operation.DESCRIBE, Resource.TOPIC, LITERAL, "*")),
        (
            "alice  may\n idempotent-write cluster",
            ("User:alice", "*", ALLOW, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, LITERAL, "kafka-cluster"),
        ),
        (
            "ANONYMOUS may write transactional-id tx 1",
            ("User:ANONYMOUS", "*", ALLOW, Operation.WRITE, Resource.TRANSACTIONAL_ID, LITERAL, "tx 1"),
        ),
        (
            "alice may create-tokens user User:bob",
            ("User:alice", "*", ALLOW, Operation.CREATE_TOKENS, Resource.USER, LITERAL, "User:bob"),
        ),
        ("alice may all topic t", ("User:alice", "*", ALLOW, 2, Resource.TOPIC, LITERAL, "t")),
    ],
)
def test_a_sentence_is_an_acl(sentence: str, meaning: tuple[object, ...]) -> None:
    assert parsed(sentence) == [meaning]


@pytest.mark.parametrize("operations", ["read and describe", "read, describe", "read,describe", "read describe"])
def test_several_operations_are_as_many_acls(operations: str) -> None:
    assert [each[3] for each in parsed(f"alice may {operations} topic t")] == [Operation.READ, Operation.DESCRIBE]


def test_who_may_do_anything_is_a_super_user() -> None:
    rights = parse_acls(["bob may do anything", "alice may read topic t"], USERS)
    assert rights.super_users == ["User:bob"]
    assert len(rights.entries) == 1
    assert len({entry.id for entry in parse_acls(["alice may read, write topic t"], USERS).entries}) == 2


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("alice reads orders", "it must be like 'alice may read topic orders'"),
        ("carol may read topic orders", "there is no user carol; there are alice, bob"),
        ("alice may read orders", "it names none of topic, group, cluster"),
        ("alice may raed topic orders", "raed is no operation of a topic; there are read, write, create"),
        ("alice may write group g", "write is no operation of a group; there are read, delete, describe"),
        ("alice may topic orders", "it must be like"),
        ("alice may read topic", "it names no topic"),
        ("alice may alter cluster main", "there is one cluster"),
        ("anyone may do anything", "it names none of"),
    ],
)
def test_what_is_wrong_is_told(sentence: str, reason: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_acls([sentence], USERS)
    assert str(raised.value).startswith(f"{sentence!r} is no ACL: {reason}")
