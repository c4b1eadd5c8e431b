"""Steps between reading events and writing them: the user's own step, then the rules of quality.

Rule: refused records pass by, so that no step can lose one; columns that begin with `_` are the pipeline's, and a step
keeps them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipeline import events, rules, topics
from pipeline.context import Context
from pipeline.errors import SchemaError, SettingsError
from pipeline.events import OWN, REASON, require_free

Transform = Callable[[DataFrame], DataFrame]


def imported(name: str) -> Transform:
    """Return the function of `package.module:function`. Raises SettingsError if there is no such function."""
    module, _, function = name.partition(":")
    try:
        found: Transform = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"transform is {name!r}, and can't be imported: {error}") from error
    if not callable(found):
        raise SettingsError(f"transform is {name!r}, and is no function")
    return found


class Steps:
    """The steps of one job. `schema`: the columns of an event after them."""

    def __init__(self, context: Context, schema: StructType) -> None:
        settings = context.settings
        self._rules = settings.rules
        self._transform = imported(settings.transform) if settings.transform else None
        self._own: list[str] = []  # columns of the pipeline
        self.schema = self._schema_after(context, schema)
        rules.require(self._rules, self.schema, context.spark)

    def _schema_after(self, context: Context, schema: StructType) -> StructType:
        if self._transform is None:
            return schema
        spark, settings = context.spark, context.settings
        parsed = events.parse(topics.no_records(spark), schema, settings)
        own = self._own = [name for name in parsed.columns if name not in schema.names]
        empty = spark.createDataFrame([], parsed.schema)  # no part of a stream
        after = self._transform(empty).schema
        lost = [name for name in own if name not in after.names]
        if lost:
            raise SchemaError(f"transform {settings.transform} has to keep the columns {', '.join(lost)}")
        for name in (settings.id_column, settings.time_column):
            if name not in after.names or after[name].dataType != schema[name].dataType:
                raise SchemaError(f"transform {settings.transform} has to keep the column {name} as it is")
        result = StructType([field for field in after.fields if field.name not in own])
        require_free(result, OWN, "the pipeline needs for itself")
        return result

    @property
    def are_none(self) -> bool:
        return self._transform is None and not self._rules

    def applied(self, batch: DataFrame) -> tuple[DataFrame, dict[str, Any]]:
        """Return the batch after the steps, and what was counted; the batch has to be persisted."""
        if self._transform is not None:
            # Without the columns of an event, which may have other types after the step.
            own = [name for name in batch.columns if name in self._own]
            refused = batch.where(F.col(REASON).isNotNull()).select(*own)
            accepted = self._transform(batch.where(F.col(REASON).isNull()))
            batch = accepted.unionByName(refused, allowMissingColumns=True)
        if not self._rules:
            return batch, {}
        judged = rules.judged(batch, self._rules)
        return judged, rules.counts(judged, self._rules)
