"""The four requests about delegation tokens: who may ask, who is told what. The answers are those of a real 4.4.0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.cluster.delegation_tokens import MAX_RENEWERS
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from pykafka_broker.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pykafka_broker.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from pykafka_broker.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from pykafka_broker.server.listeners import Listener
from tests.broker.api.real_broker import HOST, NOW, PORT, RealBroker

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
NEW = {"create": 3, "describe": 3, "renew": 2, "expire": 2}
Right = tuple[str, AclOperation, AclResourceType, str]


class Allows:
    """An authorizer that allows the given rights and nothing else."""

    def __init__(self, *allowed: Right) -> None:
        self.allowed = allowed

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        return (principal, operation, resource, name) in self.allowed

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        return False

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        return "DefaultDeny"


class Asking(RealBroker):
    """A broker that is asked on connections of named users."""

    def start(self) -> None:
        super().start()
        self.broker.services.listeners = {
            protocol: Listener(protocol, HOST, PORT, protocol=protocol)
            for protocol in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        }
        self.allow()

    def allow(self, *allowed: Right) -> None:
        authorizer = Allows(*allowed)
        self.broker.services.authorize_by(authorizer)
        self.broker.metadata.controller.authorizer = authorizer

    def be(self, name: str, protocol: str = "SASL_PLAINTEXT", *, by_token: bool = False) -> None:
        self.connection = ConnectionContext(1, protocol, (HOST, PORT), (HOST, 50000), f"User:{name}")
        self.connection.by_token = by_token

    def create(self, owner: str = "", *renewers: str, version: int = 3, kind: str | None = "User") -> Any:
        wanted = [CreatableRenewers(*renewer.split(":", 1)) for renewer in renewers]
        request = CreateDelegationTokenRequest(kind if owner else "", owner, wanted, -1)
        return self.call(request, version)

    def describe(self, *owners: str, version: int = 3, all_owners: bool = False) -> Any:
        wanted = [DescribeDelegationTokenOwner("User", owner) for owner in owners]
        return self.call(DescribeDelegationTokenRequest(None if all_owners else wanted), version)

    def seen(self, *owners: str) -> list[str]:
        """Return the owners of the tokens that are described."""
        answer = self.describe(*owners, all_owners=not owners)
        assert answer.error_code == 0
        return sorted(token.principal_name for token in answer.tokens)

    def every_request(self) -> list[Any]:
        return [
            self.create(),
            self.describe(all_owners=True),
            self.call(RenewDelegationTokenRequest(b"x", -1), 2),
            self.call(ExpireDelegationTokenRequest(b"x", -1), 2),
        ]


@pytest.fixture
def node(tmp_path: Path) -> Asking:
    node = Asking(tmp_path, **{"delegation.token.secret.key": "sesame"})
    node.be("alice")
    return node


@pytest.mark.parametrize(
    ("name", "protocol", "by_token", "may"),
    [
        ("ANONYMOUS", "PLAINTEXT", False, False),
        ("alice", "PLAINTEXT", False, False),
        ("ANONYMOUS", "SSL", False, False),
        ("CN=alice", "SSL", False, True),
        ("alice", "SASL_PLAINTEXT", False, True),
        ("alice", "SASL_SSL", False, True),
        ("alice", "SASL_SSL", True, False),
        ("alice", "nowhere", False, False),
    ],
)
def test_only_who_has_said_who_it_is_may_ask(node: Asking, name: str, protocol: str, by_token: bool, may: bool) -> None:
    node.be(name, protocol, by_token=by_token)
    created, described, renewed, expired = node.every_request()
    if may:
        assert [created.error_code, described.error_code] == [0, 0]
        assert {renewed.error_code, expired.error_code} == {ErrorCode.DELEGATION_TOKEN_NOT_FOUND}
        assert [renewed.expiry_timestamp_ms, expired.expiry_timestamp_ms] == [0, 0]
    else:
        assert {answer.error_code for answer in (created, described, renewed, expired)} == {NOT_ALLOWED}
        assert [renewed.expiry_timestamp_ms, expired.expiry_timestamp_ms] == [-1, -1]
        times = (created.issue_timestamp_ms, created.expiry_timestamp_ms, created.max_timestamp_ms)
        assert times == (-1, -1, -1)


@pytest.mark.parametrize(("by_token", "code"), [(False, ErrorCode.NONE), (True, NOT_ALLOWED)])
def test_another_broker_says_how_its_client_has_logged_in(node: Asking, by_token: bool, code: ErrorCode) -> None:
    node.be("alice", "PLAINTEXT", by_token=by_token)
    node.connection.forwarded = True
    assert node.create().error_code == code


def test_without_a_secret_key_tokens_are_disabled(tmp_path: Path) -> None:
    node = Asking(tmp_path)
    node.be("alice")
    answers = node.every_request()
    assert {answer.error_code for answer in answers} == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
    assert (answers[0].principal_name, answers[0].issue_timestamp_ms) == ("alice", 0)
    # the checks of this node come first
    assert node.create("bob").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert node.create("", "Group:x").error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_the_answer_names_owner_and_requester(node: Asking) -> None:
    node.allow(("User:alice", AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:bob"))
    made = node.create("bob", "User:carol")
    assert made.error_code == 0
    assert (made.principal_type, made.principal_name) == ("User", "bob")
    assert (made.token_requester_principal_type, made.token_requester_principal_name) == ("User", "alice")
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms) == (NOW, NOW + 86_400_000)
    assert len(made.hmac) == 64


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_name_no_requester(node: Asking, version: int) -> None:
    made = node.create(version=version)
    assert (made.error_code, made.principal_name) == (0, "alice")
    assert made.token_requester_principal_name == ""
    (token,) = node.describe("alice", version=version).tokens
    assert (token.hmac, token.token_requester_principal_name) == (made.hmac, "")


def test_a_token_for_another_needs_a_right(node: Asking) -> None:
    refused = node.create("bob", "Group:x")
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
    assert refused.issue_timestamp_ms == -1
    assert not node.broker.image.delegation_tokens


def test_one_for_oneself_needs_none(node: Asking) -> None:
    assert node.create("alice").error_code == 0


def test_an_owner_without_a_type_is_what_kafka_stumbles_over(node: Asking) -> None:
    assert node.create("bob", kind=None).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_renewer_is_a_user(node: Asking) -> None:
    refused = node.create("", "User:bob", "Group:x")
    assert (refused.error_code, refused.issue_timestamp_ms) == (ErrorCode.INVALID_PRINCIPAL_TYPE, -1)


def test_renewers_by_the_thousand_are_refused(node: Asking) -> None:
    assert node.create("", *["User:r"] * MAX_RENEWERS).error_code == 0
    refused = node.create("", *["User:r"] * (MAX_RENEWERS + 1))
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_nobody_s_tokens_are_none(node: Asking) -> None:
    node.create()
    answer = node.describe()
    assert (answer.error_code, answer.tokens) == (0, [])


def test_who_has_a_part_in_a_token_sees_it(node: Asking) -> None:
    node.allow(("User:alice", AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:bob"))
    node.create("bob", "User:carol")
    for name in ("alice", "bob", "carol"):
        node.be(name)
        assert node.seen() == node.seen("bob") == node.seen("alice") == node.seen("carol", "x") == ["bob"]
        assert node.seen("x") == []
    node.be("dave")
    assert node.seen() == node.seen("bob") == []


def test_others_see_it_by_a_right(node: Asking) -> None:
    first, second = node.create(), node.create()
    node.be("bob")
    node.allow(("User:bob", AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, first.token_id))
    (token,) = node.describe("alice").tokens
    assert (token.token_id, token.hmac) == (first.token_id, first.hmac)
    node.allow(("User:bob", AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, "User:alice"))
    assert {token.token_id for token in node.describe("alice").tokens} == {first.token_id, second.token_id}
    assert node.seen("bob") == []


def test_a_token_is_described_with_all_that_is_known_of_it(node: Asking) -> None:
    made = node.create("", "User:bob", "User:c:d")
    (token,) = node.describe("alice").tokens
    assert (token.principal_type, token.principal_name) == ("User", "alice")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "alice")
    assert (token.token_id, token.hmac) == (made.token_id, made.hmac)
    assert (token.issue_timestamp, token.max_timestamp) == (NOW, made.max_timestamp_ms)
    assert [(each.principal_type, each.principal_name) for each in token.renewers] == [("User", "bob"), ("User", "c:d")]


def test_renewed_and_removed_by_the_renewer(node: Asking) -> None:
    made = node.create("", "User:bob")
    node.be("bob")
    node.now += 1000
    renewed = node.call(RenewDelegationTokenRequest(made.hmac, 5000), 2)
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, node.now + 5000)
    removed = node.call(ExpireDelegationTokenRequest(made.hmac, -1), 2)
    assert (removed.error_code, removed.expiry_timestamp_ms) == (0, node.now)
    assert node.seen() == []


def test_tokens_outlive_a_restart(node: Asking) -> None:
    made = node.create("", "User:bob")
    node.restart()
    (token,) = node.describe("alice").tokens
    assert (token.token_id, token.hmac) == (made.token_id, made.hmac)
