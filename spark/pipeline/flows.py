"""Many flows in one driver. Rule: a flow is a job with settings of its own, and what it would do alone it does here.
One session serves all of them. When one fails, the others end after their batch, and the run ends with its words.

[flows.orders]                      # in the settings file
job = "silver"
bronze_topic = "orders"
schema = "order_id STRING, at TIMESTAMP, amount DOUBLE"
[flows.orders.rules.amount]
column = "amount"
min = 0
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from pyspark import __version__ as PYSPARK_VERSION
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from pipeline import tables
from pipeline.context import Context
from pipeline.errors import PipelineError, SettingsError
from pipeline.files import LocalFiles
from pipeline.kafka import Kafka
from pipeline.settings import Settings, converted, fields_of, is_local, require_trigger, with_secrets
from pipeline.settings import check as check_settings

JOBS = ("bronze", "silver", "aggregate", "store", "sessions", "route")
NAME = re.compile(r"\w[\w.-]*")  # a folder of data_dir, too


@dataclasses.dataclass(frozen=True)
class Flow:
    """A job with its settings: one that the file names, or the only one of a run."""

    name: str
    job: str
    settings: Settings

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"pipeline.{self.job}")

    def check(self) -> None:
        """Refuse settings that the job can't use."""
        taken = {field.name for field in fields_of(self.job)}
        for name in ("transform", "rules"):
            if self.job in JOBS and name not in taken and getattr(self.settings, name):
                raise SettingsError(f"{self.job} takes no {name}")
        if "table_format" in taken:
            tables.require(self.settings)
        if hasattr(self.module, "check"):
            self.module.check(self.settings)

    def reads(self) -> list[str]:
        """Return the topics that have to be there; those of a stream are the raw events, if its module says nothing."""
        if hasattr(self.module, "reads"):
            return list(self.module.reads(self.settings))
        return [self.settings.bronze_topic] if self.job in JOBS else []

    def writes(self) -> list[str]:
        """Return the topics that the job writes to."""
        own = self.module.writes(self.settings) if hasattr(self.module, "writes") else []
        return [topic for topic in (*own, self.settings.metrics_topic) if topic]

    def check_claim(self, kafka: Kafka) -> None:
        """Refuse another's checkpoint or table before there is a JVM, where they are on this machine's disk."""
        if hasattr(self.module, "claimed") and is_local(self.settings.data_dir) and is_local(self.settings.from_bronze):
            self.module.claimed(LocalFiles(), self.settings, kafka)


def flows_of(settings: Settings) -> list[Flow]:
    """Return the flows of the settings.

    A flow has the settings of the file's top, and its own. What two flows must not share is named after the flow or
    its topic where nothing is said: the folder, the table, the topics of dead letters and windows.

    Raises:
        SettingsError: there are none, one has a name, a job or a setting that can't be, or two write to one place.
    """
    if not settings.flows:
        raise SettingsError("there are no flows: the settings file has them as tables, [flows.NAME]")
    flows = [_flow(name, dict(table), settings) for name, table in settings.flows.items()]
    _require_places_of_their_own(flows)
    return flows


def _flow(name: str, table: dict[str, Any], settings: Settings) -> Flow:
    job = table.pop("job", "silver")
    if not NAME.fullmatch(name):
        raise SettingsError(f"flow {name!r}: a name has letters, digits, dots, dashes and underscores")
    if job not in JOBS:
        raise SettingsError(f"flow {name}: job is {job!r}, and can be {', '.join(JOBS)}")
    own = {key: converted(key, value, f"flow {name}: {key}") for key, value in table.items()}
    defaults = {
        "data_dir": settings.path(name),
        "dead_letter_topic": "",
        "windows_topic": "",
        "table": re.sub(r"\W", "_", name),
    }
    try:
        changed = dataclasses.replace(settings, flows={}, **(defaults | with_secrets(own, os.environ)))
        check_settings(changed)
        require_trigger(job, changed)
        return Flow(name, job, changed)
    except SettingsError as error:
        raise SettingsError(f"flow {name}: {error}") from error


def _require_places_of_their_own(flows: list[Flow]) -> None:
    taken: dict[str, str] = {}
    for flow in flows:
        place = f"{flow.job} in {flow.settings.data_dir}"
        if flow.job == "store":
            place = f"table {flow.settings.table} of {flow.settings.database_url}"
        if place in taken:
            raise SettingsError(f"flows {taken[place]} and {flow.name} are both {place}")
        taken[place] = flow.name


def in_a_thread(spark: SparkSession, work: Callable[[Flow], dict[str, Any]]) -> Callable[[Flow], dict[str, Any]]:
    """Return the work with the session's properties for a thread of its own; PySpark 3.5 takes no session for that."""
    wrapped: Callable[[Flow], dict[str, Any]] = (
        inheritable_thread_target(work) if PYSPARK_VERSION < "4" else inheritable_thread_target(spark)(work)
    )
    return wrapped


def run(context: Context) -> dict[str, Any]:
    flows = flows_of(context.settings)
    stop = threading.Event()  # of the flows: that of the run, or set by the first that fails
    failed: list[tuple[str, BaseException]] = []

    def run_flow(flow: Flow) -> dict[str, Any]:
        try:
            summary: dict[str, Any] = flow.module.run(Context(context.spark, flow.settings, Kafka(flow.settings), stop))
        except BaseException as error:
            failed.append((flow.name, error))
            stop.set()
            raise
        return {"job": flow.job} | {key: value for key, value in summary.items() if key != "batches_metrics"}

    with ThreadPoolExecutor(len(flows), "flow") as threads:
        target = in_a_thread(context.spark, run_flow)
        running = {flow.name: threads.submit(target, flow) for flow in flows}
        while not all(future.done() for future in running.values()):
            if context.stop.wait(0.1):
                stop.set()
                break
    if failed:
        name, error = failed[0]
        if isinstance(error, PipelineError):
            raise type(error)(f"flow {name}: {error}") from error
        raise error
    return {"flows": {name: future.result() for name, future in running.items()}}
