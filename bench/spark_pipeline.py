"""The pipeline's bronze -> silver job over many records: what a broker is worth to a whole Spark job."""

import tempfile
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.spark_session import session, warm_up
from pipeline import silver, topics
from pipeline.context import Context
from pipeline.kafka import Kafka
from pipeline.settings import PARQUET, Settings

PARTITIONS = 4
BATCHES = 4
EVERY = {"duplicate": 100, "broken": 1000}  # one in so many records
TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
COUNTRIES = "ELT(1 + id % 4, 'de', 'fr', 'us', 'jp')"


def settings_for(bootstrap: str, folder: str, topic: str, records: int, table_format: str = PARQUET) -> Settings:
    return Settings(
        bootstrap_servers=bootstrap,
        data_dir=folder,
        bronze_topic=topic,
        dead_letter_topic=f"{topic}.dead-letter",
        topic_partitions=PARTITIONS,
        max_offsets_per_trigger=-(-records // BATCHES),
        shuffle_partitions=2,
        master="local[2]",
        table_format=table_format,
    )


def fill(spark: SparkSession, settings: Settings, kafka: Kafka, records: int) -> int:
    """Write events, a hundredth of them twice and a thousandth broken; return their size in bytes."""
    kafka.ensure_topic(settings.bronze_topic)
    number = F.expr(f"IF(id % {EVERY['duplicate']} = 1, id - 1, id)")
    event = F.struct(
        F.concat(F.lit("event-"), number).alias("event_id"),
        # A millisecond apart: what the tasks write side by side is never so far apart that it would be late.
        F.date_format(F.expr("TIMESTAMP_MILLIS(1714521600000 + id)"), TIME_FORMAT).alias("event_time"),
        F.concat(F.lit("user-"), F.expr("id % 5000")).alias("user_id"),
        F.lit("view").alias("kind"),
        F.concat(F.lit("product-"), F.expr("id % 200")).alias("product"),
        F.expr(COUNTRIES).alias("country"),
        F.expr("CAST(id % 10000 AS DOUBLE) / 100").alias("amount"),
    )
    broken = F.expr(f"id % {EVERY['broken']} = 550")
    rows = spark.range(0, records, 1, PARTITIONS).select(
        F.when(broken, F.lit("{")).otherwise(F.to_json(event)).alias("value"),
        F.expr(f"CAST(id % {PARTITIONS} AS INT)").alias("partition"),
    )
    topics.append(rows, settings, settings.bronze_topic)
    return int(rows.agg(F.sum(F.length("value"))).collect()[0][0])


def silver_s(spark: SparkSession, settings: Settings, kafka: Kafka, records: int) -> float:
    """Return the seconds of the job, after a check of its result."""
    begun = time.perf_counter()
    done = silver.run(Context(spark, settings, kafka))
    took = time.perf_counter() - begun
    found = (done["rows"], done["rejected"], done["duplicates"], done["late"])
    wanted = (records, records // EVERY["broken"], records // EVERY["duplicate"], 0)
    if found != wanted:
        raise RuntimeError(f"rows, rejected, duplicates, late are {found}, and should be {wanted}")
    return took


def mb_per_s(bootstrap: str, records: int, table_format: str = PARQUET) -> float:
    """Return megabytes of values per second, from the topic into the table."""
    warm_up(f"pipeline {table_format}", lambda: measured(bootstrap, "warm-up", records // 10, table_format))
    return measured(bootstrap, "events", records, table_format)


def measured(bootstrap: str, topic: str, records: int, table_format: str) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as folder:
        settings = settings_for(bootstrap, folder, topic, records, table_format)
        spark, kafka = session(), Kafka(settings)
        size = fill(spark, settings, kafka, records)
        return size / 1e6 / silver_s(spark, settings, kafka, records)
