"""CreateAcls, DescribeAcls and DeleteAcls on a broker with the standard authorizer: the answers of a real Kafka 4.4.0,
as `interop/test_security_acls.py` asks for them there too.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.broker.api.real_broker import RealBroker

WITH_ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
LITERAL, PREFIXED = 3, 4
ANY, MATCH, READ, ALLOW, DENY = 1, 2, 3, 3, 2
TOO_MANY = "Unable to perform excessively large batch operation."


@pytest.fixture
def node(tmp_path: Path) -> RealBroker:
    return RealBroker(tmp_path, **WITH_ACLS)


def acl(name: str = "t", operation: int = READ, permission: int = ALLOW, **other: Any) -> AclCreation:
    fields: dict[str, Any] = {"principal": "User:alice", "host": "*", "resource_type": int(TOPIC)}
    fields["resource_pattern_type"] = LITERAL
    return AclCreation(resource_name=name, operation=operation, permission_type=permission, **fields | other)


def create(node: RealBroker, *acls: AclCreation) -> list[tuple[int, str | None]]:
    answer = node.call(CreateAclsRequest(list(acls)), 3)
    return [(one.error_code, one.error_message) for one in answer.results]


def wanted(kind: int = ANY, name: str | None = None, pattern: int = ANY, **other: Any) -> tuple[Any, ...]:
    fields = {"principal": None, "host": None, "operation": ANY, "permission": ANY} | other
    return (kind, name, pattern, *fields.values())


def described(node: RealBroker, *filter_: Any) -> list[tuple[str, int, str, int, int]]:
    answer = node.call(DescribeAclsRequest(*(filter_ or wanted())), 3)
    assert (answer.error_code, answer.error_message) == (0, "")
    return sorted(
        (one.resource_name, one.pattern_type, each.principal, each.operation, each.permission_type)
        for one in answer.resources
        for each in one.acls
    )


def delete(node: RealBroker, *filters: tuple[Any, ...]) -> list[tuple[int, str | None, list[str]]]:
    answer = node.call(DeleteAclsRequest([DeleteAclsFilter(*one) for one in filters]), 3)
    return [
        (one.error_code, one.error_message, [each.resource_name for each in one.matching_acls])
        for one in answer.filter_results
    ]


def test_what_is_created_is_described_once_and_is_there_after_a_restart(node: RealBroker) -> None:
    assert create(node, acl(), acl(), acl("u", resource_pattern_type=PREFIXED)) == [(0, "")] * 3
    assert create(node, acl()) == [(0, "")]
    there = [("t", LITERAL, "User:alice", READ, ALLOW), ("u", PREFIXED, "User:alice", READ, ALLOW)]
    assert described(node) == there
    node.restart()
    assert described(node) == there
    assert node.broker.services.authorizer.allows("User:alice", "h", AclOperation.READ, TOPIC, "uu")


NAMES_OF_CLUSTER = "The only valid name for the CLUSTER resource is kafka-cluster"
NO_COLON = (
    "Could not parse principal from `User` (no colon is present separating the principal type from the principal name)"
)
REFUSED = [
    (acl(""), 42, "Invalid empty resource name"),
    (acl("", resource_type=CLUSTER), 42, NAMES_OF_CLUSTER),
    (acl("kafka", resource_type=CLUSTER, resource_pattern_type=PREFIXED), 42, NAMES_OF_CLUSTER),
    (acl(resource_type=8, operation=77), 42, "Invalid resourceType UNKNOWN"),
    (acl(resource_pattern_type=5, operation=77), 42, "Invalid patternType UNKNOWN"),
    (acl(operation=16, permission=4), 42, "Invalid operation UNKNOWN"),
    (acl(permission=4, principal="x"), 42, "Invalid permissionType UNKNOWN"),
    (
        acl(principal="User"),
        42,
        NO_COLON,
    ),
]


@pytest.mark.parametrize(("bad", "code", "message"), REFUSED)
def test_what_is_wrong_is_refused_and_the_others_go_through(
    node: RealBroker, bad: AclCreation, code: int, message: str
) -> None:
    assert create(node, acl("before"), bad, acl("after")) == [(0, ""), (code, message), (0, "")]
    assert [one[0] for one in described(node)] == ["after", "before"]


@pytest.mark.parametrize(
    "odd",
    [
        acl("kafka-cluster", resource_type=CLUSTER, resource_pattern_type=PREFIXED),
        acl("User:q", resource_type=7),
        acl(principal=":x", host=" "),
        acl("a b/%", host="1.2.3.0/24"),
        acl("*", resource_pattern_type=PREFIXED),
    ],
)
def test_what_is_odd_is_kept(node: RealBroker, odd: AclCreation) -> None:
    assert create(node, odd) == [(0, "")]
    assert len(described(node)) == 1


@pytest.mark.parametrize(("release", "told"), [("4.3", (0, "")), ("4.4", (42, "Host pattern cannot be null or empty"))])
def test_since_4_4_a_host_is_not_empty(tmp_path: Path, release: str, told: tuple[int, str]) -> None:
    node = RealBroker(tmp_path, **WITH_ACLS, **{"pykafka.emulate": release})
    assert create(node, acl(host=""), acl(host="", principal="x")) == [told, (42, NO_COLON.replace("`User`", "`x`"))]


@pytest.mark.parametrize(
    "any_", [{"resource_type": ANY}, {"resource_pattern_type": MATCH}, {"operation": ANY}, {"permission": ANY}]
)
def test_an_acl_for_anything_whatever_is_none(node: RealBroker, any_: dict[str, Any]) -> None:
    assert create(node, acl("u"), acl(**any_)) == [(-1, None)] * 2
    assert described(node) == []


@pytest.mark.parametrize("unknown", ["resource_type", "resource_pattern_type", "operation", "permission"])
def test_one_that_calls_itself_unknown_closes_the_connection(node: RealBroker, unknown: str) -> None:
    one: dict[str, Any] = {unknown: 0}
    with pytest.raises(FrameError):
        create(node, acl(**one))
    with pytest.raises(FrameError):
        described(node, *wanted(kind=0))
    with pytest.raises(FrameError):
        delete(node, wanted(operation=0))


@pytest.fixture
def filled(node: RealBroker) -> RealBroker:
    create(
        node,
        acl("t"),
        acl("ta"),
        acl("t", resource_pattern_type=PREFIXED),
        acl("*"),
        acl("*", resource_pattern_type=PREFIXED),
        acl("t", resource_type=AclResourceType.GROUP, principal="User:bob", host="10.0.0.1"),
        acl("t", 4, DENY),
    )
    return node


FILTERS = [
    (wanted(), 7),
    (wanted(TOPIC), 6),
    (wanted(TOPIC, "t"), 3),
    (wanted(TOPIC, "t", LITERAL), 2),
    (wanted(TOPIC, "t", PREFIXED), 1),
    (wanted(TOPIC, None, PREFIXED), 2),
    (wanted(TOPIC, None, MATCH), 6),
    (wanted(TOPIC, "ta", MATCH), 3),
    (wanted(TOPIC, "*", MATCH), 2),
    (wanted(TOPIC, ""), 0),
    (wanted(ANY, "t", principal="User:bob"), 1),
    (wanted(ANY, None, host="10.0.0.1"), 1),
    (wanted(ANY, None, host="*"), 6),
    (wanted(operation=4), 1),
    (wanted(permission=DENY), 1),
    (wanted(principal="bob"), 0),
    (wanted(kind=99), 0),
    (wanted(operation=99), 0),
]


@pytest.mark.parametrize(("filter_", "count"), FILTERS)
def test_a_filter_finds_what_it_means(filled: RealBroker, filter_: tuple[Any, ...], count: int) -> None:
    assert len(described(filled, *filter_)) == count


@pytest.mark.parametrize("besides", [0, 10])
@pytest.mark.parametrize(("filter_", "count"), [one for one in FILTERS if 99 not in one[0]])
def test_what_a_filter_means_is_deleted(filled: RealBroker, filter_: tuple[Any, ...], count: int, besides: int) -> None:
    """Each filter deletes the ACLs that it means, also where so many filters come that ACLs are looked up."""
    others = [wanted(TOPIC, f"no{number}") for number in range(besides)]
    code, message, found = delete(filled, *others, filter_)[-1]
    assert (code, message, len(found)) == (0, None, count)
    assert len(described(filled)) == 7 - count
    assert not described(filled, *filter_)


def test_filters_may_mean_the_same(filled: RealBroker) -> None:
    results = delete(filled, wanted(TOPIC, "ta"), wanted(TOPIC, "ta"), wanted(kind=99), wanted(permission=4))
    assert results == [
        (0, None, ["ta"]),
        (0, None, ["ta"]),
        (42, "Unknown patternFilter.", []),
        (42, "Unknown entryFilter.", []),
    ]
    assert delete(filled, wanted(TOPIC, "ta")) == [(0, None, [])]
    assert delete(filled) == []


def test_too_many_at_once_are_none(node: RealBroker) -> None:
    many = [acl(f"t{number}") for number in range(10_001)]
    told = create(node, acl(""), *many)
    assert told[0] == (42, "Invalid empty resource name")
    assert set(told[1:]) == {(44, TOO_MANY)}
    assert described(node) == []
    assert set(create(node, *many[:10_000])) == {(0, "")}
    create(node, acl("one"))
    refused: tuple[int, str | None, list[str]] = (
        42,
        "Cannot remove more than 10000 acls in a single delete operation.",
        [],
    )
    assert delete(node, wanted(TOPIC, "nothing"), wanted(TOPIC)) == [refused] * 2
    assert [len(found) for _, _, found in delete(node, wanted(TOPIC, "one"), wanted(AclResourceType.GROUP))] == [1, 0]
    assert [len(found) for _, _, found in delete(node, wanted())] == [10_000]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_rights_and_names_that_come_twice_are_looked_at_before_the_time(node: RealBroker, timeout_ms: int) -> None:
    """With Kafka the whole request is out of time as soon as its controller has something to do."""

    def codes(*names: str) -> list[int]:
        new = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], timeout_ms)
        more = CreatePartitionsRequest([CreatePartitionsTopic(name, 2) for name in names], timeout_ms)
        told = sorted(each.error_code for each in node.call(new, 7).topics)
        assert told == sorted(each.error_code for each in node.call(more, 3).results)
        return told

    def deleted(*names: str | None) -> list[int]:
        gone = DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=timeout_ms)
        return [each.error_code for each in node.call(gone, 6).responses]

    elect = ElectLeadersRequest(0, [TopicPartitions("t", [0])], timeout_ms)
    assert (codes("t"), codes("t", "t"), codes("t", "t", "u")) == ([7], [42], [7, 7, 7])
    assert node.call(elect, 2).error_code == 7
    assert (deleted("t"), deleted("t", "t"), deleted(None)) == ([7], [42], [42])
    node.connection.principal = "User:eve"
    assert (codes("t"), codes("t", "t", "u")) == ([29], [29, 42])
    assert node.call(elect, 2).error_code == 31


def test_without_the_right_nothing_is_told_and_nothing_done(filled: RealBroker) -> None:
    filled.connection.principal = "User:eve"
    assert [code for code, _ in create(filled, acl("x"), acl(""))] == [31, 31]
    assert [one[0] for one in delete(filled, wanted(), wanted(kind=99))] == [31, 31]
    answer = filled.call(DescribeAclsRequest(*wanted()), 3)
    assert (answer.error_code, answer.resources) == (31, [])
    filled.connection.principal = "User:ANONYMOUS"
    assert len(described(filled)) == 7


def test_without_an_authorizer_there_are_no_acls(tmp_path: Path) -> None:
    node = RealBroker(tmp_path)
    assert create(node, acl()) == [(54, "No Authorizer is configured.")]
    assert delete(node, wanted()) == [(54, "No Authorizer is configured.", [])]
    assert node.call(DescribeAclsRequest(*wanted()), 3).error_code == 54


def test_an_acl_counts_at_once_also_for_answers_that_are_remembered(node: RealBroker) -> None:
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 5)

    def seen(user: str) -> int:
        node.connection.principal = user
        code: int = node.call(MetadataRequest([MetadataRequestTopic(name="t")]), 12).topics[0].error_code
        node.connection.principal = "User:ANONYMOUS"
        return code

    before = [seen("User:alice"), seen("User:ANONYMOUS"), seen("User:alice")]
    create(node, acl("t"))
    after = [seen("User:alice"), seen("User:bob")]
    delete(node, wanted())
    assert (before, after, seen("User:alice")) == ([29, 0, 29], [0, 29], 29)


def test_a_denial_is_one_line_in_the_log_as_kafka_writes_it(node: RealBroker, caplog: pytest.LogCaptureFixture) -> None:
    create(node, acl("den", 8, DENY))
    node.connection.principal = "User:alice"
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        node.call(MetadataRequest([MetadataRequestTopic(name="den"), MetadataRequestTopic(name="none")]), 12)
        node.call(MetadataRequest(None), 12)
    lines = [record.getMessage() for record in caplog.records if record.name == "kafka.authorizer.logger"]
    common = "Principal = User:alice is Denied operation = DESCRIBE from host = 127.0.0.1 on resource = Topic:LITERAL:"
    then = " for request = Metadata with resourceRefCount = 1 based on rule "
    rule = (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=den, patternType=LITERAL, principal=User:alice, "
        "host=*, operation=DESCRIBE, permissionType=DENY])"
    )
    assert lines == [f"{common}den{then}{rule}", f"{common}none{then}DefaultDeny"]


def test_a_name_that_a_client_has_made_up_stays_on_its_line(node: RealBroker, caplog: pytest.LogCaptureFixture) -> None:
    node.connection.principal = "User:alice"
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        node.call(MetadataRequest([MetadataRequestTopic(name="a\nPrincipal = User:root is Allowed")]), 12)
    assert "Topic:LITERAL:'a\\nPrincipal = User:root is Allowed' for request" in caplog.text
