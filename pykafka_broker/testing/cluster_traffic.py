"""Clocks, faults, histories and request logs of a cluster: the second of the three parts of `KafkaCluster`.

Rule: the same as in `cluster_nodes`. What is set on all brokers is one object, which adds up what they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pykafka_broker.errors import counted
from pykafka_broker.testing.answers import Advice, ChaosHit, ChaosState, Connection, FaultState, SeenRequest
from pykafka_broker.testing.arguments import check_count, check_type
from pykafka_broker.testing.cluster_nodes import WAIT_S, ClusterNodes
from pykafka_broker.testing.control_client import ControlClient, ControlError, told_to_the_test
from pykafka_broker.testing.controlled import BrokerClock
from pykafka_broker.testing.data import BrokerError, Handle, NotReached, WaitTimeout, all_at_once, poll
from pykafka_broker.testing.history import History, late, rows_of_file
from pykafka_broker.testing.traffic import Fault, Faults

if TYPE_CHECKING:
    from pykafka_broker.testing.process import KafkaBroker


__tracebackhide__ = told_to_the_test
_LED_S = 10.0  # until another broker leads what a broker has led that has ended
_MOST_STEPS = 20
_MOST_REQUESTS = 1_000  # of a broker, looked at while waiting
SESSION = "broker.session.timeout.ms"
SESSION_MS = 9_000  # Kafka's default of it


class ClusterClock(BrokerClock):
    """The clocks of all running nodes, which move together.

    They move in steps of half a session (`broker.session.timeout.ms`). Between two steps each broker sends a heartbeat,
    so that a move fences only brokers that are gone, or on a side without the controller (`partition_network`). A way
    of more than 20 steps is one step: as if all machines had been suspended, and then woken. A move ends when all
    replicas that run are in sync.
    """

    def __init__(self, cluster: ClusterNodes) -> None:
        self._cluster = cluster

    @property
    def control(self) -> ControlClient:
        """The control API of a running broker."""
        return self._cluster.control

    def __repr__(self) -> str:
        return f"<Clock of {self._cluster!r}>"

    def _moved(self, how: str, body: dict[str, Any] | None = None) -> int:
        config = self._cluster.controller.config
        length = int(config.get(SESSION, SESSION_MS)) // 2
        way = (body or {}).get("ms", 0)
        if how not in ("advance", "set"):
            return self._together(how, body)
        if how == "set" or way > length * _MOST_STEPS:
            now = self._together(how, body)
            self._all_heard(length)
            self._cluster._wait_for_all_running()
            return now
        now = 0
        for moved in range(0, max(way, 1), length):
            part = min(length, way - moved)
            now = self._together(how, {"ms": part})
            self._all_heard(length)
        return now

    def _together(self, how: str, body: dict[str, Any] | None) -> int:
        return max(all_at_once(self._cluster._all_running(), lambda node: node.clock._moved(how, body)))

    def _all_heard(self, within_ms: int) -> None:
        """Wait until each running broker that reaches the controller has sent a heartbeat within `within_ms`, and none
        of them is fenced.
        """
        cluster, controller = self._cluster, self._cluster.controller
        if not controller.running:
            return

        def heard() -> None:
            state = controller.cluster()
            lost = cluster._lost_nodes
            running = {node_id for node_id, node in cluster.nodes.items() if node.running and node_id not in lost}
            missing = [
                each["node_id"]
                for each in state["brokers"]
                if each["node_id"] in running and (each["fenced"] or (each["silent_ms"] or 0) >= within_ms)
            ]
            if missing:
                raise NotReached(f"the controller has not heard of brokers {missing} since the clock has moved")

        poll(heard, "the controller has not answered since the clock has moved", WAIT_S)


def _only_control(of_each: Mapping[int, Handle]) -> ControlClient:
    """Return the control API of a part of one broker. Raises BrokerError for a part of several brokers."""
    if len(of_each) > 1:
        raise BrokerError(f"each broker has a control API of its own: cluster.broker({min(of_each)}).control")
    return next(iter(of_each.values())).control


class ClusterFault(Fault):
    """A fault on several brokers; hits are added up."""

    def __init__(self, faults: Mapping[int, Fault], handles: FaultHandles) -> None:
        self._faults = dict(faults)
        self._handles = handles
        self.id = next(iter(self._faults.values())).id

    @property
    def control(self) -> ControlClient:
        """The control API of the broker. Raises BrokerError for a fault on several brokers."""
        return _only_control(self._faults)

    def __repr__(self) -> str:
        return f"<Fault of brokers {', '.join(map(str, self._faults))}>"

    def describe(self) -> FaultState:
        """Return the fault's arguments, the hits, and the hits by broker (`nodes`)."""
        described: dict[int, FaultState] = {}
        for node_id, fault in self._faults.items():
            with suppress(OSError, ControlError):  # a fault ends with the process of its broker
                described[node_id] = fault.describe()
        if not described:
            raise BrokerError(f"{self!r} has ended with the brokers")
        hits = {node_id: each["hits"] for node_id, each in described.items()}
        held = sum(each["held"] for each in described.values())
        fitted = sum(each["fitted"] for each in described.values())
        first = next(iter(described.values()))
        spent = False not in [each["spent"] for each in described.values()]
        return {**first, "hits": sum(hits.values()), "held": held, "fitted": fitted, "spent": spent, "nodes": hits}

    def wait(self, n: int = 1, timeout: float = 10) -> int:
        """Wait until the fault has affected `n` requests; return the hits."""
        check_count("n", n)

        def affected() -> int:
            hits = self.describe()["hits"]
            if hits < n:
                raise NotReached(f"{self!r} affected {counted(hits, 'request')}, expected {n}")
            return hits

        return poll(affected, f"the hits of {self!r} are unknown", timeout)

    def remove(self) -> int:
        """End the fault on all brokers and return the hits; held requests are carried out now."""
        hits = 0
        for node_id, fault in self._faults.items():
            self._handles[node_id, fault.id] = None
            with suppress(OSError, ControlError):  # a fault ends with the process of its broker
                hits += fault.remove()
        return hits


