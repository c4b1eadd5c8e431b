"""Every option of Spark's Kafka connector, tried against a broker; spark/SOURCE.md names the test of each.

The table is complete when it has every option that the connector itself knows: the connector is asked.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark import __version__ as PYSPARK_VERSION
from pyspark.sql import DataFrame, SparkSession

from pipeline import silver, source, topics
from pipeline.cli import main
from pipeline.errors import SettingsError
from pipeline.session import QUICK
from pipeline.settings import Settings
from pykafka_broker.testing import KafkaBroker

SPARK = Path(__file__).resolve().parents[1]
PAGE = (SPARK / "SOURCE.md").read_text()
ROW = re.compile(r"^\| `([^`]+)` \|.*\| \[(test_\w+)\.(test_\w+)\]\(tests/(test_\w+)\.py\) \|$", re.MULTILINE)
ROWS = [(name, file, test) for name, file, test, _ in ROW.findall(PAGE)]
# What the connector's objects have beside options: `_mockSystemTime` is for its own tests
NO_OPTION = {"_mocksystemtime", "15m"}


# -- the table


@pytest.mark.parametrize(("option", "file", "test"), ROWS)
def test_a_row_names_a_test_of_the_option(option: str, file: str, test: str) -> None:
    text = (SPARK / "tests" / f"{file}.py").read_text()
    found = re.search(
        rf"^(?:@[^\n]*\n(?:[ )][^\n]*\n)*)*def {test}\(.*?(?=^(?:def |@|class )|\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    names = {option, option.removeprefix("kafka."), source.SETTINGS.get(option, option)}
    assert any(name in found[0] for name in names), f"{file}.{test} does not have {option}"


@pytest.mark.spark
def test_the_table_is_complete(spark: SparkSession) -> None:
    """Options and configs are read from the connector's own objects."""
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    known = set()
    for name in ("KafkaSourceProvider$", "package$"):
        kind = loader.loadClass(f"org.apache.spark.sql.kafka010.{name}")
        instance = kind.getField("MODULE$").get(None)
        for field in kind.getDeclaredFields():
            field.setAccessible(True)
            value = field.get(instance)
            if field.getType().getSimpleName() == "String" and re.fullmatch(r"[\w.]+", value):
                known.add(value.lower())
            elif field.getType().getSimpleName().startswith(("ConfigEntry", "Config")):
                known.add(value.key().lower())
    known = {name for name in known if not name.startswith("org.") and name not in NO_OPTION}
    assert len(known) > 20
    told = {name.lower() for name, _, _ in ROWS}
    assert known - told == set()
    assert {name.lower() for name in (*source.OPTIONS, *source.SETTINGS)} - told == set()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"minPartition": "3"}, "there is no option minPartition; perhaps minPartitions is meant"),
        ({"kafka.max.poll.records": "3"}, "it goes into kafka, as max.poll.records"),
        ({"maxOffsetsPerTrigger": "3"}, "maxOffsetsPerTrigger has a setting of its own: max_offsets_per_trigger"),
        ({"endingTimestamp": "3"}, "to_timestamp of the job replay: a stream has no end"),
        ({"assign": "{}", "subscribePattern": "x"}, "exclude each other"),
        ({"assign": '{"others": [0]}'}, "assign has to name partitions of events"),
        ({"assign": "events"}, "assign has to be like"),
        ({"subscribePattern": r"events\..*"}, "subscribePattern matches events.dead-letter, which the job writes to"),
        ({"subscribePattern": "("}, "subscribePattern is no regular expression"),
    ],
)
def test_what_is_refused(table: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        source.check(table, "events", ["events.dead-letter"])


# -- options of a source


@pytest.fixture(scope="module")
def own() -> Iterator[KafkaBroker]:
    """A broker that tells what it was asked."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def topic(own: KafkaBroker, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions with a hundred records each; their timestamps are 0 s, 1 s, ... after 1,000,000 s."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name)[:100]
    own.create_topic(name, partitions=2)
    fill(own, name, range(100))
    return str(name)


def fill(broker: KafkaBroker, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        for index in range(2):
            at = (1_000_000 + number) * 1000
            producer.produce(topic, f"{index}-{number}", partition=index, timestamp=at)
    assert producer.flush(120) == 0


def settings_of(own: KafkaBroker, topic: str, **changes: Any) -> Settings:
    return Settings(bootstrap_servers=own.bootstrap_servers, bronze_topic=topic, **changes)


Batches = list[tuple[int, list[str]]]  # how many tasks read a batch, and its values


@pytest.fixture
def stream(spark: SparkSession, own: KafkaBroker, topic: str, tmp_path: Path) -> Callable[..., Batches]:
    """Reads what there is with options of `source`; gives the batches."""

    def run(options: dict[str, str], **changes: Any) -> Batches:
        batches: Batches = []

        def note(batch: DataFrame, _: int) -> None:
            values = [row.value for row in batch.selectExpr("CAST(value AS STRING)").collect()]
            batches.append((batch.rdd.getNumPartitions(), values))

        settings = settings_of(own, topic, source=options, **changes)
        source.check(options, topic, ())
        frame = topics.read_stream(spark, settings, topic)
        writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        return batches

    return run


def values_of(batches: Batches) -> list[str]:
    return sorted(value for _, values in batches for value in values)


def numbers_from(first: int, indexes: tuple[int, ...] = (0, 1)) -> list[str]:
    return sorted(f"{index}-{number}" for index in indexes for number in range(first, 100))


pytestmark = pytest.mark.timeout(600)
spark_test = pytest.mark.spark


@spark_test
def test_more_tasks_than_partitions(stream: Any) -> None:
    (batch,) = stream({"minPartitions": "6"})
    assert batch[0] >= 6
    assert sorted(batch[1]) == numbers_from(0)


@spark_test
@pytest.mark.skipif(PYSPARK_VERSION < "4", reason="the option came with 4.0")
def test_few_records_for_each_task(stream: Any) -> None:
    (batch,) = stream({"maxRecordsPerPartition": "30"})
    assert batch[0] == 8
    assert sorted(batch[1]) == numbers_from(0)


@spark_test
def test_given_partitions(stream: Any, topic: str) -> None:
    assert values_of(stream({"assign": json.dumps({topic: [1]})})) == numbers_from(0, (1,))


@spark_test
def test_given_offsets(stream: Any, topic: str) -> None:
    begin = json.dumps({topic: {"0": 90, "1": -1}})
    assert values_of(stream({"startingOffsets": begin})) == numbers_from(90, (0,))


@spark_test
def test_a_time_to_begin_with(stream: Any) -> None:
    assert values_of(stream({"startingTimestamp": "1000095000"})) == numbers_from(95)


@spark_test
@pytest.mark.parametrize("strategy", ["latest", "error"])
def test_a_time_for_each_partition(stream: Any, topic: str, strategy: str) -> None:
    """The time is after all records of partition 1."""
    times = json.dumps({topic: {"0": 1_000_098_000, "1": 2_000_000_000}})
    options = {"startingOffsetsByTimestamp": times, "startingOffsetsByTimestampStrategy": strategy}
    if strategy == "error":
        with pytest.raises(Exception, match="No offset matched from request of topic-partition"):
            stream(options)
    else:
        assert values_of(stream(options)) == numbers_from(98, (0,))


@spark_test
@pytest.mark.parametrize(
    ("option", "end"),
    [
        ("endingTimestamp", "1000005000"),
        ("endingOffsetsByTimestamp", '{"TOPIC": {"0": 1000005000, "1": 1000005000}}'),
        ("endingOffsets", '{"TOPIC": {"0": 5, "1": 5}}'),
    ],
)
def test_an_end(spark: SparkSession, own: KafkaBroker, topic: str, option: str, end: str) -> None:
    options = {"kafka.bootstrap.servers": own.bootstrap_servers, "subscribe": topic}
    frame = spark.read.format("kafka").options(**options).option(option, end.replace("TOPIC", topic)).load()
    assert frame.where("offset >= 5").count() == 0
    assert frame.count() == 10


@spark_test
def test_a_batch_that_waits_for_more(
    spark: SparkSession, own: KafkaBroker, topic: str, tmp_path: Path, eventually: Any
) -> None:
    """Five records are fewer than `minOffsetsPerTrigger`: they are read when `maxTriggerDelay` is over."""
    seen: list[tuple[float, int]] = []
    begun = time.monotonic()  # and not when the first batch came: how long Spark plans that one is no part of the delay
    settings = settings_of(own, topic, source={"minOffsetsPerTrigger": "50", "maxTriggerDelay": "3s"})
    frame = topics.read_stream(spark, settings, topic)

    def note(batch: DataFrame, _: int) -> None:
        seen.append((time.monotonic(), batch.count()))

    query = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        eventually(lambda: sum(count for _, count in seen) == 200)
        fill(own, topic, range(100, 102))
        eventually(lambda: sum(count for _, count in seen) == 204)
        assert seen[-1][0] - begun > 3
    finally:
        query.stop()


def last_request(broker: KafkaBroker) -> int:
    return max((each["number"] or 0 for each in broker.requests()), default=0)


@spark_test
def test_the_name_of_the_group(stream: Any, own: KafkaBroker, topic: str) -> None:
    """Spark's consumers are called after their group, which begins with `groupIdPrefix`."""
    stream({"groupIdPrefix": "shop"})
    named = {str(each["client_id"]) for each in own.requests("Fetch", topic=topic)}  # others' requests may still wait
    assert named
    assert all(name.startswith("consumer-shop-") for name in named)
    stream({}, kafka={"group.id": "mine"})
    fill(own, topic, range(100, 101))
    stream({}, kafka={"group.id": "mine"})
    assert any(str(each["client_id"]).startswith("consumer-mine-") for each in own.requests("Fetch", topic=topic))


@spark_test
def test_a_broker_that_is_slow(spark: SparkSession, own: KafkaBroker, topic: str) -> None:
    settings = settings_of(own, topic, source={"kafkaConsumer.pollTimeoutMs": "500"})
    with own.faults.add(api="Fetch", delay_ms=3000), pytest.raises(Exception, match=r"offset 0 in 500 milliseconds"):
        topics.read_range(spark, settings, topic, {0: (0, 10), 1: (0, 0)}).count()


@spark_test
def test_offsets_that_are_not_told(stream: Any, own: KafkaBroker) -> None:
    """Spark asks three times, and a second apart where nobody says otherwise."""
    options = {"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "700"}
    with own.faults.add(api="ListOffsets", error="INVALID_REQUEST") as fault:
        begun = time.monotonic()
        with pytest.raises(Exception, match=r"InvalidRequest|INVALID_REQUEST|Invalid"):
            stream(options)
        assert fault.hits == 2
        assert time.monotonic() - begun > 0.7


@spark_test
def test_offsets_by_a_consumer(stream: Any, own: KafkaBroker, spark: SparkSession) -> None:
    """spark.sql.streaming.kafka.useDeprecatedOffsetFetching: the driver is a member of a group again."""
    name = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    begun = last_request(own)
    spark.conf.set(name, "true")
    try:
        assert values_of(stream({"groupIdPrefix": "old"})) == numbers_from(0)
    finally:
        spark.conf.unset(name)
    joined = own.requests("JoinGroup", after=begun, bodies=True)
    assert {each["request"]["group_id"].split("-")[0] for each in joined} == {"old"}


@spark_test
def test_topics_by_a_pattern(
    own: KafkaBroker, spark: SparkSession, tmp_path: Path, event: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two topics are there for the first run by the command line, a third for the second."""
    given = ["--bootstrap-servers", own.bootstrap_servers, "--data-dir", str(tmp_path), "--dead-letter-topic", "dead"]
    given += ["--source", "subscribePattern=shop-.*", "--source", "minPartitions=4"]
    assert main(["silver", *given]) == 4
    assert "there is no topic that matches shop-.*" in capsys.readouterr().err
    for number, name in enumerate(["shop-1", "shop-2", "shop-3"]):
        own.produce(name, [event(number).decode()])
        own.produce("other", [event(9).decode()])
        if number:
            assert main(["silver", *given]) == 0
    rows = (
        spark.read.parquet(silver.table_path(Settings(data_dir=str(tmp_path)))).select("event_id", "_topic").collect()
    )
    assert sorted((row.event_id, row["_topic"]) for row in rows) == [
        ("e0", "shop-1"),
        ("e1", "shop-2"),
        ("e2", "shop-3"),
    ]
    assert main(["silver", *given[:-4], "--bronze-topic", "other"]) == 6  # the checkpoint is the pattern's


# -- options of a sink


@spark_test
def test_a_sink(spark: SparkSession, own: KafkaBroker) -> None:
    """A topic for each row, or `topic` for all; headers; a partitioner for keys, with `kafka.partitioner.class`."""
    own.create_topic("sink", partitions=2)
    rows = spark.range(20).selectExpr(
        "'k' AS key",
        "CAST(id AS STRING) AS value",
        "array(struct('h' AS key, CAST('x' AS BINARY) AS value)) AS headers",
    )
    writer = rows.write.format("kafka").option("kafka.bootstrap.servers", own.bootstrap_servers)
    writer = writer.option("includeHeaders", "true").option("topic", "sink")
    writer.option("kafka.partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner").save()
    records = own.records("sink")
    assert {record.partition for record in records} == {0, 1}
    assert {dict(record.headers)["h"] for record in records} == {"x"}


# -- caches: configs of the executors, read once by each

CACHES = """
import json, sys, threading, time
from pipeline import topics
from pipeline.cli import parser
from pipeline.session import build_session
from pipeline.settings import load

settings = load("silver", {k: v for k, v in vars(parser().parse_args(sys.argv[1:])).items() if k != "job"})
spark = build_session(settings, "caches")
rows = topics.read_range(spark, settings, settings.bronze_topic, {0: (0, 100), 1: (0, 100)}).persist()
jvm = spark.sparkContext._jvm


def producers():
    threads = jvm.Thread.getAllStackTraces().keySet().toArray()
    return sum("kafka-producer-network-thread" in thread.getName() for thread in threads)


def look():
    while not seen and not is_over.wait(0.05):
        seen.extend([True] * producers())


# A producer ends 6 s after its last record: whoever looks after the job may be late.
seen, is_over = [], threading.Event()
watching = threading.Thread(target=look)
watching.start()
topics.append(rows.select("key", "value"), settings, "copies")
server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
kind = jvm.java.lang.Class.forName("javax.management.MBeanServer")  # the server's own class is hidden
methods = {(method.getName(), method.getParameterCount()): method for method in kind.getMethods()}


def call(name, *arguments):
    array = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, len(arguments))
    for index, argument in enumerate(arguments):
        array[index] = argument
    return methods[name, len(arguments)].invoke(server, array)


beans = [bean for bean in call("queryNames", None, None).toArray() if "GenericKeyedObjectPool" in bean.toString()]
names = ("NumIdle", "MinEvictableIdleTimeMillis", "TimeBetweenEvictionRunsMillis")
told = [[str(call("getAttribute", bean, name)) for name in names] for bean in beans]
deadline = time.monotonic() + 120
while producers() and time.monotonic() < deadline:
    time.sleep(0.1)
is_over.set()
watching.join()
print(json.dumps({"count": rows.count(), "beans": told, "before": len(seen), "after": producers()}))
"""


@spark_test
def test_caches(own: KafkaBroker, topic: str, tmp_path: Path) -> None:
    """A pool that keeps one consumer and not two, told by JMX; a producer that ends when unused for 6 s.

    What was fetched ahead is forgotten after 1 s by spark.kafka.consumer.fetchedData.cache.timeout and
    spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval, and read again.
    """
    configs = QUICK | {
        "spark.kafka.consumer.cache.capacity": "1",
        "spark.kafka.consumer.cache.timeout": "7m",
        "spark.kafka.consumer.cache.evictorThreadRunInterval": "3s",
        "spark.kafka.consumer.cache.jmx.enable": "true",
        "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
        "spark.kafka.producer.cache.timeout": "6s",
        "spark.kafka.producer.cache.evictorThreadRunInterval": "1s",
    }
    program = tmp_path / "caches.py"
    program.write_text(CACHES)
    command = [sys.executable, str(program), "silver", "--bootstrap-servers", own.bootstrap_servers]
    command += ["--bronze-topic", topic, "--master", "local[1]", *(f"--spark={key}={configs[key]}" for key in configs)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SPARK), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["count"] == 200
    assert told["beans"] == [["1", "420000", "3000"]]
    assert told["before"] >= 1
    assert told["after"] == 0
