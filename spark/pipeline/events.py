"""From records to events. Rule: no record disappears here; one that is no event carries the reason."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DateType,
    IntegralType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pipeline import topics
from pipeline.errors import SchemaError
from pipeline.settings import Settings

CORRUPT = "_corrupt"
REASON = "_reason"
SOURCE_ID = "_source_id"  # topic/partition/offset
ORIGIN = ["_topic", "_partition", "_offset"]
ID = "_known_id"
OWN = [*ORIGIN, "_key", "_value", "_timestamp", "_headers", "_event", SOURCE_ID, REASON, CORRUPT, ID]
ID_TYPES = (StringType, IntegralType, TimestampType, DateType)
NOT_OF_SCHEMA = "not JSON of the schema"
EMPTY = "empty value"


def event_schema(spark: SparkSession, settings: Settings) -> StructType:
    try:
        schema = spark.createDataFrame([], settings.schema).schema
    except (ParseException, AnalysisException) as error:
        raise SchemaError(f"schema is no list of columns as DDL: {str(error).strip().splitlines()[0]}") from error
    _require(schema, settings.id_column, ID_TYPES, "id_column", "a STRING, a whole number or a time")
    _require(schema, settings.time_column, TimestampType, "time_column", "a TIMESTAMP")
    require_free(schema, OWN, "the pipeline needs for itself")
    return schema


def _require(schema: StructType, column: str, kind: type | tuple[type, ...], setting: str, words: str) -> None:
    found = {field.name: field.dataType for field in schema.fields}
    if column not in found:
        raise SchemaError(f"schema has no column {column}, which {setting} names; it has {', '.join(found)}")
    if not isinstance(found[column], kind):
        raise SchemaError(f"{setting} {column} is {found[column].simpleString()}, and has to be {words}")


def require_free(schema: StructType, names: Iterable[str], whose: str) -> None:
    """Refuse a column that would hide one of ours, or be hidden by it; Spark knows no upper and lower case."""
    taken = {name.lower() for name in names}
    for field in schema.fields:
        if field.name.lower() in taken:
            raise SchemaError(f"schema has a column {field.name}, a name that {whose}")


def require_group_and_value(schema: StructType, settings: Settings) -> None:
    """What the aggregation needs beyond id and time."""
    _require(schema, settings.group_column, StringType, "group_column", "a STRING")
    _require(schema, settings.value_column, NumericType, "value_column", "a number")


def source_id() -> Column:
    return F.concat_ws("/", F.col("topic"), F.col("partition"), F.col("offset"))


def parse(records: DataFrame, schema: StructType, settings: Settings) -> DataFrame:
    """Kafka's columns as `_key`, `_value`, ..., the event's columns, and the reason why it is none (or null)."""
    target = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    read = records.select(
        F.col("key").alias("_key"),
        F.col("value").alias("_value"),
        *(F.col(name.removeprefix("_")).alias(name) for name in ORIGIN),
        F.col("timestamp").alias("_timestamp"),
        topics.foreign_headers().alias("_headers"),
        source_id().alias(SOURCE_ID),
        F.from_json(F.col("value").cast("string"), target, options).alias("_event"),
    )
    event = F.col("_event")
    reason = (
        F.when(F.coalesce(F.length("_value"), F.lit(0)) == 0, EMPTY)
        .when(event.isNull() | event[CORRUPT].isNotNull(), NOT_OF_SCHEMA)
        .when(event[settings.id_column].isNull(), f"no {settings.id_column}")
        .when(event[settings.time_column].isNull(), f"no {settings.time_column}")
    )
    columns = [event[field.name].alias(field.name) for field in schema.fields]
    headers = F.when(F.col(REASON).isNotNull(), F.col("_headers")).alias("_headers")  # nobody asks for an event's
    return read.select("*", reason.alias(REASON)).select(
        "_key", "_value", headers, *ORIGIN, "_timestamp", SOURCE_ID, REASON, *columns
    )


def deduplicated(parsed: DataFrame, settings: Settings) -> DataFrame:
    """Each event once, and none that is older than the watermark; what is no event passes untouched.

    A record that is no event has no time, so it neither moves the watermark nor is it ever late, and its own
    coordinates as id, so it is nobody's duplicate.
    """
    is_event = F.col(REASON).isNull()
    return (
        parsed.withColumn(ID, F.when(is_event, F.col(settings.id_column).cast("string")).otherwise(F.col(SOURCE_ID)))
        .withColumn(settings.time_column, F.when(is_event, F.col(settings.time_column)))
        .withWatermark(settings.time_column, settings.watermark)
        .dropDuplicatesWithinWatermark([ID])
    )


def observe_read(parsed: DataFrame, schema: StructType) -> DataFrame:
    """Row counts and the nulls of every column, as metrics of the batch."""
    is_event = F.col(REASON).isNull()
    nulls = [
        F.count(F.when(is_event & F.col(field.name).isNull(), 1)).alias(f"null_{field.name}") for field in schema.fields
    ]
    rejected = F.count(F.when(~is_event, 1)).alias("rejected")
    return parsed.observe("read", F.count(F.lit(1)).alias("rows"), rejected, *nulls)


def observe_accepted(frame: DataFrame) -> DataFrame:
    return frame.observe("accepted", F.count(F.when(F.col(REASON).isNull(), 1)).alias("rows"))