# A `Fault` by broker, and by its id there; None after its removal, which a broker that is away does not hear of.
# Chaos that was ended meanwhile stands there under an id that no fault has.
CHAOS = 0
FaultHandles = dict[tuple[int, int], Any]


class ClusterFaults(Faults):
    """The faults of several brokers."""

    def __init__(self, nodes: Mapping[int, KafkaBroker], handles: FaultHandles, away: Iterable[int] = ()) -> None:
        self._nodes = dict(nodes)
        self._handles = handles
        self._away = list(away)

    @property
    def control(self) -> ControlClient:
        """The control API of the broker. Raises BrokerError for the faults of several brokers."""
        return _only_control(self._nodes)

    def on(self, broker_id: int) -> ClusterFaults:
        """Return the faults of a single broker: `cluster.faults.on(2).add(api="Fetch", delay_ms=100)`."""
        if broker_id not in self._nodes:
            raise ValueError(f"no broker {broker_id} is running: {', '.join(map(str, self._nodes))}")
        return ClusterFaults({broker_id: self._nodes[broker_id]}, self._handles)

    def _add(self, body: Mapping[str, Any]) -> Fault:
        added: dict[int, Fault] = {}
        try:
            for node_id, node in self._nodes.items():
                fault = added[node_id] = node.faults._add(body)
                self._handles[node_id, fault.id] = fault
        except BaseException:
            if added:
                ClusterFault(added, self._handles).remove()
            raise
        return ClusterFault(added, self._handles)

    def all(self) -> list[FaultState]:
        """Return the faults of all brokers, with the `node_id` of each."""
        nodes = self._nodes.items()
        return [{**fault, "node_id": node_id} for node_id, node in nodes for fault in node.faults.all()]

    def clear(self) -> None:
        """End all faults, chaos included; a broker that is away comes back without them."""
        for key in self._handles:
            if key[0] in (*self._nodes, *self._away):
                self._handles[key] = None
        self._handles |= {(node_id, CHAOS): None for node_id in self._away}
        for node in self._nodes.values():
            node.faults.clear()

    def _set_chaos(self, body: Mapping[str, Any]) -> ChaosState:
        if not self._nodes:
            raise BrokerError("no broker of the cluster is running")
        return [node.faults._set_chaos(body) for node in self._nodes.values()][-1]

    def chaos_state(self) -> ChaosState:
        """Return the present or the last chaos; the `node_id` of a fault is where it was drawn."""
        states: dict[int, ChaosState] = {}
        for node_id, node in self._nodes.items():
            with suppress(ControlError):  # a broker that has started since knows of none
                states[node_id] = node.faults.chaos_state()
        if not states:
            raise BrokerError("no running broker had a chaos since its start or the last reset")
        met: list[ChaosHit] = [{**hit, "node_id": node_id} for node_id, state in states.items() for hit in state["met"]]
        fitted, hits = (sum(state[name] for state in states.values()) for name in ("fitted", "hits"))
        return {**next(iter(states.values())), "fitted": fitted, "hits": hits, "met": met}


class ClusterHistory(History):
    """The histories of several brokers."""

    def __init__(self, nodes: Mapping[int, KafkaBroker]) -> None:
        self._nodes = dict(nodes)

    @property
    def control(self) -> ControlClient:
        """The control API of the broker. Raises BrokerError for the history of several brokers."""
        return _only_control(self._nodes)

    def start(self, most_bytes: int | None = None) -> None:
        """Write down from now on what clients do, on all brokers."""
        for node in self._nodes.values():
            node.history.start(most_bytes)

    def stop(self) -> None:
        """Write nothing down any more, and forget the histories."""
        for node in self._nodes.values():
            node.history.stop()

    def clear(self) -> None:
        """Forget what was written down so far, and go on."""
        for node in self._nodes.values():
            node.history.clear()


