"""Time, faults and requests of a cluster.

Rule: the clock of a cluster is the clocks of all its nodes, which move together. A fault of a cluster is one of each
broker that runs when the fault is added. What brokers have seen is put together, and each entry names its broker.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykafka_broker.testing.answers import ChaosState, Connection, FaultState, SeenRequest
from pykafka_broker.testing.clock import Clock
from pykafka_broker.testing.cluster_nodes import WAIT_S, ClusterNodes
from pykafka_broker.testing.control_client import told_to_the_test
from pykafka_broker.testing.traffic import Fault, Faults
from pykafka_broker.testing.waits import all_at_once, wait_until

if TYPE_CHECKING:
    from pykafka_broker.testing.process import KafkaBroker

__tracebackhide__ = told_to_the_test
_MOST_STEPS = 20
_SESSION_MS = 9_000  # Kafka's default of broker.session.timeout.ms


class ClusterClock(Clock):
    """The clocks of all nodes that run. They move together, in steps of half a session (`broker.session.timeout.ms`),
    between which each broker is heard of, so that a move fences only brokers that are gone. A way of more than 20 steps
    is one step: as if all machines had been suspended, and then woken. It ends when all replicas that run are in sync.
    """

    def __init__(self, cluster: ClusterNodes) -> None:
        super().__init__(cluster.control)
        self._cluster = cluster

    def __repr__(self) -> str:
        return f"<Clock of {self._cluster!r}>"

    def _moved(self, how: str, body: dict[str, Any] | None = None) -> int:
        config = self._cluster.controller.config
        length = int(config.get("broker.session.timeout.ms", _SESSION_MS)) // 2
        way = (body or {}).get("ms", 0)
        if how not in ("advance", "set"):
            return self._together(how, body)
        if how == "set" or way > length * _MOST_STEPS:
            now = self._together(how, body)
            self._all_heard(length)
            self._all_in_sync()
            return now
        now = 0
        for moved in range(0, max(way, 1), length):
            part = min(length, way - moved)
            now = self._together(how, {"ms": part})
            self._all_heard(length)
        return now

    def _together(self, how: str, body: dict[str, Any] | None) -> int:
        def step(node: KafkaBroker) -> int:
            return node.clock._moved(how, body)

        return max(all_at_once(self._cluster._all_running(), step))

    def _all_heard(self, within_ms: int) -> None:
        """Wait until the controller has heard of each broker that runs within that time, and none of them is fenced."""
        controller = self._cluster.controller
        if not controller.running:
            return
        missing: list[int] = []

        def heard() -> bool:
            state = controller.cluster()
            running = {node_id for node_id, node in self._cluster.nodes.items() if node.running}
            missing[:] = [
                each["node_id"]
                for each in state["brokers"]
                if each["node_id"] in running and (each["fenced"] or (each["silent_ms"] or 0) >= within_ms)
            ]
            return not missing

        wait_until(
            heard, lambda: f"the controller has not heard of brokers {missing} since the clock has moved", WAIT_S
        )

    def _all_in_sync(self) -> None:
        for topic in self._cluster.topics(internal=True):
            for number in range(topic["partitions"]):
                self._cluster._wait_for_running(topic["name"], number)


class ClusterFault(Fault):
    """A fault that was added to several brokers. Its hits are those of all of them."""

    def __init__(self, faults: Mapping[int, Fault]) -> None:
        self._faults = dict(faults)
        self.id = next(iter(self._faults.values())).id

    def __repr__(self) -> str:
        return f"<Fault of brokers {', '.join(map(str, self._faults))}>"

    def describe(self) -> FaultState:
        """Return what the fault was added with, its hits, and its hits by broker (`nodes`)."""
        described: dict[int, FaultState] = {}
        for node_id, fault in self._faults.items():
            described[node_id] = fault.describe()
        hits = {node_id: each["hits"] for node_id, each in described.items()}
        held = sum(each["held"] for each in described.values())
        return {**next(iter(described.values())), "hits": sum(hits.values()), "held": held, "nodes": hits}

    def wait(self, n: int = 1, timeout: float = 10) -> int:
        """Wait until the fault has affected that many requests; return its hits."""
        hits = [0]

        def affected() -> bool:
            hits[0] = self.describe()["hits"]
            return hits[0] >= n

        wait_until(affected, lambda: f"{self!r} has {hits[0]} hits, not {n}", timeout)
        return hits[0]

    def remove(self) -> int:
        """End the fault on all brokers; requests that it held are carried out now. Return its hits."""
        hits = 0
        for fault in self._faults.values():
            hits += fault.remove()
        return hits


class ClusterFaults(Faults):
    """The faults of several brokers."""

    def __init__(self, nodes: Mapping[int, KafkaBroker]) -> None:
        self._nodes = dict(nodes)

    def on(self, broker_id: int) -> ClusterFaults:
        """Return the faults of one broker alone: `cluster.faults.on(2).add(api="Fetch", delay_ms=100)`."""
        if broker_id not in self._nodes:
            raise ValueError(f"no broker {broker_id} is running: {', '.join(map(str, self._nodes))}")
        return ClusterFaults({broker_id: self._nodes[broker_id]})

    def _add(self, body: Mapping[str, Any]) -> Fault:
        added: dict[int, Fault] = {}
        for node_id, node in self._nodes.items():
            added[node_id] = node.faults._add(body)
        return ClusterFault(added)

    def all(self) -> list[FaultState]:
        """Return the faults of all brokers, with the `node_id` of each."""
        found: list[FaultState] = []
        for node_id, node in self._nodes.items():
            for fault in node.faults.all():
                found.append({**fault, "node_id": node_id})
        return found

    def clear(self) -> None:
        """End all of them, chaos included."""
        for node in self._nodes.values():
            node.faults.clear()

    def chaos(self, seed: int, rate: float = 0.05) -> ChaosState:
        """Disturb that share of all requests at random, on all brokers, the same ones from the same seed."""
        hits = 0
        for node in self._nodes.values():
            hits += node.faults.chaos(seed, rate)["hits"]
        return {"seed": seed, "rate": float(rate), "hits": hits}


class ClusterTraffic(ClusterNodes):
    """Several brokers whose time is moved and whose clients are watched and disturbed."""

    @property
    def clock(self) -> ClusterClock:
        """The clock of all nodes: `cluster.clock.advance(seconds=4)`."""
        return ClusterClock(self)

    @property
    def faults(self) -> ClusterFaults:
        """Faults of all brokers that run; those of one are `cluster.faults.on(1)`."""
        return ClusterFaults(self._brokers_that_run())

    def _brokers_that_run(self) -> dict[int, KafkaBroker]:
        self._running()
        return {node_id: self.broker(node_id) for node_id in self._ids if self.broker(node_id).running}

    def connections(self, client_id: str | None = None) -> list[Connection]:
        """Return the connections of clients to any broker, with the `node_id` of that."""
        found: list[Connection] = []
        for node_id, node in self._brokers_that_run().items():
            for each in node.connections(client_id):
                found.append({**each, "node_id": node_id})
        return found

    def wait_for_connections(self, client_id: str | None = None, n: int = 1, timeout: float = 10) -> list[Connection]:
        """Wait until at least `n` connections of that client id are there; with `n` 0, until there is none. Connections
        of brokers to each other count too, so name a client.
        """
        found: list[Connection] = []

        def there() -> bool:
            found[:] = self.connections(client_id)
            return len(found) >= n if n else not found

        wait_until(there, lambda: f"{len(found)} connections of client id {client_id} are there, not {n}", timeout)
        return found

    def requests(
        self,
        api: str | None = None,
        *,
        version: int | None = None,
        client_id: str | None = None,
        principal: str | None = None,
        connection: int | None = None,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        error: str | None = None,
        since: datetime.datetime | float | None = None,
        after: int | None = None,
        waiting: bool = True,
        bodies: bool = False,
        limit: int = 1000,
    ) -> list[SeenRequest]:
        """Return the last requests of clients to any broker with their answers, each with the `node_id` of its broker.
        `number` and `after` count the requests of one broker.
        """
        wanted = {name: value for name, value in locals().items() if name != "self"}
        found: list[SeenRequest] = []
        for node_id, node in self._brokers_that_run().items():
            for each in node.requests(**wanted):
                found.append({**each, "node_id": node_id})
        return sorted(found, key=lambda each: int(each["time"]))[-limit:]

    def clear_requests(self) -> None:
        """Empty the request logs of all brokers."""
        for node in self._brokers_that_run().values():
            node.clear_requests()

    def wait_for_request(
        self,
        api: str | None = None,
        *,
        version: int | None = None,
        client_id: str | None = None,
        principal: str | None = None,
        connection: int | None = None,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        error: str | None = None,
        since: datetime.datetime | float | None = None,
        after: int | None = None,
        waiting: bool = True,
        n: int = 1,
        bodies: bool = False,
        timeout: float = 10,
    ) -> list[SeenRequest]:
        """Wait until the logs of all brokers have that many such requests together; return them."""
        wanted = {name: value for name, value in locals().items() if name not in ("self", "timeout", "n")}
        found: list[SeenRequest] = []

        def there() -> bool:
            found[:] = self.requests(**wanted)
            return len(found) >= n

        wait_until(there, lambda: f"the logs of all brokers have {len(found)} such requests, not {n}", timeout)
        return found
