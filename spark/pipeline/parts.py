"""Tables that are written part by part. Rule: a part is what one batch or one replay writes, and the table has it once
and whole, however often it is written.

`append` leaves a part as it is that the table has already: streams may have read it. `replace` takes the place of what
an earlier attempt wrote. Only the first part of a run can have been written before.

parquet: a part is a folder, which gets its name when it is finished. delta: a part is a commit; an appended one has the
number of its batch (`txnVersion`), a replaced one is `replaceWhere`. iceberg: a part is a commit, and is looked for by
its column before it is written; what is replaced is deleted by a commit of its own, just before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from pipeline import tables
from pipeline.context import Context
from pipeline.files import Files, beside
from pipeline.settings import DELTA, ICEBERG, PARQUET
from pipeline.tables import quoted

Part = tuple[str, int | str]  # the column that tells parts apart, and its value
VIEW = "pipeline_batch"


class Parts(ABC):
    """A table's writer."""

    def __init__(self, context: Context, path: str, partitioned_by: Sequence[str] = (), owner: str = "") -> None:
        """
        Args:
            context: of the job.
            path: the table's folder.
            partitioned_by: columns.
            owner: the id of the checkpoint that numbers the batches; needed where parts are appended.
        """
        self._context, self._path, self._owner = context, path, owner
        self._partitioned_by = list(partitioned_by)
        self._files = Files(context.spark)
        self._is_first = True

    @abstractmethod
    def append(self, rows: DataFrame, part: Part) -> None:
        """Write a part that is the same whenever it is written, unless the table has it."""

    @abstractmethod
    def replace(self, rows: DataFrame, part: Part) -> None:
        """Write a part in the place of what an earlier attempt wrote."""

    @abstractmethod
    def replace_all(self, rows: DataFrame) -> None:
        """Write rows in the place of the whole table."""

    @abstractmethod
    def remove(self, part: Part) -> None:
        """Take out what an earlier attempt wrote of a part that has no rows."""

    @abstractmethod
    def rows(self, part: Part, schema: StructType) -> DataFrame:
        """Return the rows of a part, with these columns."""


class ParquetParts(Parts):
    """Folders of files."""

    def append(self, rows: DataFrame, part: Part) -> None:
        if not self._files.exists(self._folder(part)):
            self._files.rename(self._part_written(rows, part), self._folder(part))

    def replace(self, rows: DataFrame, part: Part) -> None:
        self._files.recover_folder(self._folder(part))
        self._files.replace_folder(self._part_written(rows, part), self._folder(part))
        self._is_first = False

    def replace_all(self, rows: DataFrame) -> None:
        self._files.recover_folder(self._path)
        self._files.replace_folder(self._written(rows, beside(self._path, "unfinished")), self._path)

    def remove(self, part: Part) -> None:
        if self._is_first:
            self._files.delete(self._folder(part))
            self._files.delete(beside(self._folder(part), "old"))
        self._is_first = False

    def rows(self, part: Part, schema: StructType) -> DataFrame:
        return self._context.spark.read.schema(schema).parquet(self._folder(part))

    def _folder(self, part: Part) -> str:
        return f"{self._path}/{part[0]}={part[1]}"

    def _part_written(self, rows: DataFrame, part: Part) -> str:
        """Write a part beside the others; return its folder."""
        return self._written(rows, f"{self._path}/_unfinished-{part[1]}", part[0])

    def _written(self, rows: DataFrame, unfinished: str, without: str = "") -> str:
        """Write rows into a folder, and return it. without: the column of parts, which the rows do not have."""
        self._files.delete(unfinished)
        rows.write.partitionBy(*(name for name in self._partitioned_by if name != without)).parquet(unfinished)
        self._context.kafka.require_same_topics()
        return unfinished


class LoggedParts(Parts):
    """A table of a format with a log. It is made, without rows, before the first of them is written: whatever a crash
    leaves in the folder, it is a table of its format."""

    table_format: str
    own_names: Mapping[str, str] = {}  # of columns whose names the format keeps for itself

    def prepare(self, schema: StructType) -> StructType:
        """Make the table, or give it the columns that it lacks; return those that it has."""
        fields = [
            StructField(self.own_names.get(field.name, field.name), field.dataType, metadata=field.metadata)
            for field in schema.fields
        ]
        try:
            present = self._read().schema
        except AnalysisException:
            present = StructType()
        lacking = StructType([field for field in fields if field.name not in present.names])
        if lacking.fields:
            self._create_or_extend(present, lacking)
        return StructType([*present.fields, *lacking.fields])

    @abstractmethod
    def _create_or_extend(self, present: StructType, lacking: StructType) -> None: ...

    def merge(self, rows: DataFrame, condition: str) -> None:
        """Insert the rows, in one commit, that no row of the table matches.

        Args:
            rows: with the columns of the table.
            condition: SQL about a row `known` of the table and a row `found`.
        """
        rows.createOrReplaceTempView(VIEW)
        columns = ", ".join(quoted(name) for name in rows.columns)
        values = ", ".join(f"found.{quoted(name)}" for name in rows.columns)
        name = tables.name_in_sql(rows.sparkSession, self._files, self._path, self.table_format)
        text = f"MERGE INTO {name} AS known USING {VIEW} AS found ON {condition} "
        self._change(rows.sparkSession, text + f"WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})")

    def remove(self, part: Part) -> None:
        if self._is_first and self._has(part):
            name = tables.name_in_sql(self._context.spark, self._files, self._path, self.table_format)
            self._change(self._context.spark, f"DELETE FROM {name} WHERE {_condition(part)}")
        self._is_first = False

    def _has(self, part: Part) -> bool:
        try:
            return not self._read().where(_is_of(part)).isEmpty()
        except AnalysisException:  # there is no table yet
            return False

    def rows(self, part: Part, schema: StructType) -> DataFrame:
        back = {own: name for name, own in self.own_names.items()}
        return self._read().where(_is_of(part)).withColumnsRenamed(back).select(*map(quoted, schema.names))

    def aligned(self, rows: DataFrame, schema: StructType) -> DataFrame:
        """Return the rows with the columns of the table, which are these; null where they have none."""
        named = rows.withColumnsRenamed(dict(self.own_names))
        columns = [
            F.col(quoted(field.name)) if field.name in named.columns else F.lit(None).cast(field.dataType)
            for field in schema.fields
        ]
        return named.select(*(column.alias(name) for column, name in zip(columns, schema.names, strict=True)))

    def _read(self) -> DataFrame:
        return tables.read(self._context.spark, self._path)

    def _change(self, spark: SparkSession, statement: str) -> None:
        """Run a statement that changes the table. spark: the session that has what the statement names; a batch of a
        stream has one of its own."""
        tables.commit(spark, self._path, lambda: spark.sql(statement))

    def _commit(self, rows: DataFrame, write: Callable[[DataFrame], None]) -> None:
        """Write rows once all of them are read."""
        whole = rows.persist()
        try:
            whole.count()
            self._context.kafka.require_same_topics()
            write(self.aligned(whole, self.prepare(whole.schema)))
        finally:
            whole.unpersist()
        self._is_first = False


