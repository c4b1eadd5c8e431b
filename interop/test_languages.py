"""Clients of other languages, each a small program in interop/languages that prints one line for each check.

What the lines say is what Apache Kafka makes the same programs say (`--target=kafka`). One program of a few seconds
runs always, where Node.js is; the others, and those against a broker that goes away meanwhile, with `--slow`.
"""

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from interop import toolchains
from interop.conftest import MakeTopic, NewBroker
from interop.jars import KAFKA_VERSION
from interop.targets import Target

COMPRESSED = "500 124750"  # records, bytes of their values
BOTH_LEVELS = "0@0 0@1 2@6 2@7 | 0@0 0@1 1@3 1@4 2@6 2@7 3@9 3@10 |"  # value@offset, committed and all
GROUP_OF_FOUR = "Stable range 2 20"

KAFKAJS = {
    **dict.fromkeys(("none", "gzip", "snappy"), f"{COMPRESSED} 1,2"),
    "transactions": f"{BOTH_LEVELS} 20",
    "group": "Stable RoundRobinAssigner 2 -1,17,-1,-1 0",
    "offsets": "5 3 10",
    "admin": "compact INVALID_CONFIG 3 false",
    "refused": "MESSAGE_TOO_LARGE This server does not host this topic-partition",
}
PLATFORMATIC = {
    **dict.fromkeys(("none", "gzip", "snappy", "lz4"), f"{COMPRESSED} 1"),
    "transactions": "true 12",
    "classic": "classic 2",
    "consumer": "consumer 2",
    "admin": "compact,delete INVALID_CONFIG 3 3 TOPIC_ALREADY_EXISTS",
    "refused": "MESSAGE_TOO_LARGE",
}
FRANZ = {
    **dict.fromkeys(("none", "gzip", "snappy", "lz4", "zstd"), f"{COMPRESSED} 1000"),
    "transactions": BOTH_LEVELS,
    **dict.fromkeys(("range", "cooperative", "consumer"), "17 Empty <nil>"),
    "offsets": "5 10 true 3",
    "admin": "cleanup.policy=compact retention.ms=1234567 true 3 true",
    "refused": "true true",
    "big": "20",
}
SARAMA = {
    **dict.fromkeys(("none", "gzip", "snappy", "lz4", "zstd"), COMPRESSED),
    "transactions": f"{BOTH_LEVELS} 20",
    "admin": "1234567 7654321 true 1 true true",
    "group": GROUP_OF_FOUR,
    "offsets": "5 -1 10 0 true",
    "refused": "true true",
}
SINCE = {"zstd": (2, 1), "transactions": (0, 11), "admin": (0, 11)}
KAFKA_GO = {
    **dict.fromkeys(("uncompressed", "gzip", "snappy", "lz4", "zstd"), "500 125250"),
    "group": "40 2 80",
    "offsets": "5 true",
    "transaction": "<nil> 5",
    "admin": "1234567 <nil> true",
    "refused": "true",
}
RSKAFKA = {
    **dict.fromkeys(("none", "gzip", "snappy", "lz4", "zstd"), "500 125250 5 7 true"),
    "admin": "true true true",
}
FOUR_CODECS, FIVE_CODECS = "none,gzip,snappy,lz4", "none,gzip,snappy,lz4,zstd"
OLD_JAVA = [("0.9.0.1", FOUR_CODECS), ("0.10.2.2", FOUR_CODECS), ("0.11.0.3", FOUR_CODECS), ("1.1.1", FOUR_CODECS)]
JAVA = [("2.1.1", FIVE_CODECS), ("2.8.2", FIVE_CODECS), ("3.0.2", FIVE_CODECS), ("3.9.2", FIVE_CODECS)]
NEW_JAVA = [("4.0.0", FIVE_CODECS), (KAFKA_VERSION, FIVE_CODECS)]


def said_by(program: subprocess.Popen[str], on_restart: Callable[[], None]) -> dict[str, str]:
    """Return the result of each check by its name.

    The line `restart` of a program asks for a restart of the broker, and is answered when the broker is back.
    """
    said = {}
    assert program.stdout is not None
    assert program.stdin is not None
    for line in program.stdout:
        name, _, found = line.rstrip("\n").partition(": ")
        if name == "restart" and not found:
            on_restart()
            program.stdin.write("\n")
            program.stdin.flush()
        else:
            said[name] = found
    return said


def run(command: Sequence[str], on_restart: Callable[[], None] = lambda: None) -> dict[str, str]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            return said_by(program, on_restart)
        finally:
            program.kill()


