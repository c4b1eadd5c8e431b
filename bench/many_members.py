"""`python -m bench.many_members`: the longest turns of our loop with 2,000 members in one consumer group (KIP-848).

Rule: as in `turns.py`, CPU time of one turn. The group's life comes in its order: members join, all heartbeat until
each one has its partitions, a topic grows, half of the members leave, and the sessions of the others end in one moment.
Each shape is a group and topics of its own: what the members read, and by which assignor they want to share it.
"""

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench.fair_groups import consumer
from bench.running import Running
from bench.turns import Noting, noted
from interop.answers.requests import create, new_topic
from interop.raw import RawClient
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest

_CONNECTIONS = 256  # as many as a turn serves at most, with one request in flight on each
_ROUND_S = 1.1  # the coordinator makes a target once a second
_ROUNDS = 3
_SESSION_S = 45
_LEAVES = -1
_LAST = "all sessions end"


class Shape(NamedTuple):
    """Topics with their partitions, and the topics that a member reads; without them all, by a pattern."""

    topics: dict[str, int]
    read: Callable[[int], list[str]] | None


def shapes(partitions: int) -> dict[str, Shape]:
    """Return the shapes of groups by name: topics, and the topics that each member subscribes to."""
    few = {f"few-{index}": partitions // 100 for index in range(100)}
    many = {f"many-{index}": 1 for index in range(partitions)}
    halves = {"all": partitions // 2, "half": partitions // 2}
    names = [*few]
    return {
        "one topic": Shape({"one": partitions}, lambda member: ["one"]),
        "a hundred topics": Shape(few, lambda member: names),
        "topics of one partition": Shape(many, None),
        "half of the members read more": Shape(halves, lambda member: [*halves][: 1 + member % 2]),
        "a hundred kinds of members": Shape(few, lambda member: names[: 1 + member % 100]),
    }


class Group:
    """The members of a group, whose heartbeats come over a few hundred connections."""

    def __init__(self, bootstrap: str, name: str, shape: Shape, assignor: str, members: int) -> None:
        self._name = name
        self._shape = shape
        self._assignor = assignor
        self._clients = [RawClient(bootstrap) for _ in range(_CONNECTIONS)]
        self._epochs = dict.fromkeys(range(members), 0)
        self._owned: dict[int, list[TopicPartitions]] = {}

    def join(self) -> None:
        """Let all members join."""
        self._ask(self._epochs, self._joining)

    def beat(self) -> None:
        """Let all members report what they have."""
        self._ask(self._epochs, self._reporting)

    def leave(self, members: list[int]) -> None:
        """Let some members leave."""
        self._ask(members, lambda member: ConsumerGroupHeartbeatRequest(self._name, f"m-{member}", _LEAVES))
        for member in members:
            del self._epochs[member]

    @property
    def members(self) -> list[int]:
        return [*self._epochs]

    @property
    def owned(self) -> int:
        """Return how many partitions the members have."""
        return sum(len(topic.partitions) for member in self._epochs for topic in self._owned.get(member, []))

    def _joining(self, member: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            self._name,
            f"m-{member}",
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=None if self._shape.read is None else self._shape.read(member),
            subscribed_topic_regex=f"{self._assignor}-many.*" if self._shape.read is None else None,
            server_assignor=self._assignor,
            topic_partitions=[],
        )

    def _reporting(self, member: int) -> ConsumerGroupHeartbeatRequest:
        owned = self._owned.get(member, [])
        return ConsumerGroupHeartbeatRequest(self._name, f"m-{member}", self._epochs[member], topic_partitions=owned)

    def _ask(self, members: Any, request: Callable[[int], ConsumerGroupHeartbeatRequest]) -> None:
        """Send a request for each member, one in flight on each connection."""
        asked = [*members]
        for begin in range(0, len(asked), _CONNECTIONS):
            some = asked[begin : begin + _CONNECTIONS]
            for client, member in zip(self._clients, some, strict=False):
                client.send(request(member), 1)
            for client, member in zip(self._clients, some, strict=False):
                self._heard(member, client.receive())

    def _heard(self, member: int, answer: Any) -> None:
        if answer.error_code:
            raise RuntimeError(f"{self._name}, member {member}: {answer.error_code} {answer.error_message}")
        self._epochs[member] = answer.member_epoch
        if answer.assignment is not None:
            self._owned[member] = answer.assignment.topic_partitions

    def close(self) -> None:
        for client in self._clients:
            client.close()


def life(group: Group, client: RawClient, grows: str, partitions: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the steps in the life of a group, each by name with the action."""
    yield "join", group.join

    def rounds() -> None:
        for _ in range(_ROUNDS):
            time.sleep(_ROUND_S)
            group.beat()

    def grow() -> None:
        change = CreatePartitionsTopic(grows, partitions, None)
        answer = client.call(CreatePartitionsRequest([change], 60_000), 3)
        assert not answer.results[0].error_code, answer
        rounds()

    def sessions_end() -> None:
        time.sleep(_SESSION_S + 2)

    yield "heartbeats", rounds
    yield "a topic grows", grow
    yield "half of them leave", lambda: group.leave(group.members[::2])
    yield "heartbeats again", rounds
    yield _LAST, sessions_end


def measure(members: int, partitions: int, wanted: list[str], *, where: bool, sessions: bool) -> None:
    """Print the longest turn of each step of each shape's life."""
    with Noting(where=where) as run, RawClient(run.bootstrap) as client:
        client.call(FindCoordinatorRequest("g"), 2)
        client.call(create(new_topic("warm-up", 1)), 5)
        client.call(consumer("warm-up", 0, ["warm-up"]), 1)  # a broker loads code when it is first needed
        for title, shape in shapes(partitions).items():
            for assignor in ("uniform", "range"):
                if not wanted or title in wanted:
                    for step, does, group in _steps(run, client, title, shape, assignor, members):
                        if step == _LAST and not sessions:
                            continue
                        run.begin()
                        does()
                        noted(run)
                        run.tell(f"{title}, {assignor}, {step}: {run.longest.ms:.1f} ms, {group.owned} owned")


def _steps(
    run: Running, client: RawClient, title: str, shape: Shape, assignor: str, members: int
) -> Iterator[tuple[str, Callable[[], None], Group]]:
    """Make the topics of a shape, and yield the life of a group that reads them."""
    topics = {f"{assignor}-{topic}": count for topic, count in shape.topics.items()}
    for topic, count in topics.items():
        assert not client.call(create(new_topic(topic, count)), 5).topics[0].error_code
    read = shape.read
    mine = None if read is None else lambda member: [f"{assignor}-{topic}" for topic in read(member)]
    with contextlib.closing(
        Group(run.bootstrap, f"{title} {assignor}", Shape(topics, mine), assignor, members)
    ) as group:
        grown, count = next(iter(topics.items()))
        for step, does in life(group, client, grown, count + 100):
            yield step, does, group


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.many_members", description=__doc__)
    parser.add_argument("shapes", nargs="*", help="what members read; all without any")
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=9_000)
    parser.add_argument("--sessions", action="store_true", help="wait for the end of all sessions, 47 s each")
    parser.add_argument("--where", action="store_true", help="what the longest turns did")
    options = parser.parse_args()
    measure(options.members, options.partitions, options.shapes, where=options.where, sessions=options.sessions)


if __name__ == "__main__":
    main()
