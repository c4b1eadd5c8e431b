"""The snippets of the docs in other languages than Python: what compiles here compiles, and with --slow all of it runs.

Rule: a snippet runs as its page shows it, with `pykafka-broker` on the PATH as its reader has it. A toolchain that is
missing is a skipped test with its reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from interop import ROOT, toolchains
from interop.cluster_clients import brokers_told_by
from interop.jars import connect_jars, streams_jars
from interop.java import QUICK_JVM, java_command, kafka_classpath, spark_jars
from interop.real_kafka import free_port
from interop.waiting import eventually
from pykafka_broker.testing import KafkaBroker, KafkaCluster
from tests.docs.blocks import ALL

CONNECT = "org.apache.kafka.connect.cli.ConnectStandalone"


def snippet(name: str) -> str:
    return next(block.text for block in ALL if block.name == name)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return toolchains.with_command(tmp_path)


def run(command: Sequence[str], directory: Path, environment: dict[str, str], typed: str | None = None) -> str:
    done = subprocess.run(
        command, cwd=directory, env=environment, input=typed, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compiled(name: str, file: str, classpath: str, folder: Path) -> str:
    """Compile a snippet; return the class path with its classes."""
    (folder / file).write_text(snippet(name))
    options = ["-proc:none", "-cp", classpath, "-d", str(folder)]
    toolchains.run([*toolchains.javac(), *options, str(folder / file)], folder)
    return f"{classpath}{os.pathsep}{folder}"


def streams_classpath() -> str:
    return f"{os.environ.get('KAFKA_STREAMS_JARS') or streams_jars()}/*"


@pytest.mark.java
def test_the_words_are_counted(tmp_path: Path, slow: bool) -> None:
    classpath = compiled("streams.md-java-1", "Words.java", streams_classpath(), tmp_path)
    if not slow:
        return
    with KafkaBroker() as broker:
        broker.create_topic("lines", partitions=2)
        broker.create_topic("counts", partitions=2)
        state = f"-Djava.io.tmpdir={tmp_path}"
        command = java_command(*QUICK_JVM, state, "-Xmx256m", "-cp", classpath, "Words", broker.bootstrap_servers)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as words:
            try:
                broker.produce("lines", ["apples pears apples"])
                broker.wait_for_records("counts", 2, timeout=60, isolation_level="read_committed")
            finally:
                words.terminate()
        counts = {record.key: record.value for record in broker.records("counts", isolation_level="read_committed")}
    assert counts == {"apples": "2", "pears": "1"}


@pytest.mark.slow
@pytest.mark.java
def test_connect_copies_lines_with_the_files_that_are_shown(tmp_path: Path) -> None:
    files = []
    with KafkaBroker() as broker:
        for number in (1, 2, 3):
            text = snippet(f"connect.md-properties-{number}")
            files.append(tmp_path / text.splitlines()[0].removeprefix("# "))
            files[-1].write_text(text.replace("localhost:9092", broker.bootstrap_servers))
        with files[0].open("a") as worker:  # the default port may be taken
            worker.write(f"listeners=http://127.0.0.1:{free_port()}\n")
        (tmp_path / "source.txt").write_text("apples\npears\n")
        jars = set(Path(os.environ.get("KAFKA_CONNECT_JARS") or connect_jars()).glob("*.jar"))
        left_out = {jar for jar in jars if jar.name.startswith("connect-file")}  # of the class path by Kafka's scripts
        (tmp_path / "libs").mkdir()
        for jar in left_out:
            shutil.copy(jar, tmp_path / "libs")
        classpath = os.pathsep.join(map(str, jars - left_out))
        command = java_command(*QUICK_JVM, "-Xmx256m", "-cp", classpath, CONNECT, *map(str, files))
        with (tmp_path / "log").open("w") as log, subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log) as it:
            try:
                broker.wait_for_records("lines", 2, timeout=60)
                copied = tmp_path / "sink.txt"
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline and not (copied.exists() and copied.read_text().count("\n") == 2):
                    time.sleep(0.1)
            finally:
                it.terminate()
    assert copied.read_text() == "apples\npears\n"


@pytest.mark.java
def test_a_broker_of_kafka_joins_a_cluster(tmp_path: Path, environment: dict[str, str]) -> None:
    with KafkaCluster(brokers=3, quick=False) as cluster:
        own = {"127.0.0.1:9095": cluster.controller.bootstrap_servers, ":9096": f":{free_port()}"}
        own["/tmp/kafka-4"] = str(tmp_path / "kafka-4")
        text = snippet("clusters.md-properties-1")
        for shown, used in own.items():
            assert shown in text
            text = text.replace(shown, used)
        (tmp_path / "kafka-4.properties").write_text(text)
        at = ["--bootstrap-server", cluster.bootstrap_servers]
        quorum = run(["pykafka-broker", "metadata-quorum", *at, "describe", "--status"], tmp_path, environment)
        cluster_id = quorum.split()[1]
        java = java_command(*QUICK_JVM, "-Xmx256m", "-cp", kafka_classpath())
        format_it = ["kafka.tools.StorageTool", "format", "-c", "kafka-4.properties", "-t", cluster_id]
        run([*java, *format_it], tmp_path, environment)
        start = [*java, "kafka.Kafka", "kafka-4.properties"]
        with (tmp_path / "log").open("w") as log, subprocess.Popen(start, cwd=tmp_path, stdout=log, stderr=log) as it:
            try:
                eventually(lambda: brokers_told_by(cluster.broker(1).bootstrap_servers), {1, 2, 3, 4}, 60)
            finally:
                it.kill()


@pytest.mark.slow
@pytest.mark.spark
def test_the_snippet_for_spark_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    """The snippet for Spark runs with the jars that are here, instead of fetching them."""
    text = snippet("spark.md-python-1")
    fetching = '"spark.jars.packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"'
    assert fetching in text
    program = text.replace(fetching, f'"spark.jars", "{",".join(spark_jars())}"')
    run([sys.executable, "-c", program], tmp_path, environment | {"PYTHONPATH": str(ROOT)})
