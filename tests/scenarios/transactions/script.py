"""What clients may do to transactions, good and bad.

Rule: each function is one scenario, with topics, groups and transactional ids of its own; it reads from top to bottom,
and `answers.json` holds what Apache Kafka 4.3.1 said at each step.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.scenarios.transactions.talk_coordinator import CoordinatorTalk
from tests.scenarios.transactions.talk_partitions import PartitionTalk

A0, A1, NOWHERE = ("a", 0), ("a", 1), ("nowhere", 0)


class Client(CoordinatorTalk, PartitionTalk):
    """One connection."""


Scenario = Callable[[Client], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(run: Scenario) -> Scenario:
    SCENARIOS[run.__name__.replace("_", "-")] = run
    return run


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
def classic_commit(c: Client) -> None:
    c.create_topic()
    p = c.init()
    c.end(p, version=3)
    c.end(p, False, version=3)
    for version in (11, 10, 9, 3):
        c.produce(p, 0, version=version)
    c.add(p, A0)
    c.describe("t")
    c.produce(p, 0, version=11)
    c.produce(p, 0, to=A1, version=11)
    c.produce(p, 1, version=9)
    c.produce(p, 1, version=9)
    c.offsets(A0, A1)
    c.add(p, A0, A1, NOWHERE)
    c.add(p, NOWHERE, version=0)
    c.describe("t")
    c.add(p, A0, A1)
    c.describe("t")
    c.producers(A0, A1)
    c.end(p, version=3)
    c.settle()
    c.describe("t")
    c.end(p, version=3)
    c.end(p, False, version=3)
    c.offsets(A0, A1)
    c.producers(A0, A1)
    c.produce(p, 2, version=11)
    c.add(p, A0)
    c.produce(p, 2, version=11)
    c.end(p, False, version=4)
    c.settle()
    c.describe("t")
    c.offsets(A0)
    c.producers(A0)


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
def bumping_commit(c: Client) -> None:
    c.create_topic()
    p = c.init()
    c.end(p)
    c.produce(p, 5)
    c.describe("t")
    c.produce(p, 0)
    c.produce(p, 0)
    c.produce(p, 1, to=A1)
    c.produce(p, 0, to=A1)
    c.describe("t")
    c.offsets(A0, A1)
    second = c.end(p)
    c.settle()
    c.describe("t")
    c.end(p)
    c.end(p, False)
    c.end(second)
    c.offsets(A0, A1)
    c.producers(A0, A1)
    c.produce(p, 1)
    c.produce(second, 1)
    c.produce(second, 0)
    c.end(p)
    third = c.end(second, False)
    c.settle()
    c.end(second, False)
    c.end(second)
    c.offsets(A0)
    c.producers(A0)
    fourth = c.end(third, False)
    c.settle()
    c.describe("t")
    c.end(third, False)
    c.end(fourth, True)
    c.produce(fourth, 0, version=11)
    c.produce(fourth, 0)
    c.describe("t")


@scenario
def abort_before_anything_was_added(c: Client) -> None:
    p = c.init()
    second = c.end(p, False)
    c.settle()
    c.describe("t")
    c.end(p, False)
    c.end(p, True)
    c.end(second, True)
    c.init(expected=second)


@scenario
def both_protocols_take_turns(c: Client) -> None:
    c.create_topic()
    p = c.init()
    c.add(p, A0)
    c.produce(p, 0, version=11)
    p = c.end(p)
    c.settle()
    c.produce(p, 0)
    c.end(p, version=4)
    c.settle()
    c.describe("t")
    c.add(p, A0)
    c.produce(p, 1, version=11)
    c.produce(p, 2)
    c.produce(p, 0, to=A1)
    c.end(p, False, version=4)
    c.settle()
    c.describe("t")
    c.offsets(A0, A1)
    p = c.init()
    c.produce(p, 0)
    p = c.end(p)
    c.settle()
    p = c.init()
    c.add(p, A0)
    c.produce(p, 0, version=11)
    c.end(p, version=3)
    c.settle()
    c.offsets(A0)
    c.producers(A0)


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
def batched_adds_and_checks(c: Client) -> None:
    c.create_topic()
    p = c.init()
    q = c.init("u")
    c.add_batched(("t", p, False, [A0]), ("u", q, True, [A0, A1]))
    c.add_batched(("t", p, True, [A0, A1]), ("u", q, False, [A1]), version=4)
    c.add_batched(("t", (p[0], 9), True, [A0]), ("u", (p[0] + 7_000_000, 0), True, [A0]), ("nobody", p, True, [A0]))
    c.add_batched(("t", (p[0], 9), False, [A0]), ("u", (p[0] + 7_000_000, 0), False, [A0]), ("nobody", p, False, [A0]))
    c.add_batched(("t", p, False, [NOWHERE, A1]))
    c.add_batched(("t", p, True, [NOWHERE, A1]))
    c.add_batched(("", p, True, [A0]))
    c.describe("t", "u")


@scenario
def offsets_of_a_group(c: Client) -> None:
    c.create_topic()
    c.await_group()
    p = c.init()
    for version in (0, 2, 3, 4):
        c.txn_commit(p, {A0: 5}, version=version)
    c.committed(A0)
    c.add_offsets(p, "g")
    c.describe("t")
    c.txn_commit(p, {A0: 5, A1: 6})
    c.committed(A0, A1)
    c.committed(A0, A1, require_stable=False)
    c.txn_commit(p, {A0: 7}, version=0)
    c.txn_commit(p, {NOWHERE: 7})
    c.txn_commit(p, {A0: 8}, member="ghost", generation=3)
    c.txn_commit(p, {A0: 8}, generation=3)
    c.txn_commit(p, {A0: 8}, member="ghost")
    c.txn_commit(p, {A0: 8}, member="ghost", generation=3, instance="i")
    c.txn_commit(p, {A0: 8}, group="")
    for version in (0, 3, 4, 5):
        c.txn_commit((p[0], 9), {A0: 8}, version=version)
        c.txn_commit((p[0] + 7_000_000, 0), {A0: 8}, version=version)
        c.txn_commit(p, {A0: 8}, name="nobody", version=version)
    c.end(p, version=3)
    c.settle()
    c.committed(A0, A1)
    c.add_offsets(p, "g")
    c.txn_commit(p, {A0: 50})
    c.end(p, False, version=3)
    c.settle()
    c.committed(A0, A1)


@scenario
def offsets_of_a_group_without_adding_them(c: Client) -> None:
    c.create_topic()
    c.await_group()
    p = c.init()
    c.txn_commit(p, {A0: 5}, version=5)
    c.describe("t")
    c.committed(A0)
    second = c.end(p)
    c.settle()
    c.committed(A0)
    c.txn_commit(p, {A0: 6}, version=5)
    c.txn_commit(second, {A0: 6}, version=5)
    c.txn_commit(second, {A0: 6}, version=5, member="ghost", generation=3)
    c.end(second, False)
    c.settle()
    c.committed(A0)


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


@scenario
def records_that_do_not_belong(c: Client) -> None:
    c.create_topic()
    p = c.init()
    c.produce(p, 0, name=None)
    c.produce(p, 0, transactional=False)
    c.produce(p, 1, name=None, transactional=False)
    c.produce(p, 0, to=A1)
    c.produce(p, 1, to=A1, transactional=False)
    c.produce(p, 3, to=A1)
    c.produce(p, 0, to=NOWHERE)
    c.produce(p, 1, to=A1, name="")
    plain = c.init(None)
    c.produce(plain, 0, to=A0, name=None, transactional=False)
    c.produce(plain, 0, to=A0)
    c.producers(A0, A1)
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
    """What a cluster does that has not finalized `transaction.version`."""
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
