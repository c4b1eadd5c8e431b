"""A topic as a table, as it is. Rule: every record is there once, with all that Kafka knows of it, so the table can
stand for the topic when the topic has forgotten: `silver --from-bronze` reads it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline import checkpoints, source, tables, topics
from pipeline.context import Context
from pipeline.files import AnyFiles, Files
from pipeline.kafka import Kafka
from pipeline.parts import parts_of
from pipeline.runner import run_stream
from pipeline.settings import Settings

JOB = "bronze"


def table_path(settings: Settings) -> str:
    return settings.path(JOB)


def claimed(files: AnyFiles, settings: Settings, kafka: Kafka) -> checkpoints.Claim:
    return checkpoints.claim(files, settings, kafka, JOB, output=table_path(settings))


def run(context: Context) -> dict[str, Any]:
    settings, path, files = context.settings, table_path(context.settings), Files(context.spark)
    claim = claimed(files, settings, context.kafka)
    claim.take(files)
    records = topics.read_stream(context.spark, settings, settings.bronze_topic)
    frame = records.observe("read", F.count(F.lit(1)).alias("rows"))
    table = parts_of(context, path, owner=claim.id)

    def process(batch: DataFrame, batch_id: int) -> None:
        table.append(batch, (tables.BATCH, batch_id))

    done = run_stream(context, JOB, frame, process, claim.path, output=path)
    counts = {name: done[name] for name in ("batches", "rows", "batches_metrics")}
    return {**counts, "table": path, "topic": source.name_of(settings.source, settings.bronze_topic)}
