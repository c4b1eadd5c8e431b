"""The formats of tables. Rule: a format is a pair with the PySpark that its runtime works with, and anything else is
refused before a JVM starts; a table stays in the format that it was begun in.

parquet: folders of files, which any tool reads. delta: Delta Lake, whose log makes a batch one commit.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import __version__ as PYSPARK_VERSION
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import topics
from pipeline.context import Context
from pipeline.errors import CheckpointError, SettingsError
from pipeline.files import Files
from pipeline.jars import DELTA_RUNTIMES, line_of
from pipeline.settings import DELTA, PARQUET, Settings

BATCH = "batch"
LOG = "_delta_log"  # what makes a folder a table of Delta
FILE_AGE = "3650d"  # no file of a stream is too old to be read: Spark keeps all names that it has seen
CONFLICT, TRIES = "DELTA_CONCURRENT", 20


def formats() -> list[str]:
    """Return the formats that the installed PySpark can have."""
    return [PARQUET, DELTA] if line_of(PYSPARK_VERSION) in DELTA_RUNTIMES else [PARQUET]


def require(settings: Settings) -> None:
    """Refuse a format whose runtime does not work with the installed PySpark.

    Raises:
        SettingsError: there is no such pair.
    """
    if settings.table_format not in formats():
        works = " or ".join(DELTA_RUNTIMES)
        raise SettingsError(
            f"table_format delta needs PySpark {works}: no released runtime of Delta works with {PYSPARK_VERSION}, "
            "which is installed"
        )


def format_of(files: Files, path: str) -> str:
    """Return the format of the table in the folder; nothing where there is none yet."""
    if files.exists(f"{path}/{LOG}"):
        return DELTA
    return PARQUET if any(not name.startswith((".", "_")) for name in files.names(path)) else ""


def require_format(context: Context, path: str) -> None:
    """Refuse to go on with a table in another format.

    Raises:
        CheckpointError: the table has another format than the settings.
    """
    found, wanted = format_of(Files(context.spark), path), context.settings.table_format
    if found not in ("", wanted):
        raise CheckpointError(f"the table {path} is {found}, and table_format is {wanted}: a table keeps its format")


def name_in_sql(files: Files, path: str) -> str:
    """Return a table of Delta as statements name it."""
    whole = files.qualified(path).replace("`", "``")
    return f"delta.`{whole}`"


def read(spark: SparkSession, path: str) -> DataFrame:
    """Return the table in the folder, whatever its format.

    Raises:
        AnalysisException: there is none.
    """
    if format_of(Files(spark), path) == DELTA:
        return spark.read.format(DELTA).load(path)
    return spark.read.option("mergeSchema", "true").parquet(path)


def read_stream_of_records(spark: SparkSession, settings: Settings, path: str) -> DataFrame:
    """Return the records of a bronze table as a stream; the columns are those of a topic."""
    columns = topics.record_schema(spark).names
    options = {"maxFilesPerTrigger": str(settings.max_files_per_trigger)}
    if format_of(Files(spark), path) == DELTA:
        return spark.readStream.format(DELTA).options(**options).load(path).select(*columns)
    stream = spark.readStream.schema(topics.RECORD).options(**options, maxFileAge=FILE_AGE)
    return stream.parquet(path).select(*columns)


class Appends:
    """A table that gets each batch as a whole, once. owner: the id of the checkpoint that numbers the batches."""

    def __init__(self, context: Context, path: str, owner: str) -> None:
        self._context, self._path, self._owner = context, path, owner
        self._files = Files(context.spark)
        self._write = self._write_delta if context.settings.table_format == DELTA else self._write_parquet

    def __call__(self, batch: DataFrame, batch_id: int) -> dict[str, Any]:
        self._write(batch, batch_id)
        return {}

    def _write_parquet(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch beside the table, and give it its name; a batch that has its name is whole.

        A batch that is repeated has the same records, so what is there stays: a stream may have read those files.
        """
        folder, unfinished = f"{self._path}/{BATCH}={batch_id}", f"{self._path}/_unfinished"
        if self._files.exists(folder):
            return
        self._files.delete(unfinished)
        batch.write.parquet(unfinished)
        self._context.kafka.require_same_topics()
        self._files.rename(unfinished, folder)

    def _write_delta(self, batch: DataFrame, batch_id: int) -> None:
        """Append the batch in one commit; Delta leaves out a version that the application has committed before."""
        batch.persist()
        try:
            batch.count()
            self._context.kafka.require_same_topics()  # all of it is read, and nothing is written
            options = {"txnAppId": self._owner, "txnVersion": str(batch_id)}
            written = batch.withColumn(BATCH, F.lit(batch_id).cast("bigint")).write.format(DELTA).mode("append")
            written.options(**options).save(self._path)
        finally:
            batch.unpersist()


def statement(spark: SparkSession, text: str) -> DataFrame:
    """Run a statement that may be repeated, again where another writer of a Delta table was quicker."""
    for left in reversed(range(TRIES)):
        try:
            return spark.sql(text)
        except (PySparkException, Py4JJavaError) as error:
            if CONFLICT not in str(error) or not left:
                raise
    raise AssertionError("a last try returns or raises")
