"""Trouble for the processes of a cluster: kills, pauses, cuts of the network, failing disks, leaders and coordinators
that move, at times of a seed or at a request.

Rule: time counts from the first request of a client, so that a test may make its topics in peace. Trouble at a request
comes while that request waits. Whatever begins ends again by itself, at the latest with the trouble; a broker that was
started again has its faults again. The names are those of `SimulatedCluster.trouble` where it has the same; what has
come can be added by itself, each with `KafkaCluster.befall`.
"""

from __future__ import annotations

import heapq
import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka_broker.errors import counted
from pykafka_broker.testing.arguments import check_count, check_timeout, check_type
from pykafka_broker.testing.cluster_traffic import CHAOS, FaultHandles
from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.data import BrokerError, WaitTimeout

if TYPE_CHECKING:
    from pykafka_broker.testing.answers import ChaosState, FaultState, Topic
    from pykafka_broker.testing.cluster_data import ClusterData
    from pykafka_broker.testing.process import KafkaBroker

KINDS = ("kill", "stop", "pause", "partition", "fill_disk", "break_disk", "move_leader", "move_coordinator")
MOVES = ("move_leader", "move_coordinator")  # over at once
_OF_COORDINATORS = ("__consumer_offsets", "__transaction_state")
_FACTS = ("id", "hits", "held", "fitted", "spent")  # of a fault, apart from its arguments
DEFAULT_MEAN_MS = 1000
_AWAY_MS = range(100, 2500)
_LOOK_S = 0.02
OF_CLIENTS = ("Produce", "FindCoordinator", "ListOffsets")  # the first requests of clients, which no broker sends
_GONE = (BrokerError, ControlError, OSError)  # a broker that has ended meanwhile
NO_REQUEST = "no request that matches `at` has come"


class Blow(NamedTuple):
    """A single trouble: arguments of `KafkaCluster.befall`.

    after_ms: since the first request of a client. for_ms: until it is over. topic, partition: whose leader moves, to
    `broker`. group: whose coordinator moves there. at: the request at which it comes, as arguments of `faults.add`.
    """

    kind: str
    broker: int
    after_ms: int = 0
    for_ms: int = 0
    topic: str | None = None
    partition: int = 0
    group: str | None = None
    at: Mapping[str, Any] | None = None

    def line(self, name: str) -> str:
        """Return the line that adds this trouble to the cluster of a fixture."""
        rest: dict[str, Any] = {}
        if self.kind in MOVES:
            rest = {"group": self.group} if self.topic is None else {"topic": self.topic, "partition": self.partition}
        rest |= {"after_ms": self.after_ms} if self.at is None else {"at": dict(self.at)}
        if self.kind not in MOVES:
            rest["for_ms"] = self.for_ms
        given = ", ".join(f"{key}={written(value)}" for key, value in rest.items())
        return f"{name}.befall({written(self.kind)}, {self.broker}, {given})"

    def why_not(self, error: object) -> str:
        """Return the reason why this trouble can't come, with what it is about."""
        what = f"group {self.group}" if self.topic is None else f"{self.topic}-{self.partition}"
        of = f"{what} to broker {self.broker}" if self.kind in MOVES else f"broker {self.broker}"
        return f"{self.kind} of {of}: {error}"


def written(value: Any) -> str:
    """Return a value as source code, with double quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(key)}: {written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def check_kinds(kinds: Iterable[str], known: Sequence[str] = KINDS) -> list[str]:
    """Return names of troubles as a list. Raises ValueError for an unknown one, or for none."""
    if isinstance(kinds, str):
        raise ValueError(f"kinds of trouble must be a list: [{kinds!r}]")
    chosen = list(kinds)
    if unknown := [kind for kind in chosen if kind not in known]:
        raise ValueError(f"there is no trouble {unknown[0]}: there are {', '.join(known)}")
    if not chosen:
        raise ValueError(f"no trouble is named: there are {', '.join(known)}")
    return chosen


def check_blow(blow: Blow, known: Sequence[str] = KINDS) -> None:
    """Check a trouble. Raises TypeError or ValueError for one that can't come, or that is not about what it names."""
    check_kinds([blow.kind], known)
    for name, least in (("after_ms", 0), ("for_ms", 0), ("partition", 0)):
        check_count(name, getattr(blow, name), least)
    for name in ("topic", "group"):
        if getattr(blow, name) is not None:
            check_type(name, getattr(blow, name), str, "a name")
            if blow.kind not in MOVES:
                raise ValueError(f"{blow.kind} is of a broker, not of a {name}: leave out {name}=...")
    if blow.kind in MOVES and not blow.topic and not blow.group:
        raise ValueError(f"{blow.kind} needs the topic whose leader moves, or the group whose coordinator moves")


