"""Taking part in transactions and ending them, in the protocols before and after KIP-890.

Rule: each function is one scenario, with topics, groups and transactional ids of its own; it reads from top to bottom,
and `answers.json` holds what Apache Kafka 4.4.0 said at each step.
"""

from __future__ import annotations

from tests.scenarios.scripts import Scripts
from tests.scenarios.transactions.client import A0, A1, NOWHERE, Client

SCENARIOS = scenario = Scripts[Client]()


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
def offsets_are_deleted_while_the_transaction_is_open(c: Client) -> None:
    c.create_topic()
    c.await_group()
    p = c.init()
    c.txn_commit(p, {A0: 5, A1: 6}, version=5)
    c.delete_offsets(A0)
    c.committed(A0, A1)
    p = c.end(p)
    c.settle()
    c.committed(A0, A1)
    c.txn_commit(p, {A0: 7}, version=5)
    c.delete_offsets(A0, A1, NOWHERE)
    c.end(p, False)
    c.settle()
    c.committed(A0, A1)


@scenario
def topic_goes_while_its_offsets_are_in_a_transaction(c: Client) -> None:
    c.create_topic()
    c.await_group()
    p = c.init()
    c.txn_commit(p, {A0: 5}, version=5)
    c.delete_topic()
    c.wait(500)
    c.create_topic()
    c.wait(500)
    c.committed(A0)
    c.end(p)
    c.settle()
    c.committed(A0)


@scenario
def offsets_of_a_transaction_that_times_out(c: Client) -> None:
    c.create_topic()
    c.await_group()
    p = c.init(timeout_ms=1_000)
    c.txn_commit(p, {A0: 5}, version=5)
    c.committed(A0)
    c.wait(2_500)
    c.settle()
    c.committed(A0)
    c.txn_commit(p, {A0: 6}, version=5)
    c.end(p)
    c.describe("t")


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
