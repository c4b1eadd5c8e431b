"""The archive of Kafka's classes, from which a JVM starts in half of the CPU time (JEP 350).

python -m interop.class_archive    makes it, unless it is there: a JVM writes it when a broker has started and ended
"""

from __future__ import annotations

import os

from interop.java import QUICK_JVM, class_archive, kafka_classpath
from interop.real_kafka import RealKafka


def main() -> None:
    archive = class_archive(kafka_classpath())
    if archive.exists():
        return
    unfinished = archive.with_name(f"{archive.name}.{os.getpid()}")
    with RealKafka(jvm=[*QUICK_JVM, f"-XX:ArchiveClassesAtExit={unfinished}"]):
        pass
    if unfinished.exists():  # else this Java has no archive of its own classes, which it would build on
        unfinished.rename(archive)


if __name__ == "__main__":
    main()
