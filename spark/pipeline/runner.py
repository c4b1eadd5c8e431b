"""Running a stream. Rule: it ends between batches if it can, and its errors come out as words."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pipeline import kafka
from pipeline.context import Context
from pipeline.errors import (
    BrokerUnreachable,
    CheckpointError,
    DataLoss,
    JobFailed,
    PipelineError,
    SchemaError,
    SettingsError,
    StoreError,
    UnknownTopic,
)
from pipeline.listener import MetricsListener
from pipeline.settings import REALTIME
from pipeline.steps import Steps

Process = Callable[[DataFrame, int], dict[str, Any] | None]
POLL_S = 0.1
REALTIME_BATCH = "10 seconds"
TOLD_TIMEOUT_S = 10.0
PYTHONS_LAST_LINE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
RECORDS_ARE_GONE = (
    "records were removed from the topic (retention, deletion, a new topic of its name) before they were read; "
    "to go on with what is left, set fail_on_data_loss to false"
)
# What stands in Spark's chain of messages, and what it means. The first that matches counts.
MEANINGS: list[tuple[str, type[PipelineError], str]] = [
    (
        r"Some data may have been lost|KAFKA_DATA_LOSS|OffsetOutOfRange|offset was changed from|DataLoss",
        DataLoss,
        RECORDS_ARE_GONE,
    ),
    (r"RegistryUnavailable", BrokerUnreachable, "the schema registry does not answer as it should"),
    (
        r"No module named '(fastavro|google|pipeline)",
        SettingsError,
        "executors need the packages of value_format, too",
    ),
    (r"psycopg\.\w", StoreError, "the database refused what a task copied"),
    (r"No module named 'psycopg'", StoreError, "store needs the package psycopg on every executor, too"),
    (r"RecordTooLarge", JobFailed, "a record is larger than the topic or the producer takes (kafka: max.request.size)"),
    (r"MALFORMED_RECORD|Malformed records|CSV header does not conform", SchemaError, "a file is not of the schema"),
    (r"UnknownTopicOrPartition|UNKNOWN_TOPIC", UnknownTopic, "a topic of the job is gone"),
    (
        r"failed to stop within|Futures timed out|java\.util\.concurrent\.TimeoutException",
        JobFailed,
        "Spark itself was not ready in time: the machine is too busy, or too small",
    ),
    (
        r"TimeoutException|Failed to (create|construct)|DisconnectException|Connection refused",
        BrokerUnreachable,
        "the brokers stopped answering",
    ),
    (r"Failed to find (the )?data source: kafka", SettingsError, "Spark runs without its Kafka connector; see jars"),
]


def in_words(error: Exception) -> PipelineError:
    """Return an error of Spark as one of ours."""
    text = str(error)
    for pattern, kind, words in MEANINGS:
        if re.search(pattern, text):
            return kind(f"{words}\n  Spark says: {_summary(text)}")
    return JobFailed(_summary(text))


def _summary(text: str) -> str:
    """Return the innermost message that has words, without the stack."""
    causes = PYTHONS_LAST_LINE.findall(text) or re.findall(r"Caused by: ([^\n]+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("\tat", "  File"))]
    first = lines[0] if lines else "an error without a text"
    return f"{first[:500]}\n  because: {causes[-1][:500]}" if causes else first[:1000]


def run_stream(
    context: Context,
    job: str,
    frame: DataFrame,
    process: Process,
    checkpoint: str | None,
    *,
    output: str,
    steps: Steps | None = None,
) -> dict[str, Any]:
    """Run until there is no more (available-now), or until `context.stop`; return what the run has counted, and the
    metrics of the last batches.

    `process` may return what it counted in the batch, for the metrics. `output` is the name of what it writes: it
    tells runs of the same job apart. `steps` come before `process`.
    """
    failure: list[PipelineError] = []

    def on_batch(batch: DataFrame, batch_id: int) -> None:
        try:
            listener.counts[batch_id] = _after(steps, batch, batch_id, process)
        except PipelineError as error:
            failure.append(error)
            raise
        except KafkaException as error:
            failure.append(kafka.in_words(error))
            raise

    listener = MetricsListener(context.settings, context.kafka, job, output)
    writer = frame.writeStream.foreachBatch(on_batch)
    try:
        return run_query(context, job, writer, checkpoint, output=output, listener=listener)
    except PipelineError as error:
        raise (failure[0] if failure else error) from error


def run_query(
    context: Context,
    job: str,
    writer: DataStreamWriter,
    checkpoint: str | None,
    *,
    output: str,
    listener: MetricsListener | None = None,
) -> dict[str, Any]:
    """Run a query as `run_stream` does, with whatever sink it has."""
    listener = listener or MetricsListener(context.settings, context.kafka, job, output)
    context.spark.streams.addListener(listener)
    try:
        writer = _with_trigger(writer.queryName(listener.query_name), context.settings.trigger)
        writer = writer.option("checkpointLocation", checkpoint) if checkpoint else writer
        query = writer.start()
        try:
            _wait(query, context)
        finally:
            query.stop()
            listener.wait_until_told(TOLD_TIMEOUT_S)
    except (StreamingQueryException, Py4JJavaError, PySparkException) as error:
        raise _reason(context, error) from error
    finally:
        context.spark.streams.removeListener(listener)
    return {**listener.totals.summary(), "batches_metrics": list(listener.batches)}


def _after(steps: Steps | None, batch: DataFrame, batch_id: int, process: Process) -> dict[str, Any]:
    """Process a batch after the steps; return what both counted."""
    if steps is None or steps.are_none:
        return process(batch, batch_id) or {}
    batch.persist()
    try:
        after, counts = steps.applied(batch)
        return counts | (process(after, batch_id) or {})
    finally:
        batch.unpersist()


def _reason(context: Context, error: Exception) -> PipelineError:
    """Return what ended the stream; offsets that a topic does not have may be those of an earlier one of its name."""
    meaning = in_words(error)
    if isinstance(meaning, DataLoss | UnknownTopic):
        try:
            context.kafka.require_same_topics()
        except CheckpointError as replaced:
            return replaced
        except PipelineError:
            pass  # what Spark says comes first
    return meaning


def _with_trigger(writer: Any, trigger: str) -> Any:
    if trigger.startswith(REALTIME):
        return writer.trigger(realTime=trigger.removeprefix(REALTIME).strip() or REALTIME_BATCH)
    if trigger == "available-now":
        return writer.trigger(availableNow=True)
    if trigger == "asap":
        return writer
    return writer.trigger(processingTime=trigger)


def _wait(query: StreamingQuery, context: Context) -> None:
    while not context.stop.is_set():
        if query.awaitTermination(POLL_S):  # type: ignore[arg-type]  # it takes parts of seconds, too
            return
    deadline = time.monotonic() + context.settings.stop_timeout_s
    if context.settings.is_realtime:  # a batch is always under way: what it has written counts when it ends
        last = _last_batch(query)
        while query.isActive and _last_batch(query) == last and time.monotonic() < deadline:
            time.sleep(POLL_S / 10)
        return
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(POLL_S / 10)


def _last_batch(query: StreamingQuery) -> int:
    """Return the number of the last batch that has ended; -1 before the first."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
