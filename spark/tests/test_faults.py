"""Streams that go on while the world around them changes."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from pipeline import aggregate, runner, silver, store, topics
from pipeline.database import open_database
from pipeline.errors import CheckpointError, DataLoss, StoreError
from pipeline.settings import Settings
from tests.plug import plug_pulled

pytestmark = pytest.mark.spark


def stored(settings: Settings) -> set[str]:
    if not Path(settings.path("pipeline.db")).exists():
        return set()
    database = open_database(settings.database_url)
    try:
        if not database.columns(settings.table):
            return set()
        found = [row[0] for row in database.execute(f'SELECT event_id FROM "{settings.table}"')]
    finally:
        database.close()
    assert len(found) == len(set(found))
    return set(found)


def test_the_broker_is_restarted(
    new_broker: Callable[[], Any], make_settings: Any, make_context: Any, start_job: Any, put: Any, event: Any,
) -> None:  # fmt: skip
    broker = new_broker()
    settings = make_settings(bootstrap_servers=broker.bootstrap_servers, trigger="asap", offsets="store")
    context = make_context(settings)
    context.kafka.ensure_topic(settings.bronze_topic)
    job = start_job(store.run, context)
    produce(broker.bootstrap_servers, settings.bronze_topic, [event(n) for n in range(20)])
    job.until(lambda: len(stored(settings)) == 20)
    broker.restart()
    produce(broker.bootstrap_servers, settings.bronze_topic, [event(n) for n in range(20, 40)])
    job.until(lambda: len(stored(settings)) == 40)
    broker.kill()
    broker.start()
    produce(broker.bootstrap_servers, settings.bronze_topic, [event(n) for n in range(40, 60)])
    job.until(lambda: len(stored(settings)) == 60)
    assert job.stop()["rows"] == 60


def produce(address: str, topic: str, values: list[bytes]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(120) == 0


def test_partitions_are_added(
    make_settings: Any, make_context: Any, make_topic: Any, start_job: Any, put: Any, event: Any,
    admin: AdminClient,
) -> None:  # fmt: skip
    settings = make_settings(trigger="asap")
    topic = make_topic(settings.bronze_topic)
    put(topic, [event(n) for n in range(5)])
    job = start_job(store.run, make_context(settings))
    job.until(lambda: len(stored(settings)) == 5)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    put(topic, [{"value": event(5 + n), "partition": n} for n in range(4)])
    job.until(lambda: len(stored(settings)) == 9)
    assert job.stop()["rows"] == 9


def test_partitions_are_added_after_an_interrupted_batch(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, admin: AdminClient,
) -> None:  # fmt: skip
    """Spark repeats the batch by the offsets of its checkpoint, which know nothing of the partitions that came after.

    The connector 4.0.0 fails at every restart (SPARK-53560).
    """
    settings = make_settings()
    topic = make_topic(settings.bronze_topic)
    put(topic, [event(n) for n in range(5)])
    with plug_pulled(store.Writer, "__call__"):
        store.run(make_context(settings))
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    put(topic, [{"value": event(5 + n), "partition": n} for n in range(3)])
    store.run(make_context(settings))
    assert stored(settings) == {f"e{n}" for n in range(8)}


def test_records_are_deleted_under_the_reader(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, admin: AdminClient
) -> None:
    settings = make_settings()
    topic = make_topic(settings.bronze_topic)
    put(topic, [event(n) for n in range(10)])
    store.run(make_context(settings))
    put(topic, [event(n) for n in range(10, 20)])
    admin.delete_records([TopicPartition(topic, 0, 15)])[TopicPartition(topic, 0)].result(30)
    with pytest.raises(DataLoss, match=r"records were removed from the topic .* set fail_on_data_loss to false"):
        store.run(make_context(settings))
    assert len(stored(settings)) == 10
    store.run(make_context(dataclasses.replace(settings, fail_on_data_loss=False)))
    assert stored(settings) == {f"e{n}" for n in (*range(10), *range(15, 20))}


def test_a_topic_that_was_made_anew(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, admin: AdminClient
) -> None:
    """The new topic has as many records as the old one had: only the topic's id tells that they are others."""
    settings = make_settings()
    stored_by = [dataclasses.replace(settings, offsets=name, table=name) for name in ("checkpoint", "kafka", "store")]
    topic = make_topic(settings.bronze_topic)
    put(topic, [event(n) for n in range(5)])
    silver.run(make_context(settings))
    for own in stored_by:
        store.run(make_context(own))
    admin.delete_topics([topic])[topic].result(30)
    make_topic(topic)
    put(topic, [event(n) for n in range(10, 17)])
    for job, own in [(silver.run, settings), *((store.run, own) for own in stored_by)]:
        with pytest.raises(CheckpointError, match=f"topic {topic} was deleted and made anew"):
            job(make_context(dataclasses.replace(own, fail_on_data_loss=False)))
    for own in stored_by:
        assert stored(own) == {f"e{n}" for n in range(5)}


