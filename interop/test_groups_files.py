"""The records in `__consumer_offsets` have Kafka's format: its formatters and its dump tool read every one."""

import json

import pytest

from interop.conftest import MakeTopic
from interop.java_tools import JavaTools
from interop.targets import Target

pytestmark = pytest.mark.java
RECORDS = {
    "classic": {"1", "2"},  # offset, group
    "consumer": {"1", "3", "5", "6", "7", "8"},  # offset, epoch, member, target epoch, target, current assignment
}


@pytest.fixture(params=RECORDS)
def group(request: pytest.FixtureRequest, java: JavaTools, bootstrap: str, make_topic: MakeTopic) -> tuple[str, str]:
    """A group that a console consumer has joined, and its protocol."""
    topic, protocol = make_topic(), request.param
    server = ("--bootstrap-server", bootstrap, "--topic", topic)
    java.run("kafka-console-producer", *server, stdin="a\nb\nc\n")
    java.run(
        "kafka-console-consumer", *server, "--group", f"files-{topic}", "--max-messages", "3", "--from-beginning",
        "--command-property", f"group.protocol={protocol}",
    )  # fmt: skip
    return f"files-{topic}", protocol


def formatted(java: JavaTools, bootstrap: str, formatter: str, group: str) -> list[dict[str, object]]:
    read = java.run(
        "kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", "__consumer_offsets", "--from-beginning",
        "--formatter", f"org.apache.kafka.tools.consumer.{formatter}", "--timeout-ms", "10000",
    )  # fmt: skip
    records, rest = [], read.out[read.out.find("{") :]
    while rest.startswith("{"):  # one after the other, with nothing between them
        record, end = json.JSONDecoder().raw_decode(rest)
        records.append(record)
        rest = rest[end:].lstrip()
    return [record for record in records if record["key"]["data"].get("group") == group]


def test_the_formatters_read_offsets_and_groups(java: JavaTools, bootstrap: str, group: tuple[str, str]) -> None:
    name, protocol = group
    offsets = formatted(java, bootstrap, "OffsetsMessageFormatter", name)
    assert offsets[-1]["value"]["data"]["offset"] == 3  # type: ignore[index]
    groups = formatted(java, bootstrap, "GroupMetadataMessageFormatter", name)
    assert bool(groups) == (protocol == "classic")
    if groups:
        assert groups[1]["value"]["data"]["protocolType"] == "consumer"  # type: ignore[index]


@pytest.mark.one_broker("it looks into the files of one")
def test_the_dump_tool_decodes_every_record(java: JavaTools, broker: Target, group: tuple[str, str]) -> None:
    name, protocol = group
    files = [str(path) for path in broker.data_dir.glob("**/__consumer_offsets-*/*.log") if path.stat().st_size]
    dumped = java.run("kafka-dump-log", "--offsets-decoder", "--files", ",".join(sorted(files)))
    keys = [line.split(" key: ")[1].split(" payload: ") for line in dumped.lines if " key: {" in line]
    of_group = [(json.loads(key), payload) for key, payload in keys if f'"{name}"' in key]
    assert {key["type"] for key, _ in of_group} == RECORDS[protocol]
    assert all(payload == "<DELETE>" or "data" in json.loads(payload) for _, payload in of_group)
    assert all("isvalid: true" in line for line in dumped.lines if line.startswith("baseOffset"))
