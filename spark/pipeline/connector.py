"""The jars of Spark's Kafka connector. Rule: what the person gave wins; otherwise they are found or fetched for the
pyspark that is installed, and kept, so that the next run needs no network.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pyspark import __version__ as PYSPARK_VERSION

from pipeline.errors import SettingsError
from pipeline.jars import connector_coordinates, folder_of_format, format_runtime, spark_connector_jars
from pipeline.java import CHECKOUT, JavaError

JARS_VARIABLE = "SPARK_KAFKA_JARS"  # a folder; `make` sets it
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # a scheme, such as of `local:/opt/a.jar`, and no drive of Windows


def missing(reason: str) -> SettingsError:
    scala = "2.12" if PYSPARK_VERSION.startswith("3.") else "2.13"
    try:
        remedy = f", or start with spark-submit --packages {connector_coordinates(PYSPARK_VERSION)[0]}"
    except JavaError:  # no connector is known for this version, so none can be named
        remedy = ""
    return SettingsError(
        f"pyspark {PYSPARK_VERSION} has no Kafka connector of its own, and its jars could not be had: {reason}. "
        f"Needed are spark-sql-kafka-0-10_{scala}, spark-token-provider-kafka-0-10_{scala}, kafka-clients and "
        f"commons-pool2: put them into a folder and name it in {JARS_VARIABLE}, give them with --jars{remedy}"
    )


def connector_jars(given: str = "") -> list[str]:
    """Return the jars for Spark's setting `spark.jars`."""
    if given:
        jars = [jar.strip() for jar in given.split(",")]
        absent = [jar for jar in jars if not _ADDRESS.match(jar) and not Path(jar).exists()]
        if absent:
            raise missing(f"there is no {', '.join(absent)}")
        return jars
    folder = Path(os.environ.get(JARS_VARIABLE) or _fetched())
    jars = sorted(str(path) for path in folder.glob("*.jar"))
    if not any(PYSPARK_VERSION.split(".")[0] == _connector_major(jar) for jar in jars):
        raise missing(f"{folder} has no connector for this version")
    return jars


def format_jars(table_format: str) -> list[str]:
    """Return the jars of a format of tables for the installed PySpark."""
    if not (CHECKOUT / "spark" / "pipeline").exists():
        raise SettingsError(
            f"table_format {table_format} needs its jars: start with spark-submit --packages "
            f"{format_runtime(table_format, PYSPARK_VERSION)[0]}, or give them with --jars"
        )
    try:
        return sorted(str(path) for path in folder_of_format(table_format, PYSPARK_VERSION).glob("*.jar"))
    except JavaError as error:
        raise SettingsError(f"the jars of {table_format} could not be had: {error}") from error


def _connector_major(jar: str) -> str | None:
    """Return `4` of `spark-sql-kafka-0-10_2.13-4.0.0.jar`."""
    name = Path(jar).name
    return name.rsplit("-", 1)[1].split(".")[0] if name.startswith("spark-sql-kafka-") else None


def _fetched() -> Path:
    """Return the folder of jars that the checkout has kept or can fetch."""
    if not (CHECKOUT / "spark" / "pipeline").exists():  # copied elsewhere, or in the archive of a spark-submit
        raise missing(f"{JARS_VARIABLE} is not set")
    try:
        return spark_connector_jars(PYSPARK_VERSION)
    except JavaError as error:
        raise missing(str(error)) from error
