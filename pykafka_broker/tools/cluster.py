"""`kafka-cluster`: the cluster's id, the endpoints and API versions of its nodes (KIP-1220), and their registrations.

Rule: the flags of the connection follow the command. `pykafka-broker cluster` with flags alone is another command,
which starts brokers.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError
from pykafka_broker.client.properties import integer
from pykafka_broker.client.quorum import brokers_with_fenced, unregister_broker, unregister_controller
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.broker_api_versions import print_api_versions
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

_SUMMARIES = {
    "cluster-id": "print the id of the cluster",
    "unregister": "remove the registration of a broker",
    "unregister-controller": "remove the registration of a controller",
    "list-endpoints": "print where brokers or controllers are",
    "api-versions": "print which versions of which requests each broker or controller serves",
}
_OLD_CONFIG = (
    "Option --config has been deprecated and will be removed in a future version. Use --command-config instead."
)
_FENCED_OF_SERVER = "The option --include-fenced-brokers is only supported with --bootstrap-server option"


def options(parser: ToolParser) -> None:
    for name, summary in _SUMMARIES.items():
        command = parser.add_command(name, summary)
        where = command.add_mutually_exclusive_group()
        for flag, short, who in (("server", "-b", "brokers"), ("controller", "-C", "controllers")):
            where.add_argument(f"--bootstrap-{flag}", short, metavar="HOST:PORT,...", help=f"{who} to connect to")
        command.option("--command-config -c FILE", "properties of the client")
        command.option("--config FILE", "the same (deprecated)")
        if name.startswith("unregister"):
            command.option("--id -i ID", "the node to remove", type=integer, required=True)
        if name == "list-endpoints":
            command.option("--include-fenced-brokers", "with --bootstrap-server: brokers that are fenced, too")


async def run(tool: Tool) -> None:
    if tool.options.bootstrap_server is None and tool.options.bootstrap_controller is None:
        raise ToolUsageError("one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required")
    if tool.given("config"):
        if tool.given("command_config"):
            raise ToolUsageError("--config and --command-config cannot be specified together.")
        tool.print(_OLD_CONFIG)
        tool.options.command_config = tool.options.config
    async with tool.connect() as client:
        await _ACTIONS[tool.options.command](tool, client)


async def _cluster_id(tool: Tool, client: Client) -> None:
    await client.refresh(call="listNodes")
    tool.result = {"cluster_id": client.cluster_id}
    tool.print(f"Cluster ID: {client.cluster_id}")


async def _unregister(tool: Tool, client: Client) -> None:
    kind, remove = _REMOVALS[tool.options.command]
    node_id = tool.options.id
    tool.result = {"kind": kind, "id": node_id, "unregistered": True}
    try:
        await remove(client, node_id)
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        tool.result |= {"unregistered": False, "error": str(error)}
        tool.print(f"The target cluster does not support the {kind} unregistration API.")
    else:
        tool.print(f"{kind.capitalize()} {node_id} is no longer registered.")


async def _list_endpoints(tool: Tool, client: Client) -> None:
    of_controllers, fenced = tool.options.bootstrap_controller is not None, tool.options.include_fenced_brokers
    if of_controllers and fenced:
        raise ClientError(_FENCED_OF_SERVER)
    try:
        found = await _endpoints(client, fenced=fenced, of_controllers=of_controllers)
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        tool.fail(str(error))
        return
    widths = {
        "ID": 10,
        "HOST": max((len(each["host"]) for each in found), default=100),
        "PORT": 10,
        "RACK": max((len(each["rack"]) for each in found if each["rack"]), default=10),
        **({} if of_controllers else {"STATE": 10}),
        "ENDPOINT_TYPE": 15,
    }
    tool.result = found
    for row in [widths, *([*each.values()] for each in found)]:
        cells = ("null" if cell is None else str(cell) for cell in row)
        tool.print(" ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths.values(), strict=True)))


async def _endpoints(client: Client, *, fenced: bool, of_controllers: bool) -> list[dict[str, Any]]:
    if fenced:
        return [
            _endpoint(each.broker_id, each.host, each.port, each.rack, "fenced" if each.is_fenced else "unfenced")
            for each in await brokers_with_fenced(client)
        ]
    await client.refresh(call="listNodes")
    return [_endpoint(*node, None if of_controllers else "unfenced") for node in client.nodes.values()]


def _endpoint(node_id: int, host: str, port: int, rack: str | None, state: str | None) -> dict[str, Any]:
    """Return a row of the table. state: of a broker, None for a controller."""
    where = {"id": node_id, "host": host, "port": port, "rack": rack}
    return (
        {**where, "endpoint_type": "controller"}
        if state is None
        else {**where, "state": state, "endpoint_type": "broker"}
    )


_REMOVALS = {
    "unregister": ("broker", unregister_broker),
    "unregister-controller": ("controller", unregister_controller),
}
_ACTIONS = {
    "cluster-id": _cluster_id,
    "unregister": _unregister,
    "unregister-controller": _unregister,
    "list-endpoints": _list_endpoints,
    "api-versions": print_api_versions,
}
