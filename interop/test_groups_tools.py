"""An operator's work on groups with Kafka's own tools, and Java's verifiable clients."""

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from interop.conftest import MakeTopic
from interop.java import QUICK_JVM, java_command, kafka_classpath
from interop.java_tools import JavaTools, Outcome
from interop.waiting import eventually

pytestmark = pytest.mark.java
PARTITIONS, EACH = 2, 10
HOUR_MS = 3_600_000
T0 = 1_700_000_000_000  # 2023-11-14T22:13:20; record n of a partition is n hours later
Tool = Callable[..., Outcome]


@pytest.fixture
def attempt(java: JavaTools, bootstrap: str) -> Tool:
    return lambda tool, *arguments, **options: java.run(tool, "--bootstrap-server", bootstrap, *arguments, **options)


@pytest.fixture
def sh(attempt: Tool) -> Tool:
    """A function that runs a tool, which has to succeed."""

    def run(*arguments: str, **options: Any) -> Outcome:
        outcome = attempt(*arguments, **options)
        assert outcome.status == 0, f"{arguments}: {outcome.out}{outcome.err}"
        return outcome

    return run


@pytest.fixture
def numbers(make_topic: MakeTopic, bootstrap: str) -> str:
    topic = make_topic(PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(PARTITIONS * EACH):
        hours, partition = divmod(number, PARTITIONS)
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=T0 + hours * HOUR_MS)
    assert producer.flush(60) == 0
    return topic


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """Yield a member that has read and committed everything and stays in its group."""
    settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest", "client.id": "reader"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
    with closing(consumer):
        consumer.subscribe([topic])
        found, deadline = 0, time.monotonic() + 60
        while found < PARTITIONS * EACH and time.monotonic() < deadline:
            found += sum(1 for m in consumer.consume(100, timeout=0.2) if not m.error())
        assert found == PARTITIONS * EACH
        consumer.commit(asynchronous=False)
        yield consumer


def rows(outcome: Outcome) -> list[list[str]]:
    """Return the cells of a table, without its headings and the lines around it."""
    lines = [line for line in outcome.lines if line.strip() and not line.startswith("Consumer group")]
    return [line.split() for line in lines[1:]]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member(protocol: str, attempt: Tool, sh: Tool, numbers: str, bootstrap: str) -> None:
    group = f"{numbers}-group"
    of_group = ("kafka-consumer-groups", "--group", group)
    with member(bootstrap, group, numbers, protocol) as consumer:
        assert group in sh("kafka-consumer-groups", "--list").lines
        offsets = sorted(rows(sh(*of_group, "--describe")))
        assert [row[:6] for row in offsets] == [[group, numbers, str(p), "10", "10", "0"] for p in range(PARTITIONS)]
        assert {row[7] for row in offsets} == {"/127.0.0.1"}
        assert {row[8] for row in offsets} == {"reader"}
        [(_, member_id, *_)] = rows(sh(*of_group, "--describe", "--members"))
        assert member_id == consumer.memberid()
        shown = sh(*of_group, "--describe", "--members", "--verbose").out
        assert f"{numbers}:0,1" in shown
        state = sh(*of_group, "--describe", "--state").out
        assert re.search(r"Stable\s+1\s*$", state), state
        assert group in sh("kafka-consumer-groups", "--list", "--state", "Stable").out
        assert group not in sh("kafka-consumer-groups", "--list", "--state", "Empty").out
        assert group in sh("kafka-consumer-groups", "--list", "--type", protocol).out
        assert [group, protocol.capitalize(), "consumer"] in rows(sh("kafka-groups", "--list"))
        assert group in sh("kafka-groups", "--list", "--group-type", protocol).out
        assert group in sh("kafka-groups", "--list", "--consumer").out
        # The offsets and the group of a live member can't be changed or deleted.
        refused = attempt(*of_group, "--topic", numbers, "--reset-offsets", "--to-earliest", "--execute")
        assert "Stable" in refused.out + refused.err
        assert "GroupNotEmpty" in attempt(*of_group, "--delete").out
        assert "GroupSubscribedToTopic" in attempt(*of_group, "--delete-offsets", "--topic", numbers).out
        assert [row[3] for row in rows(sh(*of_group, "--describe"))] == ["10", "10"]
    eventually(lambda: "Empty" in sh(*of_group, "--describe", "--state").out, True)
    sh(*of_group, "--delete")
    assert "GroupIdNotFound" in attempt(*of_group, "--describe").err


