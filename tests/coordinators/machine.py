"""A group coordinator with a log and a hand-moved clock: the work of its host in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, count
from typing import Any, NamedTuple

from pykafka_broker.config import BrokerConfig
from pykafka_broker.coordinators.groups.coordinator import GroupCoordinator
from pykafka_broker.coordinators.groups.group import MEMBER_CLOCKS, Caller, TimerKey
from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult
from pykafka_broker.protocol.stored_keys import GROUP_RECORDS
from tests.coordinators.stored import reread

START = 1_000_000


class Partition(NamedTuple):
    """A partition with one replica, on the only broker."""

    replicas: tuple[int, ...] = (1,)


class Broker(NamedTuple):
    """A broker in a rack, or in none."""

    rack: str | None = None


class Topic:
    """A topic with a given number of partitions."""

    def __init__(self, name: str, partitions: int, topic_id: bytes | None = None) -> None:
        self.name = name
        self.id = topic_id or name.encode().ljust(16, b".")
        self.partitions = dict.fromkeys(range(partitions), Partition())


class TopicTable:
    """The part of the metadata that groups look at."""

    def __init__(self, **partitions: int) -> None:
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.brokers = {1: Broker()}
        for name, number in partitions.items():
            self.add(name, number)

    def add(self, name: str, partitions: int = 1, topic_id: bytes | None = None) -> bytes:
        topic = self.topics[name] = Topic(name, partitions, topic_id)
        self.topics_by_id[topic.id] = topic
        return topic.id


class Machine:
    """A group coordinator that appends and replays at once, and the answers that it gave."""

    DEFAULTS: Mapping[str, str] = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.streams.assignment.interval.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.session.timeout.ms": "45000",
    }

    def __init__(self, **config: str) -> None:
        self.config = BrokerConfig(
            dict(self.DEFAULTS) | {key.replace("_", "."): value for key, value in config.items()}
        )
        self.topics = TopicTable()
        self.group_config: dict[str, str] = {}
        self.may_see: Callable[[str], bool] | None = None
        self.now = START
        self.log: list[tuple[CoordinatorRecord, int]] = []  # with the producer id of a transaction's records
        self.answers: dict[Any, Any] = {}  # to requests that waited, by token
        self.later: list[Iterator[CoordinatorResult[None] | None]] = []  # long work, done at `go_on`
        self._ids = count(1)
        self.versions = count(1)
        self.coordinator = self._new()

    def _new(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config, self.topics, lambda: f"id-{next(self._ids)}", lambda group_id: self.group_config
        )

    def topic(self, name: str, partitions: int = 1, topic_id: bytes | None = None) -> bytes:
        """Create a topic, or let it grow."""
        topic_id = self.topics.add(name, partitions, topic_id)
        self.coordinator.on_topics_changed([name], True, next(self.versions))
        return topic_id

    def run(self, effects: CoordinatorResult[Any], producer_id: int = -1) -> Any:
        """Append and replay the records, send the answer, and return the reply."""
        for offset, record in enumerate(effects.records, len(self.log)):
            self.log.append((reread(record, GROUP_RECORDS), producer_id))
            self.coordinator.replay(record, self.now, offset, producer_id)
        for token, reply in effects.completions:
            assert token not in self.answers, "a request is answered once"
            self.answers[token] = reply
        if effects.later is not None:
            self.later.append(effects.later)
        self._check_deadlines()
        return effects.reply

    def begin(self) -> None:
        """Do the first part of long work."""
        for each in self.later:
            assert next(each) is None

    def go_on(self) -> None:
        """Do long work to its end."""
        works, self.later = self.later, []
        for effects in chain.from_iterable(works):
            if effects is not None:
                self.run(effects)

    def _check_deadlines(self) -> None:
        """Assert that every deadline of a member is of a member of the group, or of one that may join, and that every
        member has a session, but for one that waits for an answer, and the time to give back if it has to.

        A conversion that was refused leaves deadlines of the other protocol, which nobody looks at.
        """
        for key in self.coordinator.table.timers._deadlines:
            protocol, _, clock = key.kind.partition("-")
            if clock in MEMBER_CLOCKS and key.member_id:
                group = self.coordinator.groups.get(key.group_id)
                assert group is not None, key
                if group.type_name != protocol:
                    continue
                assert key.member_id in group.members or key.member_id in getattr(group, "pending_joins", ()), key
                if clock == "rebalance":
                    member: Any = group.members[key.member_id]
                    assert member.must_revoke, key

        for group in self.coordinator.groups.values():
            for member_id, member in group.members.items():
                waits = getattr(member, "join_token", None) or getattr(member, "sync_token", None)
                session = TimerKey(f"{group.type_name}-session", group.group_id, member_id)
                assert waits or session in self.coordinator.table.timers, session
                rebalance = TimerKey(f"{group.type_name}-rebalance", group.group_id, member_id)
                assert not getattr(member, "must_revoke", False) or rebalance in self.coordinator.table.timers

    def wait(self, ms: int) -> None:
        """Let the time pass, deadline by deadline."""
        end = self.now + ms
        while (due := self.coordinator.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.run(self.coordinator.on_deadline(self.now))
        self.now = end

    def restart(self) -> None:
        """Start a new coordinator from the log alone, as after a crash.

        Without transactions the log is compacted before: the newest record of each key is left, and no tombstone.
        """
        self.coordinator = self._new()
        is_whole = any(producer_id >= 0 for _, producer_id in self.log)
        newest = {repr(record.key): offset for offset, (record, _) in enumerate(self.log)}
        for offset, (record, producer_id) in enumerate(self.log):
            if is_whole or (record.value is not None and newest[repr(record.key)] == offset):
                self.coordinator.replay(record, self.now, offset, producer_id)
        for effects in self.coordinator.on_loaded(list(self.coordinator.groups), self.now):
            self.run(effects)

    def caller(self, version: int) -> Caller:
        return Caller(version, "client", "/127.0.0.1", self.may_see)
