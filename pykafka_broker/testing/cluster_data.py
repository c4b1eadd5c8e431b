"""Records and groups of a cluster, without a client: the third part of `KafkaCluster`, after `cluster_traffic`.

Rule: a broker has the records of the partitions it leads, and the groups and transactions it coordinates. The caller
need not know which broker that is, nor that another broker takes over meanwhile. Records are written by an idempotent
producer. If the leader is lost before the answer, the write is repeated at the next leader with the same sequence, so
each record is stored once.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka_broker.client.partitioner import partition_of
from pykafka_broker.control.schema import meant
from pykafka_broker.errors import counted
from pykafka_broker.testing.answers import CommittedPartition, Group, GroupSummary, Topic
from pykafka_broker.testing.arguments import check_count, epoch_ms
from pykafka_broker.testing.cluster_nodes import WAIT_S
from pykafka_broker.testing.cluster_traffic import ClusterTraffic
from pykafka_broker.testing.control_client import ControlError, told_to_the_test
from pykafka_broker.testing.controlled import names_to_keep
from pykafka_broker.testing.data import (
    AT_ONCE,
    BrokerError,
    NotReached,
    RecordsDiffer,
    Step,
    WaitTimeout,
    poll,
    wait,
)
from pykafka_broker.testing.record import NewRecord, Record, RecordLike, said, to_each, to_expectation

if TYPE_CHECKING:
    from pykafka_broker.control.api.records import RecordAnswer
    from pykafka_broker.control.comparing import ExpectedRecord, Readable
    from pykafka_broker.testing.process import KafkaBroker


# -- differences


def difference(found: Sequence[Record], expected: Iterable[Any], registry: str = "") -> str:
    """Return the difference between found and expected records; empty if equal.

    registry: the URL of the schema registry whose schemas the text shows values by.
    """
    from pykafka_broker.control import comparing

    shown, wanted = _shown(found), _expected(expected)
    says = comparing.difference(shown, wanted)
    if says and (readable := _readable(registry, [*wanted, *shown])):
        says = comparing.difference(shown, wanted, readable) + comparing.hint_of_bytes(wanted, readable)
    return says


def missing(found: Sequence[Record], expected: Iterable[Any], registry: str = "") -> tuple[int, list[str]]:
    """Return how many expected records have no match, and a line for each of the first; registry as of `difference`."""
    from pykafka_broker.control import comparing

    wanted = _expected(expected)
    matching, lines = comparing.missing(_shown(found), wanted, _readable(registry, wanted))
    return len(wanted) - len(matching), lines


def first_that_fits(found: Sequence[Record], expected: Any) -> Record | None:
    """Return the first matching record."""
    from pykafka_broker.control.comparing import ExpectedMatcher

    (one,) = _expected([expected])
    wanted = ExpectedMatcher(one)
    return next((record for record, shown in zip(found, _shown(found), strict=True) if wanted.fits(shown)), None)


def listing(found: Sequence[Record], registry: str = "") -> str:
    """Return the last records as lines of a failure's text; registry as of `difference`."""
    from pykafka_broker.control import comparing

    last = _shown(found[-comparing.SHOWN :])
    return comparing.listing(last, len(found), _readable(registry, last))


def _readable(registry: str, records: Sequence[RecordAnswer | ExpectedRecord]) -> Readable:
    """Return texts for the keys and values that a schema of a registry reads, asked in a thread of its own."""
    if not registry:
        return {}
    import asyncio

    from pykafka_broker.control.comparing import readable_by
    from pykafka_broker.registry.decoding import Decoder, SchemasElsewhere

    decode = Decoder(SchemasElsewhere(registry, None)).decode
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(readable_by(decode, records))).result()


def _expected(records: Iterable[Any]) -> list[ExpectedRecord]:
    """Read expected records. Raises ControlError for an unreadable field, as a broker does."""
    from pykafka_broker.control.comparing import ExpectedRecord
    from pykafka_broker.control.problems import Problem
    from pykafka_broker.control.schema import read

    try:
        return [read(ExpectedRecord, each, "a record") for each in to_each(to_expectation, records)]
    except Problem as problem:
        raise ControlError(problem.status, problem.detail) from None


def _shown(records: Iterable[Record]) -> list[RecordAnswer]:
    """Return records as a broker answers them."""
    from pykafka_broker.control.api.records import Header, RecordAnswer

    shown = []
    for each in records:
        headers = [Header(name, **said("value", value)) for name, value in each.headers]
        content = {"key": None, "value": None, **said("key", each.key), **said("value", each.value)}
        shown.append(RecordAnswer(**{**vars(each), **content, "headers": headers}))
    return shown