class DeltaParts(LoggedParts):
    """A table of Delta."""

    table_format = DELTA

    def append(self, rows: DataFrame, part: Part) -> None:
        options = {"txnAppId": self._owner, "txnVersion": str(part[1])}
        self._commit(_with(rows, part), lambda whole: self._save(whole, "append", options))

    def replace(self, rows: DataFrame, part: Part) -> None:
        mode, options = ("overwrite", {"replaceWhere": _condition(part)}) if self._is_first else ("append", {})
        self._commit(_with(rows, part), lambda whole: self._save(whole, mode, options))

    def replace_all(self, rows: DataFrame) -> None:
        self._commit(rows, lambda whole: self._save(whole, "overwrite", {}))

    def _create_or_extend(self, present: StructType, lacking: StructType) -> None:
        self._files.make_folder(f"{self._path}/{tables.LOGS[DELTA]}")
        empty = self._context.spark.createDataFrame([], StructType([*present.fields, *lacking.fields]))
        self._save(empty, "append", {"mergeSchema": "true"})

    def _save(self, whole: DataFrame, mode: str, options: dict[str, str]) -> None:
        writer = whole.write.format(DELTA).mode(mode).partitionBy(*self._partitioned_by).options(**options)
        tables.commit(self._context.spark, self._path, lambda: writer.save(self._path))


class IcebergParts(LoggedParts):
    """A table of Iceberg, in a catalog that is the folder above it."""

    table_format = ICEBERG
    own_names: Mapping[str, str] = {"_partition": "_topic_partition"}

    def append(self, rows: DataFrame, part: Part) -> None:
        if not self._is_first or not self._has(part):
            self._commit(_with(rows, part), self._save)
        self._is_first = False

    def replace(self, rows: DataFrame, part: Part) -> None:
        def write(whole: DataFrame) -> None:
            self.remove(part)
            self._save(whole)

        self._commit(_with(rows, part), write)

    def replace_all(self, rows: DataFrame) -> None:
        self._commit(rows, lambda whole: self._write(whole, lambda writer: writer.overwrite(F.lit(True))))

    def _create_or_extend(self, present: StructType, lacking: StructType) -> None:
        columns = ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in lacking.fields)
        name = tables.name_in_sql(self._context.spark, self._files, self._path, ICEBERG)
        by = ", ".join(quoted(column) for column in self._partitioned_by)
        text = f"CREATE TABLE {name} ({columns}) USING iceberg" + (f" PARTITIONED BY ({by})" if by else "")
        extended = f"ALTER TABLE {name} ADD COLUMNS ({columns})"
        self._change(self._context.spark, extended if present.fields else text)

    def _save(self, whole: DataFrame) -> None:
        self._write(whole, DataFrameWriterV2.append)

    def _write(self, whole: DataFrame, write: Callable[[DataFrameWriterV2], None]) -> None:
        writer = whole.writeTo(tables.name_in_sql(whole.sparkSession, self._files, self._path, ICEBERG))
        tables.commit(whole.sparkSession, self._path, lambda: write(writer))


KINDS: dict[str, type[ParquetParts] | type[DeltaParts] | type[IcebergParts]] = {
    PARQUET: ParquetParts,
    DELTA: DeltaParts,
    ICEBERG: IcebergParts,
}


def parts_of(context: Context, path: str, partitioned_by: Sequence[str] = (), owner: str = "") -> Parts:
    """Return the writer of a table in the format of the settings."""
    return KINDS[context.settings.table_format](context, path, partitioned_by, owner)


def logged_parts_of(context: Context, path: str, partitioned_by: Sequence[str]) -> LoggedParts:
    """Return the writer of a table in the format of the settings, which is one with a log."""
    return (DeltaParts if context.settings.table_format == DELTA else IcebergParts)(context, path, partitioned_by)


def _with(rows: DataFrame, part: Part) -> DataFrame:
    """Return the rows with the column of their part."""
    column, value = part
    return rows.withColumn(column, F.lit(value).cast("bigint" if isinstance(value, int) else "string"))


def _is_of(part: Part) -> Column:
    return F.col(part[0]) == F.lit(part[1])


def _condition(part: Part) -> str:
    value = part[1] if isinstance(part[1], int) else f"'{part[1]}'"
    return f"{quoted(part[0])} = {value}"
