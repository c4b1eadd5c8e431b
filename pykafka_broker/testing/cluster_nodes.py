"""The nodes of a cluster, their replicas, clocks, faults and request logs.

The module is one half of `KafkaCluster`, and `cluster_data` the other: both have asynchronous twins, which are made
module by module, and together they would be 1,100 lines.

Rule: an operation has the name, the parameters and the meaning of the operation on one broker. An operation of any
broker goes to a running one; an operation of a certain broker goes there; an operation without a meaning for several
brokers at one moment is refused with the reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pykafka_broker.errors import counted
from pykafka_broker.testing.answers import (
    Advice,
    ChaosHit,
    ChaosState,
    ClusterState,
    ConfigValue,
    Connection,
    FaultState,
    LogSize,
    PartitionState,
    SeenRequest,
    Topic,
)
from pykafka_broker.testing.arguments import check_count, check_type
from pykafka_broker.testing.control_client import ControlClient, ControlError, told_to_the_test
from pykafka_broker.testing.controlled import BrokerClock, Controlled
from pykafka_broker.testing.data import BrokerError, Handle, NotReached, Step, WaitTimeout, all_at_once, poll
from pykafka_broker.testing.history import History, late, rows_of_file
from pykafka_broker.testing.traffic import Fault, Faults

if TYPE_CHECKING:
    from pykafka_broker.testing.process import KafkaBroker


# -- nodes


__tracebackhide__ = told_to_the_test
WAIT_S = 30.0


_LED_S = 10.0  # until another broker leads what a broker has led that has ended
_NO_DUMP = "{0} is for one broker. cluster.records(topic) reads a topic, cluster.snapshot(name) keeps the whole state"
_ONE_BROKER = "{0} is for one broker: cluster.broker(1).{0}()"
_SIDES = "{0} does not say which nodes are on the other side: cluster.partition_network({{1}}, {{2, 3, 100}})"


def _refused(operation: Callable[..., Any], doc: str, why: str) -> Callable[..., NoReturn]:
    """Return a method in the place of an operation without a meaning for a cluster: BrokerError with the reason."""

    def refuse(self: object, *arguments: object, **named: object) -> NoReturn:
        raise BrokerError(why.format(operation.__name__))

    refuse.__name__, refuse.__doc__ = operation.__name__, doc
    signature = inspect.signature(operation).replace(return_annotation="NoReturn")
    refuse.__signature__ = signature  # type: ignore[attr-defined]  # as editors and `help` show the method
    return refuse


class ClusterNodes(Controlled):
    """Several brokers, which have the ids `_ids`, and their controller."""

    _ids: Sequence[int]
    _controller_id: int
    _sides: list[frozenset[int]]  # of the network, while it is partitioned

    @property
    def nodes(self) -> dict[int, KafkaBroker]:
        """All nodes by id, with the controller; empty before the start."""
        raise NotImplementedError

    @property
    def brokers(self) -> list[KafkaBroker]:
        """All brokers, sorted by id."""
        return [node for node_id, node in self.nodes.items() if node_id in self._ids]

    @property
    def controller(self) -> KafkaBroker:
        """The leader of the metadata."""
        self._check_started()
        return self.nodes[self._controller_id]

    def _check_started(self) -> None:
        if not self.nodes:
            raise BrokerError("the cluster is not started: use `with`, or start()")

    def broker(self, node_id: int) -> KafkaBroker:
        """Return the broker with the id, for `kill`, `stop`, `start`, `restart`, `pause` and other operations."""
        ids = ", ".join(map(str, self._ids))
        if isinstance(node_id, bool) or not isinstance(node_id, int):
            raise TypeError(f"a broker's id is a number, not {node_id!r}: {ids}")
        if node_id not in self._ids:
            raise ValueError(f"there is no broker {node_id}: {ids}")
        self._check_started()
        return self.nodes[node_id]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for a client's `bootstrap.servers`. Raises BrokerError before the start."""
        self._check_started()
        return ",".join(node.bootstrap_servers for node in self.brokers)

    @property
    def schema_registry_url(self) -> str:
        """The addresses of all schema registries, separated by commas. Raises BrokerError before the start."""
        self._check_started()
        return ",".join(broker.schema_registry_url for broker in self.brokers)

    def client_config(self, client: str, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Return the settings of a client of the cluster, as `KafkaBroker.client_config`."""
        if client == "schema-registry":
            return {"url": self.schema_registry_url}
        first = self.broker(1).client_config(client, user, mechanism)
        servers = self.broker(1).bootstrap_servers
        return {name: self.bootstrap_servers if value == servers else value for name, value in first.items()}

    @property
    def control(self) -> ControlClient:
        """The control API of a running broker."""
        return self._running().control

    def _running(self) -> KafkaBroker:
        running = next((node for node in self.brokers if node.running), None)
        if running is None:
            raise BrokerError("no broker of the cluster is running")
        return running

    def _all_running(self) -> list[KafkaBroker]:
        return [node for node in self.nodes.values() if node.running]

    def _asked(self) -> Iterator[KafkaBroker]:
        """Yield the running nodes, first the controller, with the best knowledge."""
        yield from (node for node in (self.controller, *self.brokers) if node.running)

    # -- topics and replicas

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        *,
        replication_factor: int | None = None,
        exist_ok: bool = False,
    ) -> Topic:
        """Create a topic and wait until all replicas of the partitions are in sync.

        Args:
            replication_factor: by default the number of brokers, up to three.

        The other arguments are as on a single broker.
        """
        wanted = min(3, len(self._ids)) if replication_factor is None else replication_factor
        broker = self._running()
        if not self.controller.running:
            raise BrokerError("the controller of the cluster is not running, so no topic can be created")
        topic = broker.create_topic(name, partitions, config, replication_factor=wanted, exist_ok=exist_ok)
        for index in range(topic["partitions"]):
            self.wait_for_isr(name, index)
        return topic

    def partition(self, topic: str, partition: int = 0) -> PartitionState:
        """Return leader, leader epoch, replicas and replicas in sync, from the node with the best knowledge."""
        problem: Exception | None = None
        for node in self._asked():
            try:
                return node.partition(topic, partition)
            except (ControlError, BrokerError, OSError) as error:  # the node may have ended a moment ago
                problem = error
        raise problem or BrokerError("no node of the cluster is running")

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the id of a partition's leader, -1 without a leader."""
        return int(self.partition(topic, partition)["leader"])

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the replicas in sync."""
        return list(self.partition(topic, partition)["isr"])

    def move_leader(self, topic: str, leader: int, partition: int = 0) -> PartitionState:
        """Make a broker in sync the leader, and wait until every running broker knows."""
        state = self.controller.move_leader(topic, leader, partition)

        def known() -> PartitionState:
            for node in self.brokers:
                if node.running and node.partition(topic, partition)["leader_epoch"] < state["leader_epoch"]:
                    raise NotReached
            return state

        return poll(known, f"not all brokers know the leader of {topic}-{partition}", WAIT_S)

    def reset_settings(self, keep: Iterable[str] = ()) -> ClusterState:
        """Restore configs of brokers and groups, quotas, ACLs and users, as on a single broker.

        Returns when every running broker knows.
        """
        state = self.controller.reset_settings(keep)
        self._wait_for_metadata(state, WAIT_S)
        return state

    def wait_for_metadata(self, timeout: float = WAIT_S) -> None:
        """Wait until every running broker knows what the controller has decided.

        An ACL, a config or a user that a client's admin has made counts on all brokers from then on. The answer to the
        admin does not promise that, as with Kafka.

        Raises:
            WaitTimeout: a broker did not know in time.
        """
        self._wait_for_metadata(self.controller.cluster(), timeout)

    def _wait_for_metadata(self, decided: ClusterState, timeout: float) -> None:
        def known() -> None:
            for node_id in self._ids:
                node = self.broker(node_id)
                if node.running and node.cluster()["metadata_offset"] < decided["metadata_offset"]:
                    raise NotReached(f"broker {node_id} does not know yet what the controller has decided")

        poll(known, "what the brokers know is unknown", timeout)

    def wait_for_isr(
        self,
        topic: str,
        partition: int = 0,
        *,
        size: int | None = None,
        nodes: Collection[int] | None = None,
        timeout: float = WAIT_S,
    ) -> list[int]:
        """Wait until enough replicas are in sync and the leader knows; by default all replicas.

        Args:
            size: the number of replicas in sync, none of which has ended.
            nodes: exactly the ids of the replicas in sync.

        Raises:
            WaitTimeout: the replicas were not in sync in time.
        """
        if size is not None:
            check_count("size", size)
        if nodes is not None and not isinstance(nodes, Collection):
            raise TypeError(f"nodes must be a list of broker ids, not {nodes!r}")
        self._check_nodes(nodes or ())
        wanted = (
            f"exactly {sorted(nodes)}" if nodes is not None else "all of them" if size is None else f"{size} of them"
        )

        def reached() -> list[int]:
            state = self.partition(topic, partition)
            replicas, isr = state["replicas"], state["isr"]
            if nodes is not None:
                found = {*isr} == {*nodes}
            else:
                found = len(isr) == (len(replicas) if size is None else size) and not self._names_ended(state)
            if not found or not self._leader_knows(topic, partition, state):
                raise NotReached(f"of replicas {replicas} of {topic}-{partition} {isr} are in sync, expected {wanted}")
            return isr

        return poll(reached, f"the replicas of {topic}-{partition} are unknown", timeout)

    def wait_for_leader(
        self, topic: str, partition: int = 0, *, other_than: int | None = None, timeout: float = WAIT_S
    ) -> int:
        """Wait until a partition has a leader aware of the role, and return the leader's id.

        Args:
            other_than: the leader must have another id.

        Raises:
            WaitTimeout: there was no such leader in time.
            ValueError: there is no node with the id `other_than`, so that any leader would do.
        """
        self._check_nodes(() if other_than in (None, -1) else (other_than,))

        def led() -> int:
            state = self.partition(topic, partition)
            leader = state["leader"]
            ended = self._has_ended(leader)  # the controller is yet to notice
            if ended or leader in (-1, other_than) or not self._leader_knows(topic, partition, state):
                still = " still" if ended or leader == other_than else ""
                raise NotReached(f"the leader of {topic}-{partition} is{still} {leader}")
            return leader

        return poll(led, f"the leader of {topic}-{partition} is unknown", timeout)

    def _wait_for_running(self, topic: str, partition: int) -> None:
        """Wait until all replicas on running brokers are in sync, those on cut-off nodes left out."""

        def reached() -> None:
            state = self.partition(topic, partition)
            cut_off = self._cut_off_nodes
            running = {each for each in state["replicas"] if each not in cut_off and self.broker(each).running}
            if not running <= {*state["isr"]}:
                raise NotReached(f"of {topic}-{partition} only {state['isr']} are in sync")

        poll(reached, f"the replicas of {topic}-{partition} are unknown", WAIT_S)

    def _has_ended(self, node_id: int) -> bool:
        return node_id in self.nodes and not self.nodes[node_id].running

    def _names_ended(self, state: PartitionState) -> bool:
        """Return whether the ISR of a partition with a leader names a broker that has ended: the controller is yet to
        notice.
        """
        return state["leader"] != -1 and any(map(self._has_ended, state["isr"]))

    def _leader_knows(self, topic: str, partition: int, state: PartitionState) -> bool:
        """Return whether the leader acts by the given state; the leader hears of a change after the controller.

        Where no broker of the cluster leads, the answer is yes.
        """
        node = self.nodes.get(state["leader"])
        if node is None or not node.running:
            return True
        known = node.partition(topic, partition)
        return known["leader_epoch"] == state["leader_epoch"] and {*known["isr"]} == {*state["isr"]}

    # -- the network between them

    def partition_network(self, *sides: Iterable[int]) -> None:
        """Cut nodes off from nodes of other sides: `partition_network({1}, {2, 3, 100})`.

        A node on no side keeps all its connections. Clients are not affected. `heal_network` ends the partition.
        """
        if any(not isinstance(side, Iterable) for side in sides):
            raise TypeError(f"sides are sets of node ids: partition_network({{1}}, {{2, 3, 100}}), not {sides!r}")
        apart = [frozenset(side) for side in sides]
        for index, side in enumerate(apart):
            self._check_nodes(side)
            if twice := side & frozenset[int]().union(*apart[:index]):
                raise ValueError(f"node {min(twice)} is on two sides")
        if len(apart) < 2:
            raise ValueError("there must be two sides at least: partition_network({1}, {2, 3, 100})")
        self._check_started()
        self.heal_network()
        self._sides += apart
        try:
            for side in apart:
                others = sorted(frozenset[int]().union(*apart) - side)
                for node_id in sorted(side):
                    node = self.nodes[node_id]
                    if node.running:
                        node.cut_off(others)
        except BaseException:
            self.heal_network()
            raise

    @property
    def _cut_off_nodes(self) -> frozenset[int]:
        """The nodes on the sides of a partitioned network, but for those on the controller's side."""
        return frozenset[int]().union(*(side for side in self._sides if self._controller_id not in side))

    def heal_network(self) -> None:
        """Let all nodes reach each other again."""
        del self._sides[:]
        for node in self._all_running():
            with suppress(ControlError, BrokerError, OSError):  # the node may have ended a moment ago
                node.rejoin()

    def _check_nodes(self, wanted: Iterable[int]) -> None:
        """Raise ValueError for the first unknown node."""
        known = sorted({*self._ids, self._controller_id})
        for node_id in wanted:
            if node_id not in known:
                raise ValueError(f"there is no node {node_id!r}: {', '.join(map(str, known))}")

    # -- operations on each broker

    def compact(self, topic: str) -> list[LogSize]:
        """Compact a topic now, on all brokers; return the size of each replica's log afterwards."""

        return self._of_each(lambda node: node.compact(topic))

    def apply_retention(self, topic: str) -> list[LogSize]:
        """Apply a topic's retention now, on all brokers; return the size of each replica's log afterwards."""

        return self._of_each(lambda node: node.apply_retention(topic))

    def _of_each(self, step: Step[KafkaBroker, list[LogSize]]) -> list[LogSize]:
        found = all_at_once([node for node in self.brokers if node.running], step)
        return [size for sizes in found for size in sizes]

    # -- operations without a meaning for a cluster

    dump = _refused(Controlled.dump, "Refuse: `records` reads a topic of a cluster, `snapshot` keeps all.", _NO_DUMP)
    metrics = _refused(Controlled.metrics, "Refuse: metrics belong to a broker.", _ONE_BROKER)
    fill_disk = _refused(Controlled.fill_disk, "Refuse: a disk belongs to a broker.", _ONE_BROKER)
    free_disk = _refused(Controlled.free_disk, "Refuse: a disk belongs to a broker.", _ONE_BROKER)
    break_disk = _refused(Controlled.break_disk, "Refuse: a disk belongs to a broker.", _ONE_BROKER)
    pause = _refused(Controlled.pause, "Refuse: name the broker to pause.", _ONE_BROKER)
    unpause = _refused(Controlled.unpause, "Refuse: name the paused broker.", _ONE_BROKER)
    cut_off = _refused(Controlled.cut_off, "Refuse: `partition_network` names the separated nodes.", _SIDES)

    def rejoin(self) -> None:
        """Let all nodes reach each other again, as `heal_network`."""
        self.heal_network()


# -- time, faults and traffic


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
            self._all_in_sync()
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
            is_sided = any(cluster._controller_id in side for side in cluster._sides)
            lost = cluster._cut_off_nodes if is_sided else ()
            running = {node_id for node_id, node in cluster.nodes.items() if node.running and node_id not in lost}
            missing = [
                each["node_id"]
                for each in state["brokers"]
                if each["node_id"] in running and (each["fenced"] or (each["silent_ms"] or 0) >= within_ms)
            ]
            if missing:
                raise NotReached(f"the controller has not heard of brokers {missing} since the clock has moved")

        poll(heard, "the controller has not answered since the clock has moved", WAIT_S)

    def _all_in_sync(self) -> None:
        for topic in self._cluster.topics(internal=True):
            for index in range(topic["partitions"]):
                self._cluster._wait_for_running(topic["name"], index)


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
        hits = sum(state["hits"] for state in states.values())
        return {**next(iter(states.values())), "hits": hits, "met": met}


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
