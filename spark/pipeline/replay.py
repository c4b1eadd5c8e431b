"""Backfill: a bounded part of a topic once more, into a table or into another topic. Rule: the bounds are turned into
offsets before anything is read, and the same bounds give the same result however often they are replayed.

Into a table: a replay is a part of it that is named after the offsets, and is replaced whole. Into a topic: every
record carries where it came from, and what is there already is left out. Times are those of the records (what the
brokers' time index knows).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from pipeline import events, tables, topics
from pipeline.context import Context
from pipeline.errors import SettingsError
from pipeline.files import Files
from pipeline.parts import parts_of
from pipeline.settings import PARQUET, Settings

PART = "replay"  # the column, and the folder of the table where the settings name none
Ranges = dict[int, tuple[int, int]]


def source_topic(settings: Settings) -> str:
    return settings.topic or settings.bronze_topic


def reads(settings: Settings) -> list[str]:
    return [source_topic(settings)]


def writes(settings: Settings) -> list[str]:
    return [settings.to_topic] if settings.to_topic else []


def check(settings: Settings) -> None:
    for end in ("from", "to"):
        if getattr(settings, f"{end}_offsets") and getattr(settings, f"{end}_timestamp"):
            raise SettingsError(f"{end}_offsets and {end}_timestamp are both set, and one of them has to decide")
        parse_offsets(getattr(settings, f"{end}_offsets"), f"{end}_offsets")
        parse_timestamp(getattr(settings, f"{end}_timestamp"), f"{end}_timestamp")
    if settings.to_topic and settings.to_path:
        raise SettingsError("to_topic and to_path are both set, and a replay goes to one of them")
    if settings.to_topic == source_topic(settings):
        raise SettingsError("to_topic is the topic that is read: the replay would feed itself")


def parse_offsets(text: str, name: str) -> dict[int, int] | None:
    if not text:
        return None
    try:
        found = json.loads(text, parse_float=str, parse_constant=str)  # fractions are refused, and not cut
        return {int(partition): int(offset) for partition, offset in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise SettingsError(f'{name} is {text!r}, and has to be like {{"0": 100, "1": 250}}') from error


def parse_timestamp(text: str, name: str) -> int | None:
    """Return milliseconds; a time without a zone is UTC."""
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(f"{name} is {text!r}, and has to be like 2024-05-01T12:00:00Z") from error
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def resolve(context: Context) -> Ranges:
    """Return the offsets that are meant, within what the topic has."""
    settings, topic = context.settings, source_topic(context.settings)
    present = context.kafka.ranges(topic)
    first = _bound(context, settings.from_offsets, settings.from_timestamp, "from")
    end = _bound(context, settings.to_offsets, settings.to_timestamp, "to")
    for partition in (first or {}).keys() | (end or {}).keys():
        if partition not in present:
            raise SettingsError(f"topic {topic} has no partition {partition}; it has {', '.join(map(str, present))}")
    return {p: _within(low, high, (first or {}).get(p), (end or {}).get(p)) for p, (low, high) in present.items()}


def _bound(context: Context, offsets: str, timestamp: str, name: str) -> Mapping[int, int] | None:
    milliseconds = parse_timestamp(timestamp, f"{name}_timestamp")
    if milliseconds is not None:
        return context.kafka.offsets_at(source_topic(context.settings), milliseconds)
    return parse_offsets(offsets, f"{name}_offsets")


def _within(low: int, high: int, first: int | None, end: int | None) -> tuple[int, int]:
    begin = low if first is None else min(max(first, low), high)
    return begin, max(begin, high if end is None else min(end, high))


def name_of(topic: str, ranges: Ranges) -> str:
    return hashlib.sha256(json.dumps([topic, sorted(ranges.items())]).encode()).hexdigest()[:16]


def run(context: Context) -> dict[str, Any]:
    settings = context.settings
    context.kafka.remember(source_topic(settings))
    ranges = resolve(context)
    summary = {
        "topic": source_topic(settings),
        "ranges": {partition: list(bounds) for partition, bounds in ranges.items()},
        "offsets": sum(end - first for first, end in ranges.values()),
    }
    if settings.to_topic:
        return {**summary, "to_topic": settings.to_topic, "written": _to_topic(context, ranges)}
    return {**summary, **_to_table(context, ranges)}


def _to_topic(context: Context, ranges: Ranges) -> int:
    settings, spark = context.settings, context.spark
    context.kafka.ensure_topic(settings.to_topic)
    records = topics.read_range(spark, settings, source_topic(settings), ranges)
    foreign = topics.foreign_headers().alias("headers")
    marked = records.select("key", "value", foreign, events.source_id().alias("id"), "partition", "offset")
    new = topics.without_present(spark, settings, context.kafka, marked, settings.to_topic, "id")
    ordered = new.repartition("partition").sortWithinPartitions("partition", "offset").drop("partition", "offset")
    ready = topics.with_id_header(ordered, "id").persist()
    try:
        written = ready.count()
        context.kafka.require_same_topics()
        if written:
            topics.append(ready, settings, settings.to_topic)
    finally:
        ready.unpersist()
    return written


def _to_table(context: Context, ranges: Ranges) -> dict[str, Any]:
    settings, spark = context.settings, context.spark
    schema, date = events.event_schema(spark, settings), settings.date_column
    events.require_free(schema, [date, PART], "the table is partitioned by (see date_column)")
    path, part = settings.to_path or settings.path(PART), (PART, name_of(source_topic(settings), ranges))
    tables.require_format(Files(spark), settings, path)
    records = topics.read_range(spark, settings, source_topic(settings), ranges)
    parsed = events.parse(records, schema, settings).persist()
    try:
        read = parsed.agg(F.count(F.lit(1)).alias("rows"), F.count(events.REASON).alias("rejected")).first()
        accepted = parsed.where(F.col(events.REASON).isNull())
        rows = events.first_of_each_id(accepted, settings.id_column).withColumn(
            date, F.to_date(tables.quoted(settings.time_column))
        )
        rows = rows.select(*map(tables.quoted, schema.names), *events.ORIGIN, date)
        table = parts_of(context, path, [PART, date])
        table.replace(rows, part)
    finally:
        parsed.unpersist()
    to_path = f"{path}/{PART}={part[1]}" if settings.table_format == PARQUET else path
    written = table.rows(part, rows.schema).count()
    assert read is not None
    counts = {"rows": read.rows, "rejected": read.rejected, "duplicates": read.rows - read.rejected - written}
    return {"to_path": to_path, PART: part[1], **counts, "written": written}
