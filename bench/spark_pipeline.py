"""The pipeline's bronze -> silver job over many records: what a broker is worth to a whole Spark job.

`python -m bench.spark_pipeline --records 1000000` measures it against our broker and Apache Kafka in turns.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "spark"))

from pipeline import silver, topics
from pipeline.context import Context
from pipeline.kafka import Kafka
from pipeline.session import build_session
from pipeline.settings import Settings

PARTITIONS = 4
BATCHES = 4
EVERY = {"duplicate": 100, "broken": 1000}  # one in so many records
TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
COUNTRIES = "ELT(1 + id % 4, 'de', 'fr', 'us', 'jp')"


def settings_for(bootstrap: str, folder: str, topic: str, records: int) -> Settings:
    return Settings(
        bootstrap_servers=bootstrap,
        data_dir=folder,
        bronze_topic=topic,
        dead_letter_topic=f"{topic}.dead-letter",
        topic_partitions=PARTITIONS,
        max_offsets_per_trigger=-(-records // BATCHES),
        shuffle_partitions=2,
        master="local[2]",
    )


def fill(spark: SparkSession, settings: Settings, kafka: Kafka, records: int) -> int:
    """Writes events, a hundredth of them twice and a thousandth broken; their size in bytes."""
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
    """Seconds of the job; that it did what it should is checked."""
    begun = time.perf_counter()
    done = silver.run(Context(spark, settings, kafka))
    took = time.perf_counter() - begun
    found = (done["rows"], done["rejected"], done["duplicates"], done["late"])
    wanted = (records, records // EVERY["broken"], records // EVERY["duplicate"], 0)
    if found != wanted:
        raise RuntimeError(f"rows, rejected, duplicates, late are {found}, and should be {wanted}")
    return took


def mb_per_s(bootstrap: str, topic: str, records: int) -> float:
    """Megabytes of values per second, from the topic into the table."""
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as folder:
        settings = settings_for(bootstrap, folder, topic, records)
        spark, kafka = build_session(settings, "bench"), Kafka(settings)
        size = fill(spark, settings, kafka, records)
        return size / 1e6 / silver_s(spark, settings, kafka, records)


def main() -> None:
    from bench.peers import PEERS
    from bench.running import Running

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="kafka,ours")
    options = parser.parse_args()
    rates: dict[str, list[float]] = {peer: [] for peer in options.peers.split(",")}
    with Running(PEERS[next(iter(rates))]) as run:  # the JVM gets warm on somebody's records that don't count
        mb_per_s(run.bootstrap, "warm-up", min(options.records, 100_000))
    for number in range(options.rounds):
        for peer, found in rates.items():
            with Running(PEERS[peer]) as run:
                found.append(mb_per_s(run.bootstrap, f"events-{number}", options.records))
            print(f"round {number} {peer}: {found[-1]:.1f} MB/s", file=sys.stderr, flush=True)
    medians = {peer: statistics.median(found) for peer, found in rates.items()}
    print("\n".join(f"{peer:<8} {rate:6.1f} MB/s" for peer, rate in medians.items()))
    if "kafka" in medians and "ours" in medians:
        print(f"ours is {medians['ours'] / medians['kafka']:.2f} times as fast as Kafka")


if __name__ == "__main__":
    main()
