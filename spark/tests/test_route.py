"""Topic to topic: what goes where, with what headers, in batches and in real-time mode."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark import __version__ as PYSPARK_VERSION
from pyspark.sql import SparkSession

from pipeline import route
from pipeline.cli import main
from pipeline.kafka import Kafka
from pipeline.settings import Settings

pytestmark = pytest.mark.spark
RULES = {"country": {"column": "country", "in": ["de", "fr"]}}
needs_realtime = pytest.mark.skipif(
    route.version_of(PYSPARK_VERSION) < route.FIRST_WITH_REALTIME, reason="real-time mode came with 4.2"
)


def headers_of(record: Any) -> dict[str, bytes]:
    return dict(record.headers() or [])


def test_where_records_go(make_settings: Any, make_topic: Any, put: Any, event: Any, capsys: Any) -> None:
    settings: Settings = make_settings()
    topic, target = make_topic(settings.bronze_topic), f"{settings.bronze_topic}.good"
    good = {"value": event(1), "key": b"k", "headers": [("trace", b"1")]}
    put(topic, [good, event(2, country="xx"), {"value": b"{", "headers": [("trace", b"2")]}, event(1)])
    given = ["route", "--bootstrap-servers", settings.bootstrap_servers, "--data-dir", settings.data_dir]
    given += ["--bronze-topic", topic, "--to-topic", target, "--dead-letter-topic", settings.dead_letter_topic]
    given += ["--rules", f"country={json.dumps(RULES['country'])}", "--topic-partitions", "1"]
    assert main(given) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["rows"], done["accepted"], done["rejected"]) == (4, 2, 2)
    kafka = Kafka(settings)
    first, second = kafka.read_all(target)
    assert (first.key(), first.value(), second.value()) == (b"k", event(1), event(1))
    assert headers_of(first) == {"trace": b"1", "pipeline-id": f"{topic}/0/0".encode()}
    dead = kafka.read_all(settings.dead_letter_topic)
    assert [record.value() for record in dead] == [event(2, country="xx"), b"{"]
    assert headers_of(dead[0])["reason"] == b"breaks the rules: country"
    assert headers_of(dead[1])["trace"] == b"2"
    assert main(given) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 0


@needs_realtime
def test_in_real_time(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, start_job: Any
) -> None:
    """Records arrive before their batch of 5 s ends, with which Spark notes its offsets; what was committed at its end
    is not written again."""
    settings: Settings = make_settings(trigger="realtime 5 seconds", rules=RULES)
    topic, target = make_topic(settings.bronze_topic), make_topic(f"{settings.bronze_topic}.good")
    settings = make_settings(trigger=settings.trigger, rules=RULES, bronze_topic=topic, to_topic=target)
    own = {"group.id": target, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": settings.bootstrap_servers, **own})
    consumer.subscribe([target])
    job = start_job(route.run, make_context(settings))
    ends = Path(settings.path("checkpoints/route/offsets"))
    early = 0
    try:
        for number in range(8):
            before = len(list(ends.glob("[0-9]*")))
            put(topic, [event(number)])
            begun = time.monotonic()
            while (record := consumer.poll(0.05)) is None or record.error() is not None:
                assert not job.result.done(), job.result.exception()
                assert time.monotonic() - begun < 300
            assert record.value() == event(number)
            early += len(list(ends.glob("[0-9]*"))) == before
        assert early > 0
    finally:
        consumer.close()
    put(topic, [event(9, country="xx")])
    kafka = Kafka(settings)
    job.until(lambda: sum(end for _, end in kafka.ranges(settings.dead_letter_topic).values()) == 1)
    assert job.stop()["rows"] == 9
    job = start_job(route.run, make_context(settings))
    put(topic, [event(10)])
    job.until(lambda: kafka.ranges(target)[0][1] >= 9)
    job.stop()
    assert [record.value() for record in kafka.read_all(target)] == [*(event(n) for n in range(8)), event(10)]


@needs_realtime
def test_too_few_cores(make_settings: Any, make_topic: Any, capsys: Any, spark: SparkSession) -> None:
    settings: Settings = make_settings()
    make_topic(settings.bronze_topic, spark.sparkContext.defaultParallelism + 1)
    given = ["--bootstrap-servers", settings.bootstrap_servers, "--bronze-topic", settings.bronze_topic]
    assert main(["route", *given, "--to-topic", "other", "--trigger", "realtime"]) == 2
    assert "has 3 partitions, and Spark 2 cores: in real-time mode every partition needs one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "options", "words"),
    [
        ("route", [], "to_topic is not set"),
        ("route", ["--to-topic", "events"], "to_topic and bronze_topic are both events"),
        ("route", ["--to-topic", "events.dead-letter"], "to_topic and dead_letter_topic are both events.dead-letter"),
        ("route", ["--to-topic", "m", "--metrics-topic", "m"], "to_topic and metrics_topic are both m"),
        ("route", ["--to-topic", "good", "--source", "subscribePattern=go.*"], "subscribePattern matches good, which"),
        ("silver", ["--trigger", "realtime"], "trigger is 'realtime': real-time mode is for the job route alone"),
        ("route", ["--trigger", "realtime 4 seconds"], "and a batch of real-time mode takes 5 seconds at least"),
        ("route", ["--trigger", "realtime soon"], "trigger is 'soon', and can be available-now, asap, realtime, or an"),
    ],
)
def test_what_is_refused(job: str, options: list[str], words: str, capsys: Any) -> None:
    assert main([job, *options]) == 2
    assert words in capsys.readouterr().err
