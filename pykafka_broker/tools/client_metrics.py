"""`kafka-client-metrics`: what brokers ask of the metrics of clients (KIP-714)."""

from __future__ import annotations

from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.configs import ConfigChange, Resource, alter_configs, describe_configs, list_resources
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.properties import integer
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType
from pykafka_broker.protocol.runtime import new_uuid, uuid_text
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

FAILURE = "Error while executing client metrics command : "

_ACTIONS = ("alter", "delete", "describe", "list")
_KEYS = {"interval": "interval.ms", "match": "match", "metrics": "metrics"}


def options(parser: ToolParser) -> None:
    add = parser.option
    parser.add_connection()
    add("--list", "list the subscriptions")
    add("--describe", "describe one subscription, or all")
    add("--alter", "create or change a subscription")
    add("--delete", "delete a subscription")
    add("--name NAME", "name of the subscription")
    add("--generate-name", "with --alter: make up a name")
    add("--interval MS", "time between two pushes; empty for the default")
    add("--match K=V,K=V", "which clients, by client_id, client_software_name and others")
    add("--metrics M,M", "prefixes of the names of metrics")


async def run(tool: Tool) -> int:
    action = tool.one_of(*_ACTIONS)
    for flag in ("generate_name", *_KEYS):
        if action != "alter":
            tool.never_with(action, flag)
    tool.never_with("list", "name")
    if action == "alter" and tool.given("name") == tool.given("generate_name"):
        raise ToolUsageError("One of --name or --generate-name must be specified with --alter.")
    if action == "delete" and not tool.given("name"):
        raise ToolUsageError("A client metrics resource name must be specified with --delete.")
    changes = _changes(tool)
    if tool.options.bootstrap_server is None:
        raise ToolUsageError("--bootstrap-server must be specified.")
    try:
        async with tool.connect() as client:
            if action == "list":
                tool.result = await list_resources(client, ConfigResourceType.CLIENT_METRICS)
                for name in tool.result:
                    tool.print(name)
            elif action == "describe":
                await _describe(tool, client)
            elif action == "alter":
                await _alter(tool, client, changes)
            else:
                await _delete(tool, client)
    except ClientError as error:
        return tool.fail(f"{FAILURE}{error}", error)
    return 0


def _changes(tool: Tool) -> list[ConfigChange]:
    try:
        integer(tool.options.interval or "0")
    except ValueError:
        raise ToolUsageError("Invalid interval value. Enter an integer, or leave empty to reset.") from None
    found = []
    for flag, key in _KEYS.items():
        text = getattr(tool.options, flag)
        if text and flag != "interval":
            text = ",".join(filter(None, text.split(","))) or text  # nothing between two commas is nothing
        if text is not None:
            found.append(ConfigChange(key, AlterConfigOp.SET if text else AlterConfigOp.DELETE, text or None))
    return found


async def _describe(tool: Tool, client: Client) -> None:
    wanted, tool.result = tool.options.name, []
    names = await list_resources(client, ConfigResourceType.CLIENT_METRICS)
    if wanted is not None and wanted not in names:
        tool.print(f"The client metric resource {wanted} doesn't exist and doesn't have dynamic config.")
        return
    for name in names if wanted is None else [wanted]:
        configs = await _configs(client, name)
        tool.print(f"Client metrics configs for {name} are:")
        for key in sorted(configs):
            tool.print(f"  {key}={configs[key]}")
        tool.result.append({"name": name, "configs": configs})


async def _configs(client: Client, name: str) -> dict[str, str | None]:
    resource = Resource(ConfigResourceType.CLIENT_METRICS, name)
    return {each.name: each.value for each in (await describe_configs(client, [resource]))[resource]}


async def _alter(tool: Tool, client: Client, changes: list[ConfigChange]) -> None:
    name = uuid_text(new_uuid()) if tool.options.generate_name else tool.options.name
    await alter_configs(client, Resource(ConfigResourceType.CLIENT_METRICS, name), changes)
    _done(tool, name, "altered")


async def _delete(tool: Tool, client: Client) -> None:
    name = tool.options.name
    removed = [ConfigChange(key, AlterConfigOp.DELETE) for key in await _configs(client, name)]
    await alter_configs(client, Resource(ConfigResourceType.CLIENT_METRICS, name), removed)
    _done(tool, name, "deleted")


def _done(tool: Tool, name: str, what: str) -> None:
    result: dict[str, Any] = {"name": name, what: True}
    tool.result = result
    tool.print(f"{what.capitalize()} client metrics config for {name}.")
