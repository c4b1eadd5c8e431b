"""Spark's source and sink. Rule: one session for a scenario; what Spark leaves to others, as groups and topics, is not
tried.
"""

import tempfile
from pathlib import Path
from typing import Any

from interop.jars import SLF4J  # noqa: F401 - makes the pipeline's modules known
from interop.matrix.programs.scenario import (
    CA,
    COUNT,
    LARGE,
    PASSWORD,
    RECORDS,
    USER,
    VALUES,
    NotSupported,
    ask_for_restart,
    every_codec,
    main,
    same,
    until,
)
from pipeline.jars import spark_connector_jars

SECURE = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="%s" password="%s";' % (USER, PASSWORD),
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.location": CA,
}


def session() -> Any:
    from pyspark.sql import SparkSession

    jars = ",".join(str(path) for path in Path(spark_connector_jars()).glob("*.jar"))
    builder = SparkSession.builder.master("local[2]").appName("matrix").config("spark.jars", jars)
    quiet = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.parquet.compression.codec": "gzip",  # snappy's library does not load where musl is beside glibc
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    for key, value in quiet.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def write(spark: Any, bootstrap: str, topic: str, rows: Any, more: Any = None) -> None:
    frame = spark.createDataFrame(rows, "key binary, value binary, partition int")
    options = dict({"kafka.bootstrap.servers": bootstrap, "topic": topic}, **(more or {}))
    frame.coalesce(1).write.format("kafka").options(**options).save()


def read(spark: Any, bootstrap: str, topic: str, more: Any = None) -> Any:
    options = dict({"kafka.bootstrap.servers": bootstrap, "subscribe": topic}, **(more or {}))
    frame = spark.read.format("kafka").options(**options).load()
    return frame.orderBy("partition", "offset").collect()


def of(values: Any) -> Any:
    return [(b"k", bytearray(value), 0) for value in values]


def values_of(rows: Any) -> Any:
    return [None if row.value is None else bytes(row.value) for row in rows]


def connect(bootstrap: str, topic: str) -> None:
    spark = session()
    write(spark, bootstrap, topic, [(b"k", b"v", partition) for partition in range(4)])
    same([row.partition for row in read(spark, bootstrap, topic)], [0, 1, 2, 3])


def produce(bootstrap: str, topic: str) -> None:
    spark = session()
    write(spark, bootstrap, topic, of(VALUES))
    same(values_of(read(spark, bootstrap, topic)), VALUES)


def records(bootstrap: str, topic: str) -> None:
    spark = session()
    write(spark, bootstrap, topic, [(key, value, 0) for key, value in RECORDS])
    found = [(row.key and bytes(row.key), row.value) for row in read(spark, bootstrap, topic)]
    same([(key, None if value is None else bytes(value)) for key, value in found], RECORDS)


def headers(bootstrap: str, topic: str) -> None:
    spark = session()
    wanted = [("one", bytearray(b"1")), ("one", bytearray(b"again")), ("empty", bytearray(b""))]
    shape = "value binary, headers array<struct<key: string, value: binary>>"
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "includeHeaders": "true"}
    spark.createDataFrame([(b"v", wanted)], shape).write.format("kafka").options(**options).save()
    [row] = read(spark, bootstrap, topic, {"includeHeaders": "true"})
    same([(header.key, bytes(header.value)) for header in row.headers], [(key, bytes(value)) for key, value in wanted])


def codecs(bootstrap: str, topic: str) -> str:
    from py4j.protocol import Py4JJavaError

    spark = session()
    sent = []  # type: Any

    def one(name: str) -> None:
        try:
            write(spark, bootstrap, topic, of(VALUES), {"kafka.compression.type": name})
        except Py4JJavaError as error:
            if "Could not initialize class" in str(error) or "UnsatisfiedLinkError" in str(error):
                raise NotSupported("its library does not load on this machine") from error
            raise
        sent.extend(VALUES)

    said = every_codec(["gzip", "snappy", "lz4", "zstd"], one)
    same(values_of(read(spark, bootstrap, topic)), sent)
    return said


def idempotent(bootstrap: str, topic: str) -> None:
    spark = session()
    write(spark, bootstrap, topic, of(VALUES), {"kafka.enable.idempotence": "true", "kafka.acks": "all"})
    same(values_of(read(spark, bootstrap, topic)), VALUES)


def seek(bootstrap: str, topic: str) -> None:
    spark = session()
    write(spark, bootstrap, topic, of(VALUES[:50]))
    since = max(row.timestamp for row in read(spark, bootstrap, topic)).timestamp() * 1000 + 1
    until(lambda: written_after(spark, bootstrap, topic, since), "a later timestamp")
    found = read(spark, bootstrap, topic, {"startingTimestamp": str(int(since))})
    same(values_of(found)[-50:], VALUES[50:])
    assert len(found) < COUNT


def written_after(spark: Any, bootstrap: str, topic: str, since: float) -> bool:
    write(spark, bootstrap, topic, of(VALUES[50:]))
    return bool(max(row.timestamp for row in read(spark, bootstrap, topic)).timestamp() * 1000 > since)


def large(bootstrap: str, topic: str) -> None:
    spark = session()
    write(spark, bootstrap, topic, of(LARGE))
    same(values_of(read(spark, bootstrap, topic)), LARGE)


def security(bootstrap: str, topic: str) -> None:
    spark = session()
    write(spark, bootstrap, topic, of(VALUES), SECURE)
    same(values_of(read(spark, bootstrap, topic, SECURE)), VALUES)


def commit(bootstrap: str, topic: str) -> None:
    """Spark keeps its offsets in a checkpoint: a query that is started again goes on there."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        for count in (50, COUNT):
            write(spark, bootstrap, topic, of(VALUES[count - 50 : count]))
            _drain(spark, bootstrap, topic, folder)
        found = spark.read.parquet(folder + "/out").orderBy("offset").collect()
    same(values_of(found), VALUES)


def _drain(spark: Any, bootstrap: str, topic: str, folder: str) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("kafka").options(**options).load().select("offset", "value")
    places = {"checkpointLocation": folder + "/checkpoint", "path": folder + "/out"}
    stream.writeStream.format("parquet").options(**places).trigger(availableNow=True).start().awaitTermination()


def restart(bootstrap: str, topic: str) -> None:
    """A stream that runs goes on when the broker is back."""
    spark = session()
    write(spark, bootstrap, topic, of(VALUES[:50]))
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("kafka").options(**options).load().select("value")
    query = stream.writeStream.format("memory").queryName("found").start()

    def has(count: int) -> bool:
        return bool(spark.table("found").count() == count)

    until(lambda: has(50), "half of the records", 60)
    ask_for_restart()
    write(spark, bootstrap, topic, of(VALUES[50:]))
    until(lambda: has(COUNT), "all records", 60)
    query.stop()


main(
    {
        each.__name__: each
        for each in (
            connect, produce, records, headers, codecs, idempotent, commit, seek, large, security, restart,
        )
    }
)  # fmt: skip
