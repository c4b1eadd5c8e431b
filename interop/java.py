"""Where Java and Kafka's jars are. Rule: the environment wins (`JAVA`, `KAFKA_JARS`, `SPARK_KAFKA_JARS`, as `make` sets
them), then what `interop/jars.py` finds or fetches.
"""

import os

from interop import jars


def java_command(*arguments: str) -> list[str]:
    return [os.environ.get("JAVA") or str(jars.java_home() / "bin" / "java"), *arguments]


def kafka_classpath() -> str:
    return f"{os.environ.get('KAFKA_JARS') or jars.kafka_jars()}/*"


def spark_jars() -> list[str]:
    """The four jars of Spark's Kafka connector; everything else that it needs is in PySpark."""
    folder = os.environ.get("SPARK_KAFKA_JARS") or str(jars.spark_connector_jars())
    return sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".jar"))
