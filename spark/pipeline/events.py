"""From records to events. Rule: no record disappears here; one that is no event carries the reason."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipeline import decoding, topics
from pipeline.errors import SchemaError
from pipeline.settings import JSON, Settings
from pipeline.tables import quoted

CORRUPT = "_corrupt"
REASON = "_reason"
SOURCE_ID = "_source_id"  # topic/partition/offset
ORIGIN = ["_topic", "_partition", "_offset"]
PLACE = ["_timestamp", "_partition", "_offset", "_topic"]  # the order of records with one id: the first of them counts
NONCE = secrets.token_hex(8)  # drawn for each run, so no record can name the two columns that follow
WRAPPER, END = f"_record_{NONCE}", f"_end_{NONCE}"
TEXT, FAULT = "_text", "_fault"  # the value as JSON, and the reason why there is none
OWN = [*ORIGIN, "_key", "_value", "_timestamp", "_headers", "_event", SOURCE_ID, REASON, CORRUPT, WRAPPER, END]
NOW = "_batch_time"
OWN += ["_decoded", TEXT, FAULT, NOW]
ID_TYPES = (T.StringType, T.IntegralType, T.TimestampType, T.DateType)
NOT_OF_SCHEMA = "not one JSON object of the schema"
NOT_OF_COLUMNS = "has fields of other types than the schema"
NOT_TEXT = "not UTF-8"
EMPTY = "empty value"
OUTSIDE_YEARS = "is outside the years 1 to 9999"  # the range of Python's dates and of SQL's texts
YEAR_1, YEAR_10000 = "TIMESTAMP'0001-01-01 00:00:00'", "TIMESTAMP'+10000-01-01 00:00:00'"
PAIRS = r"(?i)\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}"  # what \\ud may be a part of
SURROGATE = r"(?i)\\ud[89a-f]"


def event_schema(spark: SparkSession, settings: Settings) -> T.StructType:
    """Return the columns of an event; the last one keeps unknown fields, if the settings ask for it."""
    try:
        schema = spark.createDataFrame([], settings.schema).schema
    except (ParseException, AnalysisException) as error:
        raise SchemaError(f"schema is no list of columns as DDL: {str(error).strip().splitlines()[0]}") from error
    names = [name.lower() for name in schema.names]
    if doubled := [name for name in schema.names if names.count(name.lower()) > 1]:
        raise SchemaError(f"schema has the columns {', '.join(doubled)}, and Spark knows no upper and lower case")
    _require(schema, settings.id_column, ID_TYPES, "id_column", "a STRING, a whole number or a time")
    _require(schema, settings.time_column, T.TimestampType, "time_column", "a TIMESTAMP")
    require_free(schema, OWN, "the pipeline needs for itself")
    decoding.require(settings)
    if not settings.unknown_fields:
        return schema
    require_free(schema, [settings.unknown_fields], "is that of unknown_column")
    return T.StructType([*schema.fields, T.StructField(settings.unknown_fields, T.StringType())])


def _require(schema: T.StructType, column: str, kind: type | tuple[type, ...], setting: str, words: str) -> None:
    found = {field.name: field.dataType for field in schema.fields}
    if column not in found:
        raise SchemaError(f"schema has no column {column}, which {setting} names; it has {', '.join(found)}")
    if not isinstance(found[column], kind):
        raise SchemaError(f"{setting} {column} is {found[column].simpleString()}, and has to be {words}")


def require_free(schema: T.StructType, names: Iterable[str], whose: str) -> None:
    """Refuse a column that would hide one of ours, or be hidden by it; Spark knows no upper and lower case."""
    taken = {name.lower() for name in names}
    for field in schema.fields:
        if field.name.lower() in taken:
            raise SchemaError(f"schema has a column {field.name}, a name that {whose}")


def require_group_and_value(schema: T.StructType, settings: Settings) -> None:
    """Refuse a schema without the columns that the aggregation needs beyond id and time."""
    _require(schema, settings.group_column, T.StringType, "group_column", "a STRING")
    _require(schema, settings.value_column, T.NumericType, "value_column", "a number")


def source_id() -> Column:
    return F.concat_ws("/", F.col("topic"), F.col("partition"), F.col("offset"))


def parse(records: DataFrame, schema: T.StructType, settings: Settings, *, with_headers: bool = False) -> DataFrame:
    """Kafka's columns as `_key`, `_value`, ..., the event's columns, and the reason why it is none (or null).
    `with_headers`: keep the headers of good events, too; those of refused records are always there."""
    is_json = settings.value_format == JSON
    if not is_json:
        records = records.withColumn("_decoded", decoding.decoded(F.col("value"), settings))
    read = records.select(
        F.col("key").alias("_key"),
        F.col("value").alias("_value"),
        *(F.col(name.removeprefix("_")).alias(name) for name in ORIGIN),
        F.col("timestamp").alias("_timestamp"),
        topics.foreign_headers().alias("_headers"),
        source_id().alias(SOURCE_ID),
        F.col("value").cast("string").alias(TEXT) if is_json else F.col("_decoded.text").alias(TEXT),
        F.lit(None).cast("string").alias(FAULT) if is_json else F.col("_decoded.reason").alias(FAULT),
        # Of the batch, so a number in its code: here few lines are compiled anew for each batch, and not all below.
        F.current_timestamp().alias(NOW),
    )
    parsed = T.StructType([field for field in schema.fields if field.name != settings.unknown_fields])
    read = read.select("*", _wrapped(parsed).alias("_event"))
    objects = F.col(f"_event.{WRAPPER}")
    event, is_alone = F.get(objects, F.lit(0)), (F.size(objects) == 2) & F.get(objects, F.lit(1))[END].isNotNull()
    is_one = F.col("_event").isNotNull() & F.col(f"_event.{CORRUPT}").isNull() & event.isNotNull() & is_alone
    reason = (
        F.when(F.coalesce(F.length("_value"), F.lit(0)) == 0, EMPTY)
        .when(F.col(FAULT).isNotNull(), F.col(FAULT))
        .when(~_is_text(F.col(TEXT)), NOT_TEXT)
        .when(~F.coalesce(is_one, F.lit(False)), NOT_OF_SCHEMA if is_json else NOT_OF_COLUMNS)
        .when(event[settings.id_column].isNull(), f"no {settings.id_column}")
        .when(event[settings.time_column].isNull(), f"no {settings.time_column}")
    )
    reason = _with_bounds(reason, event[settings.time_column], settings)
    columns = [event[field.name].alias(field.name) for field in parsed.fields]
    if settings.unknown_fields:
        columns.append(_unknown(parsed).alias(settings.unknown_fields))
    headers = F.when(F.col(REASON).isNotNull() | F.lit(with_headers), F.col("_headers")).alias("_headers")
    return read.select("*", reason.alias(REASON)).select(
        "_key", "_value", headers, *ORIGIN, "_timestamp", SOURCE_ID, REASON, *columns
    )


def _wrapped(schema: T.StructType) -> Column:
    """Parse the value as the first of two elements of a JSON array.

    Spark's parser stops where the first JSON value ends, and what follows is lost without a word. Here an object of
    ours follows; where it is not the second element, there was something else beside the event. A value may close the
    array and go on in the object around it, but only who knows the array's key could repeat it, or our object's.
    """
    element = T.StructType([*schema.fields, T.StructField(END, T.BooleanType())])
    target = T.StructType([T.StructField(WRAPPER, T.ArrayType(element)), T.StructField(CORRUPT, T.StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "allowSingleQuotes": "false"}
    value, last = F.col(TEXT), F.lit(f',{{"{END}":true}}]}}')
    return F.from_json(F.concat(F.lit(f'{{"{WRAPPER}":['), value, last), target, options)


def _unknown(schema: T.StructType) -> Column:
    """Return the fields of the text that the schema lacks, as a JSON object of texts; null where there are none."""
    fields = F.map_entries(F.from_json(F.col(TEXT), T.MapType(T.StringType(), T.StringType())))
    lacking = F.filter(fields, lambda field: ~field["key"].isin(schema.names))
    kept = F.filter(lacking, lambda field: field["value"].isNotNull())
    members = F.transform(kept, lambda field: _member(field["key"], field["value"]))  # a name may be there twice
    return F.when(F.size(kept) > 0, F.concat(F.lit("{"), F.array_join(members, ","), F.lit("}")))


def _member(name: Column, value: Column) -> Column:
    """Return `"name":"value"`, escaped."""
    whole = F.to_json(F.create_map(name, value))
    return whole.substr(F.lit(2), F.length(whole) - 2)


def _is_utf8(value: Column) -> Column:
    return F.format_string("%s", value).eqNullSafe(value)  # through Java's strings, which replace what is broken


def _is_text(value: Column) -> Column:
    """Return whether all of it can be stored: broken UTF-8, and halves of a pair (`\\ud83d`), would be replaced."""
    return _is_utf8(value) & (~value.rlike(SURROGATE) | ~F.regexp_replace(value, PAIRS, "").rlike(SURROGATE))


def as_text(name: str) -> Column:
    """Return bytes as text, or where they are none, as `\\x` and hexadecimal digits."""
    text = F.col(name).cast("string")
    return F.when(text.isNull() | _is_utf8(text), text).otherwise(F.concat(F.lit("\\x"), F.lower(F.hex(name))))


def _with_bounds(reason: Column, time: Column, settings: Settings) -> Column:
    """Refuse times that no event has: of another unit, or of a clock that is wrong; and those whose dates the tables'
    writers can't know. A record without a timestamp, as old clients write them, is as old as the batch."""
    written = F.when(F.col("_timestamp") > F.timestamp_seconds(F.lit(0)), F.col("_timestamp"))
    written = F.coalesce(written, F.col(NOW))
    ahead, behind = (F.expr(f"INTERVAL {limit}") for limit in (settings.max_ahead, settings.max_behind))
    words = f"{settings.time_column} is more than {{}} {{}} the record's timestamp"
    return (
        reason.when(time > written + ahead, words.format(settings.max_ahead, "after"))
        .when(time < written - behind, words.format(settings.max_behind, "before"))
        .when((time < F.expr(YEAR_1)) | (time >= F.expr(YEAR_10000)), f"{settings.time_column} {OUTSIDE_YEARS}")
    )


def first_of_each_id(events: DataFrame, id_column: str) -> DataFrame:
    """Keep one event of each id: the same one, in whatever order Spark comes by them."""
    number = F.row_number().over(Window.partitionBy(quoted(id_column)).orderBy(*PLACE)).alias("_number")
    return events.select("*", number).where(F.col("_number") == 1).drop("_number")


def observe_read(parsed: DataFrame, schema: T.StructType, settings: Settings) -> DataFrame:
    """Count rows, the nulls of every column and the events with unknown fields, as metrics of the batch."""
    is_event = F.col(REASON).isNull()
    names = [name for name in schema.names if name != settings.unknown_fields]
    counts = [F.count(F.when(is_event & F.col(quoted(name)).isNull(), 1)).alias(f"null_{name}") for name in names]
    if settings.unknown_fields:
        counts.append(F.count(F.when(is_event, F.col(quoted(settings.unknown_fields)))).alias("unknown"))
    rejected = F.count(F.when(~is_event, 1)).alias("rejected")
    return parsed.observe("read", F.count(F.lit(1)).alias("rows"), rejected, *counts)
