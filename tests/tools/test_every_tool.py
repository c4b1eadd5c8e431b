"""Every tool once over TLS and SASL, with a wrong password, and against brokers of old."""

import io
import re
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pykafka_broker.config.properties import format_properties
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools import TOOLS
from pykafka_broker.tools.frame import main
from tests.tools.every_tool import ALL_THE_SAME, CALLS, arguments

ADVICE = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
LACKS = "The node does not support "
NOT_ON_THIS_ONE = ("No Authorizer is configured", "not allowed on PLAINTEXT")
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice",
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "delegation.token.secret.key": "secret",
}


# What brokers of that age have not: by tool, the request that would be needed.
LACKING = {
    "0.10.2": {
        "configs": "INCREMENTAL_ALTER_CONFIGS",
        "acls": "DESCRIBE_ACLS",
        "leader-election": "ELECT_LEADERS",
        **dict.fromkeys(("producer-perf-test", "end-to-end-latency", "console-producer"), "INIT_PRODUCER_ID"),
        **dict.fromkeys(("console-share-consumer", "share-consumer-perf-test"), "SHARE_GROUP_HEARTBEAT"),
        "verifiable-share-consumer": "INCREMENTAL_ALTER_CONFIGS",
        "client-metrics": "LIST_CONFIG_RESOURCES",
        "delegation-tokens": "DESCRIBE_DELEGATION_TOKEN",
        "log-dirs": "DESCRIBE_LOG_DIRS",
        "metadata-quorum": "DESCRIBE_QUORUM",
        "reassign-partitions": "LIST_PARTITION_REASSIGNMENTS",
        "share-groups": "LIST_GROUPS",
        "streams-groups": "LIST_GROUPS",
        "transactions": "LIST_TRANSACTIONS",
        "delete-records": "DELETE_RECORDS",
        "verifiable-producer": "PRODUCE",
    },
    "2.8": {
        **dict.fromkeys(("console-share-consumer", "share-consumer-perf-test"), "SHARE_GROUP_HEARTBEAT"),
        "verifiable-share-consumer": "SHARE_GROUP_HEARTBEAT",
        "client-metrics": "LIST_CONFIG_RESOURCES",
        "share-groups": "LIST_GROUPS",
        "streams-groups": "LIST_GROUPS",
        "transactions": "LIST_TRANSACTIONS",
    },
}


def written(path: Path, properties: dict[str, object]) -> Path:
    path.write_text(format_properties({key: str(value) for key, value in properties.items()}))
    return path


def told(tool: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a line\n")))
    return main(tool, words)


def write_three(broker: KafkaBroker) -> None:
    """Write three records for tools that read, against brokers too old for our tools that write."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(3):
        producer.produce("a", b"%d" % number, partition=0)
    assert producer.flush(20) == 0


def test_every_tool_has_a_call() -> None:
    assert set(CALLS) == set(TOOLS) - {"mirror"}


def test_every_tool_over_tls_and_sasl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with KafkaBroker(
        CONFIG, security="SASL_SSL", users={"alice": "right"}, mechanisms=["SCRAM-SHA-512"], in_process=True
    ) as broker:
        settings = broker.client_config("java")
        settings.pop("bootstrap.servers", None)
        good = written(tmp_path / "good", settings)
        jaas = str(settings["sasl.jaas.config"]).replace("right", "wrong")
        bad = written(tmp_path / "bad", settings | {"sasl.jaas.config": jaas, "default.api.timeout.ms": 5000})
        for tool in CALLS:
            status = told(tool, arguments(tool, broker.bootstrap_servers, tmp_path, good), monkeypatch)
            said = capsys.readouterr()
            assert status == 0, f"{tool}: {said.err}"
            assert "Traceback" not in said.err
        for tool in CALLS:
            status = told(tool, arguments(tool, broker.bootstrap_servers, tmp_path, bad), monkeypatch)
            said = capsys.readouterr()
            assert status == (0 if tool in ALL_THE_SAME else 1), f"{tool}: {said.err}"
            lines = [each for each in (said.out + said.err).splitlines() if ADVICE in each]
            streams = [text for text in said if ADVICE in text]  # a failure may be told on both
            assert len(lines) == (2 if tool == "verifiable-producer" else len(streams)) > 0, f"{tool}: {lines}"
            assert "wrong" not in said.out + said.err


@pytest.mark.parametrize("release", LACKING)
def test_every_tool_works_on_an_old_broker_or_says_what_that_lacks(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = written(tmp_path / "quick", {"default.api.timeout.ms": 5000})
    found = {}
    with KafkaBroker({"offsets.topic.num.partitions": "1"}, emulate=release, in_process=True) as broker:
        for tool in CALLS:
            if tool == "console-consumer":
                write_three(broker)
            status = told(tool, arguments(tool, broker.bootstrap_servers, tmp_path, quick), monkeypatch)
            said = capsys.readouterr()
            lines = [each for each in (said.out + said.err).splitlines() if LACKS in each]
            if lines:
                (found[tool],) = {re.split(r"[:.]", each.partition(LACKS)[2])[0] for each in lines}
                assert status == (0 if tool in ALL_THE_SAME else 1), f"{tool}: {lines}"
            else:
                reason = next((each for each in NOT_ON_THIS_ONE if each in said.out + said.err), "")
                assert status == (1 if reason else 0), f"{tool}: {said.out}{said.err}"
    assert found == LACKING[release]
