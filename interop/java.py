"""Where Java and Kafka's jars are. Rule: the environment wins (`KAFKA_JARS`, `JAVA`), then the cache."""

import os
import shutil
from pathlib import Path


def java_command(*arguments: str) -> list[str]:
    java = os.environ.get("JAVA") or shutil.which("java")
    if java is None:
        raise RuntimeError("no java on PATH and JAVA is not set")
    return [java, *arguments]


def kafka_classpath(version: str = "4.3.1") -> str:
    jars = Path(os.environ.get("KAFKA_JARS") or Path.home() / ".cache" / f"kafka-{version}")
    if not jars.is_dir():
        raise RuntimeError(f"no jars of Kafka {version} in {jars}")
    return f"{jars}/*"


def spark_jars() -> list[str]:
    """The four jars of Spark's Kafka connector; everything else that it needs is in PySpark."""
    folder = Path(os.environ.get("SPARK_KAFKA_JARS") or Path.home() / ".cache" / "spark-kafka-4.0.0")
    found = sorted(str(path) for path in folder.glob("*.jar"))
    if not found:
        raise RuntimeError(f"no jars of Spark's Kafka connector in {folder}")
    return found
