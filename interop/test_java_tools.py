"""Kafka's own command-line tools, as an operator types them. The Java admin client throws where an answer leaves
out what a real broker always fills in, so these are also the strictest readers of our answers.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.java_tools import JavaTools, Outcome, command_of
from interop.real_kafka import free_port
from interop.waiting import eventually
from pykafka_broker.cluster.features import METADATA_VERSION, METADATA_VERSIONS, SUPPORTED
from pykafka_broker.testing import KafkaBroker

pytestmark = pytest.mark.java


def _our_command(tool: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "pykafka_broker", tool, *arguments]


class Shell:
    """A shell for tools against one broker; each tool has to succeed."""

    def __init__(self, java: JavaTools, bootstrap: str) -> None:
        self.jvm, self.server = java, ("--bootstrap-server", bootstrap)

    def attempt(self, tool: str, *arguments: str, stdin: str = "") -> Outcome:
        return self.jvm.run(tool, *self.server, *arguments, stdin=stdin)

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> Outcome:
        outcome = self.attempt(tool, *arguments, stdin=stdin)
        assert outcome.status == 0, f"{tool}: {outcome.out}{outcome.err}"
        return outcome


@pytest.fixture(scope="module")
def sh(java: JavaTools, bootstrap: str) -> Shell:
    return Shell(java, bootstrap)


@pytest.fixture
def lines(sh: Shell, topic: str) -> str:
    """A topic of one partition with five records in it."""
    sh("kafka-console-producer", "--topic", topic, stdin="one\ntwo\nthree\nfour\nfive\n")
    return topic


def test_topics_from_creation_to_deletion(sh: Shell, broker_count: int) -> None:
    created = sh("kafka-topics", "--create", "--topic", "tools", "--partitions", "3", "--config", "retention.ms=5000")
    assert "Created topic tools." in created.out
    eventually(lambda: "tools" in sh("kafka-topics", "--list").lines, True)
    head, *partitions = sh("kafka-topics", "--describe", "--topic", "tools").lines
    assert re.search(rf"Topic: tools\tTopicId: \S{{22}}\tPartitionCount: 3\tReplicationFactor: {broker_count}\t", head)
    assert "retention.ms=5000" in head
    assert len([p for p in partitions if re.search(r"Leader: (\d+)\tReplicas: (\1[\d,]*)\tIsr: \2\tElr: \t", p)]) == 3
    sh("kafka-topics", "--alter", "--topic", "tools", "--partitions", "4")
    eventually(lambda: "PartitionCount: 4" in sh("kafka-topics", "--describe", "--topic", "tools").out, True)
    sh("kafka-topics", "--delete", "--topic", "tools")
    eventually(lambda: "tools" in sh("kafka-topics", "--list").lines, False)


def test_topics_by_state_and_by_id(sh: Shell, topic: str) -> None:
    head = sh("kafka-topics", "--describe", "--topic", topic).lines[0]
    topic_id = re.findall(r"TopicId: (\S+)", head)[0]
    assert topic in sh("kafka-topics", "--describe", "--topic-id", topic_id).out
    assert topic not in sh("kafka-topics", "--describe", "--under-replicated-partitions").out
    assert topic not in sh("kafka-topics", "--describe", "--unavailable-partitions").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--create", "--topic", "bad name"), "is invalid"),
        (("--create", "--topic", "rf", "--replication-factor", "4"), "replication factor"),
        (("--create", "--topic", "cfg", "--config", "no.such=1"), "no.such"),
        (("--create", "--topic", "zero", "--partitions", "0"), "partitions"),
        (("--delete", "--topic", "never-there"), "does not exist"),
        (("--describe", "--topic", "never-there"), "does not exist"),
    ],
)
def test_topics_refusals(sh: Shell, arguments: tuple[str, ...], said: str) -> None:
    outcome = sh.attempt("kafka-topics", *arguments)
    assert outcome.status == 1
    assert said in outcome.out + outcome.err


def test_topics_created_twice(sh: Shell, topic: str) -> None:
    assert sh.attempt("kafka-topics", "--create", "--topic", topic).status == 1
    sh("kafka-topics", "--create", "--if-not-exists", "--topic", topic)


def test_configs_of_topics(sh: Shell, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    sh("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=9000,cleanup.policy=[compact,delete]")
    described = ("kafka-configs", "--describe", *entity)
    eventually(lambda: "retention.ms=9000 " in sh(*described).out, True)
    assert "cleanup.policy=compact,delete" in sh(*described).out
    assert "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=9000" in sh(*described).out
    every = sh(*described, "--all").lines
    assert len(every) > 30
    sh("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms")
    eventually(lambda: "retention.ms=9000" in sh(*described).out, False)
    refused = sh.attempt("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=soon")
    assert refused.status == 1
    assert "retention.ms" in refused.err


def test_configs_of_one_broker(sh: Shell, node_id: str) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", node_id)
    sh("kafka-configs", "--alter", *entity, "--add-config", "log.cleaner.threads=2")
    described = ("kafka-configs", "--describe", *entity)
    eventually(lambda: "log.cleaner.threads=2 " in sh(*described).out, True)
    every = sh(*described, "--all").out
    assert f"node.id={node_id} sensitive=false" in every
    sh("kafka-configs", "--alter", *entity, "--delete-config", "log.cleaner.threads")
    eventually(lambda: "log.cleaner.threads" in sh(*described).out, False)
    assert sh.attempt("kafka-configs", "--alter", *entity, "--add-config", "node.id=7").status == 1


def test_configs_of_all_brokers(sh: Shell) -> None:
    entity = ("--entity-type", "brokers", "--entity-default")
    sh("kafka-configs", "--alter", *entity, "--add-config", "log.retention.ms=123456789")
    eventually(lambda: "log.retention.ms=123456789" in sh("kafka-configs", "--describe", *entity).out, True)
    sh("kafka-configs", "--alter", *entity, "--delete-config", "log.retention.ms")
    eventually(lambda: "log.retention.ms" in sh("kafka-configs", "--describe", *entity).out, False)


@pytest.fixture(scope="module")
def node_id(sh: Shell) -> str:
    node, *_ = re.findall(r"\(id: (\d+) ", sh("kafka-broker-api-versions").out)
    return str(node)


def test_offsets(sh: Shell, lines: str) -> None:
    assert f"{lines}:0:5" in sh("kafka-get-offsets").lines
    for time, offset in (("-1", 5), ("-2", 0), ("earliest", 0), ("0", 0)):
        assert sh("kafka-get-offsets", "--topic", lines, "--time", time).lines == [f"{lines}:0:{offset}"]
    assert re.fullmatch(rf"{lines}:0:\d", sh("kafka-get-offsets", "--topic", lines, "--time", "-3").lines[0])


def test_console_consumer_reads_from_an_offset(sh: Shell, lines: str) -> None:
    read = sh(
        "kafka-console-consumer", "--topic", lines, "--partition", "0", "--offset", "2", "--max-messages", "3",
        "--formatter-property", "print.offset=true", "--formatter-property", "print.timestamp=true",
    )  # fmt: skip
    assert [re.fullmatch(r"CreateTime:\d+\tOffset:(\d)\t(\w+)", line).groups() for line in read.lines] == [  # type: ignore[union-attr]
        ("2", "three"),
        ("3", "four"),
        ("4", "five"),
    ]


def test_console_producer_with_keys_and_headers(sh: Shell, topic: str) -> None:
    sh(
        "kafka-console-producer", "--topic", topic, "--compression-codec", "zstd",
        "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
        "--reader-property", "key.separator=|", stdin="h1:v1,h2:v2\tkey|value\n",
    )  # fmt: skip
    shown = ("print.key=true", "print.headers=true")
    read = sh(
        "kafka-console-consumer", "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "1",
        *(word for option in shown for word in ("--formatter-property", option)),
    )  # fmt: skip
    assert read.lines == ["h1:v1,h2:v2\tkey\tvalue"]


def test_delete_records(sh: Shell, lines: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": lines, "partition": 0, "offset": 3}]}))
    assert f"partition: {lines}-0\tlow_watermark: 3" in sh("kafka-delete-records", "--offset-json-file", str(plan)).out
    assert sh("kafka-get-offsets", "--topic", lines, "--time", "-2").lines == [f"{lines}:0:3"]


def test_log_dirs(sh: Shell, lines: str) -> None:
    answer = json.loads(sh("kafka-log-dirs", "--describe", "--topic-list", lines).lines[-1])
    directories = [directory for broker in answer["brokers"] for directory in broker["logDirs"]]
    assert [directory["error"] for directory in directories] == [None] * len(directories)
    partition, *_ = [partition for directory in directories for partition in directory["partitions"]]
    assert partition["partition"] == f"{lines}-0"
    assert partition["size"] > 0


def test_api_versions(sh: Shell) -> None:
    text = sh("kafka-broker-api-versions").out
    offered = {name: (int(low), int(high)) for name, low, high in re.findall(r"(\w+)\(\d+\): (\d+) to (\d+)", text)}
    assert offered["Produce"] == (0, 13)
    assert offered["Fetch"][1] == 18
    assert offered["Metadata"] == (0, 13)
    assert "UNKNOWN" not in text


def test_cluster_id(java: JavaTools, bootstrap: str) -> None:
    outcome = java.run("kafka-cluster", "cluster-id", "--bootstrap-server", bootstrap)
    assert re.fullmatch(r"Cluster ID: \S{22}", outcome.lines[0])


@pytest.mark.one_broker("others follow the metadata with a moment's lag")
def test_metadata_quorum(sh: Shell, node_id: str) -> None:
    status = dict(re.findall(r"(\w+):\s+(.*)", sh("kafka-metadata-quorum", "describe", "--status").out))
    assert status["LeaderId"] == node_id
    assert int(status["LeaderEpoch"]) > 0
    assert int(status["HighWatermark"]) > 0
    assert status["MaxFollowerLag"] == "0"
    replication = sh("kafka-metadata-quorum", "describe", "--replication").lines
    assert re.match(rf"{node_id}\s+\S+\s+\d+\s+0\s+.*Leader", replication[1])


def test_features(sh: Shell) -> None:
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", sh("kafka-features", "describe").out))
    assert levels["metadata.version"] == METADATA_VERSIONS[SUPPORTED[METADATA_VERSION][1]]
    assert levels["group.version"] == "1"
    assert levels["transaction.version"] == "2"


def test_leader_election_is_not_needed(sh: Shell, topic: str) -> None:
    sh("kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")


@pytest.mark.parametrize("options", [(), ("acks=1", "compression.type=lz4"), ("acks=0",)])
def test_producer_perf_test(java: JavaTools, bootstrap: str, topic: str, sh: Shell, options: tuple[str, ...]) -> None:
    settings = ("--command-property", f"bootstrap.servers={bootstrap}", *options)
    outcome = java.run(
        "kafka-producer-perf-test", "--topic", topic, "--num-records", "20000", "--record-size", "100",
        "--throughput", "-1", *settings,
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert outcome.lines[-1].startswith("20000 records sent")
    eventually(lambda: sh("kafka-get-offsets", "--topic", topic).lines, [f"{topic}:0:20000"])


@pytest.mark.whole
@pytest.mark.one_broker("it looks into the files of one")
@pytest.mark.parametrize("command", [command_of, _our_command], ids=["kafka", "ours"])
def test_a_consumer_waits_for_its_broker_longer_than_for_an_answer(command: Callable[..., list[str]]) -> None:
    """A broker that comes after default.api.timeout.ms is read from: Kafka's consumers know no end of waiting."""
    port, tool = free_port(), ("kafka-console-consumer", "--topic", "late", "--from-beginning", "--max-messages", "1")
    quick = ("--command-property", "default.api.timeout.ms=500")
    consumer = command(*tool, "--bootstrap-server", f"127.0.0.1:{port}", *quick)
    with subprocess.Popen(consumer, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(4)  # a slow JVM has asked for a shorter time then, and reads all the same
            with KafkaBroker(port=port) as broker:
                broker.produce("late", ["a"])
                assert process.communicate(timeout=60)[0] == b"a\n"
        finally:
            process.kill()


def test_every_tool_again_after_a_restart_and_the_files_hold(java: JavaTools, new_broker: Any, tmp_path: Path) -> None:
    """The offsets are the same after a restart, and DumpLogSegments reads each file on the disk."""
    broker = new_broker(log_segment_bytes=1_048_576, log_index_interval_bytes=1024)
    sh = Shell(java, broker.bootstrap_servers)
    sh("kafka-topics", "--create", "--topic", "dumped", "--partitions", "2", "--config", "retention.ms=-1")
    sh("kafka-topics", "--create", "--topic", "gone")
    settings = ("--command-property", f"bootstrap.servers={broker.bootstrap_servers}")
    for codec in ("none", "gzip", "zstd"):
        sent = java.run(
            "kafka-producer-perf-test", "--topic", "dumped", "--num-records", "30000", "--record-size", "100",
            "--throughput", "-1", *settings, f"compression.type={codec}",
        )  # fmt: skip
        assert sent.status == 0, sent.err
    sh("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", "dumped", "--add-config", "segment.ms=1")
    sh("kafka-topics", "--delete", "--topic", "gone")
    before = sh("kafka-get-offsets", "--topic", "dumped").lines
    broker.restart()
    assert Shell(java, broker.bootstrap_servers)("kafka-get-offsets", "--topic", "dumped").lines == before
    assert sum(int(line.rsplit(":", 1)[1]) for line in before) == 90_000
    broker.stop()
    dump_everything(java, broker.data_dir)


def dump_everything(java: JavaTools, data_dir: Path) -> None:
    logs, kinds = 0, set()
    for path in sorted(data_dir.glob("*/0*.*")):
        extra: tuple[str, ...] = ()
        if path.suffix == ".index":
            extra = ("--index-sanity-check",)
        elif path.suffix == ".timeindex":
            extra = ("--verify-index-only",)
        elif path.suffix == ".log":
            metadata = path.parent.name == "__cluster_metadata-0"
            extra = ("--cluster-metadata-decoder",) if metadata else ("--deep-iteration",)
        elif path.suffix not in (".snapshot", ".txnindex"):
            continue
        outcome = java.run("kafka-dump-log", "--files", str(path), *extra)
        said = outcome.out + outcome.err
        assert outcome.status == 0, f"{path}: {said}"
        for complaint in ("isvalid: false", "mismatch", "non-consecutive", "out of order", "rror", "xception"):
            assert complaint not in said, f"{path}: {complaint}: {said[-2000:]}"
        logs += path.suffix == ".log"
        kinds.add(path.suffix)
    assert logs > 2
    assert kinds >= {".log", ".index", ".timeindex", ".snapshot"}
