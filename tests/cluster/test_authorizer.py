"""Rights of one client, as handlers and decisions ask for them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pykafka_broker.cluster.authorizer import ANYTHING, CLUSTER_NAME, OPERATIONS, Operation, Resource, Rights, denial
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode

Question = tuple[Operation, Resource, str]


class Alice(NamedTuple):
    principal: str = "User:alice"
    client_host: str = "10.0.0.1"


class Request(NamedTuple):
    connection: Alice = Alice()
    api_key: int = ApiKey.FETCH


ASKING = Request()


class Only:
    """Allows one thing to Alice, and remembers what it was asked."""

    def __init__(self, *allowed: Question) -> None:
        self.allowed = allowed
        self.asked: list[Question] = []

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        self.asked.append((operation, resource, name))
        return (principal, host) == Alice() and (operation, resource, name) in self.allowed

    def allows_some(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        return (principal, host) == Alice() and (operation, resource) in [one[:2] for one in self.allowed]

    def rule(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> str:
        return "Only"


READ_T = (Operation.READ, Resource.TOPIC, "t")


def test_the_authorizer_is_asked_for_that_client_and_that_name() -> None:
    rights = Rights(Only(READ_T), ASKING)
    assert rights.allow(*READ_T)
    assert not rights.allow(Operation.READ, Resource.TOPIC, "u")
    assert not rights.allow(Operation.WRITE, Resource.TOPIC, "t")
    assert not Rights(Only(READ_T), Request(Alice(client_host="10.0.0.2"))).allow(*READ_T)


def test_a_right_on_some_name_is_asked_for_without_one() -> None:
    rights = Rights(Only(READ_T), ASKING)
    assert rights.allow_some(Operation.READ, Resource.TOPIC)
    assert not rights.allow_some(Operation.WRITE, Resource.TOPIC)


def test_the_cluster_needs_no_name() -> None:
    assert Rights(Only((Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)), ASKING).allow(
        Operation.ALTER, Resource.CLUSTER
    )


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (Resource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (Resource.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (Resource.DELEGATION_TOKEN, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        (Resource.USER, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
    ],
)
def test_each_kind_is_denied_with_its_own_error(resource: Resource, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as denied:
        Rights(Only(), ASKING).require(Operation.DESCRIBE, resource, "name")
    assert (denied.value.code, denied.value.message) == (code, denial(resource).message)
    assert denied.value.message


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [
        (ConfigResourceType.TOPIC, Resource.TOPIC, "7"),
        (ConfigResourceType.GROUP, Resource.GROUP, "7"),
        (ConfigResourceType.BROKER, Resource.CLUSTER, CLUSTER_NAME),
        (ConfigResourceType.BROKER_LOGGER, Resource.CLUSTER, CLUSTER_NAME),
        (ConfigResourceType.CLIENT_METRICS, Resource.CLUSTER, CLUSTER_NAME),
    ],
)
def test_configs_belong_to_topics_groups_or_the_cluster(kind: int, resource: Resource, name: str) -> None:
    nobody = Only()
    with pytest.raises(ApiError) as denied:
        Rights(nobody, ASKING).require_config(Operation.ALTER_CONFIGS, kind, "7")
    assert denied.value.code is denial(resource).code
    assert nobody.asked == [(Operation.ALTER_CONFIGS, resource, name)]


def test_configs_of_nothing_are_nobodys() -> None:
    nobody = Only()
    Rights(nobody, ASKING).require_config(Operation.ALTER_CONFIGS, 3, "7")
    assert nobody.asked == []


def test_operations_are_bits_by_their_numbers() -> None:
    some = Only(READ_T, (Operation.ALTER_CONFIGS, Resource.TOPIC, "t"))
    assert Rights(some, ASKING).operations(Resource.TOPIC, "t") == 1 << 3 | 1 << 11
    assert Rights(some, ASKING).operations(Resource.TOPIC, "u") == 0


@pytest.mark.parametrize(
    ("resource", "bits"), [(Resource.TOPIC, 3576), (Resource.GROUP, 3400), (Resource.CLUSTER, 8096)]
)
def test_the_node_itself_may_do_all_that_kafka_lists(resource: Resource, bits: int) -> None:
    assert ANYTHING.operations(resource) == bits
    assert bits.bit_count() == len(OPERATIONS[resource])
