"""The Spark session. Rule: what the person has set stays as it is, wherever it is set: by spark-submit, in
spark-defaults.conf, in a file of log4j2, in PYSPARK_SUBMIT_ARGS, or in the setting `spark`. So the same command runs on
a laptop and on a cluster. The session's time zone alone is always UTC.

Log, UI and progress bars are quiet only where `python -m pipeline` starts Spark itself and nobody has said otherwise.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark import __version__ as PYSPARK_VERSION
from pyspark.sql import SparkSession

from pipeline.connector import connector_jars, format_jars
from pipeline.files import HADOOP_PATH
from pipeline.security import REDACTED_OPTIONS
from pipeline.settings import DELTA, ICEBERG, Settings, is_local

# For small jobs, which are mostly compilation: the quick compiler, with room for what it compiles (in 48 MB, Java 17
# spends a tenth of the time on looking for code to throw away), and no code made per query.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}
# Windows, days and the times in databases are named in UTC: in another zone the hour that comes twice would be one.
ALWAYS = {"spark.sql.session.timeZone": "UTC"}
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
PROPERTY = re.compile(r"^[ \t]*([^\s#!=:]+)[ \t]*[=: \t][ \t]*(.*?)[ \t\r]*$", re.MULTILINE)
SUBMIT_OPTIONS = {"--jars": "spark.jars", "--packages": "spark.jars.packages", "--master": "spark.master"}
SPARKS_OWN_LOG = re.compile(r"org/apache/spark/log4j2[\w-]*\.properties$")  # inside its jar
SQL_EXTENSIONS = "spark.sql.extensions"
JARS, CONNECTOR = ("spark.jars", "spark.jars.packages"), "spark-sql-kafka"
# What a session needs for a format of tables, beside its jars.
EXTENSIONS = {
    DELTA: "io.delta.sql.DeltaSparkSessionExtension",
    ICEBERG: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
FORMAT_SETTINGS = {
    DELTA: {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
    ICEBERG: {},
}
RUNTIMES = {DELTA: "delta-spark", ICEBERG: "iceberg-spark-runtime"}  # in the names of their jars and packages
# How checkpoints are written. Spark's usual way starts a process or two (chmod, readlink) for every file on a local
# disk, tens of milliseconds of each batch; its other one, for object stores, can rely on a local rename just as well.
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_CHECKPOINT_FILES = "FileSystemBasedCheckpointFileManager"
STREAMING = "org.apache.spark.sql.execution.streaming"
# Classes that PySpark and `files.py` ask the JVM for by these names, at every column, call and exception. The JVM looks
# into each of its jars for a short name or a package's: a seventh of the CPU time of small jobs.
ASKED_FOR = (
    ("functions",),
    ("PythonUtils",),
    ("PythonSQLUtils",),
    ("org.apache.spark.sql.functions",),
    ("org.apache.spark.sql.classic.SparkSession",),
    ("org.apache.spark.sql.internal.SQLConf",),
    ("org.apache.spark.util.Utils",),
    (HADOOP_PATH,),
    ("py4j", "reflection", "TypeUtil"),
)


def build_session(settings: Settings, name: str) -> SparkSession:
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit's JVM waits for this process
    given = (submitted_settings() if is_submitted else launch_settings()) | settings.spark
    builder = SparkSession.builder.appName(f"pipeline-{name}")
    master = settings.master or given.get("spark.master", "local[*]")
    if settings.master or "spark.master" not in given:
        builder = builder.master(master)
    ours = {
        key: value for key, value in defaults(settings, master, is_submitted=is_submitted).items() if key not in given
    }
    if master.startswith("local"):  # tasks that run Python run this one: PySpark alone takes any python3 of the path
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    lists = connector_setting(settings, given, is_submitted=is_submitted)
    wanted = {settings.table_format, *(flow.get("table_format") for flow in settings.flows.values())}
    for table_format in (name for name in EXTENSIONS if name in wanted):
        log = {"spark.databricks.delta.snapshotPartitions": str(settings.shuffle_partitions)}  # Delta's own: 50
        more = FORMAT_SETTINGS[table_format] | log
        ours |= {key: value for key, value in more.items() if key not in given}
        lists = with_format(table_format, lists, given)
    for key, value in (ours | settings.spark | lists | ALWAYS).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    remember_classes(session)
    if not (is_submitted or "spark.log.level" in given or has_own_log(session)):
        session.sparkContext.setLogLevel("OFF")
    return session


def remember_classes(session: SparkSession) -> None:
    """Ask the JVM once for each of the classes; Py4J asks for what its view has no attribute for."""
    for names in ASKED_FOR:
        owner: Any = session._jvm
        for name in names:
            found = getattr(owner, name)
            setattr(owner, name, found)
            owner = found


def connector_setting(settings: Settings, given: Mapping[str, str], *, is_submitted: bool) -> dict[str, str]:
    """Return the connector's jars beside those that are given; nothing where the connector is among these.

    A submit that gives any jars or packages is taken to give the connector, whatever their names are.
    """
    jars = [given[key] for key in JARS if key in given]
    if not settings.jars and (any(CONNECTOR in text for text in jars) or (is_submitted and jars)):
        return {}
    others = [given["spark.jars"]] if "spark.jars" in given else []
    return {"spark.jars": ",".join([*others, *connector_jars(settings.jars)])}


def with_format(table_format: str, lists: dict[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that are lists with what a format of tables needs in them, beside what is given there: its
    extension, and its jars unless these are given."""
    present = {**given, **lists}
    extensions = dict.fromkeys(filter(None, [*present.get(SQL_EXTENSIONS, "").split(","), EXTENSIONS[table_format]]))
    lists = {**lists, SQL_EXTENSIONS: ",".join(extensions)}
    if not any(RUNTIMES[table_format] in present.get(key, "") for key in JARS):
        others = [present["spark.jars"]] if present.get("spark.jars") else []
        lists["spark.jars"] = ",".join([*others, *format_jars(table_format)])
    return lists


