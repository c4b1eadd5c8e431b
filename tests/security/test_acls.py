"""The standard authorizer: each rule of Kafka's, and what it remembers.

An authorizer of somebody else's: what it says counts, and what it can't say is no.
"""

from __future__ import annotations

import itertools
import logging

import pytest

from pykafka_broker.cluster.acl_index import AclIndex
from pykafka_broker.cluster.authorizer import CLUSTER_NAME, INSIDE, AllowAll, Authorizer
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.values import ConfigError
from pykafka_broker.protocol.enums import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykafka_broker.protocol.stored.access_control_entry_record import AccessControlEntryRecord
from pykafka_broker.security.acls import HookedAuthorizer, StandardAuthorizer, super_users_of

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC = AclResourceType.TOPIC
ALICE, HOST = "User:alice", "10.0.0.1"
_ids = itertools.count(1)


def acl(
    operation: int = READ,
    name: str = "t",
    permission: int = AclPermissionType.ALLOW,
    *,
    pattern: int = PatternType.LITERAL,
    principal: str = ALICE,
    host: str = "*",
    resource: int = TOPIC,
) -> AccessControlEntryRecord:
    id_ = next(_ids).to_bytes(16, "big")
    return AccessControlEntryRecord(id_, resource, name, pattern, principal, host, operation, permission)


def authorizer(*acls: AccessControlEntryRecord, **settings: object) -> StandardAuthorizer:
    return StandardAuthorizer(AclIndex(acls), **settings)  # type: ignore[arg-type]


def may(one: StandardAuthorizer, operation: AclOperation = READ, name: str = "t", principal: str = ALICE) -> bool:
    return one.allows(principal, HOST, operation, TOPIC, name)


def test_who_has_no_acl_may_do_nothing() -> None:
    assert not may(authorizer())
    assert not may(authorizer(acl(principal="User:bob")))


