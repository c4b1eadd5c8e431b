"""Bronze to silver. Rule: every record of the topic ends as a row of the table, as a dead letter with its reason, or as
a duplicate, and a batch that is repeated after a crash replaces what it had written (see `ledger.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from pipeline import checkpoints, events, journal, letters, rules, tables, topics
from pipeline.context import Context
from pipeline.errors import SchemaError
from pipeline.files import AnyFiles, Files
from pipeline.kafka import Kafka
from pipeline.ledger import LedgerNames
from pipeline.merged import ledger_of
from pipeline.parts import parts_of
from pipeline.runner import run_stream
from pipeline.settings import Settings
from pipeline.steps import Steps
from pipeline.tables import BATCH, quoted

JOB = "silver"
LETTERS_BEGIN = "letters_begin"  # in the note of the checkpoint's owner


def reads(settings: Settings) -> list[str]:
    return [] if settings.from_bronze else [settings.bronze_topic]


def writes(settings: Settings) -> list[str]:
    return [settings.dead_letter_topic]


def table_path(settings: Settings) -> str:
    return settings.path("silver")


class Silver:
    """The step that writes a batch to the table and to the dead letters."""

    def __init__(
        self, context: Context, schema: StructType, letter_limit: int, letters_begin: Mapping[int, int]
    ) -> None:
        """letters_begin: the offsets of the dead letters' topic when the checkpoint was new, by partition."""
        settings = context.settings
        self._context, self._letter_limit, self._letters_begin = context, letter_limit, letters_begin
        self._settings = settings
        self._columns = [quoted(name) for name in schema.names]
        names = LedgerNames(settings.id_column, settings.time_column, settings.date_column)
        read_again = StructType([field for field in schema.fields if field.name in (names.id, names.time)])
        origin = [field for field in topics.record_schema(context.spark).fields if f"_{field.name}" in events.ORIGIN]
        whole = StructType([*schema.fields, *(StructField(f"_{field.name}", field.dataType) for field in origin)])
        self.ledger = ledger_of(context, table_path(settings), names, whole, read_again)
        self._quarantine = parts_of(context, rules.quarantine_path(settings))
        self._first = True  # only the first batch of a run can be one that was begun before

    def __call__(self, batch: DataFrame, batch_id: int) -> dict[str, Any]:
        batch.persist()
        try:
            found = batch.where(F.col(events.REASON).isNull()).select(*self._columns, "_timestamp", *events.ORIGIN)
            added = self.ledger.add(found, batch_id)
            if self._settings.rules:
                rules.quarantine(self._quarantine, batch, batch_id)
            rejected = batch.where(F.col(events.REASON).isNotNull() & ~rules.breaks_rules())
            if not rejected.isEmpty():
                self._write_dead_letters(rejected)
        finally:
            batch.unpersist()
        self._first = False
        return added.counts

    def _write_dead_letters(self, rejected: DataFrame) -> None:
        topic = self._settings.dead_letter_topic
        dead = letters.dead_letters(rejected, self._letter_limit)
        if self._first:
            context = self._context
            dead = topics.without_present(
                context.spark, self._settings, context.kafka, dead, topic, events.SOURCE_ID, self._letters_begin
            )
        topics.append(topics.with_id_header(dead, events.SOURCE_ID), self._settings, topic)


def check_table(context: Context, schema: StructType) -> None:
    """New columns are welcome (older rows have null there); a column of another type is not."""
    spark, path = context.spark, table_path(context.settings)
    try:
        stored = journal.despite_swaps(Files(spark), path, lambda: tables.read(spark, path).schema)
    except AnalysisException:
        return  # no table, or one without rows
    found = {field.name.lower(): field for field in stored.fields}  # Spark knows no upper and lower case
    for field in schema.fields:
        present = found.get(field.name.lower(), field)
        if (present.name, present.dataType) != (field.name, field.dataType):
            raise SchemaError(
                f"column {field.name} is {field.dataType.simpleString()} in the schema, and "
                f"{present.name} is {present.dataType.simpleString()} in the table {path}"
            )


def claimed(files: AnyFiles, settings: Settings, kafka: Kafka) -> checkpoints.Claim:
    tables.require_format(files, settings, rules.quarantine_path(settings))
    return checkpoints.claim(files, settings, kafka, JOB, output=table_path(settings), bronze=settings.from_bronze)


def run(context: Context) -> dict[str, Any]:
    settings, files = context.settings, Files(context.spark)
    schema = events.event_schema(context.spark, settings)
    steps = Steps(context, schema)
    events.require_free(steps.schema, [settings.date_column, BATCH], "the table is partitioned by (see date_column)")
    check_table(context, steps.schema)
    claim = claimed(files, settings, context.kafka)
    context.kafka.ensure_topic(settings.dead_letter_topic)
    letter_limit = letters.limit(settings, context.kafka)
    if claim.is_new:  # letters before are of others, or of an earlier topic of the name, at the same offsets
        ends = {partition: end for partition, (_, end) in context.kafka.ranges(settings.dead_letter_topic).items()}
        claim.owner[LETTERS_BEGIN] = json.dumps(ends)
    claim.take(files)
    records = (
        tables.read_stream_of_records(context.spark, settings, settings.from_bronze)
        if settings.from_bronze
        else topics.read_stream(context.spark, settings, settings.bronze_topic)
    )
    frame = events.observe_read(events.parse(records, schema, settings), schema, settings)
    begin = {int(index): offset for index, offset in json.loads(claim.owner.get(LETTERS_BEGIN, "{}")).items()}
    process = Silver(context, steps.schema, letter_limit, begin)
    try:
        done = run_stream(context, JOB, frame, process, claim.path, output=table_path(settings), steps=steps)
    finally:
        process.ledger.close()
    return {**done, "table": table_path(settings), "dead_letters": settings.dead_letter_topic}