def submitted_settings() -> dict[str, str]:
    """Return the settings that spark-submit and its spark-defaults.conf have made."""
    SparkContext._ensure_initialized()  # the JVM knows: without it, a conf is empty
    return dict(SparkConf().getAll())


def launch_settings() -> dict[str, str]:
    """Return the settings of spark-defaults.conf and PYSPARK_SUBMIT_ARGS for a JVM that has not started."""
    folder = os.environ.get("SPARK_CONF_DIR") or Path(
        os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "conf"
    )
    file = Path(folder, "spark-defaults.conf")
    found = dict(PROPERTY.findall(file.read_text())) if file.exists() else {}
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--conf", "-c", action="append", default=[])
    for option in SUBMIT_OPTIONS:
        parser.add_argument(option)
    options, _ = parser.parse_known_args(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    found |= {key: value for key, _, value in (text.partition("=") for text in options.conf)}
    given = {key: getattr(options, option.lstrip("-")) for option, key in SUBMIT_OPTIONS.items()}
    return found | {key: value for key, value in given.items() if value is not None}


def has_own_log(session: SparkSession) -> bool:
    """Return whether the JVM's log is set up by a file that is not Spark's own."""
    jvm: Any = session.sparkContext._jvm
    logs = getattr(jvm, "org.apache.logging.log4j.LogManager")
    source = logs.getContext(False).getConfiguration().getConfigurationSource().getLocation()
    return source is not None and not SPARKS_OWN_LOG.search(source)


def defaults(settings: Settings, master: str, *, is_submitted: bool) -> dict[str, str]:
    everywhere = {
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        # Spark 3.5 ends a job at a day before 1582 or a time before 1900, which older Sparks would read otherwise.
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        "spark.sql.streaming.stopTimeout": "300000",  # a loaded machine may take a minute
        "spark.sql.redaction.options.regex": REDACTED_OPTIONS,
        # The place in Python of every column, which no error here tells: half of the time to plan a job.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if not is_submitted:
        everywhere |= QUIET
    if is_local(settings.data_dir):
        package = f"{STREAMING}.checkpointing" if PYSPARK_VERSION >= "4.1" else STREAMING
        everywhere[CHECKPOINT_FILES] = f"{package}.{LOCAL_CHECKPOINT_FILES}"
    # The executors of a cluster have to find the driver where Spark announces it, and get the package by --py-files.
    return everywhere | (on_this_machine() if master.startswith("local") else {})


def on_this_machine() -> dict[str, str]:
    """Return the settings without a cluster: tasks that run Python find this package where the driver has found it."""
    package = str(Path(__file__).resolve().parents[1])
    paths = os.pathsep.join(path for path in (package, os.environ.get("PYTHONPATH")) if path)
    return {"spark.driver.host": "127.0.0.1", "spark.executorEnv.PYTHONPATH": paths}
