"""`kafka-broker-api-versions`."""

from __future__ import annotations

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.quorum import api_versions
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.api_versions_response import ApiVersion
from pykafka_broker.tools.frame import Tool, ToolParser


def options(parser: ToolParser) -> None:
    parser.add_connection()


async def run(tool: Tool) -> None:
    async with tool.connect() as client:
        await print_api_versions(tool, client)


async def print_api_versions(tool: Tool, client: Client) -> None:
    """Print what each node that the client knows serves."""
    tool.result = []
    await client.refresh()
    for node in sorted(client.nodes.values()):
        head = f"{node.host}:{node.port} (id: {node.node_id} rack: {node.rack or 'null'} isFenced: false)"
        told = {"broker": node.node_id, "host": node.host, "port": node.port, "rack": node.rack}
        try:
            served = (await api_versions(client, node.node_id)).api_keys
        except ClientError as error:
            tool.print(f"{head} -> ERROR: {error.java}")
            tool.result.append({**told, "error": str(error), "apis": []})
            continue
        known = {each.api_key: each for each in served}
        listed = sorted({*known, *_apis_of_brokers()})
        lines = ",\n".join(f"\t{_line(key, known.get(key))}" for key in listed)
        tool.print(f"{head} -> (\n{lines}\n)")
        tool.result.append({**told, "error": None, "apis": [_data(known[key]) for key in sorted(known)]})


def _apis_of_brokers() -> list[int]:
    """Return the APIs that a broker of the tool's release may have, without APIs of a later release."""
    return [
        k for k, spec in SPECS.items() if "broker" in spec.listeners and spec.min_version <= spec.stable_max_version
    ]


def _line(key: int, served: ApiVersion | None) -> str:
    spec = SPECS.get(key)
    name = f"UNKNOWN({key})" if spec is None else f"{spec.name}({key})"
    if served is None:
        return f"{name}: UNSUPPORTED"
    first, last = served.min_version, served.max_version
    text = f"{name}: {first}" if first == last else f"{name}: {first} to {last}"
    if spec is None:
        return text
    if last < spec.min_version:
        return f"{text} [unusable: node too old]"
    if first > spec.max_version:
        return f"{text} [unusable: node too new]"
    return f"{text} [usable: {min(last, spec.stable_max_version)}]"


def _data(served: ApiVersion) -> dict[str, object]:
    spec = SPECS.get(served.api_key)
    return {
        "api_key": served.api_key,
        "name": None if spec is None else spec.name,
        "min_version": served.min_version,
        "max_version": served.max_version,
    }
