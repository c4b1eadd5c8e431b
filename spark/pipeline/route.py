"""Topic to topic, record by record. Rule: every record arrives once at least, a good one in the topic `--to-topic`, a
refused one among the dead letters with its reason; the order of a partition is kept for each of the two.

It is the job for `--trigger realtime`: Spark's real-time mode writes a record milliseconds after it has come, by tasks
that stay, one for each partition of the topic; so as many cores have to be free. Spark commits its offsets at the end
of each batch, and what came after the last one is written again after a crash, with the same `pipeline-id` header.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pyspark import __version__ as PYSPARK_VERSION
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline import checkpoints, events, letters, rules, source, topics
from pipeline.context import Context
from pipeline.errors import SettingsError
from pipeline.files import AnyFiles, Files
from pipeline.kafka import Kafka
from pipeline.runner import run_query
from pipeline.settings import Settings

JOB = "route"
FIRST_WITH_REALTIME = (4, 2)


def version_of(text: str) -> tuple[int, ...]:
    """Return major and minor."""
    return tuple(int(part) for part in text.split(".")[:2])


def check(settings: Settings) -> None:
    if settings.is_realtime and version_of(PYSPARK_VERSION) < FIRST_WITH_REALTIME:
        raise SettingsError(f"trigger realtime needs PySpark 4.2, and this is {PYSPARK_VERSION}")
    if not settings.to_topic:
        raise SettingsError("to_topic is not set: the topic that good records go to")
    for name in ("bronze_topic", "dead_letter_topic", "metrics_topic"):
        if getattr(settings, name) == settings.to_topic:
            raise SettingsError(f"to_topic and {name} are both {settings.to_topic}, and have to be different topics")
    source.check(settings.source, settings.bronze_topic, [settings.to_topic])


def writes(settings: Settings) -> list[str]:
    return [settings.to_topic, settings.dead_letter_topic]


def routed(judged: DataFrame, settings: Settings, letter_limit: int) -> DataFrame:
    """Return `topic`, `key`, `value` and `headers` of the records to write."""
    both = letters.dead_letters(judged, letter_limit, keep=["_key", "_value", "_headers", events.REASON])
    is_good = F.col(events.REASON).isNull()
    chosen = [
        F.when(is_good, F.col(f"_{name}")).otherwise(F.col(name)).alias(name) for name in ("key", "value", "headers")
    ]
    topic = F.when(is_good, settings.to_topic).otherwise(settings.dead_letter_topic).alias("topic")
    return topics.with_id_header(both.select(topic, *chosen, events.SOURCE_ID), events.SOURCE_ID)


def require_cores(context: Context) -> None:
    """Refuse a topic with more partitions than there are cores: in real-time mode some would never be read.

    Raises:
        SettingsError: there are too few.
    """
    cores = context.spark.sparkContext.defaultParallelism
    partitions = len(context.kafka.partitions(context.settings.bronze_topic))
    if partitions > cores:
        raise SettingsError(
            f"topic {context.settings.bronze_topic} has {partitions} partitions, and Spark {cores} cores: in real-time "
            "mode every partition needs one (see master)"
        )


def claimed(files: AnyFiles, settings: Settings, kafka: Kafka) -> checkpoints.Claim:
    return checkpoints.claim(files, settings, kafka, JOB)


def run(context: Context) -> dict[str, Any]:
    settings, files = context.settings, Files(context.spark)
    schema = events.event_schema(context.spark, settings)
    rules.require(settings.rules, schema, context.spark)
    if settings.is_realtime:
        require_cores(context)
        settings = dataclasses.replace(settings, max_offsets_per_trigger=0)  # Spark refuses a limit there
    claim = claimed(files, settings, context.kafka)
    for topic in writes(settings):
        context.kafka.ensure_topic(topic)
    letter_limit = letters.limit(settings, context.kafka)
    claim.take(files)
    records = topics.read_stream(context.spark, settings, settings.bronze_topic)
    parsed = events.parse(records, schema, settings, with_headers=True)
    judged = events.observe_read(rules.judged(parsed, settings.rules), schema, settings)
    frame = routed(judged, settings, letter_limit)
    sink = {**topics.sink_options(settings), "includeHeaders": "true"}
    writer = frame.writeStream.format("kafka").options(**sink).outputMode("update")
    done = run_query(context, JOB, writer, claim.path, output=settings.to_topic)
    return {**done, "to_topic": settings.to_topic}
