"""The formats of tables. Rule: a format is a pair with the PySpark that its runtime works with, and anything else is
refused before a JVM starts; a table stays in the format that it was begun in.

parquet: folders of files, which any tool reads. delta, iceberg: tables with a log, which makes a batch one commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark import __version__ as PYSPARK_VERSION
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pipeline import lock, topics
from pipeline.errors import CheckpointError, SettingsError
from pipeline.files import AnyFiles, Files
from pipeline.jars import FORMAT_RUNTIMES, format_runtime
from pipeline.settings import DELTA, ICEBERG, PARQUET, Settings

BATCH = "batch"
LOGS = {DELTA: "_delta_log", ICEBERG: "metadata"}  # the folder that makes a folder a table of the format
FILE_AGE = "3650d"  # no file of a stream is too old to be read: Spark keeps all names that it has seen
FILES_OF_A_BATCH = {DELTA: "maxFilesPerTrigger", ICEBERG: "streaming-max-files-per-micro-batch"}
CONFLICTS, TRIES = ("DELTA_CONCURRENT", "CommitFailedException"), 20
Done = TypeVar("Done")


def formats() -> list[str]:
    """Return the formats that the installed PySpark can have."""
    return [PARQUET, *(name for name in FORMAT_RUNTIMES if format_runtime(name, PYSPARK_VERSION))]


def require(settings: Settings) -> None:
    """Refuse a format whose runtime does not work with the installed PySpark.

    Raises:
        SettingsError: there is no such pair.
    """
    wanted = settings.table_format
    if wanted not in formats():
        works = " or ".join(FORMAT_RUNTIMES[wanted])
        raise SettingsError(
            f"table_format {wanted} needs PySpark {works}: no released runtime of {wanted.capitalize()} works with "
            f"{PYSPARK_VERSION}, which is installed"
        )


def format_of(files: AnyFiles, path: str) -> str:
    """Return the format of the table in the folder; nothing where there is none yet."""
    for name, log in LOGS.items():
        if files.exists(f"{path}/{log}"):
            return name
    return PARQUET if any(not name.startswith((".", "_")) for name in files.names(path)) else ""


def require_format(files: AnyFiles, settings: Settings, path: str) -> None:
    """Refuse to go on with a table in another format.

    Raises:
        CheckpointError: the table has another format than the settings.
    """
    found, wanted = format_of(files, path), settings.table_format
    if found not in ("", wanted):
        raise CheckpointError(f"the table {path} is {found}, and table_format is {wanted}: a table keeps its format")


def name_in_sql(spark: SparkSession, files: Files, path: str, table_format: str) -> str:
    """Return a table of Delta or Iceberg as statements in this session name it."""
    if table_format == DELTA:
        return f"delta.{quoted(files.qualified(path))}"
    catalog, table = catalog_of(spark, files, path)
    return f"{catalog}.{quoted(table)}"


def catalog_of(spark: SparkSession, files: Files, path: str) -> tuple[str, str]:
    """Return Iceberg's catalog of the folder that a table is in, and the table's name there; the session has the
    catalog then. Nothing is kept in a cache, as other processes write, too."""
    folder, _, table = files.qualified(path).rpartition("/")
    name = f"pipeline_{hashlib.sha256(folder.encode()).hexdigest()[:12]}"
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": folder}
    for key, value in {**settings, ".cache-enabled": "false"}.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return name, table


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def read(spark: SparkSession, path: str) -> DataFrame:
    """Return the table in the folder, whatever its format. Raises AnalysisException if there is none."""
    files = Files(spark)
    table_format = format_of(files, path)
    if table_format == DELTA:
        return spark.read.format(DELTA).load(path)
    if table_format == ICEBERG:
        return spark.table(name_in_sql(spark, files, path, ICEBERG))
    return spark.read.option("mergeSchema", "true").parquet(path)


def read_stream_of_records(spark: SparkSession, settings: Settings, path: str) -> DataFrame:
    """Return the records of a bronze table as a stream; the columns are those of a topic."""
    columns, files = topics.record_schema(spark).names, Files(spark)
    table_format, at_once = format_of(files, path), str(settings.max_files_per_trigger)
    if table_format in LOGS:
        stream = spark.readStream.format(table_format).option(FILES_OF_A_BATCH[table_format], at_once)
        return stream.load(files.qualified(path)).select(*columns)
    of_files = spark.readStream.schema(topics.RECORD).options(maxFilesPerTrigger=at_once, maxFileAge=FILE_AGE)
    return of_files.parquet(path).select(*columns)


def commit(spark: SparkSession, path: str, do: Callable[[], Done]) -> Done:
    """Do what commits to a table of Delta or Iceberg and may be repeated: alone on a local disk, and again where
    another writer of the table was quicker."""
    with lock.held(spark, path):
        for left in reversed(range(TRIES)):
            try:
                return do()
            except (PySparkException, Py4JJavaError) as error:
                if not left or not any(conflict in str(error) for conflict in CONFLICTS):
                    raise
    raise AssertionError("a last try returns or raises")
