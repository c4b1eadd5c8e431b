"""`kafka-leader-election`.

Rule: a partition that already has the leader that would be elected is no error; any other partition without an election
makes the exit code 1.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut, check
from pykafka_broker.client.properties import integer
from pykafka_broker.protocol.enums import TopicPartition, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from pykafka_broker.tools.frame import FAILED, Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.json_file import field, json_array, json_object, json_partition, read_json, repeated

_TYPES = {"PREFERRED": 0, "UNCLEAN": 1}


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.option("--admin.config FILE", "the same (deprecated)", dest="command_config")
    parser.add_argument("--election-type", type=str.upper, choices=_TYPES, help="preferred or unclean")
    parser.option("--topic NAME", "with --partition: elect for this partition")
    parser.option("--partition ID", "partition of --topic", type=integer)
    parser.option("--all-topic-partitions", "elect for all partitions that need it")
    parser.option(
        "--path-to-json-file FILE", 'elect for those in this file: {"partitions": [{"topic": "foo", "partition": 1}]}'
    )


async def run(tool: Tool) -> int:
    chosen = tool.options
    if chosen.election_type is None:
        raise ToolUsageError("Missing required option(s): election-type")
    partitions = _partitions(tool)
    try:
        async with tool.connect() as client:
            topics = None if partitions is None else [TopicPartitions(*each) for each in by_topic(partitions).items()]
            request = ElectLeadersRequest(_TYPES[chosen.election_type], topics, client.request_timeout_ms)
            answer = await client.ask_controller(request, call="electLeaders")
            check(answer.error_code)
    except TimedOut:
        text = "Timeout waiting for election results"
        return tool.fail(text, ClientError(text))
    return _print_results(tool, chosen.election_type, answer)


def _print_results(tool: Tool, kind: str, answer: Any) -> int:
    results = [
        (TopicPartition(topic.topic, each.partition_id), each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ]
    elected = [partition for partition, code, _ in results if code == ErrorCode.NONE]
    unneeded = [partition for partition, code, _ in results if code == ErrorCode.ELECTION_NOT_NEEDED]
    failed = [
        (partition, KafkaError(code, text))
        for partition, code, text in results
        if code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    ]
    if elected:
        tool.print(f"Successfully completed leader election ({kind}) for partitions {_listed(elected)}")
    if unneeded:
        tool.print(f"Valid replica already elected for partitions {_listed(unneeded)}")
    for partition, error in failed:
        tool.print(f"Error completing leader election ({kind}) for partition: {partition}: {error.java}")
    if failed:
        tool.warn(f"{len(failed)} replica(s) could not be elected")
    tool.result = [
        partition._asdict()
        | {"elected": code == ErrorCode.NONE, "error": ErrorCode(code).name if code != ErrorCode.NONE else None}
        for partition, code, _ in results
    ]
    return FAILED if failed else 0


def _listed(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _partitions(tool: Tool) -> list[TopicPartition] | None:
    """Return the partitions of the flags, None for all. Raises ToolUsageError."""
    chosen = tool.options
    ways = [chosen.topic is not None, chosen.all_topic_partitions, chosen.path_to_json_file is not None]
    if ways.count(True) != 1:
        raise ToolUsageError(
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"
        )
    if chosen.topic is not None:
        if chosen.partition is None:
            raise ToolUsageError("Missing required option(s): partition")
        return [TopicPartition(chosen.topic, chosen.partition)]
    if chosen.partition is not None:
        raise ToolUsageError("Option partition is only allowed if topic is used")
    return None if chosen.all_topic_partitions else _in_file(chosen.path_to_json_file)


def _in_file(path: str) -> list[TopicPartition]:
    listed = map(json_object, json_array(field(json_object(read_json(path)), "partitions")))
    found = list(map(json_partition, listed))
    twice = repeated(found)
    if twice:
        raise ToolUsageError(f"Replica election data contains duplicate partitions: [{_listed(twice)}]")
    return found