# -- data


__tracebackhide__ = told_to_the_test
_PASSING = ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_OR_PARTITION")
_MOVED = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
_SETTINGS = {"acls", "configs", "quotas", "users"}
_KEEPABLE = _SETTINGS | {"clock", "faults", "requests", "topics"}
_TURN_S = 0.5  # seconds to wait for a coordinator before another look-up
_OFFSETS = "__consumer_offsets"  # the topic that groups are in
T = TypeVar("T")


class ClusterData(ClusterTraffic):
    """Records and groups of several brokers, for a test."""

    # -- records

    def _write(self, topic: str, requests: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
        """Write records to the leaders, as to a single broker.

        Raises:
            WaitTimeout: a partition has no leader that answers; the records may be written or not.
        """
        if not requests:
            return []
        partitions = self._partitions(topic)
        by_partition: dict[int, list[tuple[int, dict[str, Any]]]] = {}
        for index, request in enumerate(requests):
            partition = _partition_for(request, index, len(partitions))
            _check(topic, partition, partitions)
            by_partition.setdefault(partition, []).append((index, {**request, "partition": partition}))
        producer = self._new_producer()
        written: dict[int, tuple[int, int]] = {}
        for partition, numbered in by_partition.items():
            for start in range(0, len(numbered), AT_ONCE):
                part = numbered[start : start + AT_ONCE]
                bodies = [request for _, request in part]
                own = {**producer, "sequences": {str(partition): start}}
                written_at = self._write_at(topic, partition, bodies, own)
                written |= {index: position for (index, _), position in zip(part, written_at, strict=True)}
        return [written[index] for index in range(len(requests))]

    def _write_at(
        self, topic: str, partition: int, bodies: Sequence[Mapping[str, Any]], producer: Mapping[str, Any]
    ) -> list[tuple[int, int]]:
        return self._at_leader(topic, partition, lambda leader: leader._write_part(topic, bodies, producer))

    def _new_producer(self) -> dict[str, Any]:
        """Return id and epoch of a new idempotent producer, from any broker."""

        def given() -> dict[str, Any]:
            return {**self.control.call("POST", "/producers")}

        return poll(given, "no broker gives a producer id", WAIT_S)

    def delete_records(
        self, topic: str, before_offset: int | None = None, partition: int | None = None
    ) -> dict[int, int]:
        """Delete the records before an offset, as a single broker does; the leader of each partition is asked."""
        left: dict[int, int] = {}
        for index in self._indexes(topic, partition):
            left |= self._delete_at(topic, index, before_offset)
        return left

    def _delete_at(self, topic: str, partition: int, before_offset: int | None) -> dict[int, int]:
        return self._at_leader(topic, partition, lambda leader: leader.delete_records(topic, before_offset, partition))

    def wait_for_records(
        self, topic: str, n: int, timeout: float = 10, isolation_level: str = "read_committed"
    ) -> list[Record]:
        """Wait until the topic has `n` records, and return the first `n` records. Raises WaitTimeout."""
        check_count("n", n, least=0)

        def there() -> list[Record]:
            found = self.records(topic, isolation_level=isolation_level, limit=n)
            if len(found) < n:
                told = f"topic {topic} has {counted(len(found), 'record')}, expected {n}"
                raise NotReached(lambda: told + listing(found, self._registry))
            return found

        return poll(there, f"the records of topic {topic} are unknown", timeout)

    def _wait_for_record(self, topic: str, wanted: NewRecord, timeout: float, isolation_level: str) -> Record:
        def fitting() -> Record:
            found = self.records(topic, wanted.partition, isolation_level=isolation_level)
            first = first_that_fits(found, wanted)
            if first is None:
                raise NotReached(lambda: self._without(topic, wanted, found))
            return first

        return poll(fitting, f"the records of topic {topic} are unknown", timeout)

    def _without(self, topic: str, wanted: NewRecord, found: Sequence[Record]) -> str:
        """Return the state of a topic that lacks a record."""
        told = missing((), [wanted], self._registry)[1][0].removeprefix("- ")
        listed = listing(found, self._registry)
        return f"topic {topic} has {counted(len(found), 'record')}, and none is {told}{listed}"

    def _assert_records(
        self, topic: str, expected: list[RecordLike], timeout: float, isolation_level: str
    ) -> list[Record]:
        found = self._found(topic, isolation_level, timeout, lambda found: len(found) >= len(expected))
        if says := difference(found, expected, self._registry):
            raise RecordsDiffer(f"topic {topic}: {says}", expected, found)
        return found

    def _assert_contains(self, topic: str, expected: list[RecordLike], timeout: float, isolation_level: str) -> None:
        found = self._found(topic, isolation_level, timeout, lambda found: not missing(found, expected)[0])
        count, lines = missing(found, expected, self._registry)
        if count:
            head = f"topic {topic}: {count} of {len(expected)} expected records are missing"
            listed = f"the topic has {counted(len(found), 'record')}{listing(found, self._registry)}"
            raise RecordsDiffer("\n".join([head, *lines, listed]), expected, found)

    def assert_no_more(self, topic: str, within_ms: int = 1_000, isolation_level: str = "read_committed") -> None:
        """Assert the end of the topic: no record is added for some time.

        Raises:
            RecordsDiffer: a record was added.
            WaitTimeout: a partition has no leader that answers; none is waited for longer than `within_ms`.
        """
        check_count("within_ms", within_ms)
        present = self._found(topic, isolation_level, within_ms / 1000, lambda found: True)
        before = {(each.partition, each.offset) for each in present}

        def came(found: list[Record]) -> bool:
            return any((each.partition, each.offset) not in before for each in found)

        found = self._found(topic, isolation_level, within_ms / 1000, came)
        if more := [each for each in found if (each.partition, each.offset) not in before]:
            says = f"topic {topic} got {counted(len(more), 'more record')} within {within_ms} ms"
            raise RecordsDiffer(says + listing(more, self._registry), found=more)

    def _found(
        self, topic: str, isolation_level: str, timeout: float, enough: Callable[[list[Record]], bool]
    ) -> list[Record]:
        """Return the records of a topic once `enough` says so, or after the time-out.

        Raises:
            ControlError: the topic is still missing then.
            WaitTimeout: the last look has seen none: a partition has no leader that answers.
        """
        found: list[Record] | None = None

        def look() -> None:
            nonlocal found
            found = None
            found = self.records(topic, isolation_level=isolation_level)
            if not enough(found):
                raise NotReached

        try:
            poll(look, f"the records of topic {topic} are unknown", timeout)
        except WaitTimeout:
            if found is None:
                self.topic(topic)  # raises ControlError for a missing topic
                raise
        return found or []  # the present records are compared

    def _seed(self, lines: Iterable[str]) -> dict[str, int]:
        seeded = {"topics": 0, "records": 0, "offsets": 0}
        gathered: list[dict[str, Any]] = []
        topic = ""
        for number, text in enumerate(lines, 1):
            line = _line(text, number)
            if line is None:
                continue
            kind = line.pop("type")
            if gathered and (kind != "record" or line["topic"] != topic or len(gathered) >= AT_ONCE):
                self._write(topic, gathered)
                gathered = []
            if kind == "record":
                topic = line.pop("topic")
                gathered.append(line)
            elif kind == "topic":
                self.create_topic(line["name"], line["partitions"], line["config"])
            else:
                self.commit(line["group"], line["topic"], line["offset"], line["partition"], line["metadata"])
            seeded[f"{kind}s"] += 1
        if gathered:
            self._write(topic, gathered)
        return seeded

    @property
    def _registry(self) -> str:
        """The address of a schema registry of the cluster, or nothing."""
        with suppress(BrokerError):
            return self._running().schema_registry_url
        return ""

    def _partitions(self, topic: str) -> range:
        return range(self._running().topic(topic)["partitions"])

    def _indexes(self, topic: str, partition: int | None) -> Iterable[int]:
        partitions = self._partitions(topic)
        if partition is None:
            return partitions
        _check(topic, partition, partitions)
        return (partition,)

    def _at_leader(self, topic: str, partition: int, step: Step[KafkaBroker, T]) -> T:
        """Return the leader's answer, after a change of the leader the new leader's."""

        def at_leader() -> T | ControlError:
            return self._step_at(self.leader_of(topic, partition), step, _PASSING)

        return _unless_refused(poll(at_leader, f"{topic}-{partition} has no leader that answers", WAIT_S))

    def _at_coordinator(
        self,
        step: Step[KafkaBroker, T],
        group: str | None = None,
        transactional_id: str | None = None,
        timeout: float = WAIT_S,
    ) -> T:
        """Return the coordinator's answer, after a change of the coordinator the new coordinator's.

        A wait in vain at a coordinator is repeated: another broker may be the coordinator by then.
        """

        def at_coordinator() -> T | ControlError:
            return self._step_at(self.coordinator(group, transactional_id), step, _MOVED)

        unknown = f"{group or transactional_id} has no coordinator that answers"
        return _unless_refused(poll(at_coordinator, unknown, timeout))

    def _step_at(self, node_id: int, step: Step[KafkaBroker, T], passing: Collection[str]) -> T | ControlError:
        """Do a step with a broker, and return the result, or a refusal for which waiting is no help.

        Raises NotReached without a broker, or for a wait in vain, and ControlError for the errors of `passing`.
        """
        if node_id < 0:
            raise NotReached
        try:
            return step(self.broker(node_id))
        except ControlError as error:
            if error.code in passing:
                raise
            return error
        except WaitTimeout as error:
            raise NotReached(error.state) from None

    # -- groups and transactions

    def groups(self) -> list[GroupSummary]:
        """Return all groups of all coordinators, as a single broker does."""
        found = {each["group_id"]: each for node in self.brokers if node.running for each in node.groups()}
        return [found[name] for name in sorted(found)]

    def group(self, group: str) -> Group:
        """Return a group with members and offsets; the leaders tell the ends of partitions."""
        return self._with_ends(super().group(group))

    def _with_ends(self, group: Group) -> Group:
        """Return a group with the ends of the partitions from the leaders: the coordinator may lead none."""
        for each in group["offsets"]:
            start, end = self._bounds(each["topic"], each["partition"])
            position = start if each["committed"] is None else each["committed"]
            left = max(0, end - position)
            if left and not self.records(each["topic"], each["partition"], position, "read_uncommitted", limit=1):
                left = 0  # only ends of transactions, which nobody commits
            each |= {"end": end, "lag": left}
        return group

    def lag(self, group: str) -> int:
        """Return the number of records still to read in the partitions with committed offsets."""
        return sum(each["lag"] or 0 for each in self.group(group)["offsets"])

    def reset_offsets(
        self,
        group: str,
        topic: str | None = None,
        to: str | int | datetime.datetime = "earliest",
        partition: int | None = None,
    ) -> list[CommittedPartition]:
        """Commit new offsets for a group, as on a single broker. Raises ControlError while the group has members."""
        names = sorted({each["topic"] for each in self.group(group)["offsets"]}) if topic is None else [topic]
        if not names:
            raise ControlError(404, f"group {group} has committed nothing: name the topic")
        for name in names:
            for index in self._indexes(name, partition):
                self.commit(group, name, self._offset_at(name, index, to), index)
        return [each for each in self.group(group)["offsets"] if each["topic"] in names]

    def _offset_at(self, topic: str, partition: int, to: str | int | datetime.datetime) -> int:
        """Return the offset of a position. Raises ControlError for an offset outside the partition."""
        start, end = self._bounds(topic, partition)
        if isinstance(to, datetime.datetime):
            wanted_ms = epoch_ms("to", to)
            found = self.records(topic, partition, isolation_level="read_uncommitted")
            return next((each.offset for each in found if each.timestamp >= wanted_ms), end)
        if isinstance(to, str):
            if to not in ("earliest", "latest"):
                raise ControlError(400, f"to must be earliest, latest, an offset or a time, not {to}")
            return start if to == "earliest" else end
        if not start <= to <= end:
            raise ControlError(400, f"{topic}-{partition} has offsets {start} to {end}, not {to}")
        return to

    def _bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the bounds of a partition for consumers, from the leader."""

        def step(leader: KafkaBroker) -> tuple[int, int]:
            state = leader.partition(topic, partition)
            if state["high_watermark"] is None or state["log_start_offset"] is None:
                raise ControlError(503, f"broker {state['leader']} does not lead {topic}-{partition} yet", _PASSING[0])
            return state["log_start_offset"], state["high_watermark"]

        return self._at_leader(topic, partition, step)

    def wait_for_group(
        self, group: str, state: str | None = None, members: int | None = None, timeout: float = 10
    ) -> Group:
        """Wait until the group exists, with the state ("Stable", "Empty", ...) and the number of members."""
        return self._with_ends(super().wait_for_group(group, state, members, timeout))

    def wait_for_lag(self, group: str, lag: int = 0, timeout: float = 10) -> int:
        """Wait until the group has committed offsets and at most `lag` records still to read."""
        check_count("lag", lag, least=0)

        def caught_up() -> int:
            offsets = self.group(group)["offsets"]
            left = sum(each["lag"] or 0 for each in offsets)
            if offsets and left <= lag:
                return left
            behind = ", ".join(f"{each['topic']}-{each['partition']}: {each['lag']}" for each in offsets if each["lag"])
            raise NotReached(f"group {group} has {f'records to read ({behind})' if offsets else 'committed nothing'}")

        return poll(caught_up, f"the offsets of group {group} are unknown", timeout)

    def _wait_at_coordinator(self, kind: type[T], path: str, timeout: float, body: Mapping[str, Any]) -> T:
        """Let one coordinator after the other wait for a while."""
        turn_s = _TURN_S if timeout > 0 else 0
        return self._at_coordinator(
            lambda node: wait(node.control, kind, path, turn_s, body),
            body.get("group"),
            body.get("transactional_id"),
            timeout,
        )

    # -- seed, dump and reset

    def reset(self, keep: Iterable[str] = ()) -> None:
        """Start stopped nodes, end all faults, delete all topics, and restore the settings of the first start.

        With the topics go all groups, offsets and transactions; settings are configs, quotas, ACLs and users. Clients
        stay connected, and may make topics and groups anew before this returns.

        Args:
            keep: the things to keep, as on a single broker.
        """
        kept = {*names_to_keep(keep)}
        if unknown := sorted(kept - _KEEPABLE):
            raise ValueError(f"{unknown[0]} can't be kept; what can is {', '.join(sorted(_KEEPABLE))}")
        self.heal_network()
        for node in (self.controller, *self.brokers):
            if not node.running:
                node.start()
        for node in self.brokers:
            node.unpause()
            node.free_disk()
        if "faults" not in kept:
            self.faults.clear()
        self.reset_settings(kept & _SETTINGS)
        again: list[tuple[Topic, int]] = []
        topics = self.topics(internal=True)
        for topic in topics:
            if "topics" in kept and not topic["internal"]:
                again.append((topic, len(self.partition(topic["name"])["replicas"])))
            self.delete_topic(topic["name"])

        gone = {each["topic_id"] for each in topics}

        def forgotten() -> None:
            for node in self.brokers:
                there = {each["name"]: each["topic_id"] for each in node.topics(internal=True)}
                if not gone.isdisjoint(there.values()) or (_OFFSETS not in there and node.groups()):
                    raise NotReached

        poll(forgotten, "not all brokers have deleted all topics", WAIT_S)
        if "clock" not in kept:
            self.clock.resume()
            self.clock.set(round(time.time() * 1000))
        self._begin_histories()
        for topic, replicas in again:
            self.create_topic(topic["name"], topic["partitions"], topic["config"], replication_factor=replicas)
        if "requests" not in kept:
            self.clear_requests()

    def _begin_histories(self) -> None:
        """Forget the facts about the deleted data, which a clock that was moved dates after those that follow."""
        for node in self.brokers:
            try:
                node.history.clear()
            except ControlError as error:
                if error.status != HTTPStatus.CONFLICT:  # no history is written
                    raise


def _unless_refused(answer: T | ControlError) -> T:
    if isinstance(answer, ControlError):
        raise answer
    return answer


def _check(topic: str, partition: int, partitions: range) -> None:
    if partition not in partitions:
        raise ControlError(404, f"topic {topic} has partitions 0 to {partitions[-1]}, not {partition!r}")


def _partition_for(request: Mapping[str, Any], index: int, partitions: int) -> int:
    """Choose a partition as a broker alone does (`control/api/records.py`)."""
    if request.get("partition") is not None:
        return int(request["partition"])
    key = meant(request.get("key"), request.get("key_base64"), "key")
    return index % partitions if key is None else partition_of(key, partitions)


def _line(text: str, number: int) -> dict[str, Any] | None:
    """Read a line for `seed`; None for a blank one, and for one in the place of records that nobody could read.

    Raises ControlError for a bad line, as a broker does.
    """
    from pykafka_broker.control.api.seeding import RecordLine, UnreadableLine, read_line
    from pykafka_broker.control.problems import Problem
    from pykafka_broker.control.schema import write

    if not text.strip():
        return None
    try:
        line = read_line(text)
        if isinstance(line, RecordLine):
            line.stored()
    except Problem as problem:
        raise ControlError(problem.status, f"line {number}: {problem.detail}") from None
    if isinstance(line, UnreadableLine):
        return None
    found = {**write(line)}
    found.pop("batch", None)  # the lines of a recording, which is of one broker, have it
    return found