@pytest.mark.parametrize("allowing", [{}, {"host": HOST}, {"principal": "User:*"}, {"operation": AclOperation.ALL}])
def test_an_acl_counts_for_its_client_and_operation(allowing: dict[str, object]) -> None:
    assert may(authorizer(acl(**allowing)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other", [{"host": "10.0.0.2"}, {"principal": "Group:*"}, {"operation": WRITE}, {"name": "u"}, {"resource": 3}]
)
def test_an_acl_counts_for_nothing_else(other: dict[str, object]) -> None:
    assert not may(authorizer(acl(**other)))  # type: ignore[arg-type]


def test_names_are_literal_prefixed_or_all() -> None:
    literal, prefixed = authorizer(acl(name="ab")), authorizer(acl(name="ab", pattern=PatternType.PREFIXED))
    every, star = authorizer(acl(name="*")), authorizer(acl(name="*", pattern=PatternType.PREFIXED))
    names = ("a", "ab", "abc", "*x")
    assert [[name for name in names if may(one, name=name)] for one in (literal, prefixed, every, star)] == [
        ["ab"],
        ["ab", "abc"],
        ["a", "ab", "abc", "*x"],
        ["*x"],
    ]


@pytest.mark.parametrize(
    "denying",
    [
        {},
        {"principal": "User:*"},
        {"name": "*"},
        {"name": "", "pattern": PatternType.PREFIXED},
        {"operation": AclOperation.ALL},
    ],
)
def test_one_that_denies_counts_before_all_that_allow(denying: dict[str, object]) -> None:
    one = authorizer(acl(), acl(AclOperation.ALL, "*"), acl(permission=AclPermissionType.DENY, **denying))  # type: ignore[arg-type]
    assert not may(one)
    assert may(one, WRITE) == (denying.get("operation") != AclOperation.ALL)


@pytest.mark.parametrize("stronger", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_who_may_do_something_to_it_may_describe_it(stronger: AclOperation) -> None:
    one = authorizer(acl(stronger))
    assert may(one, DESCRIBE)
    assert not may(one, AclOperation.DESCRIBE_CONFIGS)


def test_who_may_change_configs_may_see_them() -> None:
    one = authorizer(acl(AclOperation.ALTER_CONFIGS))
    assert may(one, AclOperation.DESCRIBE_CONFIGS)
    assert not may(one, DESCRIBE)


def test_a_denial_implies_nothing() -> None:
    one = authorizer(acl(READ), acl(DESCRIBE, permission=AclPermissionType.DENY))
    assert (may(one, READ), may(one, DESCRIBE)) == (True, False)


def test_super_users_may_do_everything() -> None:
    one = authorizer(acl(AclOperation.ALL, "*", AclPermissionType.DENY, principal="User:*"), super_users=[ALICE])
    assert may(one)
    assert not may(one, principal="User:bob")
    assert one.allows_some(ALICE, HOST, WRITE, TOPIC)


def test_super_users_are_cut_at_semicolons() -> None:
    assert super_users_of("User:CN=a,O=b; User:c;;") == {"User:CN=a,O=b", "User:c"}
    assert super_users_of("") == frozenset()


def test_a_super_user_without_a_type_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value User:a; admin for configuration super.users: .* got admin"):
        super_users_of("User:a; admin")


def test_without_any_acl_for_it_the_setting_decides() -> None:
    one = authorizer(
        acl(WRITE, "t", principal="User:bob"), acl(READ, "x", pattern=PatternType.PREFIXED), allow_if_no_acl=True
    )
    assert [may(one, WRITE, name) for name in ("t", "u", "xy")] == [False, True, False]
    assert one.allows(ALICE, HOST, AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME)


def test_what_was_decided_holds_until_an_acl_changes() -> None:
    index = AclIndex([])
    one = StandardAuthorizer(index)
    record = acl()
    answers = [may(one)]
    index.add(record)
    answers.append(may(one))
    index.remove(record)
    answers.append(may(one))
    assert answers == [False, True, False]


def test_what_was_decided_for_some_name_holds_until_an_acl_changes() -> None:
    index = AclIndex([])
    one = StandardAuthorizer(index)
    answers = []
    for change in (index.add, index.remove):
        answers.append(one.allows_some(ALICE, HOST, READ, TOPIC))
        change(acl())
    answers.append(one.allows_some(ALICE, HOST, READ, TOPIC))
    assert answers == [False, True, False]


def test_it_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = authorizer(acl())
    assert may(one)
    assert one.allows_some(ALICE, HOST, READ, TOPIC)
    monkeypatch.setattr(one, "_decide", None)
    monkeypatch.setattr(one, "_decide_for_some", None)
    assert may(one)
    assert one.allows_some(ALICE, HOST, READ, TOPIC)


def test_little_is_remembered_of_those_who_ask_for_much() -> None:
    one = authorizer()
    for number in range(25_000):
        may(one, name=str(number))
    may(one, name="x" * 30_000)
    assert len(one._decisions) <= 10_000
    assert max(len(key[4] or "") for key in one._decisions) < 1000


SOME = [
    ([acl(WRITE)], True),
    ([acl(WRITE, "p", pattern=PatternType.PREFIXED)], True),
    ([acl(AclOperation.ALL)], True),
    ([acl(READ)], False),
    ([acl(WRITE, principal="User:bob")], False),
    ([acl(WRITE), acl(WRITE, permission=AclPermissionType.DENY)], False),
    ([acl(WRITE, "tt"), acl(WRITE, "t", AclPermissionType.DENY, pattern=PatternType.PREFIXED)], False),
    ([acl(WRITE, "tt", pattern=PatternType.PREFIXED), acl(WRITE, "tt", AclPermissionType.DENY)], True),
    (
        [
            acl(WRITE, "tt", pattern=PatternType.PREFIXED),
            acl(WRITE, "t", AclPermissionType.DENY, pattern=PatternType.PREFIXED),
        ],
        False,
    ),
    (
        [
            acl(WRITE, "t", pattern=PatternType.PREFIXED),
            acl(WRITE, "tt", AclPermissionType.DENY, pattern=PatternType.PREFIXED),
        ],
        True,
    ),
    ([acl(WRITE, "*"), acl(WRITE, "*", AclPermissionType.DENY)], False),
    ([acl(WRITE), acl(WRITE, "*", AclPermissionType.DENY)], False),
    ([acl(WRITE), acl(AclOperation.ALL, "*", AclPermissionType.DENY, principal="User:*")], False),
    ([acl(WRITE), acl(WRITE, "u", AclPermissionType.DENY)], True),
]


@pytest.mark.parametrize(("acls", "allowed"), SOME)
def test_whether_there_is_some_name_for_which_it_is_allowed(
    acls: list[AccessControlEntryRecord], allowed: bool
) -> None:
    assert authorizer(*acls).allows_some(ALICE, HOST, WRITE, TOPIC) is allowed


def test_for_some_name_no_right_implies_another() -> None:
    """Kafka's default method of the interface does not know either what implies what."""
    one = authorizer(acl(WRITE, "tt"))
    assert one.allows(ALICE, HOST, DESCRIBE, TOPIC, "tt")
    assert not one.allows_some(ALICE, HOST, DESCRIBE, TOPIC)


def test_the_rule_is_told_in_the_words_of_kafka() -> None:
    denying = acl(
        AclOperation.ALL, "de", AclPermissionType.DENY, pattern=PatternType.PREFIXED, principal="User:*", host=HOST
    )
    one = authorizer(acl(WRITE), denying, super_users=["User:root"])
    assert one.rule(ALICE, HOST, WRITE, TOPIC, "den") == (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=de, patternType=PREFIXED, principal=User:*, "
        "host=10.0.0.1, operation=ALL, permissionType=DENY])"
    )
    assert "operation=WRITE, permissionType=ALLOW" in one.rule(ALICE, HOST, DESCRIBE, TOPIC, "t")
    assert one.rule(ALICE, HOST, READ, TOPIC, "x") == "DefaultDeny"
    assert one.rule("User:root", HOST, READ, TOPIC, "x") == "SuperUser"


QUESTION = ("User:a", "h", AclOperation.READ, AclResourceType.TOPIC)


class Failing(Authorizer):
    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        raise KeyError(name)

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        raise KeyError(principal)

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        raise KeyError(host)


class Odd(AllowAll, Authorizer):
    closed = False

    def close(self) -> None:
        self.closed = True


class NoAuthorizer:
    pass


def hooked(kind: type) -> HookedAuthorizer:
    return HookedAuthorizer(BrokerConfig({"authorizer.class.name": f"{__name__}:{kind.__name__}"}), AllowAll())


def test_what_it_says_counts() -> None:
    one = hooked(Odd)
    assert (one.allows(*QUESTION, "t"), one.allows_some(*QUESTION)) == (True, True)
    assert one.rule(*QUESTION, "t") == "SuperUser"


def test_one_that_fails_has_said_no_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    one = hooked(Failing)
    with caplog.at_level(logging.ERROR):
        assert (one.allows(*QUESTION, "t"), one.allows_some(*QUESTION)) == (False, False)
        assert one.rule(*QUESTION, "t") == f"{__name__}:Failing"
    assert one.allows(INSIDE, *QUESTION[1:], "t")
    assert one.allows_some(INSIDE, *QUESTION[1:])
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"{__name__}:Failing has failed: KeyError: '{what}'" for what in ("t", "User:a", "h")]


def test_a_class_without_its_methods_is_refused() -> None:
    with pytest.raises(ConfigError, match="a Authorizer must have the method allows"):
        hooked(NoAuthorizer)


def test_it_is_told_that_the_broker_ends() -> None:
    one = hooked(Odd)
    one.close()
    assert isinstance(one.hook, Odd)
    assert one.hook.closed