class _Draft(NamedTuple):
    """A trouble as the seed gives it: whose leader moves depends on the topics that there are then."""

    blow: Blow
    chance: random.Random


class ClusterTrouble:
    """Trouble that comes to a cluster until `end`; `came` lists what has come, each as a `Blow`.

    before_end: called with the id of a broker whose process is about to end.
    after_start: called with the id of a broker that was started again.
    insists: a trouble that can't come yet is tried again, and `end` raises if it never could.
    """

    _tries_again = True
    _awaited = "time counts from the first request of a client, and none has come"

    def __init__(
        self,
        cluster: ClusterData,
        drafts: Iterator[_Draft],
        most_down: int | None = None,
        before_end: Callable[[int], object] = lambda broker: None,
        after_start: Callable[[int], object] = lambda broker: None,
        insists: bool = False,
    ) -> None:
        self.came: list[Blow] = []
        self._insists, self._why_not, self._has_begun = insists, "", False
        self._cluster = cluster
        self._drafts = drafts
        self._most_down = most_down
        self._before_end, self._after_start = before_end, after_start
        self._undo: dict[int, Callable[[], object]] = {}  # by broker that is away
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True, name="trouble of a cluster")
        self._thread.start()

    def wait(self, n: int = 1, timeout: float = 30) -> None:
        """Wait until `n` troubles have come, at least 1.

        Raises:
            WaitTimeout: they have not come in time.
        """
        check_count("n", n)
        check_timeout(timeout)
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.came) >= n, timeout):
                came = counted(len(self.came), "trouble")
                why = self._told_why() if self._has_begun else f": {self._awaited}"
                raise WaitTimeout(f"after {timeout:g} s {came} came, expected {n}{why}")

    def end(self) -> None:
        """Let nothing come any more, and end what has begun.

        Raises:
            WaitTimeout: what was asked for could not come when it was due.
        """
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if self._insists and (why := self._told_why()):
            self._why_not = ""
            raise WaitTimeout(f"a trouble never came{why}")

    def _told_why(self) -> str:
        return self._why_not and f": {self._why_not}"

    # -- in the thread

    def _run(self) -> None:
        try:
            if self._wait_for_begin():
                self._has_begun = True
                self._go_through(time.monotonic())
        finally:
            for broker in list(self._undo):
                self._end_one(broker)

    def _wait_for_begin(self) -> bool:
        """Wait for a client's first request. Return False if the trouble ends before."""
        while not self._ended.wait(_LOOK_S):
            for node in self._cluster.brokers:
                with suppress(*_GONE):
                    if node.running and any(node.requests(api, limit=1) for api in OF_CLIENTS):
                        return True
        return False

    def _go_through(self, began: float) -> None:
        ends: list[tuple[int, int]] = []  # when, and of which broker
        draft, again_ms = next(self._drafts, None), 0
        while draft is not None or ends:
            first_end = ends[0][0] if ends else None
            begin = None if draft is None else max(draft.blow.after_ms, again_ms)
            due = min(each for each in (begin, first_end) if each is not None)
            if self._ended.wait(max(0.0, began + due / 1000 - time.monotonic())):
                return
            if due == first_end:
                self._end_one(heapq.heappop(ends)[1])
                continue
            assert draft is not None
            blow = self._placed(draft)
            if blow is not None and self._begin_one(blow):
                with self._changed:
                    self.came.append(blow)
                    self._why_not = ""
                    self._changed.notify_all()
                if blow.kind not in MOVES:
                    heapq.heappush(ends, (due + blow.for_ms, blow.broker))
            elif self._insists and self._tries_again:
                again_ms = due + int(_LOOK_S * 1000)
                continue
            draft = next(self._drafts, None)

    def _placed(self, draft: _Draft) -> Blow | None:
        """Return what a draft is by now; None where nothing may come."""
        blow, chance = draft
        if blow.kind in MOVES:
            with self._noting_why(blow):
                if blow.group is not None:
                    return blow._replace(topic=_OF_COORDINATORS[0], partition=self._partition_of(blow.group))
                return blow if blow.topic is not None else self._drawn_move(blow, chance)
            return None
        away = blow.broker in self._undo
        many = self._most_down is not None and len(self._undo) >= self._most_down
        cut = blow.kind == "partition" and any(each == "partition" for each in self._kinds_under_way())
        if away or many or cut or not self._cluster.broker(blow.broker).running:
            self._why_not = blow.why_not("it was not running, or already in trouble")
            return None
        return blow

    @contextmanager
    def _noting_why(self, blow: Blow) -> Iterator[None]:
        """Note why a trouble can't come now, and go on."""
        try:
            yield
        except _GONE as error:
            self._why_not = blow.why_not(error)

    def _kinds_under_way(self) -> list[str]:
        latest = {each.broker: each.kind for each in self.came if each.kind not in MOVES}
        return [latest[broker] for broker in self._undo if broker in latest]

    def _partition_of(self, group: str) -> int:
        """Return the partition of a group's coordinator."""
        from pykafka_broker.broker.coordinators.coordinator_log import partition_for

        self._cluster.coordinator(group)  # creates the topic, where no client has asked for a coordinator yet
        counts = {each["name"]: each["partitions"] for each in self._topics("move_coordinator")}
        return partition_for(group, counts[_OF_COORDINATORS[0]])

    def _topics(self, kind: str) -> list[Topic]:
        if kind == "move_leader":
            return self._cluster.topics()
        return [each for each in self._cluster.topics(internal=True) if each["name"] in _OF_COORDINATORS]

    def _drawn_move(self, blow: Blow, chance: random.Random) -> Blow | None:
        try:
            topics = sorted((each["name"], each["partitions"]) for each in self._topics(blow.kind))
            name, count = chance.choice(topics)
            partition = chance.randrange(count)
            state = self._cluster.partition(name, partition)
        except IndexError:  # no topic
            return None
        others = sorted(set(state["isr"]) - {state["leader"]})
        return blow._replace(broker=chance.choice(others), topic=name, partition=partition) if others else None

    def _begin_one(self, blow: Blow) -> bool:
        cluster = self._cluster
        node = cluster.broker(blow.broker)
        with self._noting_why(blow):
            if blow.kind in MOVES:
                assert blow.topic is not None
                cluster.controller.move_leader(blow.topic, blow.broker, blow.partition)
            elif blow.kind == "partition":
                cluster.partition_network({blow.broker}, set(cluster.nodes) - {blow.broker})
                self._undo[blow.broker] = cluster.heal_network
            elif blow.kind == "pause":
                node.pause()
                self._undo[blow.broker] = node.unpause
            elif blow.kind == "fill_disk":
                node.fill_disk()
                self._undo[blow.broker] = node.free_disk
            else:
                self._before_end(blow.broker)
                kept = self._kept(node, blow.broker)
                self._undo[blow.broker] = partial(self._start_again, blow.broker, kept, blow.kind)
                {"kill": node.kill, "stop": node.stop, "break_disk": node.break_disk}[blow.kind]()
            return True
        return False

    def _kept(self, node: KafkaBroker, broker: int) -> _Kept:
        """Return the faults of a broker; an id that was removed before belongs to an earlier process."""
        kept, handles = _Kept.of(node), self._cluster._fault_handles
        handles.pop((broker, CHAOS), None)
        for each in kept.faults:
            if handles.get((broker, each["id"])) is None:
                handles.pop((broker, each["id"]), None)
        return kept

    def _start_again(self, broker: int, kept: _Kept, kind: str) -> None:
        """Start a broker whose process has ended, or whose disk is broken, and give it its faults again."""
        node = self._cluster.broker(broker)
        if kind == "break_disk" and node.running:  # nothing was written since
            node.kill()
        if not node.running:
            node.start()
            kept.give(node, broker, self._cluster._fault_handles)
            self._after_start(broker)

    def _end_one(self, broker: int) -> None:
        with suppress(*_GONE):
            self._undo.pop(broker)()


