"""The Spark session. Rule: under spark-submit only what the submit left open is set, so the same command runs on a
laptop and on a cluster.
"""

from __future__ import annotations

import os

from pyspark import SparkConf, SparkContext
from pyspark import __version__ as PYSPARK_VERSION
from pyspark.sql import SparkSession

from pipeline.connector import connector_jars
from pipeline.settings import Settings, is_local

# For small jobs, which are mostly compilation: the quick compiler, and no code made per query.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}
CONNECTOR_GIVEN = ("spark.jars", "spark.jars.packages")
# How checkpoints are written. Spark's usual way starts a process or two (chmod, readlink) for every file on a local
# disk, tens of milliseconds of each batch; its other one, for object stores, can rely on a local rename just as well.
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_CHECKPOINT_FILES = "FileSystemBasedCheckpointFileManager"
STREAMING = "org.apache.spark.sql.execution.streaming"


def build_session(settings: Settings, name: str) -> SparkSession:
    submitted = submitted_settings()
    builder = SparkSession.builder.appName(f"pipeline-{name}")
    master = settings.master or submitted.get("spark.master", "local[*]")
    if settings.master or not submitted.contains("spark.master"):
        builder = builder.master(master)
    if settings.jars or not any(submitted.contains(key) for key in CONNECTOR_GIVEN):
        builder = builder.config("spark.jars", ",".join(connector_jars(settings.jars)))
    for key, value in defaults(settings, str(master)).items():
        if not submitted.contains(key):
            builder = builder.config(key, value)
    for key, value in settings.spark.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(os.environ.get("PIPELINE_LOG_LEVEL", "OFF"))
    return session


def submitted_settings() -> SparkConf:
    """What spark-submit and its spark-defaults.conf have set; nothing where Python was started first."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # a JVM waits for this process, and knows: without it, a conf is empty
        SparkContext._ensure_initialized()
    return SparkConf()


def defaults(settings: Settings, master: str) -> dict[str, str]:
    everywhere = {
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.stopTimeout": "30000",
    }
    if is_local(settings.data_dir):
        package = f"{STREAMING}.checkpointing" if PYSPARK_VERSION >= "4.1" else STREAMING
        everywhere[CHECKPOINT_FILES] = f"{package}.{LOCAL_CHECKPOINT_FILES}"
    # The executors of a cluster have to find the driver where Spark announces it.
    return everywhere | ({"spark.driver.host": "127.0.0.1"} if master.startswith("local") else {})
