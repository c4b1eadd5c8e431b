"""Where Java and Kafka's jars are. Rule: the environment wins (`JAVA`, `KAFKA_JARS`, `SPARK_KAFKA_JARS`, as `make` sets
them), then what the pipeline's and this folder's `jars` find or fetch.
"""

import os

from interop.jars import KAFKA_VERSION, kafka_jars, release_jars
from pipeline.jars import spark_connector_jars
from pipeline.java import java_home


def java_command(*arguments: str) -> list[str]:
    return [os.environ.get("JAVA") or str(java_home() / "bin" / "java"), *arguments]


def kafka_classpath(release: str = KAFKA_VERSION) -> str:
    """Return the class path of a release's server and tools."""
    if release != KAFKA_VERSION:
        return f"{release_jars(release)}/*"
    return f"{os.environ.get('KAFKA_JARS') or kafka_jars()}/*"


def spark_jars() -> list[str]:
    """The four jars of Spark's Kafka connector; everything else that it needs is in PySpark."""
    folder = os.environ.get("SPARK_KAFKA_JARS") or str(spark_connector_jars())
    return sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".jar"))
