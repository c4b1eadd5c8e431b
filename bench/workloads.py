"""The workloads of the benchmark. A workload gets a freshly started peer and returns its figures by metric name."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, NewTopic

from bench import acls as rights
from bench import cluster as brokers
from bench import creation, groups, log, requests
from bench.fairness import beside_giants
from bench.peers import PEERS
from bench.running import Running, load
from bench.tls import TlsRunning, handshakes
from interop.answers.requests import LATEST, list_offsets
from interop.raw import RawClient, framed, request_bytes
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.runtime import Message

Figures = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """The sizes of all workloads; `--quick` divides them by ten."""

    records_100: int = 2_000_000
    records_1k: int = 500_000
    round_trips: int = 3000
    pipelined_requests: int = 20_000
    warm_ms: int = 2000
    measured_ms: int = 2500
    connections: int = 1000
    topics: int = 10
    partitions_each: int = 1000
    many_topics: int = 40
    groups: int = 100
    new_groups: int = 25
    commits: int = 500
    pipeline_records: int = 1_000_000
    recovered_records: int = 4_000_000
    small_log: int = 10_000
    large_log: int = 10_000_000
    lookups: int = 2000
    compacted_records: int = 1_000_000
    beside_compaction: int = 20_000
    synced_commits: int = 20_000
    hostile_percent: int = 100
    kept_mb: int = 1000
    handshake_seconds: int = 6
    replicated_mb: int = 1000
    replicated_partitions: int = 5000
    leaders_killed: int = 5

    def quick(self) -> "Sizes":
        return Sizes(*(max(1, getattr(self, name) // 10) for name in self.__dataclass_fields__))


def create(run: Running, *topics: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{run.port}", "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        future.result(120)
    time.sleep(0.3)  # a real Kafka's broker catches up with its controller


def instead_of(run: Running) -> str:
    """Stop a peer, and return its name: a cluster of that peer takes its place."""
    run.stop()
    return run.name


def idle(run: Running, sizes: Sizes) -> Figures:
    """Measure the start, memory and the cost of a connection."""
    time.sleep(1)
    memory = run.memory_mb()
    connections = [RawClient(run.bootstrap) for _ in range(sizes.connections)]
    for connection in connections:
        connection.call(ApiVersionsRequest("bench", "1"), 3)
    time.sleep(0.5)
    each = (run.memory_mb() - memory) * 1024 / sizes.connections
    for connection in connections:
        connection.close()
    return {"start_s": run.start_s, "idle_mb": memory, "connection_kb": each}


def latency(run: Running, sizes: Sizes) -> Figures:
    """Measure one record in flight, linger 0, acks=all."""
    create(run, "latency")
    found = load(run, "latency", "latency", 1, sizes.round_trips, 100, "linger.ms=0", "acks=all")
    return {"latency_p50_ms": found["p50_ms"], "latency_p99_ms": found["p99_ms"]}


def pipelined_requests(run: Running, sizes: Sizes) -> Figures:
    """Measure what an idle Spark or consumer asks all day, a hundred in flight on one connection."""
    create(run, "pipelined", partitions=4)
    asked: dict[str, tuple[Message, int]] = {
        "list_offsets": (list_offsets("pipelined", LATEST), 7),
        "metadata": (MetadataRequest([MetadataRequestTopic(name="pipelined")], False), 9),
        "api_versions": (ApiVersionsRequest("bench", "1"), 3),
    }
    figures: Figures = {}
    for name, (request, version) in asked.items():
        window = framed(request_bytes(request, version)) * 100
        with RawClient(run.bootstrap) as client:
            cpu, begun = run.cpu_s(), time.perf_counter()
            for _ in range(sizes.pipelined_requests // 100):
                client.send_bytes(window)
                for _ in range(100):
                    client.receive_frame()
            figures[f"{name}_per_s"] = sizes.pipelined_requests / (time.perf_counter() - begun)
            figures[f"{name}_cpu_us"] = (run.cpu_s() - cpu) / sizes.pipelined_requests * 1e6
    return figures


def throughput(run: Running, sizes: Sizes) -> Figures:
    """Measure one producer and then one consumer of four partitions, acks=all, linger 5 ms."""
    figures: Figures = {}
    for label, size, count in (("100b", 100, sizes.records_100), ("1k", 1024, sizes.records_1k)):
        topic = f"load-{label}"
        create(run, topic, partitions=4)
        for mode, settings in (("produce", ("linger.ms=5", "acks=all")), ("consume", ())):
            found = load(run, mode, topic, 4, count, size, *settings)
            figures[f"{mode}_{label}_mb_s"] = found["mb_per_s"]
            figures[f"{mode}_{label}_cpu_s_gb"] = found["cpu_s_per_gb"]
    create(run, "load-lz4", partitions=4)
    lz4 = ("linger.ms=5", "acks=all", "compression.type=lz4")
    figures["produce_lz4_mb_s"] = load(run, "produce", "load-lz4", 4, sizes.records_1k, 1024, *lz4)["mb_per_s"]
    return figures | {"loaded_mb": run.memory_mb()}


def partitions(run: Running, sizes: Sizes) -> Figures:
    """Measure how ten thousand partitions are made, and a start with them."""
    names = [f"many-{i}" for i in range(sizes.topics)]
    begun = time.perf_counter()
    for name in names:
        create(run, name, partitions=sizes.partitions_each)
    created = time.perf_counter() - begun - 0.3 * len(names)
    run.restart()
    with RawClient(run.bootstrap, timeout_s=60) as client:
        topics = client.call(MetadataRequest([MetadataRequestTopic(name=name) for name in names], False), 9).topics
    assert sum(len(t.partitions) for t in topics) == sizes.topics * sizes.partitions_each
    time.sleep(1)
    return {"partitions_create_s": created, "partitions_start_s": run.start_s, "partitions_mb": run.memory_mb()}


def heartbeats(run: Running, sizes: Sizes) -> Figures:
    """Measure a thousand members of the classic protocol in a hundred groups, a heartbeat every three seconds."""
    create(run, "beats", partitions=groups.MEMBERS_EACH)
    return {"heartbeats_core_pct": groups.heartbeats(run, groups.ClassicMember, sizes.groups, "beats")}


def consumer_heartbeats(run: Running, sizes: Sizes) -> Figures:
    """Measure a thousand members of the protocol of KIP-848 in the same way as those of the classic one."""
    create(run, "beats", partitions=groups.MEMBERS_EACH)
    return {"heartbeats_848_core_pct": groups.heartbeats(run, groups.ConsumerMember, sizes.groups, "beats")}


def first_message(run: Running, sizes: Sizes) -> Figures:
    """Measure the time from subscribe() to the first message, each time in a new group."""
    create(run, "first")
    return {"first_message_ms": groups.first_message(run, sizes.new_groups, "first")}


def transactions(run: Running, sizes: Sizes) -> Figures:
    """Measure one producer that commits every hundred records."""
    create(run, "committed")
    return groups.transactions(run, sizes.commits, "committed")


def state(run: Running, sizes: Sizes) -> Figures:
    """Measure what a test does with its broker: start, reset, restore, waits. No other peer can do that."""
    from bench.state import state as measured
    from bench.waits import isolation, waits

    return measured(sizes.kept_mb) | isolation() | waits()


def tls(run: Running, sizes: Sizes) -> Figures:
    """Measure records of 1 KiB over TLS 1.3, as in `throughput`, and handshakes."""
    figures: Figures = {}
    with TlsRunning(run.name) as secured:
        create(secured, "load-tls", partitions=4)
        for mode, settings in (("produce", ("linger.ms=5", "acks=all")), ("consume", ())):
            found = load(secured, mode, "load-tls", 4, sizes.records_1k, 1024, *settings, *secured.client_settings)
            figures[f"{mode}_tls_mb_s"] = found["mb_per_s"]
            figures[f"{mode}_tls_cpu_s_gb"] = found["cpu_s_per_gb"]
        return figures | handshakes(secured, sizes.handshake_seconds)


def spark(run: Running, sizes: Sizes) -> Figures:
    from bench.spark_latency import micro_batch_latency

    create(run, "spark")
    return {"spark_batch_ms": micro_batch_latency(run.bootstrap, "spark")}


def spark_pipeline(run: Running, sizes: Sizes) -> Figures:
    """Measure the pipeline's job bronze -> silver, from its start to its end."""
    from bench.spark_pipeline import mb_per_s

    return {"spark_pipeline_mb_s": mb_per_s(run.bootstrap, sizes.pipeline_records)}


