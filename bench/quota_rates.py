"""`python -m bench.quota_rates`: the rates that clients attain under each kind of quota, beside Apache Kafka.

Rule: both programs get the same requests from the same client, which waits for as long as an answer tells. A rate
counts from the end of the burst that is free at first.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from confluent_kafka.admin import NewTopic

from interop.cluster_clients import admin_at, in_sync
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster, Kind
from interop.quota_requests import VERSIONS, Quotas, creating, produced, reading, size_of
from interop.raw import Closed, RawClient
from interop.targets import start
from interop.waiting import eventually
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_partition_reassignments_request as moving
from pykafka_broker.protocol.messages import incremental_alter_configs_request as altering

WINDOWS = {
    "quota.window.num": "3",
    "controller.quota.window.num": "3",
    "replication.quota.window.num": "3",
}
BURST_S, MEASURED_S = 4.0, 6.0
BYTES_PER_S, MUTATIONS_PER_S, CONNECTIONS_PER_S, REPLICATED_PER_S = 400_000, 8, 10, 500_000
SIZES = (2_000, 50_000, 900_000)
BROKER_RESOURCE, SET = 4, 0
Measured = Iterable[tuple[str, float]]
Turn = Callable[[RawClient], float]  # one request; what it got of what the quota counts
_NUMBER = count()


def attained(quotas: Quotas, client_id: str, connections: int, turn: Turn) -> float:
    """Return the rate of one client id over some connections, each with one request at a time."""
    counts: list[tuple[float, float]] = []
    end = time.monotonic() + BURST_S + MEASURED_S

    def run() -> None:
        with RawClient(quotas.bootstrap, timeout_s=60, client_id=client_id) as client:
            while time.monotonic() < end:
                got = turn(client)
                counts.append((time.monotonic(), got))

    threads = [threading.Thread(target=run) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(got for at, got in counts if end - MEASURED_S <= at < end) / MEASURED_S


def of_bytes(quotas: Quotas) -> Measured:
    for connections in (1, 8):
        for size in SIZES:
            topic = quotas.topic()
            client = quotas.client(producer_byte_rate=BYTES_PER_S, consumer_byte_rate=BYTES_PER_S)
            name = client.client_id or ""

            def produce(client: RawClient, topic: str = topic, size: int = size) -> float:
                throttled = produced(client, topic, size).throttle_time_ms
                time.sleep(throttled / 1000)
                return size

            yield f"producer {size} x {connections}", attained(quotas, name, connections, produce)

            def fetch(client: RawClient, topic: str = topic, size: int = size) -> float:
                answer = client.call(reading(topic, most=size), 12)
                time.sleep(answer.throttle_time_ms / 1000)
                return size_of(answer)

            yield f"consumer {size} x {connections}", attained(quotas, name, connections, fetch)


def of_request_time(quotas: Quotas) -> Measured:
    """Measure requests a second without a quota and with one percent of a thread.

    What a request costs is each program's own, and without a quota the client may be what is slow: neither figure is
    the share of the thread that a quota grants (tests/broker/requests/test_metering.py looks at that).
    """
    for connections in (1, 8):
        for label, size in (("small", 0), ("middle", 50_000), ("large", 900_000)):
            topic = quotas.topic()

            def ask(client: RawClient, topic: str = topic, size: int = size) -> float:
                answer = produced(client, topic, size) if size else client.call(VERSIONS, 3)
                time.sleep(answer.throttle_time_ms / 1000)
                return 1

            name = f"timed-{next(_NUMBER)}"
            free = attained(quotas, name, connections, ask)
            quotas.set(("client-id", name), request_percentage=1.0)
            held = attained(quotas, name, connections, ask)
            yield f"request time, {label} x {connections}: of those without a quota, percent", 100 * held / free
            yield f"request time, {label} x {connections}: requests", held


def of_mutations(quotas: Quotas) -> Measured:
    for connections in (1, 4):
        for partitions in (1, 4, 20):
            client = quotas.client(controller_mutation_rate=MUTATIONS_PER_S)

            def create(client: RawClient, partitions: int = partitions) -> float:
                request = creating(f"made-{next(_NUMBER)}", partitions=partitions, validate_only=True)
                answer = client.call(request, 7)
                refused = answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
                time.sleep(answer.throttle_time_ms / 1000)
                return 0 if refused else partitions

            rate = attained(quotas, client.client_id or "", connections, create)
            yield f"mutations, {partitions} partitions x {connections}", rate


def of_connections(quotas: Quotas) -> Measured:
    quotas.set(("ip", "127.0.0.3"), connection_creation_rate=CONNECTIONS_PER_S)
    yield from (
        (f"connections of an address, {threads} at a time", connecting(quotas, "127.0.0.3", threads))
        for threads in (1, 4)
    )
    quotas.set(("ip", "127.0.0.3"), connection_creation_rate=None)
    entry = altering.AlterableConfig("listener.name.plaintext.max.connection.creation.rate", SET, "10")
    with RawClient(quotas.bootstrap) as client:
        answer = client.call(
            altering.IncrementalAlterConfigsRequest([altering.AlterConfigsResource(BROKER_RESOURCE, "1", [entry])]), 1
        )
    assert answer.responses[0].error_code == 0, answer
    time.sleep(0.5)
    yield from (
        (f"connections of a listener, {threads} at a time", connecting(quotas, "127.0.0.4", threads))
        for threads in (1, 4)
    )


def connecting(quotas: Quotas, source: str, threads: int) -> float:
    """Return how many connections a second are served."""

    def connect(_: RawClient) -> float:
        try:
            with RawClient(quotas.bootstrap, timeout_s=60, source=source) as client:
                client.call(VERSIONS, 3)
        except (Closed, ConnectionError):
            return 0
        return 1

    return attained(quotas, "connecting", threads, connect)


def of_replication(kind: Kind) -> Measured:
    """Measure the bytes a second to a broker that gets a replica."""
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaCluster(Path(folder), controllers=[kind], brokers=[kind] * 2, config=WINDOWS) as cluster,
    ):
        for side in ("leader", "follower"):
            for size in SIZES:
                yield f"{side}'s replication, batches of {size}", replicating(cluster, side, size)


def replicating(cluster: KafkaCluster, side: str, size: int) -> float:
    topic, total = f"moved-{side}-{size}", 6_000_000
    admin = admin_at(cluster.bootstrap_servers)
    config = {f"{side}.replication.throttled.replicas": "*"}
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1]], config=config)])[topic].result(20)
    throttled = 2 if side == "follower" else 1
    entry = altering.AlterableConfig(f"{side}.replication.throttled.rate", SET, str(REPLICATED_PER_S))
    wanted = moving.ReassignableTopic(topic, [moving.ReassignablePartition(0, [1, 2])])
    resource = altering.AlterConfigsResource(BROKER_RESOURCE, str(throttled), [entry])
    with RawClient(cluster.broker(throttled).address) as client:  # no other broker may set it
        answer = client.call(altering.IncrementalAlterConfigsRequest([resource]), 1)
    assert answer.responses[0].error_code == 0, answer
    with RawClient(cluster.broker(1).address, timeout_s=30) as client:
        for _ in range(total // size):
            produced(client, topic, size)
        time.sleep(3)  # nothing of it is in the windows any more
        begun = time.monotonic()
        client.call(moving.AlterPartitionReassignmentsRequest(10_000, topics=[wanted]), 0)
    eventually(lambda: in_sync(cluster.bootstrap_servers, topic), {0: [1, 2]}, 120)
    return total / (time.monotonic() - begun)


def measured(target_name: str) -> dict[str, float]:
    """Return the attained rates of one program, by what was asked."""
    found: dict[str, float] = {}

    def note(rates: Measured) -> None:
        for what, rate in rates:
            found[what] = rate
            print(f"{target_name}: {what}: {rate:.1f}", file=sys.stderr, flush=True)

    kinds = {"bytes": of_bytes, "requests": of_request_time, "mutations": of_mutations, "connections": of_connections}
    wanted = sys.argv[1:] or [*kinds, "replication"]
    with start(target_name, {**WINDOWS, "num.partitions": "1"}) as broker:
        quotas = Quotas(broker.bootstrap_servers)
        for kind in filter(kinds.__contains__, wanted):
            note(kinds[kind](quotas))
        quotas.close()
    if "replication" in wanted:
        note(of_replication(THEIRS if target_name == "kafka" else OURS))
    return found


def main() -> None:
    ours, kafkas = measured("pykafka"), measured("kafka")
    print("| quota | Kafka | ours | ours / Kafka |\n| --- | --- | --- | --- |")
    for what, rate in kafkas.items():
        print(f"| {what} | {rate:,.1f} | {ours[what]:,.1f} | {ours[what] / rate if rate else 0:.2f} |")


if __name__ == "__main__":
    main()
