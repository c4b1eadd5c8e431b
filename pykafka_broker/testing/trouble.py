"""Trouble for the processes of a cluster: kills, pauses, cuts of the network and leaders that move, at times of a seed.

Rule: time counts from the first request of a client, so that a test may make its topics in peace. Whatever begins ends
again by itself, at the latest with the trouble. The names are those of `SimulatedCluster.trouble`; what has come can be
added by itself, each with `KafkaCluster.befall`.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.data import BrokerError, WaitTimeout

if TYPE_CHECKING:
    from pykafka_broker.testing.cluster_data import ClusterData

KINDS = ("kill", "stop", "pause", "partition", "move_leader")
DEFAULT_MEAN_MS = 1000
_AWAY_MS = range(100, 2500)
_LOOK_S = 0.02
_OF_CLIENTS = ("Produce", "FindCoordinator", "ListOffsets")  # the first requests of clients, which no broker sends
_GONE = (BrokerError, ControlError, OSError)  # a broker that has ended meanwhile


class Blow(NamedTuple):
    """A single trouble: arguments of `KafkaCluster.befall`.

    after_ms: since the first request of a client. for_ms: until it is over. topic, partition: whose leader moves, to
    `broker`.
    """

    kind: str
    broker: int
    after_ms: int = 0
    for_ms: int = 0
    topic: str | None = None
    partition: int = 0

    def line(self, name: str) -> str:
        """Return the line that adds this trouble to the cluster of a fixture."""
        if self.kind == "move_leader":
            rest = f'topic="{self.topic}", partition={self.partition}, after_ms={self.after_ms}'
        else:
            rest = f"after_ms={self.after_ms}, for_ms={self.for_ms}"
        return f'{name}.befall("{self.kind}", {self.broker}, {rest})'


def check_kinds(kinds: Iterable[str]) -> list[str]:
    """Return names of troubles as a list. Raises ValueError for an unknown one, or for none."""
    chosen = list(kinds)
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        raise ValueError(f"there is no trouble {unknown[0]}: there are {', '.join(KINDS)}")
    if not chosen:
        raise ValueError(f"no trouble is named: there are {', '.join(KINDS)}")
    return chosen


class _Draft(NamedTuple):
    """A trouble as the seed gives it: whose leader moves depends on the topics that there are then."""

    blow: Blow
    chance: random.Random


class ClusterTrouble:
    """Trouble that comes to a cluster until `end`; `came` lists what has come, each as a `Blow`.

    before_end: called with the id of a broker that is about to be killed or stopped.
    """

    def __init__(
        self,
        cluster: ClusterData,
        drafts: Iterator[_Draft],
        most_down: int | None = None,
        before_end: Callable[[int], object] = lambda broker: None,
    ) -> None:
        self.came: list[Blow] = []
        self._cluster = cluster
        self._drafts = drafts
        self._most_down = most_down
        self._before_end = before_end
        self._undo: dict[int, Callable[[], object]] = {}  # by broker that is away
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True, name="trouble of a cluster")
        self._thread.start()

    def wait(self, n: int = 1, timeout: float = 30) -> None:
        """Wait until `n` troubles have come.

        Raises:
            WaitTimeout: they have not come in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.came) >= n, timeout):
                raise WaitTimeout(f"after {timeout:g} s {len(self.came)} troubles have come, not {n}")

    def end(self) -> None:
        """Let nothing come any more, and end what has begun."""
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # -- in the thread

    def _run(self) -> None:
        try:
            if self._wait_for_clients():
                self._go_through(time.monotonic())
        finally:
            for broker in list(self._undo):
                self._end_one(broker)

    def _wait_for_clients(self) -> bool:
        """Wait for a client's first request. Return False if the trouble ends before."""
        while not self._ended.wait(_LOOK_S):
            for node in self._cluster.brokers:
                with suppress(*_GONE):
                    if node.running and any(node.requests(api, limit=1) for api in _OF_CLIENTS):
                        return True
        return False

    def _go_through(self, began: float) -> None:
        ends: list[tuple[int, int]] = []  # when, and of which broker
        draft = next(self._drafts, None)
        while draft is not None or ends:
            first_end = ends[0][0] if ends else None
            due = min(each for each in (draft and draft.blow.after_ms, first_end) if each is not None)
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
                    self._changed.notify_all()
                if blow.kind != "move_leader":
                    heapq.heappush(ends, (blow.after_ms + blow.for_ms, blow.broker))
            draft = next(self._drafts, None)

    def _placed(self, draft: _Draft) -> Blow | None:
        """Return what a draft is by now; None where nothing may come."""
        blow, chance = draft
        if blow.kind == "move_leader":
            return blow if blow.topic is not None else self._drawn_move(blow, chance)
        away = blow.broker in self._undo
        many = self._most_down is not None and len(self._undo) >= self._most_down
        cut = blow.kind == "partition" and any(each == "partition" for each in self._kinds_under_way())
        return None if away or many or cut or not self._cluster.broker(blow.broker).running else blow

    def _kinds_under_way(self) -> list[str]:
        latest = {each.broker: each.kind for each in self.came if each.kind != "move_leader"}
        return [latest[broker] for broker in self._undo if broker in latest]

    def _drawn_move(self, blow: Blow, chance: random.Random) -> Blow | None:
        try:
            topics = sorted((each["name"], each["partitions"]) for each in self._cluster.topics())
            name, count = chance.choice(topics)
            partition = chance.randrange(count)
            state = self._cluster.partition(name, partition)
        except (*_GONE, IndexError):  # no topic
            return None
        others = sorted(set(state["isr"]) - {state["leader"]})
        return blow._replace(broker=chance.choice(others), topic=name, partition=partition) if others else None

    def _begin_one(self, blow: Blow) -> bool:
        cluster = self._cluster
        node = cluster.broker(blow.broker)
        with suppress(*_GONE):
            if blow.kind == "move_leader":
                assert blow.topic is not None
                cluster.controller.move_leader(blow.topic, blow.broker, blow.partition)
            elif blow.kind == "partition":
                cluster.partition_network({blow.broker}, set(cluster.nodes) - {blow.broker})
                self._undo[blow.broker] = cluster.heal_network
            elif blow.kind == "pause":
                node.pause()
                self._undo[blow.broker] = node.unpause
            else:
                self._before_end(blow.broker)
                self._undo[blow.broker] = lambda: None if node.running else node.start()
                (node.kill if blow.kind == "kill" else node.stop)()
            return True
        return False

    def _end_one(self, broker: int) -> None:
        with suppress(*_GONE):
            self._undo.pop(broker)()


