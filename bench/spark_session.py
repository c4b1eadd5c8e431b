"""The Spark session of a run. Rule: neither its start nor the JVM's getting warm is in anybody's figure.

All workloads share it: a JVM has one, and each turn finds it as warm as the turn before left it.
"""

import functools
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "spark"))

from pipeline.session import build_session
from pipeline.settings import Settings
from pipeline.tables import formats

_warm: set[str] = set()


@functools.cache
def session() -> SparkSession:
    """Return the session, with the format of tables that the installed PySpark can have beside Parquet."""
    return build_session(Settings(master="local[2]", shuffle_partitions=2, table_format=formats()[-1]), "bench")


def warm_up(what: str, work: Callable[[], object]) -> None:
    """Do the work if it was not done before: to the JVM all brokers are the same."""
    if what not in _warm:
        work()
        _warm.add(what)
