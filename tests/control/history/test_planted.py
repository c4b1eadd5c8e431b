"""The checker itself: right histories from a seed have no anomaly, and a fault that is planted in one is found.

Rule: a history is what right producers, consumers and transactions might have done, drawn from the seed. Each planted
fault is one change of the facts or of the logs; the checker must name it, and nothing else of another kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from pykafka_broker.control.history.facts import Fetched, OffsetCommitted, Produced
from tests.control.history.story import Story

SEEDS = range(40)


class RightRun:
    """Producers with and without idempotence and transactions, and a group that reads what they write."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.story = Story()
        self.position = self.committed = self.shared = self.exchanged = self.epoch = 0
        self.sequences = {1: 0, 2: 0}
        self.aborted: list[list[int]] = []
        steps: list[Callable[[], None]] = [
            self.produce,
            self.produce_in_sequence,
            self.transact,
            self.share,
            self.exchange,
            self.fetch,
            self.commit,
        ]
        for _ in range(60):
            self.random.choice(steps)()
        self.fetch()
        self.commit()
        self.share()
        for _ in range(3):
            self.produce()

    def produce(self) -> None:
        client = self.random.choice("ab")
        if self.random.random() < 0.2:
            self.story.produced(client=client, stored=False, error="NOT_ENOUGH_REPLICAS")
        self.story.produced(client=client, records=self.random.randint(1, 4))

    def produce_in_sequence(self) -> None:
        records = self.random.randint(1, 3)
        self.story.produced(client="c", records=records, producer_id=1, epoch=0, sequence=self.sequences[1])
        self.sequences[1] += records

    def transact(self) -> None:
        commit, first = self.random.random() < 0.6, self.story.end()
        outcome = "committed" if commit else "aborted"
        self.story.produced(client="t", producer_id=2, epoch=0, sequence=self.sequences[2], outcome=outcome)
        self.sequences[2] += 1
        if not commit:
            self.aborted.append([2, first])
        self.story.ended(2, commit=commit, client="t")
        self.story.store(producer_id=2, epoch=0, outcome="commit" if commit else "abort")

    def share(self) -> None:
        """Deliver what has come to a member of a share group, which accepts, releases or rejects."""
        end = self.story.end()
        if self.shared < end:
            first, last = self.shared, self.random.randrange(self.shared, end)
            member = self.random.choice(("one", "two"))
            self.story.acquired(first, last, member=member)
            types = [self.random.choice((1, 1, 2, 3)) for _ in range(first, last + 1)]
            self.story.acknowledged(first, last, *types, member=member)
            released = [first + index for index, kind in enumerate(types) if kind == 2]
            for offset in released:
                self.story.acquired(offset, offset, member="two", deliveries=2)
                self.story.acknowledged(offset, offset, 1, member="two")
            self.shared = last + 1

    def exchange(self) -> None:
        """Read and write in a transaction whose producer has one epoch for each, as since Kafka 4.0."""
        self.epoch += 1
        numbers: dict[str, Any] = {"producer_id": 3, "epoch": self.epoch, "sequence": 0}
        self.story.produced("billed", client="x", address="x:1", outcome="committed", **numbers)
        end = self.story.end()
        if end > self.exchanged:
            self.story.fetched(self.exchanged, end, client="x", aborted=list(self.aborted))
            self.story.committed(end, group="exchange", client="x", producer_id=3, epoch=self.epoch)
            self.exchanged = end
        self.story.ended(3, commit=True, client="x", epoch=self.epoch, name="exchange")
        self.story.store("billed", producer_id=3, epoch=self.epoch, outcome="commit")

    def fetch(self) -> None:
        if self.position < self.story.end():
            self.story.fetched(self.position, self.story.end(), aborted=list(self.aborted))
            self.position = self.story.end()

    def commit(self) -> None:
        if self.position > self.committed:
            self.story.committed(self.position)
            self.committed = self.position


def test_a_right_history_has_no_anomaly() -> None:
    for seed in SEEDS:
        assert RightRun(seed).story.found() == [], seed


def lose_a_write(run: RightRun) -> None:
    run.story.logs["orders"].pop()


def replace_a_write(run: RightRun) -> None:
    batches = run.story.logs["orders"]
    index = run.random.choice([place for place, each in enumerate(batches) if each.producer_id < 0])
    batches[index] = batches[index]._replace(crc=10**6)


def tell_an_offset_twice(run: RightRun) -> None:
    run.story.produced()
    run.story.logs["orders"].pop()
    run.story.produced(client="new")


def swap_two_answers(run: RightRun) -> None:
    first, second = run.story.produced(), run.story.produced()
    first.offset, second.offset = second.offset, first.offset
    log = run.story.logs["orders"]
    log[-2:] = [log[-2]._replace(crc=log[-1].crc), log[-1]._replace(crc=log[-2].crc)]


