"""Records anew what the tests compare with Kafka: `python -m interop.record [NAME ...]`, all recordings without a name.

Rule: what Kafka says is a file that no one edits. After a run `git diff` shows what a release has changed. Recordings
run one after the other, each in a process of its own. A failed recording is reported at the end, and the others go on.

Two files rest on facts that Kafka's jars don't tell and stay apart: `pykafka_broker/config/data.json`
(`tests/config/recorder/record.py definitions`) and `pykafka_broker/releases/data.json` (`tests/releases/record.py`).
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from interop import ROOT
from interop.jars import KAFKA_VERSION, kafka_jars, release_jars
from interop.java import java_command
from interop.real_kafka import RealKafka
from interop.toolchains import java_classes
from tests.broker.requests import refusals as refused_requests
from tests.releases.other import NEWEST_VERSION, OTHER_VERSION
from tests.scenarios.dead_letters import settings as dead_letters
from tests.scenarios.expiry import settings as expiry
from tests.scenarios.groups import settings as groups
from tests.scenarios.share import settings as share
from tests.scenarios.telemetry import settings as pushing

CONVERTING = "3.9.2"  # the last release that knows the old formats of messages and batches
TRANSACTIONS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}

DESCRIBED = {  # settings of the brokers that are asked for their configs
    "listener.name.other.ssl.key.password": "hide",
    "log.cleaner.min.cleanable.ratio": ".5",
    "log.flush.scheduler.interval.ms": "9",
    "log.retention.hours": "24",
    "log.roll.jitter.hours": "1",
    "message.max.bytes": "2000000",
    "no.such.key": "5",
    "num.io.threads": "2",
    "ssl.keystore.password": "secret",
}

Recording = Callable[[], None]


def python(*arguments: object) -> None:
    subprocess.run([sys.executable, *map(str, arguments)], check=True, cwd=ROOT)


def module(name: str, *arguments: object) -> Recording:
    """Return a recording that is a module, which starts the Kafka that it needs."""
    return lambda: python("-m", name, *arguments)


def scenarios(name: str, config: dict[str, str], release: str = KAFKA_VERSION) -> Recording:
    """Return the recording of a folder in tests/scenarios/, played on a Kafka with these settings."""

    def recording() -> None:
        with RealKafka(config, release=release) as kafka:
            python(f"tests/scenarios/{name}/record.py", kafka.bootstrap_servers)

    return recording


def telemetry() -> None:
    """Play the scenarios of telemetry, which Kafka offers with a receiver of the metrics only."""
    plugins = java_classes("TelemetryReceiver", KAFKA_VERSION)
    config = {"metric.reporters": "TelemetryReceiver", **pushing.CONFIG}
    with RealKafka(config, plugins=plugins) as kafka:
        python("tests/scenarios/telemetry/record.py", kafka.bootstrap_servers)


def described_configs(release: str, file: str) -> Recording:
    """Return the recording of a release's answers to DescribeConfigs."""

    def recording() -> None:
        with RealKafka(DESCRIBED, release=release) as kafka:
            properties = kafka.directory / "server.properties"
            described = ("described", release_jars(release), kafka.bootstrap_servers, properties, ROOT / file)
            python("tests/config/recorder/record.py", *described)

    return recording


def golden_batches() -> None:
    """Make batches with this release, and what an older one converts them to."""
    folder = ROOT / "tests/records/golden"
    made = run_java(kafka_jars(), folder / "MakeBatches.java", b"")
    converted = run_java(release_jars(CONVERTING), folder / "Convert.java", made)
    (folder / "batches.txt").write_bytes(made + converted)


def regexes() -> None:
    """Ask Java which subjects the known regular expressions match."""
    path = ROOT / "tests/config/java_regexes.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    asked = "".join("\t".join([each, *known["subjects"]]) + "\n" for each in known["expressions"])
    told = run_java(kafka_jars(), ROOT / "tests/config/recorder/Regexes.java", asked.encode()).decode().splitlines()
    known["expressions"] = dict(zip(known["expressions"], told, strict=True))
    path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def run_java(jars: Path, program: Path, given: bytes) -> bytes:
    command = java_command("-cp", f"{jars}/*", str(program))
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout


def refusals() -> None:
    """Ask Kafka's classes how they refuse whole requests."""
    asked = refused_requests.to_ask().encode()
    refused_requests.PATH.write_bytes(
        run_java(kafka_jars(), ROOT / "tests/broker/requests/recorder/Refusals.java", asked)
    )


RECORDINGS: dict[str, Recording] = {
    "messages": lambda: python("tests/golden/make.py", kafka_jars(), release_jars(CONVERTING)),
    "batches": golden_batches,
    "logs": lambda: python("tests/log/data/make.py", kafka_jars()),
    "configs": described_configs(KAFKA_VERSION, "tests/config/described.json"),
    "regexes": regexes,
    "config-values": lambda: python("tests/config/recorder/record.py", "verdicts", kafka_jars()),
    "other-configs": described_configs(OTHER_VERSION, "tests/config/described_other.json"),
    "newest": module("interop.newest_release"),
    "requests": lambda: python("tests/broker/api/recorder/record.py", kafka_jars()),
    "refusals": refusals,
    "produced": module("tests.broker.produced.record"),
    "other-produced": module("tests.broker.produced.record", OTHER_VERSION, "answers_other.json"),
    "controller": module("tests.cluster.recorder.record"),
    "metadata-files": module("tests.cluster.recorder.metadata_files"),
    "names": module("tests.security.tls.record_names"),
    "groups": scenarios("groups", groups.CONFIG),
    "group-records": module("tests.coordinators.record"),
    "expiry": scenarios("expiry", expiry.CONFIG),
    "share": scenarios("share", share.CONFIG),
    "consumer-assignments": module("tests.coordinators.groups.assignments.record"),
    "share-assignments": module("tests.coordinators.share.assignments.record"),
    "newest-dead-letters": scenarios("dead_letters", dead_letters.CONFIG, NEWEST_VERSION),
    "telemetry": telemetry,
    "streams-tasks": module("tests.coordinators.streams.tasks.record"),
    "transactions": scenarios("transactions", TRANSACTIONS),
    "answers": module("interop.answers"),
    "rights": module("interop.rights"),
    "storage": module("interop.storage_tool"),
    "other-storage": module("interop.storage_tool", "other"),
    "tools": module("interop.tools.record"),
    "zookeeper": module("interop.zookeeper_record"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="interop.record", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECORDINGS)}")
    names = parser.parse_args(arguments).names or list(RECORDINGS)
    if unknown := [name for name in names if name not in RECORDINGS]:
        parser.error(f"no recording: {', '.join(unknown)}")
    failed = []
    for name in names:
        begin = time.monotonic()
        try:
            RECORDINGS[name]()
        except (subprocess.CalledProcessError, RuntimeError) as error:
            failed.append(f"{name}: {error}")
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    print("\n".join(["", f"{len(failed)} failed:", *failed]) if failed else f"{len(names)} recorded; see `git diff`")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
