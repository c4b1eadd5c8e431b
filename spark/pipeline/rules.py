"""Rules of quality. Rule: an event that breaks rules is refused with the names of all of them, counted for each, and
kept: by silver in the table `quarantine`, by store in the table of refused records, by route as a dead letter.

A rule is about one column. Only `not_null` minds that the value is missing: `{column = "amount", min = 0}` is kept by
an event without an amount.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from math import isfinite
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipeline.errors import SchemaError, SettingsError
from pipeline.events import ORIGIN, REASON, as_text
from pipeline.parts import Parts
from pipeline.settings import Settings
from pipeline.tables import BATCH, quoted

BREAKS = "breaks the rules: "  # begins the reason of an event that is no broken record
SEPARATOR = ", "


def quarantine_path(settings: Settings) -> str:
    return settings.path("quarantine")


def require(rules: Mapping[str, Mapping[str, Any]], schema: T.StructType, spark: SparkSession) -> None:
    """Refuse rules that the schema's columns can't be judged by: Spark would end the job at the first such record.

    Raises:
        SchemaError: a rule names a column that no event has, or compares it with a value of another type.
        SettingsError: a regular expression is none of Java's.
    """
    for name, rule in rules.items():
        if rule["column"] not in schema.names:
            raise SchemaError(f"rule {name}: there is no column {rule['column']}; there are {', '.join(schema.names)}")
        kind = schema[rule["column"]].dataType
        values = [(key, rule[key]) for key in ("min", "max") if key in rule]
        for key, value in [*values, *(("in", each) for each in rule.get("in", ()))]:
            if not _is_comparable(value, kind, spark):
                column = f"column {rule['column']}, which is {kind.simpleString()}"
                raise SchemaError(f"rule {name}: {key} has {value!r}, which can't be compared with {column}")
        if "matches" in rule:
            pattern: Any = getattr(spark._jvm, "java.util.regex.Pattern")
            try:
                pattern.compile(rule["matches"])
                pattern.compile(whole(rule["matches"]))
            except (Py4JJavaError, PySparkException) as error:  # which of them depends on PySpark's version
                raise SettingsError(f"rule {name}: matches is no regular expression of Java's") from error


def _is_comparable(value: Any, kind: T.DataType, spark: SparkSession) -> bool:
    """Return whether Spark compares the value with a column of this type, and without a cast of the column."""
    if isinstance(kind, T.StringType | T.CharType | T.VarcharType):
        return isinstance(value, str)
    if not isinstance(kind, T.NumericType | T.BooleanType | T.DateType | T.TimestampType):
        return False
    if isinstance(value, str):
        literal = spark.range(1).select(F.lit(value).alias("value"))
        return literal.selectExpr(f"TRY_CAST(value AS {kind.simpleString()})").collect()[0][0] is not None
    if isinstance(value, bool) or isinstance(kind, T.BooleanType):
        return isinstance(value, bool) and isinstance(kind, T.BooleanType)
    if isinstance(kind, T.NumericType):
        return (isinstance(value, int) and -(2**63) <= value < 2**63) or (isinstance(value, float) and isfinite(value))
    return isinstance(value, date)


def whole(expression: str) -> str:
    """Return the expression for all of a value."""
    return rf"\A(?:{expression})\z"


def is_broken(rule: Mapping[str, Any]) -> Column:
    """Return whether an event breaks the rule; never null."""
    value = F.col(quoted(rule["column"]))
    checks = []
    if "min" in rule:
        checks.append(value < F.lit(rule["min"]))
    if "max" in rule:
        checks.append(value > F.lit(rule["max"]))
    if "in" in rule:
        checks.append(~value.isin(list(rule["in"])))
    if "matches" in rule:
        checks.append(~value.cast("string").rlike(whole(rule["matches"])))
    if rule.get("not_null"):
        checks.append(value.isNull())
    broken = F.lit(False)
    for check in checks:
        broken = broken | F.coalesce(check, F.lit(False))
    return broken


def judged(frame: DataFrame, rules: Mapping[str, Mapping[str, Any]]) -> DataFrame:
    """Return the frame with a reason for every event that breaks rules."""
    if not rules:
        return frame
    names = F.array(*(F.when(is_broken(rule), F.lit(name)) for name, rule in rules.items()))
    broken = F.array_compact(names)
    words = F.when(F.size(broken) > 0, F.concat(F.lit(BREAKS), F.array_join(broken, SEPARATOR)))
    return frame.withColumn(REASON, F.coalesce(F.col(REASON), words))


def breaks_rules() -> Column:
    return F.coalesce(F.col(REASON).startswith(BREAKS), F.lit(False))


def counts(frame: DataFrame, rules: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many events broke rules, and how many broke each."""
    names = list(rules)
    broken = [F.count(F.when(breaks_rules() & is_broken(rules[name]), 1)) for name in names]
    row = frame.agg(F.count(F.when(breaks_rules(), 1)), *broken).collect()[0]
    return {"quarantined": row[0], "rules": dict(zip(names, row[1:], strict=True))}


def quarantine(table: Parts, batch: DataFrame, batch_id: int) -> None:
    """Write the events of the batch that break rules, in the place of what an earlier attempt wrote.

    Args:
        table: the quarantine's writer.
        batch: judged events.
        batch_id: the number of the batch in its checkpoint.
    """
    broken = batch.where(breaks_rules())
    if broken.isEmpty():
        table.remove((BATCH, batch_id))  # rules may have changed since the earlier attempt
        return
    names = F.split(F.substring(REASON, len(BREAKS) + 1, 2**31 - 1), re.escape(SEPARATOR))
    columns = [quoted(name) for name in batch.columns if not name.startswith("_")]
    rows = broken.select(names.alias("rules"), *columns, as_text("_value").alias("value"), "_timestamp", *ORIGIN)
    table.replace(rows, (BATCH, batch_id))
