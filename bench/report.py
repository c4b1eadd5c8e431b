"""From figures to a table: medians, ratios to each peer, and whether the goal is met."""

import statistics
from dataclasses import dataclass

from bench.fairness import TITLES

Rounds = dict[str, list[dict[str, float]]]  # peer -> one dict of figures for each round


@dataclass(frozen=True)
class Goal:
    """A goal for our figure: at least or at most `factor`, or `factor` times a peer's figure."""

    peer: str | None
    factor: float
    at_least: bool

    def text(self) -> str:
        of = f"{self.factor:g} x {self.peer}" if self.peer else f"{self.factor:g}"
        return f"{'>=' if self.at_least else '<='} {of}"

    def met(self, ours: float, medians: dict[str, float]) -> bool | None:
        if self.peer is not None and self.peer not in medians:
            return None
        limit = self.factor * (medians[self.peer] if self.peer else 1)
        return ours >= limit if self.at_least else ours <= limit


def most(factor: float, peer: str | None = None) -> Goal:
    return Goal(peer, factor, at_least=False)


def least(factor: float, peer: str) -> Goal:
    return Goal(peer, factor, at_least=True)


SAME = 1.1  # what two logs of one size differ by stays below that; the twin's ratio shows it in every run
THROUGHPUT = {
    "produce": [least(1.7, "kafka"), least(1.1, "kfake")],
    "consume": [least(1.0, "kafka"), least(1.2, "kfake")],
}
SMALL_REQUESTS = {
    "api_versions": "ApiVersions",
    "metadata": "Metadata of 3 topics",
    "produce": "Produce of one record",
    "fetch": "Fetch of one record",
    "list_offsets": "ListOffsets of 8 partitions",
    "offset_commit": "OffsetCommit",
}
SMALL_METRICS = {
    f"small_{name}_{connections}_per_s": (f"{title} a second, {connections} connections", [least(goal, "kafka")])
    for connections, goal in ((8, 1.0), (100, 0.8))
    for name, title in SMALL_REQUESTS.items()
} | {f"small_{name}_100_cpu_us": (f"CPU of {title}, 100 connections, us", []) for name, title in SMALL_REQUESTS.items()}
# Beside a request that asks for very much: the other client's ApiVersions, and the memory that it takes.
FAIR_METRICS = {
    f"fair_{name}_{figure}": (f"{title}: {what}", goals)
    for name, title in TITLES.items()
    for figure, what, goals in (
        ("p99_ms", "another client's p99, ms", [most(50)]),
        ("worst_ms", "its worst, ms", [most(100)]),
        ("mb", "memory added at most, MB", []),
    )
}
METRICS: dict[str, tuple[str, list[Goal]]] = {
    "start_s": ("start to first answer, s", [most(0.25)]),
    "idle_mb": ("idle memory, MB", [most(45)]),
    "import_ms": ("import, ms", [most(100)]),
    "connection_kb": ("an idle connection, KB", [most(10)]),
    "latency_p50_ms": ("one record in flight, p50 ms", [most(0.4, "kafka"), most(1.5, "kfake")]),
    "latency_p99_ms": ("one record in flight, p99 ms", [most(0.5, "kafka")]),
    "produce_100b_mb_s": ("produce 100 B, MB/s", THROUGHPUT["produce"]),
    "produce_1k_mb_s": ("produce 1 KiB, MB/s", THROUGHPUT["produce"]),
    "produce_lz4_mb_s": ("produce 1 KiB lz4, MB/s", []),
    "consume_100b_mb_s": ("consume 100 B, MB/s", THROUGHPUT["consume"]),
    "consume_1k_mb_s": ("consume 1 KiB, MB/s", THROUGHPUT["consume"]),
    "produce_100b_cpu_s_gb": ("CPU in, 100 B, s/GB", [most(0.5, "kafka")]),
    "produce_tls_mb_s": ("produce 1 KiB over TLS, MB/s", [least(1.5, "kafka")]),
    "consume_tls_mb_s": ("consume 1 KiB over TLS, MB/s", [least(1.5, "kafka")]),
    "produce_tls_cpu_s_gb": ("CPU in over TLS, 1 KiB, s/GB", [most(1.0, "kafka")]),
    "consume_tls_cpu_s_gb": ("CPU out over TLS, 1 KiB, s/GB", [most(1.0, "kafka")]),
    "handshakes_per_s": ("TLS handshakes a second, one client", [least(1.0, "kafka")]),
    "handshake_cpu_ms": ("CPU of a TLS handshake, ms", []),
    "produce_1k_cpu_s_gb": ("CPU in, 1 KiB, s/GB", [most(0.5, "kafka")]),
    "consume_100b_cpu_s_gb": ("CPU out, 100 B, s/GB", [most(1.0, "kafka")]),
    "consume_1k_cpu_s_gb": ("CPU out, 1 KiB, s/GB", [most(1.0, "kafka")]),
    "loaded_mb": ("memory after the load, MB", []),
    **SMALL_METRICS,
    "list_offsets_per_s": ("ListOffsets a second, 100 in flight", []),
    "list_offsets_cpu_us": ("CPU of a ListOffsets, us", []),
    "metadata_per_s": ("Metadata a second, 100 in flight", []),
    "metadata_cpu_us": ("CPU of a Metadata, us", []),
    "api_versions_per_s": ("ApiVersions a second, 100 in flight", []),
    "api_versions_cpu_us": ("CPU of an ApiVersions, us", []),
    "many_first_p99_ms": ("a first record into each of 40,000: another client's p99, ms", [most(50)]),
    "many_first_worst_ms": ("its worst, ms", [most(100)]),
    "many_stop_s": ("stop with 40,000 partitions, s", [most(10)]),
    "many_start_s": ("start with 40,000 partitions, s", []),
    "partitions_create_s": ("create 10,000 partitions, s", []),
    "create_partitions_s": ("create 10,000 partitions in two requests, s", [most(1.0, "kafka")]),
    "first_records_s": ("a first record into each, s after the answer", [most(1.0, "kafka")]),
    "partitions_start_s": ("start with 10,000 partitions, s", [most(3)]),
    "partitions_mb": ("memory with 10,000 partitions, MB", [most(200)]),
    "heartbeats_core_pct": ("1,000 members in 100 groups, % of a core", [most(10)]),
    "heartbeats_848_core_pct": ("the same with KIP-848, % of a core", [most(10)]),
    "first_message_ms": ("subscribe to first message, new group, ms", [most(0.85, "kafka"), most(1.1, "kfake")]),
    "transactional_records_s": ("records/s, a commit every 100", [least(1.0, "kafka")]),
    "commit_cpu_us": ("CPU of a commit of 100 records, us", []),
    "recovery_s": ("kill -9 to the end of every partition, s", [most(1.0, "kafka")]),
    "recovery_clean_s": ("the same after a clean shutdown, s", []),
    "recovery_added_s": ("what recovery adds, s", [most(1.0, "kafka")]),
    "recovery_cpu_s": ("CPU from kill -9 to there, s", []),
    "recovery_unsynced_gb": ("of that not synced, GB", []),
    "recovery_read_gb": ("read to recover it, GB", []),
    "offset_small_ms": ("fetch by offset, small log, ms", []),
    "offset_large_ms": ("fetch by offset, large log, ms", []),
    "offset_large_ratio": ("large / small", [most(SAME)]),
    "offset_twin_ratio": ("small / small: noise", []),
    "time_small_ms": ("fetch by time, small log, ms", []),
    "time_large_ms": ("fetch by time, large log, ms", []),
    "time_large_ratio": ("large / small", [most(SAME)]),
    "time_twin_ratio": ("small / small: noise", []),
    "compaction_mb_s": ("compaction, MB/s", [least(0.5, "kafka")]),
    "compaction_mb": ("memory that compaction adds, MB", [most(200)]),
    "compaction_peak_mb": ("memory then, all processes, MB", []),
    "compaction_p99_idle_ms": ("one record in flight, p99 ms", []),
    "compaction_p99_ms": ("the same beside compaction, p99 ms", []),
    "compaction_p99_ratio": ("beside compaction / without", [most(2)]),
    "group_commit_per_s": ("synced commits/s, one partition", [least(1.0, "kafka")]),
    "group_commit_apart_per_s": ("synced commits/s, 50 partitions", [least(1.0, "kafka")]),
    **FAIR_METRICS,
    "first_broker_ms": ("a test's first broker, ms", [most(300)]),
    "reset_empty_ms": ("reset of an empty broker, ms", [most(10)]),
    "reset_ms": ("reset with 100 topics and 20 groups, ms", [most(10)]),
    "snapshot_ms": ("snapshot of 100 topics, ms", []),
    "restore_ms": ("restore of 100 topics, ms", []),
    "snapshot_1gb_ms": ("snapshot of 1 GB, ms", []),
    "restore_1gb_ms": ("restore of 1 GB, ms", [most(50)]),
    "isolated_test_ms": ("a further test's clean broker, ms", [most(10)]),
    "wait_after_event_ms": ("a wait's answer after the event, ms", [most(5)]),
    "wait_after_event_p99_ms": ("the same, p99 of 200, ms", []),
    "acls_produce_speed": ("produce 1 KiB with 1,000 ACLs / without", [Goal(None, 0.97, at_least=True)]),
    "acls_consume_speed": ("consume 1 KiB with 1,000 ACLs / without", [Goal(None, 0.97, at_least=True)]),
    "acls_produce_cpu": ("CPU in with 1,000 ACLs / without", []),
    "acls_consume_cpu": ("CPU out with 1,000 ACLs / without", []),
    "cluster_start_s": ("three brokers and a controller, start, s", [most(1.5)]),
    "cluster_mb": ("their memory, MB", [most(120)]),
    "cluster_produce_mb_s": ("produce 1 KiB, three replicas, acks=all, MB/s", [least(1.5, "kafka")]),
    "cluster_produce_cpu_s_gb": ("CPU of all nodes in, 1 KiB, s/GB", []),
    "cluster_consume_mb_s": ("consume 1 KiB, three replicas, MB/s", [least(1.5, "kafka")]),
    "cluster_p50_ms": ("one record in flight, three replicas, p50 ms", []),
    "cluster_p99_ms": ("one record in flight, three replicas, p99 ms", [most(0.5, "kafka")]),
    "failover_short_s": ("kill -9 of a leader to the next ack, session 3 s", [most(1.0, "kafka")]),
    "failover_default_s": ("the same with default times, s", [most(1.0, "kafka")]),
    "catch_up_mb_s": ("a follower's way back, MB/s", [Goal(None, 300, at_least=True)]),
    "cluster_many_create_s": ("create 5,000 partitions of three replicas, s", []),
    "cluster_many_start_s": ("start with them, s", [most(5)]),
    "cluster_many_mb": ("memory of all nodes then, MB", []),
    "spark_batch_ms": ("Spark: ack to foreachBatch, ms", [most(0.25, "kafka")]),
    "spark_realtime_p50_ms": ("Spark, real time: ack to the other topic, p50 ms", [most(1.0, "kafka")]),
    "spark_realtime_p99_ms": ("its p99, ms", []),
    "spark_pipeline_mb_s": ("Spark: 1 M records bronze -> silver, MB/s", [least(1.0, "kafka")]),
    "spark_delta_mb_s": ("the same with Delta, MB/s", [least(1.0, "kafka")]),
    "spark_failover_ack_s": ("kill -9 of a leader under a stream of Spark to the next ack, s", []),
    "spark_failover_s": ("until the stream's table has that record, s", [most(1.0, "kafka")]),
    "spark_failover_longest_s": ("the longest of these, s", []),
}


