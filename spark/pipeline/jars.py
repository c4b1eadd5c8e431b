"""Jars from Maven's repositories, each set fetched once and kept in `.cache/jars` of the checkout (or
PYKAFKA_BROKER_JARS).

Rule: a folder that is there is complete. Jars are fetched by name into a folder beside it, through Maven where it is
installed, otherwise through the Ivy that PySpark carries; what can't be had is an error with its reason.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from pipeline.java import JavaError, cache_dir, java_home

SPARK_VERSION = "4.3.0"  # unless another one is installed
COMPLETE = ".complete"


class JarsError(JavaError):
    """Jars could not be had."""


def _connector(scala: str, connector: str, token_provider: str, clients: str, pool: str) -> list[str]:
    """Return Spark's Kafka connector and the three jars that it needs beyond PySpark's own."""
    return [
        f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{connector}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{token_provider}",
        f"org.apache.kafka:kafka-clients:{clients}",
        f"org.apache.commons:commons-pool2:{pool}",
    ]


# By release line of PySpark: the newest connector of the line that the repositories have. They have none of 4.3, and
# not every token provider; the nearest older one serves. 4.1 has no row: its streams fail for a reason of their own
# (SPARK-55271). Every connector has the mend of SPARK-53560 or never had the fault: with 4.0.0, a batch that was
# interrupted before its topic got partitions fails at every restart.
SPARK_CONNECTORS = {
    "3.5": _connector("2.12", "3.5.7", "3.5.7", "3.4.1", "2.11.1"),
    "4.0": _connector("2.13", "4.0.4", "4.0.0", "3.9.1", "2.12.0"),
    "4.2": _connector("2.13", "4.2.0", "4.2.0", "3.9.2", "2.13.1"),
    "4.3": _connector("2.13", "4.2.0", "4.2.0", "3.9.2", "2.13.1"),
}


# By format of tables and release line of PySpark: the newest runtime that works with it. Delta 4.4.0 is made for 4.2,
# and with 4.3 its streams and merges end in NoSuchMethodError. Iceberg has runtimes for 3.5, 4.0 and 4.1; that of 4.1
# (1.12.0) ends in IncompatibleClassChangeError with 4.2 and 4.3, before a table is made.
FORMAT_RUNTIMES = {
    "delta": {
        "4.2": [
            "io.delta:delta-spark_4.2_2.13:4.4.0",
            "io.delta:delta-storage:4.4.0",
            "io.delta:delta-kernel-api:4.4.0",
            "io.delta:delta-kernel-defaults:4.4.0",
            "io.delta:delta-kernel-unitycatalog:4.4.0",
            "io.unitycatalog:unitycatalog-client:0.6.0",
        ]
    },
    "iceberg": {
        "3.5": ["org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0"],
        "4.0": ["org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"],
    },
}


def line_of(version: str) -> str:
    """Return `4.2` of `4.2.1`."""
    return ".".join(version.split(".")[:2])


def format_runtime(table_format: str, pyspark: str) -> list[str]:
    """Return the Maven coordinates of a format's runtime for this version of PySpark, the runtime's own first; nothing
    where there is none."""
    return FORMAT_RUNTIMES.get(table_format, {}).get(line_of(pyspark), [])


def folder_of_format(table_format: str, pyspark: str) -> Path:
    """Return the folder with the jars of a format, which has to have a runtime for this version of PySpark."""
    coordinates = format_runtime(table_format, pyspark)
    _, artifact, version = coordinates[0].split(":")
    return fetched(f"{artifact}-{version}", coordinates, transitive=False)


def connector_coordinates(pyspark: str) -> list[str]:
    """Return the Maven coordinates of the four jars for this version of PySpark, the connector's own first.

    Raises:
        JarsError: no connector is known to work with this version.
    """
    line = line_of(pyspark)
    if line not in SPARK_CONNECTORS:
        raise JarsError(f"pyspark {pyspark} is of none of the lines {', '.join(SPARK_CONNECTORS)}")
    return SPARK_CONNECTORS[line]


def spark_connector_jars(pyspark: str = "") -> Path:
    """Return the folder with the four jars of Spark's Kafka connector, for this PySpark or the installed one."""
    coordinates = connector_coordinates(pyspark or _installed_pyspark())
    _, artifact, version = coordinates[0].split(":")
    return fetched(f"{artifact}-{version}", coordinates, transitive=False)


def _installed_pyspark() -> str:
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return SPARK_VERSION


def fetched(name: str, coordinates: list[str], *, transitive: bool) -> Path:
    """Return the folder `name` with these jars, and all that they depend on where `transitive` says so."""
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
        _move(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _move(unfinished: Path, folder: Path) -> None:
    """Give the folder its name, unless another process has done so meanwhile and perhaps reads there already."""
    try:
        unfinished.rename(folder)
    except OSError:
        if not (folder / COMPLETE).exists():
            raise


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


# -- a Java trust store: the jars are fetched from whom pip fetches packages


PASSWORD = "changeit"
_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2
_BUNDLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")


def trusted_authorities() -> list[bytes]:
    """Return the certificates, in DER and without repeats, that this machine's Python and pip trust: a Java runtime
    from a package brings its own authorities and knows none that the machine's owner has added.
    """
    context = ssl.create_default_context()
    for name in _BUNDLES:
        if Path(os.environ.get(name, "")).is_file():
            context.load_verify_locations(os.environ[name])
    return list(dict.fromkeys(context.get_ca_certs(binary_form=True)))


def write_trust_store(path: Path, authorities: list[bytes]) -> None:
    """Write the JKS format, version 2: entries, then a digest that is salted with the password."""
    data = struct.pack(">III", _MAGIC, _VERSION, len(authorities))
    for number, certificate in enumerate(authorities):
        data += struct.pack(">I", _TRUSTED) + _text(str(number)) + struct.pack(">Q", 0)
        data += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    digest = hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + data).digest()
    path.write_bytes(data + digest)


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


def java_options(folder: Path) -> list[str]:
    """Return the options that make a Java trust them; none if Python trusts nobody by itself."""
    authorities = trusted_authorities()
    if not authorities:
        return []
    store = folder / "authorities.jks"
    write_trust_store(store, authorities)
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
        "-Djavax.net.ssl.trustStoreType=JKS",
    ]
