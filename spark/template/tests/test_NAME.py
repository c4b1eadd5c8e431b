"""The project's flows on a real Spark against a broker that misbehaves on request."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from conftest import ROOT
from pipeline.session import QUICK

STORE = ["--bronze-topic=orders", "--offsets=store", "--time-column=ordered_at", "--id-column=order_id"]
STORE += ["--schema=order_id STRING, ordered_at TIMESTAMP, product STRING, pieces INT"]


def order(number: int, product: str = "lamp", pieces: int = 2) -> dict[str, Any]:
    """A record of the topic `orders`."""
    value = {"order_id": f"o{number}", "ordered_at": "2024-05-01T10:00:00Z", "product": product, "pieces": pieces}
    return {"value": json.dumps(value)}


def visit(number: int, time: str) -> dict[str, Any]:
    value = {"visit_id": f"v{number}", "visited_at": f"2024-05-01T{time}:00Z", "visitor": "ann", "page": "/"}
    return {"value": json.dumps(value)}


def test_the_flows(kafka_broker: Any, run: Any, spark: SparkSession, tmp_path: Path) -> None:
    """A join, rules, a table; sessions, of which the last is still open."""
    kafka_broker.produce("orders", [order(1), order(2, "desk"), order(3, "boat"), order(4, pieces=0), {"value": "{"}])
    kafka_broker.produce("visits", [visit(n, time) for n, time in enumerate(["10:00", "10:20", "11:30", "14:00"])])
    done = run("flows", kafka_broker.bootstrap_servers)
    assert done["flows"]["orders"]["rules"] == {"pieces": 1, "product": 1}
    table = spark.read.parquet(str(tmp_path / "data" / "orders" / "silver"))
    assert sorted((row.order_id, row.total) for row in table.collect()) == [("o1", 41.0), ("o2", 200.0)]
    assert [record.value for record in kafka_broker.records("orders.dead-letter")] == ["{"]
    sessions = spark.read.parquet(str(tmp_path / "data" / "visits" / "sessions"))
    starts = sessions.select(F.date_format("session_start", "HH:mm").alias("start"), "events").collect()
    assert sorted((row.start, row.events) for row in starts) == [("10:00", 2), ("11:30", 1)]


def test_records_that_retention_removed(kafka_broker: Any, run: Any) -> None:
    """The job was away for nine days, and the topic keeps seven: it says so, and goes on when it is told to."""
    day_ms = 86_400_000
    kafka_broker.create_topic("orders", config={"retention.ms": 7 * day_ms, "segment.ms": day_ms})
    kafka_broker.produce("orders", [order(1)])
    assert run("store", kafka_broker.bootstrap_servers, *STORE)["rows"] == 1
    kafka_broker.produce("orders", [order(2)])
    kafka_broker.clock.advance(days=9)
    kafka_broker.produce("orders", [order(3)])
    refused = run("store", kafka_broker.bootstrap_servers, *STORE)
    assert refused["code"] == 7, refused
    assert run("store", kafka_broker.bootstrap_servers, *STORE, "--fail-on-data-loss=false")["rows"] == 1


def test_a_broker_with_faults(kafka_broker: Any, run: Any) -> None:
    kafka_broker.produce("orders", [order(n) for n in range(20)])
    with kafka_broker.faults.add(api="Fetch", error="NOT_LEADER_OR_FOLLOWER", times=2) as fault:
        assert run("store", kafka_broker.bootstrap_servers, *STORE)["rows"] == 20
        assert fault.hits == 2


def test_a_leader_that_dies(kafka_cluster: Any, run: Any) -> None:
    kafka_cluster.create_topic("orders", replication_factor=3)
    kafka_cluster.produce("orders", [order(n) for n in range(10)])
    assert run("store", kafka_cluster.bootstrap_servers, *STORE)["rows"] == 10
    kafka_cluster.broker(kafka_cluster.leader_of("orders")).kill()
    kafka_cluster.produce("orders", [order(n) for n in range(10, 20)])
    assert run("store", kafka_cluster.bootstrap_servers, *STORE)["rows"] == 10


def stored(folder: Path) -> list[str]:
    """Return the ids in the table, while the job is writing it or after that."""
    if not (folder / "pipeline.db").exists():
        return []
    with closing(sqlite3.connect(folder / "pipeline.db", timeout=30)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone():
            return []
        return [row[0] for row in connection.execute("SELECT order_id FROM events")]


def test_kill_minus_nine(kafka_broker: Any, run: Any, tmp_path: Path) -> None:
    """The driver and its JVM die between two batches, or within one: nothing is lost, nothing comes twice."""
    kafka_broker.produce("orders", [order(n) for n in range(600)])
    command = [sys.executable, "-m", "pipeline", "store", *STORE, f"--data-dir={tmp_path}/data", "--master=local[2]"]
    command += [f"--bootstrap-servers={kafka_broker.bootstrap_servers}", "--max-offsets-per-trigger=20"]
    command += [f"--spark={key}={value}" for key, value in QUICK.items()]
    job = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT / "spark")}, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not stored(tmp_path / "data"):
            assert job.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(30)
    before = len(stored(tmp_path / "data"))
    assert run("store", kafka_broker.bootstrap_servers, *STORE)["rows"] == 600 - before > 0
    assert sorted(stored(tmp_path / "data")) == sorted(f"o{n}" for n in range(600))