class TroubleAtRequest(ClusterTrouble):
    """A single trouble that comes when a request arrives, which waits until it has come, or can't come."""

    _tries_again = False
    _awaited = NO_REQUEST

    def __init__(self, cluster: ClusterData, blow: Blow, *, insists: bool) -> None:
        assert blow.at is not None
        self._never = blow.why_not(NO_REQUEST)
        self._held = cluster.faults.add(**{"nth": 1, **blow.at, "hang": True})
        super().__init__(cluster, iter([_Draft(blow, random.Random(0))]), insists=insists)

    def _wait_for_begin(self) -> bool:
        self._why_not = self._never
        while not self._ended.wait(_LOOK_S):
            with suppress(*_GONE):
                if self._held.describe()["hits"]:
                    self._why_not = ""
                    return True
        return False

    def _run(self) -> None:
        try:
            super()._run()
        finally:
            self._release()

    def _placed(self, draft: _Draft) -> Blow | None:
        blow = super()._placed(draft)
        if blow is None:
            self._release()
        return blow

    def _begin_one(self, blow: Blow) -> bool:
        try:
            return super()._begin_one(blow)
        finally:
            self._release()

    def _release(self) -> None:
        with suppress(*_GONE):
            self._held.remove()


class _Kept(NamedTuple):
    """The faults of a broker that is about to end."""

    faults: Sequence[FaultState]
    chaos: ChaosState | None

    @classmethod
    def of(cls, node: KafkaBroker) -> _Kept:
        faults: list[FaultState] = []
        with suppress(*_GONE):
            faults = [each for each in node.faults.all() if not each["spent"] and each["connection"] is None]
        with suppress(*_GONE):
            chaos = node.faults.chaos_state()
            return cls(faults, chaos if chaos["active"] else None)
        return cls(faults, None)

    def give(self, node: KafkaBroker, broker: int, handles: FaultHandles) -> None:
        """Set the faults again, but for those removed meanwhile; those that count go on counting."""
        with suppress(*_GONE):
            for each in self.faults:
                key = broker, each["id"]
                if (handle := handles.get(key)) is None and key in handles:
                    continue
                given: Any = {name: value for name, value in each.items() if name not in _FACTS}
                if given["nth"] is not None:
                    given["nth"] -= each["fitted"]
                if given["times"] is not None:
                    given["times"] -= each["hits"]
                fault = node.faults._add(given)
                if handle is not None:
                    handle.id, handle._control = fault.id, handle._control.at(fault.control)
                    handles[broker, fault.id] = handle
            if self.chaos is not None and (broker, CHAOS) not in handles:
                limits: Any = {name: self.chaos[name] for name in ("events", "api", "client_id", "topic", "group")}
                node.faults.chaos(self.chaos["seed"], self.chaos["rate"], **limits)