def medians(rounds: Rounds) -> dict[str, dict[str, float]]:
    """Return the medians by metric and peer, in the order of METRICS."""
    found: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        for peer, figures in rounds.items():
            values = [f[metric] for f in figures if metric in f]
            if values:
                found.setdefault(metric, {})[peer] = statistics.median(values)
    return found


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(values: dict[str, float], of: str, peer: str) -> str:
    return f"{values[of] / values[peer]:.2f}" if of in values and values.get(peer) else ""


def table(rounds: Rounds, of: str = "ours") -> str:
    """Return the table in Markdown."""
    peers = list(rounds)
    others = [peer for peer in peers if peer != of]
    lines = [
        "| | " + " | ".join([*peers, *(f"{of} / {peer}" for peer in others), "goal"]) + " |",
        "|---" * (len(peers) + len(others) + 2) + "|",
    ]
    for metric, values in medians(rounds).items():
        title, goals = METRICS[metric]
        cells = [number(values[peer]) if peer in values else "" for peer in peers]
        lines.append(
            "| "
            + " | ".join([title, *cells, *(ratio(values, of, peer) for peer in others), verdict(goals, values, of)])
            + " |"
        )
    return "\n".join(lines)


def verdict(goals: list[Goal], values: dict[str, float], of: str) -> str:
    marks = {True: "met", False: "**missed**", None: "?"}
    if of not in values:
        return ""
    return "; ".join(f"{goal.text()}: {marks[goal.met(values[of], values)]}" for goal in goals)