def test_a_call_to_a_dead_leader_ends_soon(settings: Settings) -> None:
    """Kafka's clients refuse one of the two limits without the other, so a limit of the person's replaces both."""
    ours = topics._options(settings)
    assert {ours["kafka.request.timeout.ms"], ours["kafka.default.api.timeout.ms"]} == {"15000"}
    theirs = topics._options(dataclasses.replace(settings, kafka={"request.timeout.ms": "40000"}))
    assert (theirs["kafka.request.timeout.ms"], "kafka.default.api.timeout.ms" in theirs) == ("40000", False)
    assert "fetchOffset.numRetries" not in theirs


def written(job: ModuleType, settings: Settings, spark: SparkSession) -> int:
    """Return the number of events in the job's output."""
    if job is silver:
        table = Path(silver.table_path(settings))
        return spark.read.parquet(str(table)).count() if any(table.glob("date=*/batch=*/*.parquet")) else 0
    if job is store:
        return len(stored(settings))
    database = open_database(settings.database_url)
    try:
        return int(database.execute("SELECT coalesce(sum(events), 0) FROM windows")[0][0])
    except StoreError:  # there is no table yet
        return 0
    finally:
        database.close()


@pytest.mark.parametrize("job", [silver, aggregate, store], ids=["silver", "aggregate", "store"])
def test_a_topic_that_is_made_anew_under_a_running_job(
    job: ModuleType, make_settings: Any, make_context: Any, make_topic: Any, start_job: Any, put: Any, event: Any,
    admin: AdminClient, spark: SparkSession, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The new topic has more records than were read of the old one, so to Spark it is the old one with new records. The
    first batch ends when the new topic is there: Spark asks for no offsets meanwhile."""
    settings = make_settings(trigger="asap")
    is_anew, after = threading.Event(), runner._after

    def after_and_wait(*batch: Any) -> dict[str, Any]:
        counts = after(*batch)
        assert is_anew.wait(300)
        return counts

    monkeypatch.setattr(runner, "_after", after_and_wait)
    topic = make_topic(settings.bronze_topic)
    put(topic, [event(n) for n in range(10)])
    running = start_job(job.run, make_context(settings))
    running.until(lambda: written(job, settings, spark) == 10)
    admin.delete_topics([topic])[topic].result(30)
    make_topic(topic)
    put(topic, [event(n) for n in range(100, 115)])
    is_anew.set()
    with pytest.raises(CheckpointError, match=f"topic {topic} was deleted and made anew while the job read it"):
        running.result.result(300)
    assert written(job, settings, spark) == 10


def test_a_stream_ends_between_batches(
    make_settings: Any, make_context: Any, make_topic: Any, start_job: Any, put: Any, event: Any,
    spark: SparkSession,
) -> None:  # fmt: skip
    """A job that is stopped while records keep coming reports as many accepted records as the table has."""
    settings = make_settings(trigger="100 milliseconds", max_offsets_per_trigger=50)
    topic = make_topic(settings.bronze_topic)
    put(topic, [event(n) for n in range(400)])
    table = Path(silver.table_path(settings))
    job = start_job(silver.run, make_context(settings))
    job.until(lambda: any(table.glob("date=*/batch=*/*.parquet")))
    done = job.stop()
    assert 0 < done["rows"] <= 400
    assert spark.read.parquet(str(table)).count() == done["accepted"]
    silver.run(make_context(dataclasses.replace(settings, trigger="available-now", max_offsets_per_trigger=0)))
    assert spark.read.parquet(str(table)).count() == 400
