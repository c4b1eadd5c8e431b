"""The anomalies that Jepsen's workload for Kafka names (`jepsen.tests.kafka`), each as a history of a few steps.

Rule: a history has exactly the anomaly that stands beside it, and its right twin, which differs in one step, has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.control.history.story import Story

Tell = Callable[[Story, bool], None]  # the story, and whether it goes wrong


def lost_write(story: Story, wrong: bool) -> None:
    """Two records are acknowledged, and the first one is no longer in the log when somebody has read the second."""
    story.produced(client="a")
    story.produced(client="b")
    story.fetched(1, 2)
    if wrong:
        del story.logs["orders"][0]


def inconsistent_offsets(story: Story, wrong: bool) -> None:
    """The leader changes, and two producers are told the same offset for different records."""
    story.produced(client="a")
    if wrong:
        story.logs["orders"].pop()
    story.produced(client="b")
    story.fetched(0, 1)


def inconsistent_offsets_within_a_batch(story: Story, wrong: bool) -> None:
    """The second batch begins in the middle of the first one."""
    story.produced(client="a", records=3)
    second = story.produced(client="b")
    if wrong:
        second.offset -= 1
        story.starts["orders"] = story.end()  # retention has taken both
        story.logs["orders"].clear()
        story.store(records=1)


def duplicate(story: Story, wrong: bool) -> None:
    """A producer is not answered and sends its record again."""
    story.produced(crc=7, stored=wrong, answered=False)
    story.produced(crc=7)


def duplicate_of_an_idempotent_producer(story: Story, wrong: bool) -> None:
    numbers: dict[str, Any] = {"producer_id": 1, "epoch": 0}
    story.produced(**numbers, sequence=0)
    story.produced(**numbers, sequence=0 if wrong else 1)


def unseen(story: Story, wrong: bool) -> None:
    """All is quiet, and an acknowledged record was never given to the consumer."""
    story.produced()
    story.fetched(0, 1)
    story.committed(1)
    story.produced()
    if not wrong:
        story.fetched(1, 2)


def poll_skip(story: Story, wrong: bool) -> None:
    """A consumer's next poll begins behind the place where the last one has ended."""
    for _ in range(4):
        story.produced()
    story.fetched(0, 2)
    story.committed(2)
    story.fetched(3 if wrong else 2, 4)
    story.committed(4)


def poll_skip_within_a_transaction(story: Story, wrong: bool) -> None:
    """Two polls of one transaction leave a record out between them."""
    for _ in range(3):
        story.produced()
    story.fetched(0, 1, client="app")
    story.fetched(2 if wrong else 1, 3, client="app")
    story.committed(3, client="app", group="app", producer_id=5)
    story.ended(5, commit=True, client="app")


def nonmonotonic_poll(story: Story, wrong: bool) -> None:
    """A consumer polls what it had polled, and had committed, before."""
    for _ in range(3):
        story.produced()
    story.fetched(0, 2)
    story.committed(2)
    story.fetched(1 if wrong else 2, 3)


def nonmonotonic_send(story: Story, wrong: bool) -> None:
    """A producer sends a, then b, on one connection, and b comes before a."""
    first, second = story.produced(client="a"), story.produced(client="a")
    if wrong:
        first.offset, second.offset = second.offset, first.offset
        log = story.logs["orders"]
        log[0], log[1] = log[0]._replace(crc=log[1].crc), log[1]._replace(crc=log[0].crc)


def nonmonotonic_send_after_a_retry(story: Story, wrong: bool) -> None:
    """The first attempt of a is refused, b is not, and a is sent again."""
    story.produced(crc=7, client="a", stored=not wrong, error="NOT_LEADER_OR_FOLLOWER" if wrong else "")
    story.produced(client="a")
    if wrong:
        story.produced(crc=7, client="a")


def nonmonotonic_send_within_a_transaction(story: Story, wrong: bool) -> None:
    """A transaction sends a, then b, and they lie in the log the other way round."""
    numbers: dict[str, Any] = {"producer_id": 5, "epoch": 0, "outcome": "committed", "client": "app"}
    for sequence in (1, 0) if wrong else (0, 1):
        story.produced(**numbers, sequence=sequence)
    story.ended(5, commit=True, client="app")
    story.store(producer_id=5, epoch=0, outcome="commit")


