"""The nodes of a cluster and their replicas: the first of the three parts of `KafkaCluster`.

`cluster_traffic` and `cluster_data` are the others; each has an asynchronous twin, which is made of it.

Rule: an operation has the name, the parameters and the meaning of the operation on one broker. An operation of any
broker goes to a running one; an operation of a certain broker goes there; an operation without a meaning for several
brokers at one moment is refused with the reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from pykafka_broker.testing.answers import (
    ClusterState,
    ConfigValue,
    LogSize,
    PartitionState,
    Topic,
)
from pykafka_broker.testing.arguments import check_count
from pykafka_broker.testing.control_client import ControlClient, ControlError, told_to_the_test
from pykafka_broker.testing.controlled import Controlled
from pykafka_broker.testing.data import BrokerError, NotReached, Step, all_at_once, poll

if TYPE_CHECKING:
    from pykafka_broker.testing.process import KafkaBroker


__tracebackhide__ = told_to_the_test
WAIT_S = 30.0
_KNOWLEDGE_UNKNOWN = "what the brokers know is unknown"

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
        self._check_started()
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
        """Create a topic and wait until all replicas of the partitions are in sync, and all brokers know the topic.

        Args:
            replication_factor: by default the number of brokers, up to three.

        The other arguments are as on a single broker. Brokers that are down or cut off from the controller are not
        waited for, here and after each change of a topic.
        """
        wanted = min(3, len(self._ids)) if replication_factor is None else replication_factor
        broker = self._running()
        self._check_controller()
        topic = broker.create_topic(name, partitions, config, replication_factor=wanted, exist_ok=exist_ok)
        for index in range(topic["partitions"]):
            self.wait_for_isr(name, index)
        self._wait_until_known()
        return topic

    def alter_config(self, topic: str, config: Mapping[str, ConfigValue | None]) -> Topic:
        """Set configs of a topic as on a single broker, and wait until all brokers know."""
        self._check_controller()
        altered = super().alter_config(topic, config)
        self._wait_until_known()
        return altered

    def add_partitions(self, topic: str, *, total: int) -> Topic:
        """Add partitions to a topic as on a single broker, and wait until all brokers know."""
        self._check_controller()
        grown = super().add_partitions(topic, total=total)
        self._wait_until_known()
        return grown

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with all records, and wait until all brokers know."""
        self._check_controller()
        super().delete_topic(topic)
        self._wait_until_known()

    def _check_controller(self) -> None:
        """Refuse a change of a topic at once that the brokers would only refuse after their time-out."""
        if not self.controller.running:
            raise BrokerError("the controller of the cluster is not running, so no topic can be changed")

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
        poll(lambda: self._check_known(decided), _KNOWLEDGE_UNKNOWN, timeout)

    def _wait_until_known(self) -> None:
        """Wait until every broker that the controller reaches knows what the controller has decided."""

        def known() -> None:
            decided = self.controller.cluster()
            fenced = {each["node_id"] for each in decided["brokers"] if each["fenced"]}
            self._check_known(decided, fenced | self._lost_nodes)

        poll(known, _KNOWLEDGE_UNKNOWN, WAIT_S)

    def _check_known(self, decided: ClusterState, left_out: Collection[int] = ()) -> None:
        """Raise NotReached for a running broker that does not know yet what the controller has decided."""
        for node_id in self._ids:
            node = self.broker(node_id)
            if node_id in left_out or not node.running:
                continue
            if node.cluster()["metadata_offset"] < decided["metadata_offset"]:
                raise NotReached(f"broker {node_id} does not know yet what the controller has decided")

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
                gone = ", which has ended" if ended else ""
                raise NotReached(f"the leader of {topic}-{partition} is{still} {leader}{gone}")
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

    def _wait_for_all_running(self) -> None:
        """Wait until all replicas of all topics are in sync, as far as their brokers run and are not cut off."""
        for topic in self.topics(internal=True):
            for index in range(topic["partitions"]):
                self._wait_for_running(topic["name"], index)

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

        A node on no side keeps all its connections, and a node that starts is cut off once it is ready. Clients are not
        affected. `heal_network` ends the partition.
        """
        if any(not isinstance(side, Iterable) for side in sides):
            raise TypeError(f"sides are sets of node ids: partition_network({{1}}, {{2, 3, 100}}), not {sides!r}")
        apart = [frozenset(side) for side in sides]
        for index, side in enumerate(apart):
            if not side:
                raise ValueError("a side has no nodes, so it could cut off none")
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

    @property
    def _lost_nodes(self) -> frozenset[int]:
        """The nodes that a partitioned network cuts off from the controller."""
        is_sided = any(self._controller_id in side for side in self._sides)
        return self._cut_off_nodes if is_sided else frozenset()

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
