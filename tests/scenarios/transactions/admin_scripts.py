"""Transactions that somebody else ends, and how they are listed.

Rule: each function is one scenario, with topics, groups and transactional ids of its own; it reads from top to bottom,
and `answers.json` holds what Apache Kafka 4.4.0 said at each step.
"""

from __future__ import annotations

from tests.scenarios.scripts import Scripts
from tests.scenarios.transactions.client import A0, A1, NOWHERE, Client

SCENARIOS = scenario = Scripts[Client]()


@scenario
def markers_of_an_admin(c: Client) -> None:
    c.create_topic()
    p = c.init()
    c.produce(p, 0)
    c.write_marker((p[0] + 7_000_000, 0), False, A1)
    c.write_marker(p, False, NOWHERE)
    c.offsets(A0, A1)
    c.producers(A0, A1)
    c.write_marker((p[0], 0), False, A0, coordinator_epoch=-1)
    c.offsets(A0)
    c.producers(A0)
    c.produce(p, 1)
    c.write_marker((p[0], -1), False, A0)
    c.write_marker(p, True, A0, coordinator_epoch=5)
    c.write_marker(p, True, A0, coordinator_epoch=4)
    c.write_marker((p[0], 3), False, A0, coordinator_epoch=5)
    c.offsets(A0)
    c.producers(A0)
    c.produce(p, 2)
    c.end(p)
    c.wait(500)
    c.describe("t")
    c.init()
    c.end(p)


@scenario
def markers_of_both_versions(c: Client) -> None:
    c.create_topic()
    p = c.init()
    c.produce(p, 0)
    c.write_marker(p, False, A0, transaction_version=2, version=2)
    c.offsets(A0)
    c.write_marker((p[0], 1), False, A0, transaction_version=2, version=2)
    c.write_marker((p[0], 1), False, A0, transaction_version=2, version=2)
    c.write_marker(p, False, A0, transaction_version=0, version=2)
    c.offsets(A0)
    c.producers(A0)


@scenario
def listing(c: Client) -> None:
    c.create_topic()
    p, q, _ = c.init("one"), c.init("two"), c.init("three")
    c.produce(p, 0, name="one")
    c.produce(q, 0, to=A1, name="two")
    c.end(q, name="two")
    c.settle("two")
    for version in range(3):
        c.list(version=version)
    c.list(["Ongoing"])
    c.list(["Ongoing", "Empty"])
    c.list(["ongoing"])
    c.list(["Gone", "Ongoing"])
    c.list(["Gone"])
    c.list(["Dead", "PrepareEpochFence"])
    c.list(producer_ids=[q[0]])
    c.list(["Ongoing"], [q[0]])
    c.list(duration_ms=600_000)
    c.wait(50)
    c.list(duration_ms=10)
    c.list(pattern=f"{c.name('t')}.*")
    c.list(pattern=f"{c.name('t')}hre")
    c.list(pattern=".*e")
    c.list(pattern="")
    c.list(pattern="*")
    c.list(pattern="(")
    c.list(["Ongoing"], pattern=".*n.*")
    c.describe("one", "two", "three", "one")
    c.producers(A0, ("a", 7), NOWHERE)


@scenario
def timeouts(c: Client) -> None:
    c.create_topic()
    p = c.init(timeout_ms=200)
    c.produce(p, 0)
    c.add_batched(("t", p, True, [A0]))
    c.wait(2_500)
    c.settle()
    c.describe("t")
    c.offsets(A0)
    c.producers(A0)
    c.produce(p, 1)
    c.produce(p, 1, version=11)
    c.end(p)
    c.end(p, False)
    c.init(expected=p)
    q = c.init("u", timeout_ms=200)
    c.add(q, A1, name="u")
    c.produce(q, 0, to=A1, name="u", version=11)
    c.wait(2_500)
    c.settle("u")
    c.describe("u")
    c.produce(q, 1, to=A1, name="u", version=11)
    c.add(q, A1, name="u")
    c.end(q, name="u", version=3)
    c.end(q, False, name="u", version=3)
    c.init("u", expected=q)
    c.init("u")
