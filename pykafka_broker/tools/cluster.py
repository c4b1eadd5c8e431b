"""`kafka-cluster`: `cluster-id` and `api-versions` (KIP-1220).

Rule: the flags of the connection follow the command. `pykafka-broker cluster` with flags alone is another command,
which starts brokers.
"""

from __future__ import annotations

from pykafka_broker.client.cluster import Client
from pykafka_broker.tools.broker_api_versions import print_api_versions
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

_SUMMARIES = {
    "cluster-id": "print the id of the cluster",
    "api-versions": "print which versions of which requests each broker or controller serves",
}
_OLD_CONFIG = (
    "Option --config has been deprecated and will be removed in a future version. Use --command-config instead."
)


def options(parser: ToolParser) -> None:
    for name, summary in _SUMMARIES.items():
        command = parser.add_command(name, summary)
        where = command.add_mutually_exclusive_group()
        for flag, short, who in (("server", "-b", "brokers"), ("controller", "-C", "controllers")):
            where.add_argument(f"--bootstrap-{flag}", short, metavar="HOST:PORT,...", help=f"{who} to connect to")
        command.option("--command-config -c FILE", "properties of the client")
        command.option("--config FILE", "the same (deprecated)")


async def run(tool: Tool) -> int:
    if tool.options.bootstrap_server is None and tool.options.bootstrap_controller is None:
        raise ToolUsageError("one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required")
    if tool.given("config"):
        if tool.given("command_config"):
            raise ToolUsageError("--config and --command-config cannot be specified together.")
        tool.print(_OLD_CONFIG)
        tool.options.command_config = tool.options.config
    async with tool.connect() as client:
        return await _ACTIONS[tool.options.command](tool, client)


async def _cluster_id(tool: Tool, client: Client) -> int:
    await client.refresh(call="listNodes")
    tool.result = {"cluster_id": client.cluster_id}
    tool.print(f"Cluster ID: {client.cluster_id}")
    return 0


_ACTIONS = {"cluster-id": _cluster_id, "api-versions": print_api_versions}
