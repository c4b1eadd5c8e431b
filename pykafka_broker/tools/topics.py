"""`kafka-topics`."""

from __future__ import annotations

from pykafka_broker.tools.frame import Tool, ToolParser

SUMMARY = "create, describe, alter, delete and list topics"


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.add_argument("--list", action="store_true", help="list all topics")


async def run(tool: Tool) -> int:
    async with tool.connect() as client:
        found = await client.metadata(None, call="listTopics")
        names = sorted(each.name for each in found.topics if each.name is not None)
        for name in names:
            tool.print(name)
        tool.result = names
    return 0
