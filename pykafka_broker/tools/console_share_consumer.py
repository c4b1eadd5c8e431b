"""`kafka-console-share-consumer`.

Rule: records are accepted as they are printed, unless flags ask for a release or a rejection; records that were fetched
and not printed are released at the end. The exit code is 0 when no record comes for `--timeout-ms`, and also when a
broker refuses a request.
"""

from __future__ import annotations

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.share_consumer import ACCEPT, REJECT, RELEASE, ShareConsumer
from pykafka_broker.tools.console_output import Consumed, Output, add_formatter, group_of
from pykafka_broker.tools.frame import Old, Tool, ToolParser

_OLD = Old("consumer-config", "consumer-property")
_GROUP = "console-share-consumer"


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.add_properties(_OLD, "consumer")
    parser.option("--topic TOPIC", "print the records of this topic")
    parser.option("--group GROUP", f"read as a member of this share group (default: {_GROUP})")
    parser.option("--release", "release records, so they are delivered again")
    parser.option("--reject", "reject records, so they are not delivered again")
    parser.option("--reject-message-on-error", "reject records that can't be printed")
    add_formatter(parser)


async def run(tool: Tool) -> None:
    tool.required("bootstrap_server", "topic")
    tool.never_with("release", "reject")
    properties = _properties(tool)
    output = Output(tool, skip_errors=tool.options.reject_message_on_error)
    async with Client(tool.options.bootstrap_server, properties) as client:
        with output.running():
            async with ShareConsumer(client, [tool.options.topic]) as consumer:
                await _print(tool, consumer, output)


def _properties(tool: Tool) -> dict[str, str]:
    found = tool.properties_of(_OLD)
    group = group_of(tool, found)
    found["group.id"] = _GROUP if group is None else group
    found.setdefault("client.id", _GROUP)
    return found


async def _print(tool: Tool, consumer: ShareConsumer, output: Output) -> None:
    kind = RELEASE if tool.options.release else REJECT if tool.options.reject else ACCEPT
    async for each in output.polled(consumer.poll, "share consumer"):
        consumed = Consumed(each.partition, each.record, each.timestamp_type, each.leader_epoch, each.deliveries)
        consumer.acknowledge(each, kind if output.print(consumed) else REJECT)