def _one_of(broker: Target) -> str:
    """Return the first address of the broker: programs find other brokers by it."""
    return broker.bootstrap_servers.partition(",")[0]


@pytest.fixture(scope="session")
def bootstrap(broker: Target) -> str:
    return _one_of(broker)


def test_kafkajs(bootstrap: str) -> None:
    assert run([*toolchains.node("kafkajs.js"), bootstrap]) == KAFKAJS


@pytest.mark.slow
def test_platformatic(bootstrap: str) -> None:
    assert run([*toolchains.node("platformatic.mjs"), bootstrap]) == PLATFORMATIC


@pytest.mark.slow
@pytest.mark.parametrize(("program", "expected"), [("franz", FRANZ), ("sarama", SARAMA), ("kafkago", KAFKA_GO)])
def test_go(bootstrap: str, program: str, expected: dict[str, str]) -> None:
    assert run([*toolchains.go(program), bootstrap]) == expected


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_franz_go_tests_itself_by(new_broker: NewBroker, tmp_path: Path) -> None:
    """The tests of franz-go: groups of all kinds and transactions, whose members come and go, record by record."""
    of_its_sources = "-test.skip=TestOptValuesCoversEveryOption"
    command = [*toolchains.go_tests("github.com/twmb/franz-go/pkg/kgo"), of_its_sources, "-test.timeout=800s"]
    settings = {"KGO_SEEDS": new_broker().bootstrap_servers, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"}
    tests = subprocess.run(
        command, cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True, timeout=850, check=False
    )
    assert tests.returncode == 0, "\n".join(re.findall(r"^ *--- FAIL.*", tests.stdout, re.M)) or tests.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.ours_only
@pytest.mark.parametrize("release", ["0.10.2.2", "0.11.0.2", "1.1.1", "2.1.0", "2.8.2", "3.6.0"])
def test_sarama_as_of(bootstrap: str, release: str) -> None:
    """Sarama works with each release in its settings: many programs set an old one, whose versions it then sends."""
    version = tuple(int(part) for part in release.split("."))
    expected = {name: found for name, found in SARAMA.items() if version >= SINCE.get(name, (0,))}
    assert run([*toolchains.go("sarama"), bootstrap, release]) == expected


@pytest.mark.slow
@pytest.mark.parametrize("end", ["restart", "kill"])
@pytest.mark.parametrize(
    ("build", "program", "expected"),
    [
        (toolchains.go, "franz", "200 2"),
        (toolchains.go, "sarama", "200"),
        (toolchains.node, "kafkajs.js", "200"),
        pytest.param(
            toolchains.node,
            "platformatic.mjs",
            "200",
            marks=pytest.mark.one_broker("@platformatic/kafka never asks anew who coordinates its group"),
        ),
    ],
)
def test_broker_restarts(
    new_broker: NewBroker, build: Callable[[str], list[str]], program: str, expected: str, end: str
) -> None:
    """An idempotent producer goes on over the end of its broker: no record is lost, and none is there twice."""
    command = build(program)
    broker = new_broker()

    def on_restart() -> None:
        if end == "kill":
            broker.kill()
        broker.restart()

    assert run([*command, _one_of(broker), "restart"], on_restart) == {"restart": expected}


@pytest.mark.slow
@pytest.mark.timeout(900)  # a build of some hundred crates
def test_rust(bootstrap: str) -> None:
    assert run([*toolchains.rust("languages"), bootstrap]) == RSKAFKA


@pytest.mark.slow
@pytest.mark.ours_only
@pytest.mark.one_broker("a SimpleConsumer asks the broker that it is told of")
def test_java_of_0_8(bootstrap: str, topic: str) -> None:
    said = run([*toolchains.java("Old", "0.8.2.2"), bootstrap, topic])
    assert said == {"read": "300 300 1", "committed": "OffsetMetadataAndError[17,m,0]"}


@pytest.mark.slow
@pytest.mark.ours_only
@pytest.mark.parametrize(("release", "codecs"), [*OLD_JAVA, *JAVA, *NEW_JAVA])
def test_java(bootstrap: str, make_topic: MakeTopic, release: str, codecs: str) -> None:
    said = run([*toolchains.java("Basic", release), bootstrap, make_topic(4), codecs])
    assert said == {"group": str(200 * len(codecs.split(","))), "offsets": "0 7 true"}
    if release not in ("0.9.0.1", "0.10.2.2"):
        said = run([*toolchains.java("Transactions", release), bootstrap, make_topic()])
        assert said == {"transactions": f"{BOTH_LEVELS} 20", "fenced": "yes"}
