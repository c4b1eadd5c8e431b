"""Settings of the session itself: nothing that only holds on a laptop reaches a cluster, and what the person has set
stays as it is.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession
from pyspark.util import _load_from_socket

from pipeline.connector import connector_jars
from pipeline.session import CHECKPOINT_FILES, defaults
from pipeline.settings import Settings

SOURCES = Path(__file__).resolve().parents[1]
# Starts a session as a job does, and prints what has become of log, UI, metrics and connector.
PROGRAM = """
import json
from pipeline.session import build_session
from pipeline.settings import Settings
session = build_session(Settings(master="local[1]"), "session")
session.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t").load()
level = session.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
has_metrics = session.conf.get("spark.sql.streaming.metricsEnabled")
print(json.dumps([level, session.sparkContext.uiWebUrl is not None, has_metrics]))
"""
LOG = """
rootLogger.level = warn
rootLogger.appenderRef.own.ref = own
appender.own.type = Console
appender.own.name = own
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def said_by(command: list[str], **environment: str) -> Any:
    paths = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH")]))
    whole = os.environ | {"PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"} | environment
    done = subprocess.run(command, env=whole, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.spark
def test_spark_is_quiet_where_nobody_has_said_otherwise(spark: SparkSession) -> None:
    context = spark.sparkContext
    assert context._jvm is not None
    level = context._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
    assert (level, context.uiWebUrl) == ("OFF", None)


@pytest.mark.spark
@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="has ports alone")
def test_nobody_else_can_take_what_is_collected(spark: SparkSession) -> None:
    where, *_ = info = spark.range(3)._jdf.collectToPython()
    assert isinstance(where, str), "a port, which another test's client may reach first"
    with _load_from_socket(info, CPickleSerializer()) as rows:
        assert sum(map(len, rows)) == 3


@pytest.mark.spark
def test_files_of_spark_are_heeded(program: Path, tmp_path: Path) -> None:
    own = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.sql.streaming.metricsEnabled": "true"}
    (tmp_path / "other.jar").touch()
    own["spark.jars"] = str(tmp_path / "other.jar")  # the connector comes beside it
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{key}   {value}\n" for key, value in own.items()))
    (tmp_path / "log4j2.properties").write_text(LOG)
    found = said_by([sys.executable, str(program)], SPARK_CONF_DIR=str(tmp_path))
    assert found == ["WARN", True, "true"]


@pytest.mark.spark
def test_arguments_of_spark_are_heeded(program: Path) -> None:
    arguments = "--conf spark.log.level=ERROR --conf spark.ui.enabled=true --conf spark.ui.port=0 pyspark-shell"
    assert said_by([sys.executable, str(program)], PYSPARK_SUBMIT_ARGS=arguments) == ["ERROR", True, "false"]


@pytest.mark.spark
def test_a_submit_has_the_log_and_the_ui_of_spark(program: Path, tmp_path: Path) -> None:
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--conf", "spark.ui.port=0"]
    (tmp_path / "log4j2.properties").write_text(LOG)
    jars = ["--jars", ",".join(connector_jars())]
    found = said_by([*command, *jars, str(program)], SPARK_CONF_DIR=str(tmp_path), PYSPARK_PYTHON=sys.executable)
    assert found == ["WARN", True, "false"]


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
