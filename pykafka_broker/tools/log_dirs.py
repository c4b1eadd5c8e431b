"""`kafka-log-dirs`."""

from __future__ import annotations

import json
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError, check
from pykafka_broker.client.properties import integer
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.tools.frame import Tool, ToolParser


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.option("--describe", "describe the log directories of the brokers")
    parser.option("--topic-list TOPIC,...", "these topics only", default="")
    parser.option("--broker-list ID,...", "these brokers only", default="")


async def run(tool: Tool) -> None:
    tool.required("bootstrap_server", "describe")
    topics = set(filter(None, tool.options.topic_list.split(",")))
    async with tool.connect() as client:
        await client.refresh(call="listNodes")
        brokers = _brokers(tool.options.broker_list, client)
        tool.print("Querying brokers for log directories information")
        answers = {
            node: await client.ask(DescribeLogDirsRequest(None), node, call="describeLogDirs") for node in brokers
        }
    tool.print(f"Received log directory information from brokers {','.join(map(str, brokers))}")
    described = [{"broker": node, "logDirs": _directories(answers[node], topics)} for node in brokers]
    tool.print(json.dumps({"brokers": described, "version": 1}, separators=(",", ":"), ensure_ascii=False))
    tool.result = [_row(node, each, topics) for node in brokers for each in answers[node].results]


def _brokers(text: str, client: Client) -> list[int]:
    """Return the ids of the brokers to ask. Raises ClientError."""
    try:
        wanted = {integer(each) for each in text.split(",") if each} or set(client.nodes)
    except ValueError as error:
        raise ClientError(f"--broker-list has to be numbers: {error}") from None
    missing = ",".join(map(str, sorted(wanted - client.nodes.keys())))
    if missing:
        there = ",".join(map(str, sorted(client.nodes)))
        raise ClientError(
            f"ERROR: The given brokers do not exist from --broker-list: {missing}. Current existent brokers: {there}"
        )
    return sorted(wanted)


def _directories(answer: Any, topics: set[str]) -> list[dict[str, object]]:
    """Return the directories of an answer in the form of Kafka's script."""
    if not answer.results:
        check(answer.error_code)
    return [
        {
            "partitions": [
                {"partition": f"{topic}-{part.partition_index}", "size": part.partition_size}
                | {"offsetLag": part.offset_lag, "isFuture": part.is_future_key}
                for topic, part in _partitions(each, topics)
            ],
            "error": None if each.error_code == ErrorCode.NONE else KafkaError(each.error_code).exception,
            "logDir": each.log_dir,
        }
        for each in answer.results
    ]


def _row(node: int, directory: Any, topics: set[str]) -> dict[str, object]:
    failed = directory.error_code != ErrorCode.NONE
    return {
        "broker": node,
        "log_dir": directory.log_dir,
        "error": str(KafkaError(directory.error_code)) if failed else None,
        "partitions": [
            {"topic": topic, "partition": part.partition_index, "size": part.partition_size}
            | {"offset_lag": part.offset_lag, "is_future": part.is_future_key}
            for topic, part in _partitions(directory, topics)
        ],
    }


def _partitions(directory: Any, topics: set[str]) -> list[tuple[str, Any]]:
    found = [
        (topic.name, part)
        for topic in directory.topics
        if not topics or topic.name in topics
        for part in topic.partitions
    ]
    return sorted(found, key=lambda each: (each[0], each[1].partition_index, each[1].is_future_key))
