"""Random outages of a cluster's nodes, one at a time, and what operators do meanwhile.

Rule: everything is drawn from one seed, and every outage ends; what an operator asks may be refused while a node is
away, and is counted either way, so that a test can say what has happened.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from interop.answers.requests import create, new_topic
from interop.raw import Closed, RawClient
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.testing import BrokerError, KafkaBroker, KafkaCluster
from pykafka_broker.testing.cluster import format_directories
from pykafka_broker.testing.control_client import ControlError

logger = logging.getLogger(__name__)
SEGMENT_BYTES = ("1048576", "2097152", "4194304")
_TOPIC, _SET = 2, 0  # of IncrementalAlterConfigs
_ANSWER_WITHIN_S = 5.0
_WHOLE_WITHIN_S = 30.0
_REFUSALS = (BrokerError, ControlError, OSError, Closed)


class Refused(Exception):
    """A node has answered an operator with an error."""


class Chaos:
    """One outage after the other, and some wishes of an operator in each."""

    def __init__(self, cluster: KafkaCluster, seed: int, topics: Mapping[str, int]) -> None:
        """topics: the number of partitions of each topic whose replicas are moved."""
        self._cluster, self._topics = cluster, topics
        self._dice = random.Random(seed)
        self.happened: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._passing: list[str] = []
        self._away: KafkaBroker | None = None
        self._outages = (
            self._killed,
            self._stopped,
            self._frozen,
            self._paused,
            self._cut_off,
            self._full_disk,
            self._failed_disk,
            self._new_disk,
        )
        self._wishes = (
            self._move_leader,
            self._reassign,
            self._configure,
            self._create,
            self._delete,
            self._move_directory,
        )

    def go_on(self, seconds: float, away_s: tuple[float, float] = (0.5, 6)) -> None:
        """Cause each kind of outage once a round, in an order that is drawn anew each round, for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for outage in self._dice.sample(self._outages, len(self._outages)):
                number, node = self._dice.choice([*self._cluster.nodes.items()])
                self._away, name = node, outage.__name__.strip("_")
                logger.info("node %d: %s", number, name)
                try:
                    with outage(node):
                        self.happened[name] += 1
                        self._wish(self._dice.uniform(*away_s))
                except Refused as error:
                    self.refused[f"{name}: {error}"[:120]] += 1
                self._away = None
                logger.info("node %d is back", number)
                self._wish(self._dice.uniform(0, 2))
                if time.monotonic() > end:
                    return

    @property
    def has_worked(self) -> bool:
        """Whether an outage has happened, and a wish was granted: a slow machine may refuse most wishes."""
        return all(
            any(each.__name__.strip("_") in self.happened for each in kind) for kind in (self._outages, self._wishes)
        )

    def heal(self) -> None:
        """Heal the network and start the nodes that do not run."""
        self._cluster.heal_network()
        for node in self._cluster.nodes.values():
            if not node.running:
                node.start()

    # -- outages

    @contextmanager
    def _killed(self, node: KafkaBroker) -> Iterator[None]:
        node.kill()
        yield
        node.start()

    @contextmanager
    def _stopped(self, node: KafkaBroker) -> Iterator[None]:
        """Stop a node as an operator does: leaders are handed over before."""
        node.stop()
        yield
        node.start()

    @contextmanager
    def _frozen(self, node: KafkaBroker) -> Iterator[None]:
        """Freeze a node, which wakes up with what it believed before."""
        os.kill(node.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(node.pid, signal.SIGCONT)

    @contextmanager
    def _paused(self, node: KafkaBroker) -> Iterator[None]:
        node.pause()
        yield
        node.unpause()

    @contextmanager
    def _cut_off(self, node: KafkaBroker) -> Iterator[None]:
        """Cut a node off from all others, or from some of them."""
        (lonely,) = (number for number, each in self._cluster.nodes.items() if each is node)
        others = [number for number in self._cluster.nodes if number != lonely]
        far = self._dice.sample(others, self._dice.randint(1, len(others)))
        self._cluster.partition_network({lonely}, far)
        yield
        self._cluster.heal_network()

    @contextmanager
    def _full_disk(self, node: KafkaBroker) -> Iterator[None]:
        """Fill a node's disk. A node that can't go on without it may end; then it is started again."""
        node.fill_disk()
        yield
        try:
            node.free_disk()
        except _REFUSALS:
            node.stop()
            node.start()

    @contextmanager
    def _failed_disk(self, node: KafkaBroker) -> Iterator[None]:
        """Take a directory away from a node until its next start; a node that can't do without the directory ends."""
        directory = self._dice.choice(directories(node))
        away = directory.with_name(f"{directory.name}-away")
        directory.rename(away)
        while not _stands_in_its_place(directory):
            pass
        yield
        self._dice.choice((node.kill, node.stop))()
        directory.unlink()
        away.rename(directory)
        node.start()

    @contextmanager
    def _new_disk(self, node: KafkaBroker) -> Iterator[None]:
        """Restart a node with one of its directories empty; other nodes have replicas of everything in it."""
        if len(directories(node)) < 2:
            raise Refused("all that it has would be lost")
        self._away = None
        await_whole(self._cluster, _WHOLE_WITHIN_S)
        self._away = node
        self._dice.choice((node.kill, node.stop))()
        shutil.rmtree(self._dice.choice(directories(node)))
        yield
        format_directories(node.config, self._cluster.cluster_id)
        node.start()

    # -- wishes

    def _wish(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self._dice.uniform(0.2, 1.5)))
            wish: Callable[[], None] = self._dice.choice(self._wishes)
            name = wish.__name__.strip("_")
            try:
                wish()
                self.happened[name] += 1
            except (*_REFUSALS, Refused) as error:
                self.refused[f"{name}: {type(error).__name__} {error}"[:120]] += 1

    def _partition(self) -> tuple[str, int]:
        topic = self._dice.choice(sorted(self._topics))
        return topic, self._dice.randrange(self._topics[topic])

    @contextmanager
    def _asking(self) -> Iterator[RawClient]:
        """Yield a client of a broker that has no outage."""
        node = self._dice.choice([each for each in self._cluster.brokers if each is not self._away])
        with RawClient(node.bootstrap_servers, timeout_s=_ANSWER_WITHIN_S) as client:
            yield client

    def _controller(self) -> KafkaBroker:
        if self._away is self._cluster.controller:
            raise Refused("the controller is away")
        return self._cluster.controller

    def _move_leader(self) -> None:
        topic, partition = self._partition()
        controller = self._controller()
        state = controller.partition(topic, partition)
        others = [each for each in state["isr"] if each != state["leader"]]
        if others:
            controller.move_leader(topic, self._dice.choice(others), partition)

    def _reassign(self) -> None:
        topic, partition = self._partition()
        places = self._dice.sample([*range(1, len(self._cluster.brokers) + 1)], 3)
        wanted = [ReassignableTopic(topic, [ReassignablePartition(partition, places)])]
        with self._asking() as client:
            answer = client.call(AlterPartitionReassignmentsRequest(5_000, topics=wanted))
        _check([answer.error_code, *(each.error_code for each in answer.responses[0].partitions)])

    def _move_directory(self) -> None:
        """Move a replica to a disk of its broker, or ask for that where the broker has none."""
        topic, partition = self._partition()
        node = self._dice.choice([each for each in self._cluster.brokers if each is not self._away])
        wanted = AlterReplicaLogDirTopic(topic, [partition])
        request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(str(self._dice.choice(directories(node))), [wanted])])
        with RawClient(node.bootstrap_servers, timeout_s=_ANSWER_WITHIN_S) as client:
            answer = client.call(request)
        _check([answer.results[0].partitions[0].error_code])

    def _configure(self) -> None:
        config = AlterableConfig("segment.bytes", _SET, self._dice.choice(SEGMENT_BYTES))
        topic, _ = self._partition()
        with self._asking() as client:
            answer = client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(_TOPIC, topic, [config])]))
        _check([answer.responses[0].error_code])

    def _create(self) -> None:
        name = f"passing-{self._dice.randrange(10**9)}"
        with self._asking() as client:
            answer = client.call(create(new_topic(name, self._dice.randint(1, 5), 3)), 5)
        _check([answer.topics[0].error_code])
        self._passing.append(name)

    def _delete(self) -> None:
        if not self._passing:
            return
        name = self._passing.pop(self._dice.randrange(len(self._passing)))
        with self._asking() as client:
            answer = client.call(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=5_000), 6)
        _check([answer.responses[0].error_code])


