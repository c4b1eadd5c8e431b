"""Decisions about very many ACLs: a step takes no longer than other requests can wait, and none is done by halves."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from pykafka_broker.cluster.acl_index import index_of
from pykafka_broker.cluster.acls import create_acls, delete_acls
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.security.acls import StandardAuthorizer
from tests.cluster.support import Cluster

TOPIC, LITERAL, READ, ALLOW, DENY, ANY, MATCH = 2, 3, 3, 3, 2, 1, 2


def creations(count: int, start: int = 0) -> CreateAclsRequest:
    return CreateAclsRequest(
        [AclCreation(TOPIC, f"topic-{n}", LITERAL, f"User:{n % 1000}", "*", READ, ALLOW) for n in range(start, count)]
    )


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    """Switch Python's garbage collection off; a broker has its `Collector` for that."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")
def full() -> Cluster:
    """A cluster with 100,000 ACLs."""
    cluster = Cluster()
    for start in range(0, 100_000, 10_000):
        cluster.do(create_acls(cluster.controller, creations(start + 10_000, start)))
    assert len(cluster.image.acls) == 100_000
    return cluster


def test_more_than_one_request_may_create_is_refused_whole() -> None:
    decision = create_acls(Cluster().controller, creations(10_001))
    assert decision.records == []
    assert {one.error_code for one in decision.reply.results} == {44}


@pytest.mark.whole
def test_many_filters_on_many_acls_are_answered_soon(full: Cluster) -> None:
    """A look at every ACL for each filter would take minutes."""
    filters = [DeleteAclsFilter(TOPIC, f"topic-{n}", MATCH, f"User:{n}", None, ANY, ANY) for n in range(5000)]
    begun = time.process_time()
    decision = delete_acls(full.controller, DeleteAclsRequest(filters))
    assert len(decision.records) == 1000
    assert time.process_time() - begun < 10


def test_a_long_name_is_compared_with_names_that_there_are(full: Cluster) -> None:
    """The beginnings of the name that no ACL's name can equal are left out: a name of 32,000 has as many."""
    filters = [DeleteAclsFilter(TOPIC, "topic-7" + "x" * 32_000, MATCH, None, None, ANY, DENY)] * 100
    begun = time.process_time()
    assert delete_acls(full.controller, DeleteAclsRequest(filters)).records == []
    assert time.process_time() - begun < 10


def test_what_one_answer_tells_is_bounded(full: Cluster) -> None:
    """An answer is bounded even if each of many filters matches the same ten thousand ACLs."""
    named = [AclCreation(TOPIC, f"t{n}", LITERAL, "User:same", "*", READ, ALLOW) for n in range(9_000)]
    full.do(create_acls(full.controller, CreateAclsRequest(named)))
    filters = [DeleteAclsFilter(TOPIC, None, ANY, "User:same", None, ANY, ANY)] * 50
    decision = delete_acls(full.controller, DeleteAclsRequest(filters))
    assert decision.records == []
    assert {one.error_code for one in decision.reply.filter_results} == {42}


def test_filters_that_have_to_be_compared_with_all_acls_are_bounded(full: Cluster) -> None:
    """A filter without a name, a principal or a host is compared with every ACL."""
    filters = [DeleteAclsFilter(TOPIC, None, ANY, None, None, ANY, DENY)] * 3
    decision = delete_acls(full.controller, DeleteAclsRequest(filters))
    assert {one.error_code for one in decision.reply.filter_results} == {0}
    decision = delete_acls(full.controller, DeleteAclsRequest(filters * 20))
    assert decision.records == []
    assert {one.error_code for one in decision.reply.filter_results} == {42}


def test_a_decision_among_very_many_is_a_few_look_ups(full: Cluster) -> None:
    authorizer = StandardAuthorizer(index_of(full.image))
    begun = time.process_time()
    for n in range(1000):
        assert authorizer.allows(f"User:{n % 1000}", "h", AclOperation.READ, AclResourceType.TOPIC, f"topic-{n}")
        assert not authorizer.allows(f"User:{n % 1000}", "h", AclOperation.WRITE, AclResourceType.TOPIC, f"topic-{n}")
        assert not authorizer.allows_some(f"User:{n % 1000}", "h", AclOperation.WRITE, AclResourceType.TOPIC)
    assert (time.process_time() - begun) / 3000 < 0.001
