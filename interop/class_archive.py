"""Archives of classes, from which the JVMs of tests start in half of the CPU time (JEP 350): Kafka's and Spark's.

python -m interop.class_archive    makes what is missing: a JVM writes its archive when it ends, with all it has used

Kafka's is used by `java_command`, Spark's by every session of a test run (`SPARK_SUBMIT_OPTS` in the root's conftest).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from interop.java import QUICK_JVM, class_archive, kafka_classpath
from interop.real_kafka import RealKafka


def main() -> None:
    for archive, use in ((class_archive(kafka_classpath()), use_kafka), (class_archive(spark_classpath()), use_spark)):
        if archive.exists():
            continue
        unfinished = archive.with_name(f"{archive.name}.{os.getpid()}")
        use(f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:cds=error -Xlog:cds+dynamic=error")
        if unfinished.exists():  # else this Java has no archive of its own classes to build on
            unfinished.rename(archive)


def spark_classpath() -> str:
    import pyspark

    return f"{Path(pyspark.__file__).parent}/jars/*"


def use_kafka(options: str) -> None:
    """Do with small data what clients do: records of all codecs, transactions, a group, compaction."""
    from interop import exchanged

    written = exchanged.Written()
    with RealKafka(exchanged.QUICK, jvm=[*QUICK_JVM, *options.split()]) as kafka:
        exchanged.create(kafka.bootstrap_servers, written)
        exchanged.write(kafka.bootstrap_servers, written)
        exchanged.check(kafka.bootstrap_servers, written)


def use_spark(options: str) -> None:
    """Do with small data what the pipeline's jobs do: a stream of JSON into partitions of a table, and queries."""
    from pyspark.sql import functions as F

    from pipeline.session import QUICK, build_session
    from pipeline.settings import Settings
    from pykafka_broker.testing import KafkaBroker

    os.environ["SPARK_SUBMIT_OPTS"] = options
    with KafkaBroker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = build_session(Settings(master="local[2]", shuffle_partitions=1, spark=QUICK), "archive")
        kafka = {"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest"}
        values = spark.range(20).selectExpr("to_json(struct(id, id % 3 as k, current_timestamp() as at)) as value")
        values.write.format("kafka").options(**kafka, topic="in").save()
        read = spark.readStream.format("kafka").options(**kafka, subscribe="in").load()
        parsed = read.select(F.from_json(F.col("value").cast("string"), "id long, k long, at timestamp").alias("v"))
        distinct = parsed.select("v.*").withWatermark("at", "1 hour").dropDuplicates(["id", "at"])

        def store(batch, number: int) -> None:  # type: ignore[no-untyped-def]
            batch.persist()
            batch.withColumn("n", F.lit(number)).write.mode("append").partitionBy("k").parquet(f"{folder}/table")
            batch.selectExpr("cast(id as string) as value").write.format("kafka").options(**kafka, topic="out").save()
            batch.unpersist()

        stream = distinct.writeStream.foreachBatch(store).option("checkpointLocation", f"{folder}/checkpoint")
        stream.trigger(availableNow=True).start().awaitTermination()
        table = spark.read.parquet(f"{folder}/table")
        assert table.count() == 20
        table.groupBy("k").agg(F.max("at")).join(table, "k").orderBy("id").collect()
        jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        spark.stop()
        jvm.stdin.close()
        jvm.wait(300)


if __name__ == "__main__":
    main()
