"""Advice for clients, from what they have asked.

Rule: an advice names a client, counts what was seen of it, and says since when Kafka is so (release, KIP) and what to
change. What is a setting of the client (a version, acks, idempotence, a client id) shows in one request; what is a
habit has a least number of requests, below which the rule is silent. Exchanges are noted in the order of time; nothing
is kept of them but counts and a few of their numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from typing import Any

from pykafka_broker.control.answers import Advice
from pykafka_broker.control.traffic.exchange import Exchange, first_header
from pykafka_broker.errors import counted
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.records.header import MAGIC_OFFSET
from pykafka_broker.releases.release import release

_FEW = 20  # requests below which a habit is none
_MINUTE_MS = 60_000
_METADATA_A_MINUTE = 60
_EMPTY_FETCHES_A_MINUTE = 300
_JOINS_A_MINUTE = 4
_SAME_ERRORS = 10
_MANY_CONNECTIONS = 10
_MANY_RECORDS = 100
_MOST = 0.95  # of all
_EXAMPLES = 3
_FIRST_WITHOUT_OLD = "4.0"  # versions of APIs that this release has no more are gone (KIP-896)
_RETRIED_AS_USUAL = frozenset({"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS"})


class Habit:
    """How often something was seen of a client, with a few examples; `best_a_minute` is the most within 60 seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.best_a_minute = 0
        self.examples: list[int] = []
        self._times: deque[int] = deque()

    def note(self, exchange: Exchange) -> None:
        """Note that an exchange shows it."""
        self.count += 1
        if len(self.examples) < _EXAMPLES and exchange.number is not None:
            self.examples.append(exchange.number)
        self._times.append(exchange.wall_ms)
        while self._times[0] <= exchange.wall_ms - _MINUTE_MS:
            self._times.popleft()
        self.best_a_minute = max(self.best_a_minute, len(self._times))


