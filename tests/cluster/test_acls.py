"""Decisions about very many ACLs: a step takes no longer than other requests can wait, and none is done by halves."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pykafka_broker.cluster.acl_index import index_of
from pykafka_broker.cluster.acls import create_acls, delete_acls, filter_of, matching
from pykafka_broker.cluster.authorizer import Operation, Resource
from pykafka_broker.cluster.controller import Decision
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest
from pykafka_broker.security.acls.standard import StandardAuthorizer
from pykafka_broker.steps import Pace
from tests.cluster.support import Cluster

TOPIC, LITERAL, READ, ALLOW, ANY = 2, 3, 3, 3, 1
LONGEST_STEP_S = 0.05  # a few milliseconds on a machine that does nothing else


def creations(count: int, start: int = 0) -> CreateAclsRequest:
    return CreateAclsRequest(
        [AclCreation(TOPIC, f"topic-{n}", LITERAL, f"User:{n % 1000}", "*", READ, ALLOW) for n in range(start, count)]
    )


def steps(deciding: Generator[None, None, Any]) -> tuple[Any, int, float]:
    """The result, how many steps it took, and the second longest one: the longest may be somebody else's."""
    count, longest = 0, [0.0, 0.0]
    while True:
        begun = time.thread_time()
        try:
            next(deciding)
        except StopIteration as end:
            return end.value, count, longest[0]
        count += 1
        longest = sorted([*longest, time.thread_time() - begun])[1:]


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    """A broker has its `Collector` for that."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")
def full() -> Cluster:
    """A cluster of 100,000 ACLs."""
    cluster = Cluster()
    for start in range(0, 100_000, 10_000):
        cluster.do(create_acls(cluster.controller, creations(start + 10_000, start)))
    assert len(cluster.image.acls) == 100_000
    return cluster


def test_a_flood_is_looked_at_in_steps_and_refused_whole() -> None:
    cluster = Cluster()
    decision, count, longest = steps(create_acls(cluster.controller, creations(200_000)))
    assert isinstance(decision, Decision)
    assert decision.records == []
    assert {one.error_code for one in decision.reply.results} == {44}
    assert count > 1000
    assert longest < LONGEST_STEP_S


def test_many_filters_on_many_acls_are_answered_in_steps(full: Cluster) -> None:
    """A look at every ACL for each filter would take minutes."""
    filters = [DeleteAclsFilter(TOPIC, f"topic-{n}", 2, f"User:{n}", None, ANY, ANY) for n in range(5000)]
    begun = time.perf_counter()
    decision, count, longest = steps(delete_acls(full.controller, DeleteAclsRequest(filters)))
    assert len(decision.records) == 1000
    assert count > 100
    assert longest < LONGEST_STEP_S
    assert time.perf_counter() - begun < 10


def test_what_one_answer_tells_is_bounded(full: Cluster) -> None:
    """The same ten thousand, again and again."""
    named = [AclCreation(TOPIC, f"t{n}", LITERAL, "User:same", "*", READ, ALLOW) for n in range(9_000)]
    full.do(create_acls(full.controller, CreateAclsRequest(named)))
    filters = [DeleteAclsFilter(TOPIC, None, ANY, "User:same", None, ANY, ANY)] * 50
    decision, _, _ = steps(delete_acls(full.controller, DeleteAclsRequest(filters)))
    assert decision.records == []
    assert {one.error_code for one in decision.reply.filter_results} == {42}


def test_a_look_at_all_of_them_goes_in_steps(full: Cluster) -> None:
    wanted = filter_of(DescribeAclsRequest(ANY, None, ANY, "User:7", None, ANY, ANY))
    found, count, longest = steps(matching(list(full.image.acls.values()), wanted, Pace()))
    assert len(found) == 100
    assert count > 10
    assert longest < LONGEST_STEP_S


def test_a_decision_among_very_many_is_a_few_look_ups(full: Cluster) -> None:
    authorizer = StandardAuthorizer(index_of(full.image))
    begun = time.perf_counter()
    for n in range(1000):
        assert authorizer.allows(f"User:{n % 1000}", "h", Operation.READ, Resource.TOPIC, f"topic-{n}")
        assert not authorizer.allows(f"User:{n % 1000}", "h", Operation.WRITE, Resource.TOPIC, f"topic-{n}")
        assert not authorizer.allows_some(f"User:{n % 1000}", "h", Operation.WRITE, Resource.TOPIC)
    assert (time.perf_counter() - begun) / 3000 < 0.001