def drawn(
    cluster: ClusterData,
    kinds: Iterable[str],
    seed: int,
    mean_ms: int,
    most_down: int,
    before_end: Callable[[int], object] = lambda broker: None,
) -> ClusterTrouble:
    """Begin trouble of some kinds, about every `mean_ms`; the seed chooses what comes when and where."""
    chosen = check_kinds(kinds)
    brokers = sorted(each for each in cluster.nodes if each in cluster._ids)

    def drafts() -> Iterator[_Draft]:
        chance, at = random.Random(seed), 0
        while True:
            at += chance.randrange(2 * mean_ms)
            blow = Blow(chance.choice(chosen), chance.choice(brokers), at, chance.choice(_AWAY_MS))
            yield _Draft(blow, random.Random(chance.getrandbits(64)))

    return ClusterTrouble(cluster, drafts(), most_down, before_end)


def only(cluster: ClusterData, blows: Sequence[Blow]) -> ClusterTrouble:
    """Begin the troubles that are given, and no others."""
    for blow in blows:
        check_kinds([blow.kind])
        cluster.broker(blow.broker)  # raises ValueError for an unknown one
        if blow.kind == "move_leader" and blow.topic is None:
            raise ValueError("move_leader needs the topic whose leader moves")
    ordered = sorted(blows, key=lambda each: each.after_ms)
    return ClusterTrouble(cluster, iter([_Draft(each, random.Random(0)) for each in ordered]))