def aborted_read(story: Story, wrong: bool) -> None:
    """G1a: a consumer is given a record whose transaction was aborted."""
    story.produced(producer_id=5, epoch=0, sequence=0, outcome="aborted")
    story.ended(5, commit=False)
    story.store(producer_id=5, epoch=0, outcome="abort")
    story.fetched(0, 1, aborted=[] if wrong else [[5, 0]])


def precommitted_read(story: Story, wrong: bool) -> None:
    """A transaction polls the record that it has sent itself."""
    numbers: dict[str, Any] = {"producer_id": 5, "epoch": 0, "sequence": 0}
    story.produced(**numbers, client="app", outcome="committed")
    if wrong:
        story.fetched(0, 1, client="app", stable=0)
    story.ended(5, commit=True, client="app")
    story.store(producer_id=5, epoch=0, outcome="commit")
    if not wrong:
        story.fetched(0, 1, client="app")


APPS = ((8, "left", "one"), (9, "right", "other"))


def send(story: Story, id: int, topic: str, client: str) -> None:
    """Send a record in a transaction, as batch after batch of its producer."""
    sequence = sum(each.producer_id == id for each in story.logs[topic])
    story.produced(topic, client=client, producer_id=id, epoch=0, sequence=sequence, outcome="committed")


def commit(story: Story, id: int, topics: tuple[str, ...], client: str) -> None:
    story.ended(id, commit=True, client=client, name=client)
    for topic in topics:
        story.store(topic, producer_id=id, epoch=0, outcome="commit")


def write_cycle(story: Story, wrong: bool) -> None:
    """G0: two transactions write in two partitions, each time in another order."""
    (one, _, first), (other, _, second) = APPS
    order = {"left": ((one, first), (other, second)), "right": ((other, second), (one, first))}
    if not wrong:
        order["right"] = order["left"]
    for topic, senders in order.items():
        for id, client in senders:
            send(story, id, topic, client)
    commit(story, one, ("left", "right"), first)
    commit(story, other, ("left", "right"), second)


def circular_information_flow(story: Story, wrong: bool) -> None:
    """G1c: each of two transactions has polled what the other one has sent."""
    for id, topic, client in APPS:
        send(story, id, topic, client)
    for (id, _, client), (_, read, _) in zip(APPS, APPS[::-1], strict=True):
        if wrong or id == APPS[0][0]:
            story.fetched(0, 1, read, client=client, committed_only=False)
            story.committed(1, read, group=client, client=client, producer_id=id)
    for id, topic, client in APPS:
        commit(story, id, (topic,), client)


# Jepsen's name; a history; ours; what the checker is asked
TABLE: list[tuple[str, Tell, str, dict[str, Any]]] = [
    ("lost-write", lost_write, "lost write", {}),
    ("inconsistent-offsets", inconsistent_offsets, "inconsistent offsets", {}),
    ("inconsistent-offsets", inconsistent_offsets_within_a_batch, "inconsistent offsets", {}),
    ("duplicate", duplicate, "duplicate", {}),
    ("duplicate", duplicate_of_an_idempotent_producer, "duplicate", {}),
    ("unseen", unseen, "unseen", {"seen_by": "billing"}),
    ("poll-skip", poll_skip, "poll skip", {}),
    ("int-poll-skip", poll_skip_within_a_transaction, "poll skip", {}),
    ("nonmonotonic-poll", nonmonotonic_poll, "nonmonotonic poll", {}),
    ("nonmonotonic-send", nonmonotonic_send, "out of order", {}),
    ("nonmonotonic-send", nonmonotonic_send_after_a_retry, "out of order", {}),
    ("int-nonmonotonic-send", nonmonotonic_send_within_a_transaction, "out of order", {}),
    ("G1a", aborted_read, "aborted read", {}),
    ("precommitted-read", precommitted_read, "precommitted read", {}),
    ("G0", write_cycle, "write cycle", {"forbid": ["write cycle"]}),
    ("G1c", circular_information_flow, "circular information flow", {}),
]


@pytest.mark.parametrize(
    ("tell", "ours", "asked"), [each[1:] for each in TABLE], ids=[each[1].__name__ for each in TABLE]
)
def test_a_history_has_the_anomaly_and_its_twin_has_none(tell: Tell, ours: str, asked: dict[str, Any]) -> None:
    story = Story()
    tell(story, True)
    assert {*story.kinds(**asked)} == {ours}
    right = Story()
    tell(right, False)
    assert right.found(**asked) == []
