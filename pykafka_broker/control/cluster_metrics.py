"""What a monitoring system wants to know of replicas, and of the brokers if this node is their controller.

Rule: as in `api/metrics.py`; all of it is read from the metadata when somebody asks, but for what nobody else knows:
how often ISRs have changed, and how far behind its leaders this node is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from pykafka_broker.broker.node import Node
    from pykafka_broker.broker.replication.node_replication import NodeReplication
    from pykafka_broker.cluster.image import PartitionImage

_MANAGER = "kafka_server_replicamanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"
_NOBODY = -1


def of_cluster(node: Node) -> Iterator[Metric]:
    """All of them."""
    if node.roles.broker:
        yield from _of_replicas(node)
    if node.local is not None:
        yield from _of_the_controller(node)


def _of_replicas(node: Node) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    counts = _replica_counts(node)
    for name, says in (
        ("partitioncount", "Partitions with a replica here"),
        ("leadercount", "Partitions that are led here"),
        ("offlinereplicacount", "Replicas here that are out of reach"),
        ("underreplicatedpartitions", "Partitions led here with a replica out of sync"),
        ("underminisrpartitioncount", "Partitions led here with fewer in sync than min.insync.replicas"),
        ("atminisrpartitioncount", "Partitions led here with just min.insync.replicas in sync"),
        ("reassigningpartitions", "Partitions led here that are moved"),
    ):
        yield GaugeMetricFamily(_MANAGER + name, says, counts[name])
    replication = cast("NodeReplication | None", node.replicas.replication)
    changes = None if replication is None else replication.isr_changes
    expanded, shrunk = (0, 0) if changes is None else (changes.expanded, changes.shrunk)
    yield CounterMetricFamily(_MANAGER + "isrexpands", "ISRs of partitions led here that have grown", expanded)
    yield CounterMetricFamily(_MANAGER + "isrshrinks", "ISRs of partitions led here that have shrunk", shrunk)
    lag = GaugeMetricFamily(
        "kafka_server_replicafetchermanager_maxlag",
        "Records that the replica here lacks that is farthest behind its leader",
        labels=("clientId",),
    )
    lag.add_metric(("Replica",), 0 if replication is None else replication.fetchers.max_lag)
    yield lag


def _replica_counts(node: Node) -> Counter[str]:
    image, found = node.image, Counter[str]()
    for name, topic in image.topics.items():
        least: int | None = None  # in sync
        for partition in topic.partitions.values():
            if node.id in partition.replicas:
                found["partitioncount"] += 1
                found["offlinereplicacount"] += image.is_offline(partition, node.id)
            if partition.leader != node.id:
                continue
            if least is None:
                least = node.topic_config(name).min_insync_replicas
            _count_led(partition, min(least, len(partition.replicas)), found)
    return found


def _count_led(partition: PartitionImage, least: int, found: Counter[str]) -> None:
    in_sync = len(partition.isr)
    found["leadercount"] += 1
    found["underreplicatedpartitions"] += in_sync < len(partition.replicas) - len(partition.adding_replicas)
    found["underminisrpartitioncount"] += in_sync < least
    found["atminisrpartitioncount"] += in_sync == least
    found["reassigningpartitions"] += bool(partition.adding_replicas or partition.removing_replicas)


def _of_the_controller(node: Node) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    image = node.image
    fenced = sum(broker.fenced for broker in image.brokers.values())
    partitions = [each for topic in image.topics.values() for each in topic.partitions.values()]
    for name, says, value in (
        ("activecontrollercount", "1 where the metadata is led", 1),
        ("activebrokercount", "Brokers that serve", len(image.brokers) - fenced),
        ("fencedbrokercount", "Brokers that are known and do not serve", fenced),
        ("offlinepartitionscount", "Partitions without a leader", sum(each.leader == _NOBODY for each in partitions)),
        (
            "preferredreplicaimbalancecount",
            "Partitions that another replica leads than their first",
            sum(each.leader != each.replicas[0] for each in partitions),
        ),
    ):
        yield GaugeMetricFamily(_CONTROLLER + name, says, value)