def spark_delta(run: Running, sizes: Sizes) -> Figures:
    """Measure the same job with a table of Delta, which PySpark 4.2 alone has."""
    from bench.spark_pipeline import mb_per_s
    from pipeline.settings import DELTA
    from pipeline.tables import formats

    if DELTA not in formats():
        raise RuntimeError("no released Delta works with this PySpark; PYTHONPATH=.cache/pyspark-4.2.1 has one")
    return {"spark_delta_mb_s": mb_per_s(run.bootstrap, sizes.pipeline_records, DELTA)}


def spark_realtime(run: Running, sizes: Sizes) -> Figures:
    """Measure the pipeline's job from topic to topic, in Spark's real-time mode."""
    from bench.spark_realtime import realtime_latency

    return realtime_latency(run.bootstrap)


def spark_failover(run: Running, sizes: Sizes) -> Figures:
    """Measure leaders that die under a stream, of three brokers in the place of the started one."""
    from bench.spark_failover import standstill

    return standstill(instead_of(run), sizes.leaders_killed)


def acls(run: Running, sizes: Sizes) -> Figures:
    """Compare a thousand ACLs with none."""
    with Running(PEERS[run.name]) as without:
        topics = [f"load-{number}" for number in range(rights.ROUNDS)]
        for each in (run, without):
            create(each, *topics, partitions=4)
        rights.make_acls(run.bootstrap)
        return rights.compared(run, without, sizes.records_1k // 2, load)


WORKLOADS: dict[str, Callable[[Running, Sizes], Figures]] = {
    "idle": idle,
    "latency": latency,
    "small_requests": lambda run, sizes: requests.small_requests(run, sizes.warm_ms, sizes.measured_ms),
    "pipelined_requests": pipelined_requests,
    "throughput": throughput,
    "partitions": partitions,
    "create_partitions": lambda run, sizes: creation.create_partitions(run, sizes.topics, sizes.partitions_each),
    "many_partitions": lambda run, sizes: creation.many_partitions(run, sizes.many_topics, sizes.partitions_each),
    "heartbeats": heartbeats,
    "consumer_heartbeats": consumer_heartbeats,
    "first_message": first_message,
    "transactions": transactions,
    "recovery": lambda run, sizes: log.recovery(run, sizes.recovered_records),
    "position": lambda run, sizes: log.position(run, sizes.small_log, sizes.large_log, sizes.lookups),
    "compaction": lambda run, sizes: log.compaction(run, sizes.compacted_records, sizes.beside_compaction),
    "group_commit": lambda run, sizes: log.group_commit(run, sizes.synced_commits),
    "fairness": lambda run, sizes: beside_giants(run, sizes.hostile_percent / 100),
    "state": state,
    "tls": tls,
    "spark": spark,
    "spark_pipeline": spark_pipeline,
    "spark_delta": spark_delta,
    "spark_realtime": spark_realtime,
    "spark_failover": spark_failover,
    "acls": acls,
    "cluster": lambda run, sizes: brokers.replicated(instead_of(run), sizes.records_1k, sizes.round_trips),
    "failover": lambda run, sizes: brokers.failover(instead_of(run), sizes.replicated_mb),
    "cluster_partitions": lambda run, sizes: brokers.many_partitions(instead_of(run), sizes.replicated_partitions),
}
# Of the peers; the others keep what they have with the defaults.
SETTINGS: dict[str, dict[str, str]] = {"compaction": log.COMPACTION_SETTINGS, "acls": rights.SETTINGS}
# kfake is for tests: it holds its logs in memory, compacts nothing and syncs nothing; and it keeps more files open for
# each partition than a process may have. So does a Kafka with forty thousand.
NOT_FOR: dict[str, set[str]] = {
    "kafka": {"state", "many_partitions"},
    "kfake": {
        "cluster",
        "failover",
        "cluster_partitions",
        "recovery",
        "position",
        "compaction",
        "group_commit",
        "create_partitions",
        "many_partitions",
        "fairness",
        "state",
        "acls",
        "tls",
        "spark_failover",
    },
}
