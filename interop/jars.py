"""The jars of Kafka that the JVM tests need: its server and tools, Streams, Connect, MirrorMaker and old clients.

Rule: what can't be had is an error with its reason, never a skipped test. How jars and a Java are found or fetched is
the pipeline's (`pipeline.jars`, `pipeline.java`), which needs some of its own.

    python -m interop.jars [KAFKA_JARS ...]    fetches what is missing of these sets, or of all but the other release's,
                                               and prints the shell lines that tell the tests where it is
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.jars import fetched, spark_connector_jars
from pipeline.java import JavaError, java_home
from pykafka_broker.releases.release import OWN_VERSION
from tests.releases.other import OTHER_VERSION

KAFKA_VERSION = OWN_VERSION
# The repositories have no 4.4.0 of Connect's file connectors, MirrorMaker and the examples of Streams.
APPLICATIONS_VERSION = "4.3.1"
STREAMS = [f"org.apache.kafka:kafka-streams-examples:{APPLICATIONS_VERSION}"]
SLF4J = "org.slf4j:slf4j-nop:1.7.36"  # the logging backend that drops everything
LOG4J_VERSION = "2.25.5"  # the version among Kafka's jars
LOGGING = ["org.slf4j:slf4j-api:2.0.17", f"org.apache.logging.log4j:log4j-slf4j2-impl:{LOG4J_VERSION}"]
CONNECT = [f"org.apache.kafka:{name}:{APPLICATIONS_VERSION}" for name in ("connect-runtime", "connect-file")]
MIRROR = [f"org.apache.kafka:connect-mirror:{APPLICATIONS_VERSION}", SLF4J]


def kafka_jars() -> Path:
    """Return the folder with the server and the tools of the release that this broker is compared with."""
    return release_jars(KAFKA_VERSION)


def other_kafka_jars() -> Path:
    """Return the folder with the server and the tools of the other release, which this broker can pass for."""
    return release_jars(OTHER_VERSION)


def release_jars(release: str) -> Path:
    """Return the folder with that release's server and tools, everything that they depend on included."""
    coordinates = [f"org.apache.kafka:{name}:{release}" for name in ("kafka_2.13", "kafka-tools")]
    return fetched(f"kafka-{release}", coordinates, transitive=True)


def streams_jars() -> Path:
    """Return the folder with Kafka Streams, its examples, and what they depend on."""
    return fetched(f"kafka-streams-{APPLICATIONS_VERSION}", STREAMS, transitive=True)


def connect_jars() -> Path:
    """Return the folder with Kafka Connect, its file connectors, and what they depend on."""
    return fetched(f"kafka-connect-{APPLICATIONS_VERSION}", CONNECT, transitive=True)


def mirror_jars() -> Path:
    """Return the folder with MirrorMaker 2, and what it depends on."""
    return fetched(f"kafka-mirror-{APPLICATIONS_VERSION}", MIRROR, transitive=True)


def logging_jars() -> Path:
    """Return the folder with the way from SLF4J to Log4j, which Kafka's jars do not have."""
    return fetched(f"logging-{LOG4J_VERSION}", LOGGING, transitive=False)


def aws_jars() -> Path:
    """Return the folder with the login module for Amazon MSK, and what it depends on."""
    return fetched("aws-msk-iam-auth-2.3.5", ["software.amazon.msk:aws-msk-iam-auth:2.3.5"], transitive=True)


def client_jars(release: str) -> Path:
    """Return the folder with that release of Kafka's clients; those of 0.8 are partly in the jar of its server."""
    coordinates = [f"org.apache.kafka:kafka-clients:{release}", SLF4J]
    if release.startswith("0.8."):
        coordinates.append(f"org.apache.kafka:kafka_2.11:{release}")
    return fetched(f"kafka-clients-{release}", coordinates, transitive=True)


def zookeeper_age_jars(release: str) -> Path:
    """Return the folder with the server and the tools of a release that needs ZooKeeper, and ZooKeeper itself.

    Releases before 1.0 use a package that Java had until release 10.
    """
    if release.startswith("3."):
        return release_jars(release)
    scala = "2.11" if release.startswith(("0.8.", "0.9.", "0.10.1.")) else SCALA_OF_OLD.get(release, "2.13")
    coordinates = [f"org.apache.kafka:kafka_{scala}:{release}", SLF4J]
    if release.startswith("0."):
        coordinates.append("javax.xml.bind:jaxb-api:2.3.1")
    return fetched(f"kafka-zookeeper-{release}", coordinates, transitive=True)


SCALA_OF_OLD = {"0.10.2.2": "2.12", "0.11.0.3": "2.12", "1.1.1": "2.12"}
SETS = {  # the variable that names each folder, and what fetches it
    "KAFKA_JARS": kafka_jars,
    "KAFKA_LOGGING_JARS": logging_jars,
    "KAFKA_STREAMS_JARS": streams_jars,
    "KAFKA_CONNECT_JARS": connect_jars,
    "SPARK_KAFKA_JARS": spark_connector_jars,
    "KAFKA_OTHER_JARS": other_kafka_jars,
}
WHEN_NAMED = ("KAFKA_OTHER_JARS",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="interop.jars")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; without one all but the last")
    wanted = parser.parse_args().sets or [name for name in SETS if name not in WHEN_NAMED]
    if unknown := [name for name in wanted if name not in SETS]:
        parser.error(f"no set of jars: {', '.join(unknown)}")
    try:
        home = java_home()
        lines = [f"export JAVA_HOME='{home}'", f"export JAVA='{home / 'bin' / 'java'}'"]
        lines += [f"export {name}='{SETS[name]()}'" for name in wanted]
    except JavaError as error:
        print(f"the tests that need a JVM can't run: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
