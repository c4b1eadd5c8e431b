"""Files to a topic. Rule: a run that is repeated, after success or after a crash, adds nothing that is there already.

A record's id is made of its file's path below the folder that is ingested, its text, and its number among the same
texts of the file; the id travels as a header, and a run leaves out what the topic has. Records keep the order of their
file. Spark's sink is Kafka's Java producer, so a key has the partition that every Java client gives it (murmur2).
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline import topics
from pipeline.context import Context
from pipeline.errors import SchemaError, SettingsError
from pipeline.files import Files
from pipeline.settings import Settings
from pipeline.tables import quoted

FORMATS = {".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
COMPRESSED = (".gz", ".bz2", ".deflate", ".lz4", ".snappy", ".zst")  # which Spark reads, and tells by the ending
PLACE = ["_file", "_block", "_row"]
# Spark writes times to the millisecond. Those that are whole milliseconds stay so: an id is made of the text.
TO_MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
HAS_MICROSECONDS = r':[0-9]{2}\.[0-9]{3}(?!000)[0-9]{3}(Z|[+-][0-9:]+)?"'
MOST_CHARACTERS = 2**31 - 1


def format_of(settings: Settings) -> str:
    if not settings.input:
        raise SettingsError("input is not set: the file or folder to ingest")
    if settings.input_format:
        return settings.input_format
    path = PurePosixPath(settings.input)
    ending = (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()
    if ending not in FORMATS:
        known = ", ".join(dict.fromkeys(FORMATS.values()))
        raise SettingsError(f"{settings.input} has no ending that tells its format; set input_format to one of {known}")
    return FORMATS[ending]


def check(settings: Settings) -> None:
    format_of(settings)


def writes(settings: Settings) -> list[str]:
    return [settings.bronze_topic]


def read_files(context: Context) -> DataFrame:
    """Return the columns `key`, `value` and where in the files a row stands."""
    settings = context.settings
    try:
        frame, key, value = _key_and_value(context, format_of(settings))
    except AnalysisException as error:
        raise SettingsError(f"{settings.input} can't be read: {str(error).splitlines()[0]}") from error
    return frame.select(
        key.alias("key"),
        value.alias("value"),
        _path_below(Files(context.spark).root_of(settings.input)).alias("_file"),
        F.col("_metadata.file_block_start").alias("_block"),
        F.monotonically_increasing_id().alias("_row"),
    )


def _path_below(root: str) -> Column:
    """Return the path of a row's file below the folder `root`: names are the same in every folder of a table."""
    path = F.regexp_replace("_metadata.file_path", "^[^/]*:(//[^/]*)?(?=/)", "")
    return F.when(path.startswith(f"{root}/"), path.substr(len(root) + 2, MOST_CHARACTERS)).otherwise(path)


def _key_and_value(context: Context, kind: str) -> tuple[DataFrame, Column, Column]:
    settings = context.settings
    if kind == "jsonl":  # a line travels as it is, broken ones too: what it is worth is decided later
        return (
            context.spark.read.option("recursiveFileLookup", "true").text(settings.input),
            F.get_json_object(F.col("value"), f"$['{settings.key_column}']"),
            F.col("value"),
        )
    frame = _read_parquet(context) if kind == "parquet" else _read_csv(context)
    if settings.key_column not in frame.columns:
        raise SchemaError(
            f"{settings.input} has no column {settings.key_column}, which key_column names; "
            f"it has {', '.join(frame.columns)}"
        )
    row = F.struct(*(F.col(quoted(name)) for name in frame.columns))
    value, exact = F.to_json(row), F.to_json(row, TO_MICROSECONDS)
    return (
        frame,
        F.col(quoted(settings.key_column)).cast("string"),
        F.when(exact.rlike(HAS_MICROSECONDS), exact).otherwise(value),
    )


def _read_parquet(context: Context) -> DataFrame:
    """Read every column that any of the files has."""
    return context.spark.read.option("mergeSchema", "true").parquet(context.settings.input)


def _read_csv(context: Context) -> DataFrame:
    """Read the columns of the first file, with the schema's types where it names them and as text elsewhere.

    Files are those of RFC 4180: a value in quotes may have line breaks, and a quote in it is there twice.
    """
    settings = context.settings
    reader = context.spark.read.option("header", "true").option("mode", "FAILFAST").option("enforceSchema", "false")
    reader = reader.option("multiLine", "true").option("escape", '"')
    header = reader.csv(settings.input).columns
    if not header:
        raise SettingsError(f"{settings.input} has no line that names its columns")
    types = {field.name: field.dataType for field in context.spark.createDataFrame([], settings.schema).schema.fields}
    typed = ", ".join(f"{quoted(name)} {types[name].simpleString() if name in types else 'STRING'}" for name in header)
    if settings.input_time_format:
        reader = reader.option("timestampFormat", settings.input_time_format)
    return reader.schema(typed).csv(settings.input)


def with_ids(rows: DataFrame) -> DataFrame:
    same = Window.partitionBy("_file", "value").orderBy("_block", "_row")
    identity = F.concat_ws("\0", F.col("_file"), F.col("value"), F.row_number().over(same))
    return rows.withColumn("id", F.sha2(identity, 256).substr(1, 32))


def run(context: Context) -> dict[str, Any]:
    settings = context.settings
    rows = with_ids(read_files(context)).persist()
    try:
        count = rows.count()
        context.kafka.ensure_topic(settings.bronze_topic)
        new = topics.without_present(context.spark, settings, context.kafka, rows, settings.bronze_topic, "id")
        ordered = new.repartition("_file").sortWithinPartitions(*PLACE)  # a file is one task, so its order is kept
        source = F.array(topics.header("source", F.col("_file")))
        records = topics.with_id_header(ordered.select("key", "value", "id", source.alias("headers")), "id").persist()
        written = records.count()
        if written:
            topics.append(records, settings, settings.bronze_topic)
        records.unpersist()
    finally:
        rows.unpersist()
    return {"topic": settings.bronze_topic, "rows": count, "written": written}
