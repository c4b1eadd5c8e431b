"""Spark over SASL_SSL: a batch that writes and one that reads, by what `client_config` hands it."""

from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from interop.secured_targets import SecuredTarget, secured

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def broker(target_name: str) -> Iterator[SecuredTarget]:
    acls = ["spark may all topic orders", "spark may read group spark-kafka-*", "bob may describe topic orders"]
    with secured(target_name, "sasl_ssl", users=["spark", "bob"], acls=acls) as broker:
        yield broker


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_batch_is_written_and_read(spark: SparkSession, broker: SecuredTarget, mechanism: str) -> None:
    config = broker.client_config("spark", "spark", mechanism)
    write(spark, config, mechanism, 10)
    read = spark.read.format("kafka").options(**config).option("subscribe", "orders").load()
    rows = read.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value").collect()
    assert sorted(row.value for row in rows if row.key == mechanism) == [str(number) for number in range(10)]


def write(spark: SparkSession, config: dict[str, str], key: str, count: int) -> None:
    frame = spark.createDataFrame([(key, str(number)) for number in range(count)], ["key", "value"])
    frame.write.format("kafka").options(**config).option("topic", "orders").save()


def test_who_may_not_read_is_told(spark: SparkSession, broker: SecuredTarget) -> None:
    write(spark, broker.client_config("spark", "spark"), "there", 1)
    config = broker.client_config("spark", "bob")
    read = spark.read.format("kafka").options(**config).option("subscribe", "orders").load()
    with pytest.raises(Py4JJavaError, match=r"(Topic|Group)AuthorizationException"):
        read.collect()
