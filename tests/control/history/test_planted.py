"""The checker itself: right histories from a seed have no anomaly, and a fault that is planted in one is found.

Rule: a history is what right producers, consumers and transactions might have done, drawn from the seed. Each planted
fault is one change of the facts or of the logs; the checker must name it, and nothing else of another kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pykafka_broker.control.history.facts import Fetched, OffsetCommitted, Produced
from tests.control.history.story import Story

SEEDS = range(40)


class RightRun:
    """Producers with and without idempotence and transactions, and a group that reads what they write."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.story = Story()
        self.position = self.committed = 0
        self.sequences = {1: 0, 2: 0}
        self.aborted: list[list[int]] = []
        steps: list[Callable[[], None]] = [
            self.produce,
            self.produce_in_sequence,
            self.transact,
            self.fetch,
            self.commit,
        ]
        for _ in range(60):
            self.random.choice(steps)()
        self.fetch()
        self.commit()
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
        self.story.store(producer_id=2, epoch=0, outcome="commit" if commit else "abort")

    def fetch(self) -> None:
        if self.position < self.story.end():
            self.story.fetched(self.position, self.story.end(), aborted=list(self.aborted))
            self.position = self.story.end()

    def commit(self) -> None:
        if self.position > self.committed:
            self.story.committed(self.position)
            self.committed = self.position


@pytest.mark.parametrize("seed", SEEDS)
def test_a_right_history_has_no_anomaly(seed: int) -> None:
    assert RightRun(seed).story.found() == []


def lose_a_write(run: RightRun) -> None:
    run.story.logs["orders"].pop()


def replace_a_write(run: RightRun) -> None:
    batches = run.story.logs["orders"]
    index = run.random.choice([place for place, each in enumerate(batches) if each.producer_id < 0])
    batches[index] = batches[index]._replace(crc=10**6)


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


PLANTED = [
    (lose_a_write, "lost write"),
    (replace_a_write, "lost write"),
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


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("plant", "anomaly"), PLANTED, ids=[each[0].__name__ for each in PLANTED])
def test_a_planted_fault_is_found(seed: int, plant: Callable[[RightRun], None], anomaly: str) -> None:
    run = RightRun(seed)
    plant(run)
    assert set(run.story.kinds()) == {anomaly}


def test_right_histories_reach_what_the_checks_look_at() -> None:
    facts = [fact for seed in SEEDS for fact in RightRun(seed).story.facts]
    assert sum(isinstance(fact, Fetched) and bool(fact.aborted) for fact in facts) > 100
    assert sum(isinstance(fact, Produced) and not fact.done for fact in facts) > 50
    assert sum(isinstance(fact, OffsetCommitted) for fact in facts) > 100
