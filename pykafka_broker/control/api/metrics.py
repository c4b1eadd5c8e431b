"""Metrics for monitoring systems, in Prometheus' format.

Rule: a metric has the name that the rules of Kafka's JMX exporter give to Kafka's MBean of the same meaning, so that
dashboards for Kafka fit; lags of groups, which Kafka's brokers don't tell, have the names of kafka_exporter. Counts
begin with the start of the process, or with the oldest entry of the request log at the first question.

Replicas, and brokers where this node is their controller, are read from the metadata when somebody asks, except for
how often ISRs have changed and how far this node is behind its leaders, which nothing else knows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pykafka_broker.cluster.image import NO_LEADER
from pykafka_broker.control.api.groups import all_groups, each_committed, summary
from pykafka_broker.control.api.telemetry import families_of_clients, of_telemetry
from pykafka_broker.control.control import Control, in_pauses
from pykafka_broker.control.operations import Text
from pykafka_broker.control.traffic.request_log import RequestCounts
from pykafka_broker.server.event_loop import seconds

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

    from pykafka_broker.broker.node import ServerNode
    from pykafka_broker.broker.replication.node_replication import NodeReplication
    from pykafka_broker.cluster.image import PartitionImage


_READ_AT_ONCE = 100  # offsets of groups
_WRITTEN_AT_ONCE = 1_000  # samples
_MANAGER = "kafka_server_replicamanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"


def of_cluster(node: ServerNode) -> Iterator[Metric]:
    """Yield metrics of replicas and of the controller."""
    if node.roles.broker:
        yield from _of_replicas(node)
    if node.metadata_leader is not None:
        yield from _of_the_controller(node)


def _of_replicas(node: ServerNode) -> Iterator[Metric]:
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
        yield _gauge(_MANAGER + name, says, counts[name])
    replication = cast("NodeReplication | None", node.replicas.replication)
    changes = None if replication is None else replication.isr_changes
    expanded, shrunk = (0, 0) if changes is None else (changes.expanded, changes.shrunk)
    yield _counter(_MANAGER + "isrexpands", "ISRs of partitions led here that have grown", expanded)
    yield _counter(_MANAGER + "isrshrinks", "ISRs of partitions led here that have shrunk", shrunk)
    yield _gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "Records that the replica here lacks that is farthest behind its leader",
        {("Replica",): 0 if replication is None else replication.fetchers.max_lag},
        "clientId",
    )


def _replica_counts(node: ServerNode) -> Counter[str]:
    image, found = node.image, Counter[str]()
    for name, topic in image.topics.items():
        least: int | None = None  # the topic's min.insync.replicas
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


def _of_the_controller(node: ServerNode) -> Iterator[Metric]:
    image = node.image
    fenced = sum(broker.fenced for broker in image.brokers.values())
    partitions = [each for topic in image.topics.values() for each in topic.partitions.values()]
    for name, says, value in (
        ("activecontrollercount", "1 where the metadata is led", 1),
        ("activebrokercount", "Brokers that serve", len(image.brokers) - fenced),
        ("fencedbrokercount", "Brokers that are known and do not serve", fenced),
        ("offlinepartitionscount", "Partitions without a leader", sum(each.leader == NO_LEADER for each in partitions)),
        (
            "preferredreplicaimbalancecount",
            "Partitions that another replica leads than their first",
            sum(each.leader != each.replicas[0] for each in partitions),
        ),
    ):
        yield _gauge(_CONTROLLER + name, says, value)


_TOPIC = "kafka_server_brokertopicmetrics_"
_REQUEST = "kafka_network_requestmetrics_"
_GROUPS = "kafka_coordinator_group_groupmetadatamanager_"


async def metrics(control: Control) -> Text:
    """Return counters and gauges in Prometheus' text format: traffic by topic and API, connections, groups and the
    lag, logs, requests that wait, the cleaner, and the delay of the broker's event loop.
    """
    from prometheus_client import CONTENT_TYPE_LATEST

    begun = seconds()
    await asyncio.sleep(0)
    delay_s = seconds() - begun
    counts = await control.counted()
    client_metrics = control.services.client_metrics
    text = []
    for families in (
        _of_topics(counts),
        _of_requests(counts),
        _of_ways(control),
        _of_connections(control),
        await _of_groups(control),
        _of_logs(control),
        of_cluster(control.broker.node),
        of_telemetry(client_metrics),
        await families_of_clients(client_metrics),
        [_gauge("pykafka_broker_event_loop_delay_seconds", "How long the loop let this request wait", delay_s)],
    ):
        # What a group of families reads is read in one turn: a log may be closed in the next one.
        async for lines in in_pauses(chain.from_iterable(map(_written, list(families))), 1):
            text.append(lines)
    return Text(CONTENT_TYPE_LATEST, "".join(text))


def _written(family: Metric) -> Iterator[str]:
    """Yield the lines of a metric, those of `_WRITTEN_AT_ONCE` samples at once."""
    from prometheus_client import generate_latest
    from prometheus_client.core import Metric as Family

    for first in range(0, max(len(family.samples), 1), _WRITTEN_AT_ONCE):
        part = Family(family.name, family.documentation, family.type)
        part.samples = family.samples[first : first + _WRITTEN_AT_ONCE]
        lines = generate_latest(cast("Collector", _Collected(part))).decode().split("\n")
        yield "\n".join([line for line in lines if not first or not line.startswith("#")])


class _Collected(NamedTuple):
    """A metric, as `prometheus_client` collects it."""

    family: Metric

    def collect(self) -> list[Metric]:
        return [self.family]


def _of_topics(counts: RequestCounts) -> Iterator[Metric]:
    for name, says in (
        ("bytes_in", "Bytes of batches that clients have written"),
        ("bytes_out", "Bytes of batches that clients have read"),
        ("messages_in", "Records that clients have written"),
        ("total_produce_requests", "Parts of produce requests"),
        ("total_fetch_requests", "Parts of fetch answers"),
        ("failed_produce_requests", "Partitions that a produce request was refused for"),
        ("failed_fetch_requests", "Partitions that a fetch was refused for"),
    ):
        sums = {(topic,): getattr(each, name) for topic, each in counts.topics.items()}
        yield _counter(_TOPIC + name.replace("_", ""), says, sums, "topic")


def _of_requests(counts: RequestCounts) -> Iterator[Metric]:
    from prometheus_client.core import SummaryMetricFamily

    apis = {(api, str(version)): sums for (api, version), sums in counts.apis.items()}
    labels = "request", "version"
    for name, says, part in (
        ("requests", "Requests", "requests"),
        ("requestbytes", "Bytes of requests", "request_bytes"),
        ("responsebytes", "Bytes of answers", "answer_bytes"),
    ):
        yield _counter(_REQUEST + name, says, {key: getattr(sums, part) for key, sums in apis.items()}, *labels)
    says = "Milliseconds until the answer, waits included"
    times = SummaryMetricFamily(_REQUEST + "totaltimems", says, labels=labels)
    for key, sums in apis.items():
        times.add_metric(key, sums.requests, sums.duration_ns / 1e6)
    yield times
    yield _counter(
        _REQUEST + "errors", "Answers with that error, NONE for those without", counts.errors, *labels, "error"
    )


def _of_ways(control: Control) -> Iterator[Metric]:
    taken = {
        (api_key.name.title(), way): count
        for api_key, counts in control.server.ways().items()
        for way, count in zip(("short", "general"), counts, strict=True)
    }
    says = "Requests of an API with a short way, by the way that they took"
    yield _counter("pykafka_broker_requests_by_way", says, taken, "request", "way")


def _of_connections(control: Control) -> Iterator[Metric]:
    found = Counter((connection.context.listener,) for connection in control.server.connections)
    yield _gauge("kafka_server_socket_server_metrics_connection_count", "Connections of clients", found, "listener")


async def _of_groups(control: Control) -> list[Metric]:
    """Return the metrics of groups. Their offsets are read in slices: others may be served in between."""
    services = control.services
    groups = [] if services.loading() else [summary(each) for each in all_groups(services)]
    states = {(each,): n for each, n in Counter(each["state"] for each in groups).items()}
    members = {(each["group_id"],): each["members"] for each in groups}
    labels = "consumergroup", "topic", "partition"
    lags: Any = _gauge("kafka_consumergroup_lag", "Records that a group has still to read", {}, *labels)
    current: Any = _gauge("kafka_consumergroup_current_offset", "What a group has committed", {}, *labels)
    places = ((each["group_id"], place) for each in groups for place in each_committed(services, each["group_id"]))
    async for group_id, place in in_pauses(places, _READ_AT_ONCE):
        key = group_id, place["topic"], str(place["partition"])
        if place["lag"] is not None:
            lags.add_metric(key, place["lag"])
        if place["committed"] is not None:
            current.add_metric(key, place["committed"])
    return [
        _gauge(_GROUPS + "numgroups", "Groups", len(groups)),
        _gauge(_GROUPS + "groups", "Groups in that state", states, "state"),
        _gauge("kafka_consumergroup_members", "Members of a group", members, "consumergroup"),
        lags,
        current,
    ]


def _of_logs(control: Control) -> Iterator[Metric]:
    node = control.broker.node
    image, cleaner = node.metadata.image, node.logs.cleaner
    logs = {(topic, str(index)): log for (topic, index), log in sorted(node.logs.loaded.items())}
    for name, says, value in (
        ("size", "Bytes of a log", lambda log: log.segments.size_bytes),
        ("logstartoffset", "Where a log begins", lambda log: log.log_start_offset),
        ("logendoffset", "Where a log ends", lambda log: log.log_end_offset),
        ("numlogsegments", "Segments of a log", lambda log: len(log.segments)),
    ):
        sizes = {key: value(log) for key, log in logs.items()}
        yield _gauge(f"kafka_log_log_{name}", says, sizes, "topic", "partition")
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    for name, says, number in (
        ("kafka_controller_kafkacontroller_globaltopiccount", "Topics", len(image.topics)),
        ("kafka_controller_kafkacontroller_globalpartitioncount", "Partitions", partitions),
        (
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that watch something",
            len(control.server.purgatory),
        ),
        (
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Partitions that can't be compacted",
            len(cleaner.uncleanable),
        ),
        ("kafka_log_logcleaner_running", "Partitions that are being compacted", cleaner.running),
    ):
        yield _gauge(name, says, number)


def _gauge(name: str, says: str, values: float | Mapping[Any, float], *labels: str, kind: str = "Gauge") -> Metric:
    """Return a metric with a value for each tuple of labels, or with a single value without labels."""
    from prometheus_client import core

    family: Metric = getattr(core, f"{kind}MetricFamily")(name, says, labels=labels)
    for key, value in values.items() if isinstance(values, Mapping) else (((), values),):
        family.add_metric(key, value)  # type: ignore[attr-defined]  # of gauges and counters
    return family


_counter = partial(_gauge, kind="Counter")