RESETS = {
    "to-earliest": ([], ["0", "0"]),
    "to-latest": ([], ["10", "10"]),
    "to-current": ([], ["10", "10"]),
    "to-offset": (["4"], ["4", "4"]),
    "shift-by": (["-3"], ["7", "7"]),
    "to-datetime": (["2023-11-15T03:00:00.000+00:00"], ["5", "5"]),
}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_reset_and_deleted(
    protocol: str, attempt: Tool, sh: Tool, numbers: str, bootstrap: str, tmp_path: Path
) -> None:
    group = f"{numbers}-group"
    of_group = ("kafka-consumer-groups", "--group", group)
    with member(bootstrap, group, numbers, protocol):
        pass
    eventually(lambda: "Empty" in sh(*of_group, "--describe", "--state").out, True)

    def current() -> list[str]:
        return [row[3] for row in sorted(rows(sh(*of_group, "--describe")))]

    for how, (arguments, expected) in RESETS.items():
        reset = (*of_group, "--topic", numbers, "--reset-offsets", f"--{how}", *arguments)
        assert [row[3] for row in sorted(rows(sh(*reset, "--dry-run")))] == expected
        sh(*reset, "--execute")
        assert current() == expected
        sh(*of_group, "--topic", numbers, "--reset-offsets", "--to-latest", "--execute")
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{numbers},0,2\n{numbers},1,99\n")
    sh(*of_group, "--reset-offsets", "--from-file", str(plan), "--execute")
    assert current() == ["2", "10"]  # an offset beyond the end becomes the end
    export = sh(*of_group, "--topic", numbers, "--reset-offsets", "--to-current", "--export", "--dry-run")
    assert sorted(line.replace('"', "") for line in export.lines if line) == [f"{numbers},0,2", f"{numbers},1,10"]
    sh(*of_group, "--delete-offsets", "--topic", f"{numbers}:1")
    assert sorted(row[2:4] for row in rows(sh(*of_group, "--describe"))) == [["0", "2"]]
    sh(*of_group, "--delete")
    assert group not in sh("kafka-consumer-groups", "--list").lines


def events(tool: str, bootstrap: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the events that a verifiable client prints, in a JVM of its own: some come only when the JVM ends."""
    command = java_command(*QUICK_JVM, "-Xmx256m", "-cp", kafka_classpath(), f"org.apache.kafka.tools.{tool}")
    server = ("--bootstrap-server", bootstrap)
    done = subprocess.run([*command, *server, *arguments], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def places(found: list[dict[str, Any]]) -> set[tuple[int, int, str]]:
    return {(each["partition"], each["offset"], each["value"]) for each in found}


def test_verifiable_clients(sh: Tool, make_topic: MakeTopic, bootstrap: str) -> None:
    topic, count = make_topic(3), 3_000
    of_topic = ("--topic", topic, "--max-messages", str(count))
    produced = events("VerifiableProducer", bootstrap, *of_topic)
    sent = [each for each in produced if each["name"] == "producer_send_success"]
    assert sorted(int(each["value"]) for each in sent) == list(range(count))
    [told] = [each for each in produced if each["name"] == "tool_data"]
    assert (told["sent"], told["acked"]) == (count, count)
    ends = Counter(each["partition"] for each in sent)
    for protocol in ("classic", "consumer"):
        group = ("--group-id", f"{topic}-{protocol}", "--group-protocol", protocol, "--reset-policy", "earliest")
        consumed = events("VerifiableConsumer", bootstrap, *of_topic, *group, "--verbose")
        read = [each for each in consumed if each["name"] == "record_data"]
        assert len(read) == count
        assert places(read) == places(sent)
        commits = [each for each in consumed if each["name"] == "offsets_committed" and each["success"]]
        assert {place["partition"]: place["offset"] for each in commits for place in each["offsets"]} == ends
        described = rows(sh("kafka-consumer-groups", "--group", f"{topic}-{protocol}", "--describe"))
        assert {int(row[2]): int(row[3]) for row in described} == ends


def test_verifiable_share_consumers(sh: Tool, make_topic: MakeTopic, bootstrap: str) -> None:
    """A verifiable share consumer gets every record once and acknowledges all, in each acknowledgement mode."""
    topic, count = make_topic(2), 500
    of_topic = ("--topic", topic, "--max-messages", str(count))
    sent = [each for each in events("VerifiableProducer", bootstrap, *of_topic) if "offset" in each]
    for mode in ("auto", "sync", "async"):
        group = ("--group-id", f"{topic}-{mode}", "--offset-reset-strategy", "earliest", "--acknowledgement-mode", mode)
        told = events("VerifiableShareConsumer", bootstrap, *of_topic, *group, "--verbose")
        read = [each for each in told if each["name"] == "record_data"]
        assert len(read) == count
        assert places(read) == places(sent)
        done = [each for each in told if each["name"] == "offsets_acknowledged"]
        assert all(each["success"] for each in done)
        offsets = Counter(
            (part["partition"], offset) for e in done for part in e["partitions"] for offset in part["offsets"]
        )
        assert offsets == Counter((each["partition"], each["offset"]) for each in sent)
        described = sh("kafka-share-groups", "--describe", "--offsets", "--group", f"{topic}-{mode}").lines
        lags = {int(line.split()[2]): line.split()[4] for line in described if line.startswith(f"{topic}-{mode} ")}
        assert all(lags[each["partition"]] == "0" for each in sent)
