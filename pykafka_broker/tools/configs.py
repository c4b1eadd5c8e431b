"""`kafka-configs`."""

from __future__ import annotations

from pykafka_broker.client.errors import ClientError
from pykafka_broker.tools.config_changes import added_configs, alter, deleted_configs
from pykafka_broker.tools.config_description import describe
from pykafka_broker.tools.config_entities import add_entities, entities_of
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.usage import given, never_with, one_of, only_with

SUMMARY = "describe and alter configs, quotas and credentials of topics, brokers, users and others"

_CHANGES = ("add_config", "add_config_file", "delete_config")


def options(parser: ToolParser) -> None:
    add = parser.add_argument
    parser.add_connection(controllers=True)
    add("--describe", action="store_true", help="what is set for the entity")
    add("--alter", action="store_true", help="set or remove something")
    add("--all", action="store_true", help="with --describe: every key, also those that nobody has set")
    add("--add-config", metavar="K=V,K=[V,V]", help="what to set; square brackets hold values with commas")
    add("--add-config-file", metavar="FILE", help="a file of properties with what to set")
    add("--delete-config", metavar="K,K", help="what to remove")
    add_entities(parser)
    parser.epilog = (
        "Without any of these flags it lists every config key of Kafka and what this broker makes of it; "
        "then --scope broker|topic|group|client-metrics and --effect choose among them."
    )


async def run(tool: Tool) -> int:
    action = one_of(tool, "describe", "alter", last=", ")
    if tool.options.bootstrap_server is None and tool.options.bootstrap_controller is None:
        raise UsageError("Either --bootstrap-server or --bootstrap-controller must be specified")
    entities = entities_of(tool.options, action)
    for flag in _CHANGES:
        only_with(tool, flag, "alter")
    never_with(tool, "add_config", "add_config_file")
    if action == "alter" and not any(given(tool, flag) for flag in _CHANGES):
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    added, deleted = added_configs(tool), deleted_configs(tool)
    try:
        async with tool.connect() as client:
            if action == "describe":
                await describe(tool, client, entities, tool.options.all)
            else:
                await alter(tool, client, entities, added, deleted)
    except ClientError as error:
        if type(error) is not ClientError or error.__cause__ is not None:  # not one that the tool finds itself
            tool.warn(f"Error while executing config command with args '{' '.join(tool.arguments)}'")
        raise
    return 0
