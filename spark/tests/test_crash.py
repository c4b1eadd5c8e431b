"""kill -9 of the whole job, driver and JVM, at random points, again and again: no record is lost, none doubled."""

import dataclasses
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline import silver, store
from tests.killed import kill_at_random, start, stored_ids
from tests.registered import VERSION_1, VERSION_2, avro, register, registry

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
MANY = 5  # kills, with --slow
RECORDS = 6000
AT = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize("strategy", ["checkpoint", "kafka", "store"])
def test_killed_again_and_again(
    strategy: str, make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, eventually: Any,
    slow: bool,
) -> None:  # fmt: skip
    settings = make_settings(offsets=strategy, max_offsets_per_trigger=60)
    make_topic(settings.bronze_topic, 2)
    put(settings.bronze_topic, [{"value": event(n), "partition": n % 2} for n in range(RECORDS)])
    draw = random.Random(RECORDS)
    for _ in range(MANY if slow else 1):
        job = start("store", settings, offsets=strategy)
        kill_at_random(job, settings, draw, lambda: len(stored_ids(settings)), eventually)
    left = RECORDS - len(stored_ids(settings))
    assert left > 0  # otherwise the kills proved little
    store.run(make_context(dataclasses.replace(settings, max_offsets_per_trigger=0)))
    found = stored_ids(settings)
    assert len(found) == len(set(found)) == RECORDS


def test_sigterm_ends_it_in_good_order(
    make_settings: Any, make_topic: Any, put: Any, event: Any, eventually: Any
) -> None:
    settings = make_settings()
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n) for n in range(600)])
    job = start("store", settings, trigger="asap")
    eventually(lambda: stored_ids(settings))
    job.terminate()
    out, _ = job.communicate(timeout=60)
    assert job.returncode == 0
    summary = json.loads(out)
    assert summary["rows"] == len(stored_ids(settings))


def test_silver_of_avro(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, eventually: Any, spark: Any, slow: bool
) -> None:
    """The job is killed while it reads two schemas; rows and dead letters are those of plain Python."""
    settings = make_settings(max_offsets_per_trigger=100)
    with registry() as url:
        settings = dataclasses.replace(settings, value_format="avro", schema_registry=url)
        topic = make_topic(settings.bronze_topic, 2)
        first, second = (register(url, topic, json.dumps(schema)) for schema in (VERSION_1, VERSION_2))
        values = []
        for n in range(RECORDS):
            value = {"event_id": f"e{n % 5500}", "event_time": AT, "user_id": None, "country": "de", "amount": 1.0}
            more = {"channel": f"c{n}", "tags": []}
            values.append(avro(second, VERSION_2, value | more) if n % 3 else avro(first, VERSION_1, value))
            values[n] = b"\0broken" if n % 100 == 7 else values[n]
        put(
            topic,
            [{"value": value, "partition": n % 2, "timestamp": 1714521600000 + n} for n, value in enumerate(values)],
        )
        draw, table = random.Random(RECORDS), Path(silver.table_path(settings))
        for _ in range(MANY if slow else 1):
            job = start("silver", settings, value_format="avro", schema_registry=url)
            kill_at_random(job, settings, draw, lambda: len(list(table.glob("date=*/batch=*"))), eventually)
        context = make_context(dataclasses.replace(settings, max_offsets_per_trigger=0))
        assert silver.run(context)["rows"] > 0
    wanted: dict[str, str | None] = {}
    for n in range(RECORDS):
        if n % 100 != 7:
            wanted.setdefault(f"e{n % 5500}", f'{{"channel":"c{n}","tags":"[]"}}' if n % 3 else None)
    rows = spark.read.parquet(str(table)).select("event_id", "unknown_fields").collect()
    assert len(rows) == len(wanted)
    assert {row.event_id: row.unknown_fields for row in rows} == wanted
    letters = [dict(letter.headers()) for letter in context.kafka.read_all(settings.dead_letter_topic)]
    sources = [int(each["source-offset"]) * 2 + int(each["source-partition"]) for each in letters]
    assert sorted(sources) == list(range(7, RECORDS, 100))
