"""Settings of the session itself: nothing that only holds on a laptop reaches a cluster, and what the person has set
stays as it is.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import JavaPackage, JVMView
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession
from pyspark.util import _load_from_socket

from pipeline import events, topics
from pipeline.files import Files
from pipeline.session import CHECKPOINT_FILES, build_session, defaults, with_format
from pipeline.settings import DELTA, Settings

SOURCES = Path(__file__).resolve().parents[1]
# Starts a session as a job does, and prints what has become of log, UI, settings and connector.
PROGRAM = """
import json
from pipeline.session import build_session
from pipeline.settings import Settings
session = build_session(Settings(master="local[1]"), "session")
session.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t").load()
level = session.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
kept, zone = (session.conf.get(f"spark.sql.{name}") for name in ("shuffle.partitions", "session.timeZone"))
print(json.dumps([level, session.sparkContext.uiWebUrl is not None, kept, zone]))
"""
LOG = """
rootLogger.level = warn
rootLogger.appenderRef.own.ref = own
appender.own.type = Console
appender.own.name = own
"""


def log_level(session: SparkSession) -> str:
    assert session.sparkContext._jvm is not None
    return str(session.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString())


@pytest.mark.spark
def test_spark_is_quiet_where_nobody_has_said_otherwise(spark: SparkSession) -> None:
    assert (log_level(spark), spark.sparkContext.uiWebUrl) == ("OFF", None)


@pytest.mark.spark
def test_a_level_of_the_log_that_is_set_stays(spark: SparkSession) -> None:
    spark.sparkContext.setLogLevel("ERROR")
    try:
        build_session(Settings(shuffle_partitions=2, spark={"spark.log.level": "ERROR"}), "session")
        assert log_level(spark) == "ERROR"
    finally:
        spark.sparkContext.setLogLevel("OFF")


@pytest.mark.spark
@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="has ports alone")
def test_nobody_else_can_take_what_is_collected(spark: SparkSession) -> None:
    where, *_ = info = spark.range(3)._jdf.collectToPython()
    assert isinstance(where, str), "a port, which another test's client may reach first"
    with _load_from_socket(info, CPickleSerializer()) as rows:
        assert sum(map(len, rows)) == 3


@pytest.mark.spark
def test_files_and_arguments_of_spark_are_heeded(tmp_path: Path) -> None:
    """Settings of spark-defaults.conf and PYSPARK_SUBMIT_ARGS; test_submit.py has those of spark-submit. The time zone
    alone is the pipeline's: `store` and `aggregate` wrote times of Berlin and called them UTC."""
    (tmp_path / "other.jar").touch()
    own = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.shuffle.partitions": "7"}
    own["spark.jars"] = str(tmp_path / "other.jar")  # the connector comes beside it
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{key}   {value}\n" for key, value in own.items()))
    (tmp_path / "log4j2.properties").write_text(LOG)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH")])),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(tmp_path),
        "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=true --conf spark.ui.port=0 pyspark-shell",
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ["WARN", True, "7", "UTC"]


def test_a_format_of_tables_leaves_extensions_of_others() -> None:
    given = {"spark.sql.extensions": "own.Extensions", "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"}
    lists = with_format(DELTA, {"spark.jars": "a.jar"}, given)
    assert lists == {
        "spark.jars": "a.jar",
        "spark.sql.extensions": "own.Extensions,io.delta.sql.DeltaSparkSessionExtension",
    }
    assert with_format(DELTA, lists, given) == lists


@pytest.mark.parametrize(("master", "on_loopback"), [("local[*]", True), ("spark://head:7077", False), ("yarn", False)])
def test_the_driver_of_a_cluster_is_not_on_loopback(master: str, on_loopback: bool) -> None:
    assert ("spark.driver.host" in defaults(Settings(), master, is_submitted=False)) == on_loopback


@pytest.mark.parametrize(
    ("data_dir", "local"),
    [
        ("pipeline-data", True),
        ("/var/data", True),
        ("file:///data", True),
        ("s3a://lake", False),
        ("hdfs:/x", False),
    ],
)
def test_checkpoints_elsewhere_are_left_to_spark(data_dir: str, local: bool) -> None:
    assert (CHECKPOINT_FILES in defaults(Settings(data_dir=data_dir), "local[*]", is_submitted=False)) == local


@pytest.mark.spark
def test_classes_are_looked_up_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan asks the JVM for no class by name again and again: each time it would search all of its jars."""
    asked: Counter[str] = Counter()

    def counted(ask: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def ask_and_count(owner: Any, name: str) -> Any:
            asked[name] += 1
            return ask(owner, name)

        return ask_and_count

    for kind in (JVMView, JavaPackage):
        monkeypatch.setattr(kind, "__getattr__", counted(kind.__getattr__))
    settings = Settings()
    schema = events.event_schema(spark, settings)
    events.observe_read(events.parse(topics.no_records(spark), schema, settings), schema, settings)
    for name in ("read", "names", "exists"):
        for _ in range(5):
            assert not getattr(Files(spark), name)("/there/is/nothing")
    assert {name: times for name, times in asked.items() if times > 4} == {}
