"""Rights of one client, as handlers and decisions ask for them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pykafka_broker.cluster.authorizer import ANYTHING, CLUSTER_NAME, OPERATIONS, Rights, denial
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode

Question = tuple[AclOperation, AclResourceType, str]


class Alice(NamedTuple):
    principal: str = "User:alice"
    client_host: str = "10.0.0.1"


class Request(NamedTuple):
    connection: Alice = Alice()
    api_key: int = ApiKey.FETCH


ASKING = Request()


class Only:
    """An authorizer that allows one thing to Alice and remembers the questions."""

    def __init__(self, *allowed: Question) -> None:
        self.allowed = allowed
        self.asked: list[Question] = []

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        self.asked.append((operation, resource, name))
        return (principal, host) == Alice() and (operation, resource, name) in self.allowed

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        return (principal, host) == Alice() and (operation, resource) in [one[:2] for one in self.allowed]

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        return "Only"


READ_T = (AclOperation.READ, AclResourceType.TOPIC, "t")


def test_the_authorizer_is_asked_for_that_client_and_that_name() -> None:
    rights = Rights(Only(READ_T), ASKING)
    assert rights.allow(*READ_T)
    assert not rights.allow(AclOperation.READ, AclResourceType.TOPIC, "u")
    assert not rights.allow(AclOperation.WRITE, AclResourceType.TOPIC, "t")
    assert not Rights(Only(READ_T), Request(Alice(client_host="10.0.0.2"))).allow(*READ_T)


def test_a_right_on_some_name_is_asked_for_without_one() -> None:
    rights = Rights(Only(READ_T), ASKING)
    assert rights.allow_some(AclOperation.READ, AclResourceType.TOPIC)
    assert not rights.allow_some(AclOperation.WRITE, AclResourceType.TOPIC)


def test_the_cluster_needs_no_name() -> None:
    assert Rights(Only((AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME)), ASKING).allow(
        AclOperation.ALTER, AclResourceType.CLUSTER
    )


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (AclResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (AclResourceType.DELEGATION_TOKEN, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        (AclResourceType.USER, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
    ],
)
def test_each_kind_is_denied_with_its_own_error(resource: AclResourceType, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as denied:
        Rights(Only(), ASKING).require(AclOperation.DESCRIBE, resource, "name")
    assert (denied.value.code, denied.value.message) == (code, denial(resource).message)
    assert denied.value.message


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [
        (ConfigResourceType.TOPIC, AclResourceType.TOPIC, "7"),
        (ConfigResourceType.GROUP, AclResourceType.GROUP, "7"),
        (ConfigResourceType.BROKER, AclResourceType.CLUSTER, CLUSTER_NAME),
        (ConfigResourceType.BROKER_LOGGER, AclResourceType.CLUSTER, CLUSTER_NAME),
        (ConfigResourceType.CLIENT_METRICS, AclResourceType.CLUSTER, CLUSTER_NAME),
    ],
)
def test_configs_belong_to_topics_groups_or_the_cluster(kind: int, resource: AclResourceType, name: str) -> None:
    nobody = Only()
    with pytest.raises(ApiError) as denied:
        Rights(nobody, ASKING).require_config(AclOperation.ALTER_CONFIGS, kind, "7")
    assert denied.value.code is denial(resource).code
    assert nobody.asked == [(AclOperation.ALTER_CONFIGS, resource, name)]


def test_configs_of_nothing_are_nobodys() -> None:
    nobody = Only()
    Rights(nobody, ASKING).require_config(AclOperation.ALTER_CONFIGS, 3, "7")
    assert nobody.asked == []


def test_operations_are_bits_by_their_numbers() -> None:
    some = Only(READ_T, (AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC, "t"))
    assert Rights(some, ASKING).operations(AclResourceType.TOPIC, "t") == 1 << 3 | 1 << 11
    assert Rights(some, ASKING).operations(AclResourceType.TOPIC, "u") == 0


@pytest.mark.parametrize(
    ("resource", "bits"),
    [(AclResourceType.TOPIC, 3576), (AclResourceType.GROUP, 3400), (AclResourceType.CLUSTER, 8096)],
)
def test_the_node_itself_may_do_all_that_kafka_lists(resource: AclResourceType, bits: int) -> None:
    assert ANYTHING.operations(resource) == bits
    assert bits.bit_count() == len(OPERATIONS[resource])
