"""The places of Java and of Kafka's jars.

Rule: the environment wins (`JAVA`, `KAFKA_JARS`, `SPARK_KAFKA_JARS`, as `make` sets them), then the places that the
pipeline's and this folder's `jars` find or fetch.
"""

import os
from pathlib import Path

from interop.jars import KAFKA_VERSION, kafka_jars, release_jars
from pipeline.jars import spark_connector_jars
from pipeline.java import java_home

# A JVM that lives for seconds has to start quickly; its speed afterwards does not matter.
QUICK = "-XX:TieredStopAtLevel=1"
# A JVM tells on standard output, among what a program prints, that an archive is of a checkout that was elsewhere.
_QUIET = ("-Xlog:disable", "-Xlog:all=warning:stderr")
QUICK_JVM = ("-XX:+UseSerialGC", QUICK, "-Xshare:auto")


def java_command(*arguments: str) -> list[str]:
    """Return the command; a JVM that is to start quickly takes the classes of its jars from their archive, if any."""
    java = os.environ.get("JAVA") or str(java_home() / "bin" / "java")
    if QUICK in arguments and "-cp" in arguments:
        archive = class_archive(arguments[arguments.index("-cp") + 1])
        if archive.exists():
            return [java, *_QUIET, f"-XX:SharedArchiveFile={archive}", *arguments]
    return [java, *arguments]


def class_archive(classpath: str) -> Path:
    """Return the place of the archive of a class path's first folder: beside the folder."""
    folder = Path(classpath.partition(os.pathsep)[0]).parent
    return folder.with_name(f"{folder.name}.jsa")


def kafka_classpath(release: str = KAFKA_VERSION) -> str:
    """Return the class path of a release's server and tools."""
    if release != KAFKA_VERSION:
        return f"{release_jars(release)}/*"
    return f"{os.environ.get('KAFKA_JARS') or kafka_jars()}/*"


def spark_jars() -> list[str]:
    """Return the four jars of Spark's Kafka connector; everything else that it needs is in PySpark."""
    folder = os.environ.get("SPARK_KAFKA_JARS") or str(spark_connector_jars())
    return sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".jar"))
