"""kill -9 of the whole job, driver and JVM, at random points, again and again: no record is lost, none doubled."""

import dataclasses
import json
import random
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import silver, store
from pipeline.offsets import STRATEGIES
from tests.killed import flow, kill, kill_at_random, log_of, start, start_flows, stored_ids
from tests.registered import VERSION_1, VERSION_2, avro, register, registry

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
MANY = 5  # kills, with --slow
RECORDS = 6000
AT = datetime(2024, 5, 1, tzinfo=UTC)


def test_killed_again_and_again(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, eventually: Any, spark: SparkSession,
    slow: bool,
) -> None:  # fmt: skip
    """store under every strategy, and silver that reads two schemas, as flows of one driver that is killed; rows and
    dead letters are those of plain Python."""
    whole = make_settings(max_offsets_per_trigger=30)
    stores = {
        name: dataclasses.replace(whole, offsets=name, data_dir=f"{whole.data_dir}/{name}") for name in STRATEGIES
    }
    make_topic(whole.bronze_topic, 2)
    put(whole.bronze_topic, [{"value": event(n), "partition": n % 2} for n in range(RECORDS)])
    draw = random.Random(RECORDS)
    with registry() as url:
        topic = make_topic(f"{whole.bronze_topic}.avro", 2)
        of_avro = dataclasses.replace(
            whole, bronze_topic=topic, value_format="avro", schema_registry=url, max_offsets_per_trigger=100
        )
        table = Path(silver.table_path(of_avro))
        put(topic, avro_records(url, topic))
        flows = {name: flow("store", own, offsets=name, table="events") for name, own in stores.items()}
        flows["avro"] = flow("silver", of_avro, value_format="avro", schema_registry=url)
        progress: list[Any] = [partial(stored_ids, own) for own in stores.values()]
        progress.append(lambda: len(list(table.glob("date=*/batch=*"))))
        for _ in range(MANY if slow else 1):
            kill_at_random(start_flows(whole, flows), whole, draw, progress, eventually)
        context = make_context(dataclasses.replace(of_avro, max_offsets_per_trigger=0))
        assert silver.run(context)["rows"] > 0
    assert_rows_of_avro(spark, table, context.kafka.read_all(of_avro.dead_letter_topic))
    for own in stores.values():
        left = RECORDS - len(stored_ids(own))
        assert left > 0  # otherwise the kills proved little
        store.run(make_context(dataclasses.replace(own, max_offsets_per_trigger=0)))
        found = stored_ids(own)
        assert len(found) == len(set(found)) == RECORDS


def avro_records(url: str, topic: str) -> list[dict[str, Any]]:
    """Return records of two schemas, which are registered; some are broken, and some ids come twice."""
    first, second = (register(url, topic, json.dumps(schema)) for schema in (VERSION_1, VERSION_2))
    values = []
    for n in range(RECORDS):
        value = {"event_id": f"e{n % 5500}", "event_time": AT, "user_id": None, "country": "de", "amount": 1.0}
        more = {"channel": f"c{n}", "tags": []}
        values.append(avro(second, VERSION_2, value | more) if n % 3 else avro(first, VERSION_1, value))
        values[n] = b"\0broken" if n % 100 == 7 else values[n]
    return [{"value": value, "partition": n % 2, "timestamp": 1714521600000 + n} for n, value in enumerate(values)]


def assert_rows_of_avro(spark: SparkSession, table: Path, dead_letters: list[Any]) -> None:
    wanted: dict[str, str | None] = {}
    for n in range(RECORDS):
        if n % 100 != 7:
            wanted.setdefault(f"e{n % 5500}", f'{{"channel":"c{n}","tags":"[]"}}' if n % 3 else None)
    rows = spark.read.parquet(str(table)).select("event_id", "unknown_fields").collect()
    assert len(rows) == len(wanted)
    assert {row.event_id: row.unknown_fields for row in rows} == wanted
    letters = [dict(letter.headers()) for letter in dead_letters]
    sources = [int(each["source-offset"]) * 2 + int(each["source-partition"]) for each in letters]
    assert sorted(sources) == list(range(7, RECORDS, 100))


def test_sigterm_ends_it_in_good_order(
    make_settings: Any, make_topic: Any, put: Any, event: Any, eventually: Any
) -> None:
    settings = make_settings()
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n) for n in range(600)])
    job = start("store", settings, trigger="asap", stop_timeout_s=240)
    try:
        eventually(lambda: stored_ids(settings) or job.poll() is not None)
        job.terminate()
        out, _ = job.communicate(timeout=240)
    finally:
        kill(job)
    assert job.returncode == 0, log_of(settings).read_text()[-3000:]
    summary = json.loads(out)
    assert summary["rows"] == len(stored_ids(settings))
