"""Topics as Spark reads and writes them. Rule: a reader sees committed records only, and misses none in silence, unless
the settings say otherwise; an append with ids puts a record into the topic once, however often it is repeated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipeline import source
from pipeline.kafka import Kafka
from pipeline.settings import Settings

ID_HEADER = "pipeline-id"
HEADERS = "array<struct<key: string, value: binary>>"
RECORD = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    f"headers {HEADERS}"
)
EARLIEST = -2
# Kafka's admin client, which Spark asks for offsets, sticks to a leader that has died until its call is over: 60 s by
# default. Here a call is over after 15 s, and is repeated for as long as before: 12 times and not 3.
FAILOVER_TIMEOUTS = ("request.timeout.ms", "default.api.timeout.ms")
FAILOVER = {"fetchOffset.numRetries": "12", **{f"kafka.{name}": "15000" for name in FAILOVER_TIMEOUTS}}


def _options(settings: Settings) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "failOnDataLoss": str(settings.fail_on_data_loss).lower(),
        "kafka.isolation.level": settings.isolation_level,
        "groupIdPrefix": "pipeline",
        "includeHeaders": "true",
        **({} if settings.kafka.keys() & FAILOVER_TIMEOUTS else FAILOVER),
        **{f"kafka.{key}": value for key, value in settings.java_config.items()},
    }


def read_stream(
    spark: SparkSession, settings: Settings, topic: str, starting: Mapping[int, int] | None = None
) -> DataFrame:
    """Return a stream. starting: offsets by partition, which win over the setting; a checkpoint wins over both."""
    options = _options(settings) | source.stream_options(settings.source, topic, settings.starting_offsets, starting)
    if settings.max_offsets_per_trigger:
        options["maxOffsetsPerTrigger"] = str(settings.max_offsets_per_trigger)
    return spark.readStream.format("kafka").options(**options).load()


def read_range(spark: SparkSession, settings: Settings, topic: str, ranges: Mapping[int, tuple[int, int]]) -> DataFrame:
    """Return a batch of exactly these offsets, the ends exclusive."""
    first = {str(partition): begin for partition, (begin, _) in ranges.items()}
    ends = {str(partition): end for partition, (_, end) in ranges.items()}
    options = _options(settings) | source.read_options(settings.source) | {"subscribe": topic}
    options |= {"startingOffsets": json.dumps({topic: first}), "endingOffsets": json.dumps({topic: ends})}
    return spark.read.format("kafka").options(**options).load()


def no_records(spark: SparkSession) -> DataFrame:
    """Return a frame with the columns of a topic, and without rows."""
    return spark.createDataFrame([], RECORD)


def record_schema(spark: SparkSession) -> StructType:
    """Return the columns of a topic."""
    return no_records(spark).schema


def header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def foreign_headers() -> Column:
    """Return the headers without our id, which is that of the record that was read."""
    return F.expr(f"filter(headers, h -> h.key != '{ID_HEADER}')")


def with_headers(present: Column, own: list[Column]) -> Column:
    return F.concat(F.coalesce(present, F.array().cast(HEADERS)), F.array(*own))


def sink_options(settings: Settings) -> dict[str, str]:
    """Return what every sink needs."""
    clients = {f"kafka.{key}": value for key, value in settings.java_config.items()}
    return {"kafka.bootstrap.servers": settings.bootstrap_servers, **clients}


def append(frame: DataFrame, settings: Settings, topic: str) -> None:
    """Write `key`, `value` and, if there are any, `headers`."""
    own = {"topic": topic, "includeHeaders": str("headers" in frame.columns).lower()}
    frame.write.format("kafka").options(**sink_options(settings), **own).save()


def with_id_header(frame: DataFrame, id_column: str) -> DataFrame:
    headers = with_headers(F.col("headers"), [header(ID_HEADER, F.col(id_column))])
    return frame.withColumn("headers", headers).drop(id_column)


def without_present(
    spark: SparkSession,
    settings: Settings,
    kafka: Kafka,
    frame: DataFrame,
    topic: str,
    id_column: str,
    begin: Mapping[int, int] | None = None,
) -> DataFrame:
    """Return the rows whose id is in no record of the topic: the topic itself is the ledger.

    begin: the first offset to look at, by partition; None for all that the topic has.
    """
    first_of = begin or {}
    ranges = {
        partition: (first if first_of.get(partition, 0) > end else max(first, first_of.get(partition, 0)), end)
        for partition, (first, end) in kafka.ranges(topic).items()
    }
    if all(first >= end for first, end in ranges.values()):
        return frame
    present = read_range(spark, settings, topic, ranges).select(
        F.expr(f"get(filter(headers, h -> h.key = '{ID_HEADER}'), 0).value").cast("string").alias(id_column)
    )
    return frame.join(present.where(F.col(id_column).isNotNull()).distinct(), id_column, "left_anti")
