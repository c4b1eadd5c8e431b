"""`kafka-delete-records`.

Rule: a partition's error is printed in its line, and the exit code is 0 all the same.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.leaders import Answered, ask_leaders, partitions_in, values_by_topic
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.tools.frame import Tool, ToolParser
from pykafka_broker.tools.json_file import field, json_array, json_number, json_object, json_partition, read_json

_VERSION = 1  # of the file


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.option(
        "--offset-json-file FILE", '{"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}'
    )


async def run(tool: Tool) -> int:
    tool.required("bootstrap_server", "offset_json_file")
    async with tool.connect() as client:
        offsets = _offsets(tool.options.offset_json_file)

        def make(partitions: list[TopicPartition]) -> DeleteRecordsRequest:
            asked = values_by_topic({each: offsets[each] for each in partitions})
            topics = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(*each) for each in of]) for topic, of in asked]
            return DeleteRecordsRequest(topics, client.request_timeout_ms)

        tool.print("Executing records delete operation")
        found = await ask_leaders(client, offsets, make, _read, call="deleteRecords")
        tool.print("Records delete operation completed:")
    tool.result = [_print_partition(tool, partition, found[partition]) for partition in offsets]
    return 0


def _offsets(path: str) -> dict[TopicPartition, int]:
    """Read the offset of each partition from a file. Raises ClientError."""
    content = json_object(read_json(path))
    version = json_number(content.get("version", _VERSION))
    if version != _VERSION:
        raise ClientError(f"Not supported version field value {version}")
    if "partitions" not in content:
        raise ClientError("Missing partitions field")
    found: dict[TopicPartition, int] = {}
    for each in map(json_object, json_array(content["partitions"])):
        partition = json_partition(each)
        if partition in found:
            raise ClientError(f"Offset json file contains duplicate topic partitions: {partition}")
        found[partition] = json_number(field(each, "offset"), long=True)
    return found


def _read(answer: Any) -> Answered:
    return {partition: (each.error_code, each.low_watermark) for partition, each in partitions_in(answer.topics)}


def _print_partition(tool: Tool, partition: TopicPartition, found: int | ClientError) -> dict[str, object]:
    if isinstance(found, ClientError):
        tool.print(f"partition: {partition}\terror: {found.java}")
        return partition._asdict() | {"error": str(found)}
    tool.print(f"partition: {partition}\tlow_watermark: {found}")
    return partition._asdict() | {"low_watermark": found}