def reverse_a_sequence(run: RightRun) -> None:
    for sequence in (1, 0):
        run.story.produced(client="d", producer_id=7, epoch=0, sequence=sequence)


def double_a_write(run: RightRun) -> None:
    crc = 10**6
    run.story.produced(crc=crc, answered=False)
    run.story.produced(crc=crc, address="writer:2")


def let_a_zombie_through(run: RightRun) -> None:
    run.story.produced(client="new", producer_id=1, epoch=1, sequence=0)
    run.story.produced(client="old", producer_id=1, epoch=0, sequence=run.sequences[1])


def reorder(run: RightRun) -> None:
    crc = 10**6
    run.story.produced(crc=crc, stored=False, error="NOT_LEADER_OR_FOLLOWER")
    run.story.produced()
    run.story.produced(crc=crc)


def hide_what_was_aborted(run: RightRun) -> None:
    run.transact()
    while not run.aborted:
        run.transact()
    run.story.fetched(run.position, run.story.end())
    run.position = run.story.end()
    for fact in run.story.facts:
        if isinstance(fact, Fetched):
            fact.aborted = []


def read_too_early(run: RightRun) -> None:
    first = run.story.produced(producer_id=2, epoch=0, sequence=run.sequences[2], outcome="committed").offset
    run.story.fetched(first, first + 1, client="other", committed_only=False, stable=first)
    run.story.store(producer_id=2, epoch=0, outcome="commit")


def skip(run: RightRun) -> None:
    run.produce()
    run.produce()
    last = run.story.produced().offset
    run.story.fetched(last, last + 1)
    run.story.committed(last + 1)


def commit_ahead(run: RightRun) -> None:
    run.story.committed(run.story.end())


def go_back(run: RightRun) -> None:
    first = run.story.logs["orders"][0]
    run.story.fetched(first.base, first.last + 1, aborted=run.aborted)


def commit_back(run: RightRun) -> None:
    run.story.committed(run.committed - 1, client="second", member="member-2")


def accept_again(run: RightRun) -> None:
    run.story.acknowledged(0, run.shared - 1, 1, member="two")


def lose_an_acknowledgement(run: RightRun) -> None:
    run.story.acquired(0, run.shared - 1, member="two", deliveries=3)


def read_each_other(run: RightRun) -> None:
    """Two transactions read what the other one has not committed yet."""
    places = []
    for id, topic in ((8, "left"), (9, "right")):
        numbers: dict[str, Any] = {"producer_id": id, "epoch": 0, "sequence": 0}
        places.append((id, topic, f"app-{id}"))
        run.story.produced(topic, client=f"app-{id}", outcome="committed", **numbers)
    for id, _, name in places:
        other = next(topic for each, topic, _ in places if each != id)
        run.story.fetched(0, 1, other, client=name, committed_only=False)
        run.story.committed(1, other, group=name, client=name, producer_id=id)
    for id, topic, name in places:
        run.story.ended(id, commit=True, client=name, name=name)
        run.story.store(topic, producer_id=id, epoch=0, outcome="commit")


PLANTED = [
    (accept_again, "acknowledged twice"),
    (lose_an_acknowledgement, "acknowledgement lost"),
    (read_each_other, "circular information flow"),
    (lose_a_write, "lost write"),
    (replace_a_write, "lost write"),
    (tell_an_offset_twice, "inconsistent offsets"),
    (swap_two_answers, "out of order"),
    (reverse_a_sequence, "out of order"),
    (double_a_write, "duplicate"),
    (let_a_zombie_through, "fenced writer"),
    (reorder, "out of order"),
    (hide_what_was_aborted, "aborted read"),
    (read_too_early, "precommitted read"),
    (skip, "poll skip"),
    (commit_ahead, "commit ahead of fetch"),
    (go_back, "nonmonotonic poll"),
    (commit_back, "nonmonotonic commit"),
]


@pytest.mark.parametrize(("plant", "anomaly"), PLANTED, ids=[each[0].__name__ for each in PLANTED])
def test_a_planted_fault_is_found(plant: Callable[[RightRun], None], anomaly: str) -> None:
    for seed in SEEDS:
        run = RightRun(seed)
        plant(run)
        assert set(run.story.kinds()) == {anomaly}, seed


def test_right_histories_reach_what_the_checks_look_at() -> None:
    facts = [fact for seed in SEEDS for fact in RightRun(seed).story.facts]
    assert sum(isinstance(fact, Fetched) and bool(fact.aborted) for fact in facts) > 100
    assert sum(isinstance(fact, Produced) and not fact.done for fact in facts) > 50
    assert sum(isinstance(fact, OffsetCommitted) for fact in facts) > 100
