"""The same jobs through `spark-submit` on a cluster (PySpark's own standalone one, on loopback): what changes is
settings alone.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from interop.real_kafka import free_port
from pipeline import reference, silver
from pipeline.connector import connector_jars
from pipeline.generate import Generator
from pipeline.kafka import Kafka
from pipeline.session import QUICK

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
SPARK_HOME = Path(pyspark.__file__).parent
SOURCES = Path(__file__).resolve().parents[1]
LOOPBACK = "127.0.0.1"
QUICK_JAVA = f"{QUICK['spark.driver.extraJavaOptions']} {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
ENVIRONMENT = {
    "SPARK_HOME": str(SPARK_HOME),
    "SPARK_LOCAL_IP": LOOPBACK,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
    "PYSPARK_PYTHON": sys.executable,
}
# What an administrator has in spark-defaults.conf: the pipeline leaves it as it is, and so it does the log and the UI.
DEFAULTS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.driver.memory": "512m",
    "spark.ui.port": "0",
    **QUICK,
    "spark.executor.extraJavaOptions": QUICK_JAVA,
}
LOG = """
rootLogger.level = warn
rootLogger.appenderRef.own.ref = own
appender.own.type = Console
appender.own.name = own
appender.own.target = SYSTEM_ERR
appender.own.layout.type = PatternLayout
appender.own.layout.pattern = own log: %m%n
logger.ui.name = org.apache.spark.ui
logger.ui.level = info
"""


class Cluster:
    """A master and a worker with two cores.

    The worker starts when the master answers: a worker that is refused tries again only 5 to 15 s later, six times.
    """

    def __init__(self, home: Path, stack: ExitStack, wait_for: Callable[..., None]) -> None:
        self._home, self._stack = home, stack
        port, status = free_port(), free_port()
        self.master = f"spark://{LOOPBACK}:{port}"
        self._status = f"http://{LOOPBACK}:{status}/json/"
        address = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(status)]
        self._start("org.apache.spark.deploy.master.Master", *address)
        wait_for(self.status)
        limits = ["--cores", "2", "--memory", "600m", "--webui-port", "0", "--work-dir", str(home / "work")]
        self._start("org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK, *limits, self.master)

    def _start(self, name: str, *arguments: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), name, *arguments]
        log = self._stack.enter_context((self._home / f"{name.rsplit('.', 1)[1]}.log").open("wb"))
        process = subprocess.Popen(
            command, env=os.environ | ENVIRONMENT, stdout=log, stderr=log, start_new_session=True
        )
        self._stack.callback(end, process)

    def status(self) -> dict[str, Any]:
        """Return the master's status; empty while its server is not there, or answers with a page and not with JSON."""
        with suppress(OSError, ValueError), urllib.request.urlopen(self._status, timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
        return {}

    def is_complete(self) -> bool:
        return self.status().get("aliveworkers") == 1


def end(process: "subprocess.Popen[bytes]") -> None:
    """The worker's executors are in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, eventually: Callable[..., None]) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("cluster"), stack, eventually)


@pytest.fixture
def submit(cluster: Cluster, eventually: Callable[..., None], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs a job as the README says; gives its summary."""
    eventually(cluster.is_complete)
    archive = shutil.make_archive(str(tmp_path / "pipeline"), "zip", SOURCES, "pipeline")
    defaults, log = tmp_path / "spark-defaults.conf", tmp_path / "log4j2.properties"
    log.write_text(LOG)
    own = {"spark.driver.extraJavaOptions": f"{QUICK_JAVA} -Dlog4j2.configurationFile={log}"}
    defaults.write_text("".join(f"{key} {value}\n" for key, value in (DEFAULTS | own).items()))
    spark_submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master]
    spark_submit += ["--properties-file", str(defaults), "--py-files", archive, "--jars", ",".join(connector_jars())]

    def run(job: str, config: Path, *options: str) -> dict[str, Any]:
        command = [*spark_submit, str(SOURCES / "pipeline" / "__main__.py"), job, "--config", str(config), *options]
        # From a folder without the sources: they have to come with the submit.
        done = subprocess.run(
            command, env=os.environ | ENVIRONMENT | {"PYTHONPATH": ""}, cwd=tmp_path, capture_output=True, text=True,
            timeout=500, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert "own log: Stopped Spark web UI at" in done.stderr, done.stderr[-3000:]
        summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return summary

    return run


def test_jobs_on_a_cluster(
    submit: Callable[..., dict[str, Any]], cluster: Cluster, make_settings: Any, make_topic: Any, put: Any,
    spark: SparkSession, tmp_path: Path, eventually: Callable[..., None], slow: bool,
) -> None:  # fmt: skip
    settings = make_settings(events=1000, late_share=0.0, input=str(tmp_path / "events.jsonl"))
    lines = list(Generator(settings).lines())
    config = tmp_path / "pipeline.toml"
    names = ("bootstrap_servers", "data_dir", "bronze_topic", "dead_letter_topic", "windows_topic", "input")
    config.write_text("".join(f"{name} = {json.dumps(getattr(settings, name))}\n" for name in names))
    if slow:
        Path(settings.input).write_text("".join(f"{line}\n" for line in lines))
        assert submit("ingest", config)["written"] == len(lines)
    else:
        put(make_topic(settings.bronze_topic, 3), lines)
    done = submit("silver", config)
    records = Kafka(settings).read_all(settings.bronze_topic)
    events = {event["event_id"] for record in records if (event := reference.event_of(record, settings))}
    table = spark.read.parquet(silver.table_path(settings))
    assert {row.event_id for row in table.select("event_id").collect()} == events
    assert table.count() == done["accepted"] == len(events)
    # The cluster did the work; the master hears of an application's end after `spark-submit` is over.
    eventually(lambda: len(cluster.status().get("completedapps", ())) == (2 if slow else 1))
    if slow:
        assert submit("aggregate", config)["rows"] == len(lines)
        assert submit("store", config, "--offsets", "store")["rows"] == len(lines)
        assert submit("replay", config)["written"] == len(events)
        assert submit("compacted", config)["keys"] > 0