class ClientHabits:
    """The habits of the clients with one client id.

    partitions: how many partitions each topic has, names: the topics by id, as far as any client was told.
    """

    def __init__(self, client_id: str | None, partitions: dict[str, int], names: dict[bytes, str]) -> None:
        self.client_id = client_id
        self.software = ""
        self._partitions = partitions
        self._names = names
        self._habits: defaultdict[str, Habit] = defaultdict(Habit)
        self._versions: defaultdict[tuple[int, int], Habit] = defaultdict(Habit)
        self._errors: defaultdict[tuple[str, str], Habit] = defaultdict(Habit)
        self._produces = Habit()
        self._empty_fetches: defaultdict[tuple[str, int], Habit] = defaultdict(Habit)  # by address of the broker
        self._batches = 0
        self._records: defaultdict[str | bytes, Counter[int]] = defaultdict(Counter)  # by topic and partition
        self._produces_of: Counter[int] = Counter()  # by connection
        self._connections: set[int] = set()
        self._committed: dict[tuple[str, str | bytes, int], int] = {}
        self._steps: Counter[bool] = Counter()  # of commits, by whether they are one record further

    def note(self, exchange: Exchange) -> None:
        """Note a request with its answer."""
        self.software = exchange.software or self.software
        self._connections.add(exchange.connection.id)
        self._versions[exchange.api_key, exchange.version].note(exchange)
        for error in exchange.errors:
            self._errors[exchange.api, error].note(exchange)
        request = exchange.request
        if request is None:
            return
        if exchange.api_key == ApiKey.PRODUCE:
            self._note_produce(exchange, request)
        elif exchange.api_key == ApiKey.FETCH:
            self._note_fetch(exchange, request)
        elif exchange.api_key == ApiKey.OFFSET_COMMIT:
            self._note_commit(exchange, request)
        elif exchange.api_key == ApiKey.METADATA:
            self._habits["metadata"].note(exchange)
        elif exchange.api_key == ApiKey.JOIN_GROUP:
            self._habits["joins"].note(exchange)

    def _note_produce(self, exchange: Exchange, request: Any) -> None:
        self._produces.note(exchange)
        self._produces_of[exchange.connection.id] += 1
        self._habits[f"acks {request.acks}"].note(exchange)
        for topic in request.topic_data:
            for part in topic.partition_data:
                header = first_header(part.records)
                if header is None:
                    if part.records and len(part.records) > MAGIC_OFFSET and part.records[MAGIC_OFFSET] < 2:
                        self._habits["old format"].note(exchange)
                    continue
                self._batches += 1
                if header.count == 1:
                    self._habits["single records"].note(exchange)
                if not header.has_producer_id and request.acks == -1:
                    self._habits["no idempotence"].note(exchange)
                self._records[topic.name or topic.topic_id][part.index] += header.count

    def _note_fetch(self, exchange: Exchange, request: Any) -> None:
        response = exchange.response
        if response is None or exchange.errors or max(request.replica_id, request.replica_state.replica_id) >= 0:
            return  # followers are no consumers
        if not any(part.records for topic in response.responses for part in topic.partitions):
            broker = exchange.connection.local_host, exchange.connection.local_port
            self._empty_fetches[broker].note(exchange)  # a consumer asks each of its brokers all the time

    def _note_commit(self, exchange: Exchange, request: Any) -> None:
        for topic in request.topics:
            for part in topic.partitions:
                key = request.group_id, topic.name or topic.topic_id, part.partition_index
                before, offset = self._committed.get(key), part.committed_offset
                self._committed[key] = offset
                if before is not None and offset > before:
                    self._steps[offset == before + 1] += 1
                    if offset == before + 1:
                        self._habits["single commits"].note(exchange)

    # -- what it comes to

    def advice(self) -> Iterator[Advice]:
        """Yield what the client should change."""
        yield from self._old_versions()
        yield from self._of_producer()
        yield from self._of_consumer()
        yield from self._of_connections()
        yield from self._of_errors()

    def _advice(self, rule: str, seen: str, since: str, change: str, requests: list[int]) -> Advice:
        return Advice(
            rule=rule,
            client_id=self.client_id,
            software=self.software,
            seen=seen,
            since=since,
            change=change,
            requests=requests,
        )

    def _old_versions(self) -> Iterator[Advice]:
        served = release(_FIRST_WITHOUT_OLD).apis
        for (api_key, version), habit in sorted(self._versions.items()):
            if api_key in served and 0 <= version < served[api_key][0]:
                least = served[api_key][0]
                yield self._advice(
                    "old-version",
                    f"{habit.count} {SPECS[api_key].name} requests of version {version}",
                    f"gone since Kafka {_FIRST_WITHOUT_OLD}, which begins with {least} (KIP-896)",
                    "update the client; clients of Kafka 2.1 and later ask with newer versions",
                    habit.examples,
                )
        if (old := self._habits.get("old format")) is not None:
            yield self._advice(
                "old-message-format",
                f"{old.count} batches in a message format before 0.11",
                "gone since Kafka 4.0 (KIP-724)",
                "update the client, or raise its api.version or log.message.format setting",
                old.examples,
            )

    def _of_producer(self) -> Iterator[Advice]:
        produces = self._produces
        for acks, meaning in ((1, "the leader alone answers for them"), (0, "nobody answers for them")):
            habit = self._habits.get(f"acks {acks}")
            if habit is not None:
                yield self._advice(
                    "acks",
                    f"{habit.count} of {produces.count} Produce requests with acks={acks}: {meaning}",
                    "acks=all is the default of Java's producer since 3.0 (KIP-679)",
                    "set acks=all: records that were acknowledged survive the loss of a broker",
                    habit.examples,
                )
        if (plain := self._habits.get("no idempotence")) is not None:
            yield self._advice(
                "no-idempotence",
                f"{plain.count} of {self._batches} batches without a producer id: a retry may write them twice",
                "enable.idempotence since 0.11 (KIP-98), Java's default since 3.0 (KIP-679)",
                "set enable.idempotence=true",
                plain.examples,
            )
        single = self._habits.get("single records")
        if single is not None and single.count >= _FEW and single.count >= _MOST * self._batches:
            yield self._advice(
                "single-records",
                f"{single.count} of {self._batches} batches have one record, up to {single.best_a_minute} a minute",
                "linger.ms is 5 in Java's producer since 4.0 (KIP-1030)",
                "set linger.ms to 5 or more and do not wait for each record (flush, get) before the next is sent",
                single.examples,
            )
        records: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for topic_or_id, counts in self._records.items():
            name = topic_or_id if isinstance(topic_or_id, str) else self._names.get(topic_or_id, "")
            records[name].update(counts)
        for topic, counts in sorted(records.items()):
            total, there = sum(counts.values()), self._partitions.get(topic, 0)
            partition, most = counts.most_common(1)[0]
            if there > 1 and total >= _MANY_RECORDS and most >= _MOST * total:
                yield self._advice(
                    "one-partition",
                    f"{most} of {total} records for topic {topic} go to partition {partition} of {there}",
                    "a key decides the partition; without a key batches go round since 2.4 (KIP-480, KIP-794)",
                    "look at the key: one value for nearly all records leaves the other partitions without work",
                    produces.examples,
                )

    def _of_consumer(self) -> Iterator[Advice]:
        commits = self._habits.get("single commits")
        if commits is not None and commits.count >= _FEW and self._steps[True] >= _MOST * self._steps.total():
            yield self._advice(
                "commit-a-record",
                f"{self._steps[True]} of {self._steps.total()} commits are one record further than the one before, "
                f"up to {commits.best_a_minute} a minute",
                "each is a record in __consumer_offsets that waits for all replicas in sync",
                "commit once for each poll, or by time (auto.commit.interval.ms)",
                commits.examples,
            )
        empty = max(self._empty_fetches.values(), key=lambda each: each.best_a_minute, default=None)
        if empty is not None and empty.best_a_minute >= _EMPTY_FETCHES_A_MINUTE:
            yield self._advice(
                "empty-fetches",
                f"{empty.best_a_minute} fetches within a minute came back without records",
                "a broker waits fetch.max.wait.ms (500) for fetch.min.bytes",
                "raise fetch.max.wait.ms, and do not seek or pause between polls",
                empty.examples,
            )
        joins = self._habits.get("joins")
        if joins is not None and joins.best_a_minute >= _JOINS_A_MINUTE:
            yield self._advice(
                "rebalances",
                f"{joins.best_a_minute} JoinGroup requests within a minute",
                "members that come, go or are late stop the whole group; static members do not since 2.3 (KIP-345), "
                "and group.protocol=consumer since 4.0 stops only what moves (KIP-848)",
                "look at max.poll.interval.ms, at group.instance.id, and at consumers that are made for each message",
                joins.examples,
            )

    def _of_connections(self) -> Iterator[Advice]:
        metadata = self._habits.get("metadata")
        if metadata is not None and metadata.best_a_minute >= _METADATA_A_MINUTE:
            yield self._advice(
                "metadata",
                f"{metadata.best_a_minute} Metadata requests within a minute",
                "a client asks every metadata.max.age.ms (5 minutes) and after errors",
                "keep one client for the whole process, and look at the errors that make it ask",
                metadata.examples,
            )
        short = sum(count <= 1 for count in self._produces_of.values())
        if len(self._produces_of) >= _MANY_CONNECTIONS and short >= _MOST * len(self._produces_of):
            yield self._advice(
                "connection-a-record",
                f"{short} of {len(self._produces_of)} connections were made for one Produce request",
                "a producer is made to be shared by all threads of a process",
                "keep one producer for the whole process",
                self._produces.examples,
            )
        if self.client_id in (None, ""):
            yield self._advice(
                "no-client-id",
                f"{counted(len(self._connections), 'connection')} without a client id",
                "quotas, metrics and logs tell clients by it",
                "set client.id",
                [],
            )

    def _of_errors(self) -> Iterator[Advice]:
        for (api, error), habit in sorted(self._errors.items()):
            if error == "INVALID_SESSION_TIMEOUT":
                yield self._advice(
                    "session-timeout",
                    f"{habit.count} {api} requests were refused: {error}",
                    "session.timeout.ms must lie within group.min.session.timeout.ms and group.max.session.timeout.ms",
                    "change session.timeout.ms of the client, or the broker's bounds",
                    habit.examples,
                )
            elif habit.count >= _SAME_ERRORS and error not in _RETRIED_AS_USUAL:
                yield self._advice(
                    "same-error",
                    f"{habit.count} {api} requests were answered {error}, up to {habit.best_a_minute} a minute",
                    "an error that is repeated as often is not of a moment",
                    "look at the requests, and at what the application does with the error",
                    habit.examples,
                )


class Adviser:
    """The habits of all clients."""

    def __init__(self) -> None:
        self._clients: dict[str | None, ClientHabits] = {}
        self._partitions: dict[str, int] = {}
        self._names: dict[bytes, str] = {}

    def note(self, exchange: Exchange) -> None:
        """Note a request with its answer."""
        client_id = exchange.client_id
        if client_id not in self._clients:
            self._clients[client_id] = ClientHabits(client_id, self._partitions, self._names)
        self._clients[client_id].note(exchange)
        if exchange.api_key == ApiKey.METADATA and exchange.response is not None:
            for topic in exchange.response.topics:
                if topic.name:
                    self._partitions[topic.name] = len(topic.partitions)
                    self._names[topic.topic_id] = topic.name

    def advice(self) -> list[Advice]:
        """Return what each client should change, in the order of the clients' first requests."""
        return [each for client in self._clients.values() for each in client.advice()]