def drawn(
    cluster: ClusterData,
    kinds: Iterable[str],
    seed: int,
    mean_ms: int,
    most_down: int,
    before_end: Callable[[int], object] = lambda broker: None,
    after_start: Callable[[int], object] = lambda broker: None,
) -> ClusterTrouble:
    """Begin trouble of some kinds, about every `mean_ms`; the seed chooses what comes when and where."""
    chosen = check_kinds(kinds)
    check_count("mean_ms", mean_ms)
    check_count("most_down", most_down)
    cluster._check_started()
    brokers = sorted(each for each in cluster.nodes if each in cluster._ids)

    def drafts() -> Iterator[_Draft]:
        chance, at = random.Random(seed), 0
        while True:
            at += chance.randrange(2 * mean_ms)
            blow = Blow(chance.choice(chosen), chance.choice(brokers), at, chance.choice(_AWAY_MS))
            yield _Draft(blow, random.Random(chance.getrandbits(64)))

    return ClusterTrouble(cluster, drafts(), most_down, before_end, after_start)


def only(
    cluster: ClusterData,
    blows: Sequence[Blow],
    after_start: Callable[[int], object] = lambda broker: None,
    *,
    insists: bool = False,
) -> ClusterTrouble:
    """Begin the troubles that are given, and no others; one at a request comes alone.

    The other arguments are those of `ClusterTrouble`.
    """
    for blow in blows:
        check_blow(blow)
        cluster.broker(blow.broker)  # raises ValueError for an unknown one
    if len(blows) == 1 and blows[0].at is not None:
        return TroubleAtRequest(cluster, blows[0], insists=insists)
    ordered = sorted(blows, key=lambda each: each.after_ms)
    drafts = iter([_Draft(each, random.Random(0)) for each in ordered])
    return ClusterTrouble(cluster, drafts, after_start=after_start, insists=insists)