def _stands_in_its_place(directory: Path) -> bool:
    """Put a file in a directory's place; return whether it is there: what the node is just making may come first."""
    try:
        directory.touch(exist_ok=False)
    except FileExistsError:
        shutil.rmtree(directory, ignore_errors=True)
        return False
    return True


def directories(node: KafkaBroker) -> list[Path]:
    return [Path(each) for each in node.config.get("log.dirs", str(node.data_dir)).split(",")]


def await_whole(cluster: KafkaCluster, within_s: float) -> None:
    """Wait until every partition of every topic has a leader and three replicas in sync. Raises Refused."""
    deadline, lacking = time.monotonic() + within_s, ["metadata"]
    while lacking:
        if time.monotonic() > deadline:
            raise Refused(f"not whole: {lacking[:10]}")
        time.sleep(0.2)
        try:
            topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=5).topics
        except KafkaException:
            continue
        lacking = [
            f"{name}-{number}: leader {each.leader}, replicas {each.replicas}, ISR {each.isrs}"
            for name, topic in topics.items()
            for number, each in topic.partitions.items()
            if each.leader < 0 or len(each.replicas) != 3 or len(each.isrs) != 3
        ]


def _check(codes: Sequence[int]) -> None:
    bad = [ErrorCode(code).name for code in codes if code]
    if bad:
        raise Refused(", ".join(bad))