class ClusterTraffic(ClusterNodes):
    """Clocks, faults and request logs of several brokers."""

    _fault_handles: FaultHandles

    @property
    def clock(self) -> ClusterClock:
        """The clock of all nodes: `cluster.clock.advance(seconds=4)`."""
        return ClusterClock(self)

    @property
    def faults(self) -> ClusterFaults:
        """The faults of all running brokers; `cluster.faults.on(1)` are the faults of broker 1."""
        running = self._brokers_that_run()
        return ClusterFaults(running, self._fault_handles, [broker for broker in self._ids if broker not in running])

    def _brokers_that_run(self) -> dict[int, KafkaBroker]:
        self._running()
        return {node_id: self.broker(node_id) for node_id in self._ids if self.broker(node_id).running}

    def connections(self, client_id: str | None = None) -> list[Connection]:
        """Return the connections of clients to any broker, with the broker's `node_id`."""
        nodes = self._brokers_that_run().items()
        return [{**each, "node_id": node_id} for node_id, node in nodes for each in node.connections(client_id)]

    def wait_for_connections(self, client_id: str | None = None, n: int = 1, timeout: float = 10) -> list[Connection]:
        """Wait until at least `n` connections of the client id exist; with `n` 0, until none exists.

        Connections of brokers to each other count too, so name a client.
        """
        check_count("n", n, least=0)
        if client_id is not None:
            check_type("client_id", client_id, str, "a string")

        def connected() -> list[Connection]:
            found = self.connections(client_id)
            if len(found) < n or (found and not n):
                raise NotReached(f"{counted(len(found), 'connection')} of client id {client_id}, expected {n}")
            return found

        return poll(connected, f"the connections of client id {client_id} are unknown", timeout)

    def _requests(self, query: Mapping[str, Any]) -> list[SeenRequest]:
        nodes = self._brokers_that_run().items()
        found: list[SeenRequest] = [
            {**each, "node_id": node_id} for node_id, node in nodes for each in node._requests(query)
        ]
        return sorted(found, key=lambda each: int(each["time"]))[-query["limit"] :]

    def advice(self, client_id: str | None = None) -> list[Advice]:
        """Return what clients should change, from the request log of each broker, with its `node_id`."""
        nodes = self._brokers_that_run().items()
        return [{**each, "node_id": node_id} for node_id, node in nodes for each in node.advice(client_id)]

    @property
    def history(self) -> ClusterHistory:
        """The history of clients' requests at all brokers: `cluster.history.start()`."""
        return ClusterHistory(self._brokers_that_run())

    def _histories(self) -> list[list[dict[str, Any]]]:
        found = [node._rows("facts") for node in self.brokers if node.running]
        stopped: list[Path] = []
        for node_id in self._ids:
            node = self.broker(node_id)
            if not node.running:
                if node.history_path is None:
                    raise BrokerError(
                        f"broker {node_id} is not running, and its history has ended with it: make the cluster with "
                        "history=True, whose histories outlive the brokers"
                    )
                stopped.append(node.history_path)
        names = {each["topic_id"]: each["name"] for each in self.topics()} if stopped else {}
        found += [rows_of_file(path, names) for path in stopped]
        found[0] += self._logs([row for rows in found for row in rows])
        return found

    def _logs(self, facts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the logs of all partitions; a partition whose leader has just ended gets another one.

        Raises:
            WaitTimeout: a broker that is running does not answer, so nothing can be told of its logs.
        """
        logs: list[dict[str, Any]] = []
        missing: list[dict[str, Any]] | None = None  # None: not all brokers have answered

        def look() -> None:
            nonlocal missing
            logs[:], missing = [], None
            for node in self.brokers:
                if node.running:
                    logs.extend(node._rows("logs"))
            if missing := late(facts, logs):
                raise NotReached(missing[0]["why"])

        try:
            poll(look, "the logs are unknown", _LED_S)
        except WaitTimeout:
            if missing is None:
                raise
        return [*logs, *(missing or ())]

    def clear_requests(self) -> None:
        """Empty the request logs of all brokers."""
        for node in self._brokers_that_run().values():
            node.clear_requests()

    def _wait_for_request(self, query: Mapping[str, Any], n: int, timeout: float) -> list[SeenRequest]:
        def logged() -> list[SeenRequest]:
            found = self._requests({**query, "limit": max(n, _MOST_REQUESTS)})
            if len(found) < n:
                raise NotReached(f"the logs of all brokers have {counted(len(found), 'such request')}, expected {n}")
            return found

        return poll(logged, "the request logs are unknown", timeout)
