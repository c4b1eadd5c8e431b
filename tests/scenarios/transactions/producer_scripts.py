"""Producer ids, epochs, and who is fenced by whom.

Rule: each function is one scenario, with topics, groups and transactional ids of its own; it reads from top to bottom,
and `answers.json` holds what Apache Kafka 4.4.0 said at each step.
"""

from __future__ import annotations

from tests.scenarios.scripts import Scripts
from tests.scenarios.transactions.client import A0, A1, Client

SCENARIOS = scenario = Scripts[Client]()


@scenario
def plain_producer_ids(c: Client) -> None:
    for version in range(6):
        c.init(None, version=version)
    c.init(None, timeout_ms=-5)
    c.init("")


@scenario
def takeovers(c: Client) -> None:
    for version in range(6):
        c.init(version=version)
    for timeout_ms in (0, -1, 900_000, 900_001):
        c.init("other", timeout_ms=timeout_ms)
    first = c.init("third", timeout_ms=30_000)
    c.describe("t", "other", "third", "nobody", "")
    second = c.init("third", expected=first)
    c.init("third", expected=first)
    c.init("third", expected=first, version=3)
    c.init("third")
    for version in (3, 4):
        c.init("third", expected=second, version=version)
    c.init("third", expected=(first[0] + 7_000_000, 0))
    c.init("third", expected=(first[0], 99))
    c.init("third", expected=(first[0], -1))
    c.init("third", expected=(-1, 3))
    c.init("new", expected=(first[0], 5))
    c.init("new", expected=(first[0], 5))


@scenario
def fencing_by_version(c: Client) -> None:
    c.create_topic()
    c.await_group()
    old = c.init()
    new = c.init()
    for version in range(4):
        c.add(old, A0, version=version)
    for version in range(5):
        c.add_offsets(old, "g", version=version)
    for version in range(6):
        c.end(old, version=version)
    stranger = (new[0] + 7_000_000, 0)
    c.add(stranger, A0)
    c.add(stranger, A0, name="nobody")
    c.add(stranger, A0, name="")
    c.add_offsets(stranger, "g")
    c.add_offsets(new, "")
    c.add_offsets(new, "g", name="")
    c.end(stranger, version=4)
    c.end(stranger)
    c.end(stranger, name="nobody")
    c.end(new, name="")
    for version in (3, 9, 11, 12):
        c.produce(old, 0, version=version)
        c.produce(stranger, 0, version=version)
        c.produce(new, 0, name="nobody", version=version)
    c.add(new, A0)
    for version in (3, 9, 11, 12):
        c.produce(old, 0, version=version)
    c.produce(new, 0, version=11)
    for version in (3, 9, 11, 12):
        c.produce(old, 0, version=version)
    c.describe("t")


@scenario
def takeover_of_an_open_transaction(c: Client) -> None:
    c.create_topic()
    p = c.init()
    c.produce(p, 0)
    c.init(expected=(p[0] + 7_000_000, 0))
    c.init()
    c.settle()
    c.describe("t")
    c.offsets(A0)
    c.producers(A0)
    c.produce(p, 1)
    c.end(p)
    c.end(p, False)
    c.init(expected=p)
    new = c.init()
    c.describe("t")
    c.produce(p, 1)
    c.end(p)
    c.produce(new, 0)
    c.init(expected=new)
    c.settle()
    c.init(expected=new)
    c.describe("t")


@scenario
def epochs_run_out(c: Client) -> None:
    c.create_topic()
    c.age("t", 32_765)
    p = c.init()
    c.init(expected=p)
    c.init(expected=p)
    c.describe("t")
    c.age("u", 32_766)
    c.init("u")
    c.age("v", 32_765)
    p = c.init("v")
    c.produce(p, 0, name="v")
    second = c.end(p, name="v")
    c.settle("v")
    c.describe("v")
    c.end(p, name="v")
    c.end(p, False, name="v")
    c.produce(second, 0, name="v")
    c.producers(A0)
    c.age("w", 32_765)
    p = c.init("w")
    c.produce(p, 0, to=A1, name="w")
    c.init("w")
    c.settle("w")
    c.describe("w")
    c.init("w")
    c.producers(A1)


@scenario
def before_kip_890(c: Client) -> None:
    """Play transactions in a cluster that has finalized version 0 of `transaction.version`."""
    c.create_topic()
    c.finalize(0)
    p = c.init()
    c.add(p, A0)
    c.produce(p, 0, version=11)
    c.init()
    c.settle()
    c.describe("t")
    c.producers(A0)
    c.init(expected=p)
    p = c.init()
    c.add(p, A0)
    c.produce(p, 0, version=11)
    c.end(p, version=4)
    c.settle()
    c.describe("t")
    c.offsets(A0)
    p = c.init("u", timeout_ms=200)
    c.add(p, A1, name="u")
    c.produce(p, 0, to=A1, name="u", version=11)
    c.wait(2_500)
    c.settle("u")
    c.describe("u")
    c.end(p, False, name="u", version=3)
    c.init("u", expected=p)
    c.finalize(2)
    c.init("u")
    c.add(p, A1, name="u")
