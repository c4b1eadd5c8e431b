"""The Spark session of all Spark tests: a start takes some seconds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from interop.conftest import MakeTopic
from interop.java import spark_jars

Read = Callable[..., DataFrame]
Put = Callable[..., None]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(spark_jars()))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def lasting_topic(make_topic: MakeTopic) -> str:
    """A topic of one partition without retention, which would delete the tests' records: they are years old."""
    return make_topic(retention_ms=-1)


@pytest.fixture
def put(bootstrap: str) -> Put:
    """A function that writes records (values, or arguments of confluent-kafka's `produce`) and waits for them."""

    def put_all(topic: str, records: list[Any]) -> None:
        errors: list[object] = []
        own = {"linger.ms": 5, "on_delivery": lambda error, _: errors.append(error) if error else None}
        producer = Producer({"bootstrap.servers": bootstrap, **own})
        for record in records:
            producer.produce(topic, **(record if isinstance(record, dict) else {"value": record}))
        assert (producer.flush(120), errors) == (0, [])

    return put_all


@pytest.fixture
def read(spark: SparkSession, bootstrap: str) -> Read:
    """A function that reads a topic as a batch. Keyword arguments are options of the source, with `__` for a dot."""

    def load(topic: str, **options: object) -> DataFrame:
        frame: DataFrame = source(spark.read, bootstrap, topic, options).load()
        return frame

    return load


@pytest.fixture
def stream(spark: SparkSession, bootstrap: str) -> Read:
    """A function that reads a topic as a stream, with options as for `read`."""

    def load(topic: str, **options: object) -> DataFrame:
        frame: DataFrame = source(spark.readStream, bootstrap, topic, options).load()
        return frame

    return load


def source(reader: Any, bootstrap: str, topic: str, options: dict[str, object]) -> Any:
    reader = reader.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    for key, value in options.items():
        reader = reader.option(key.replace("__", "."), str(value))
    return reader


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The folder that a stream of this test writes its result to."""
    return tmp_path / "out"
