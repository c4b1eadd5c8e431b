"""`pykafka-broker mcp`: the operations of the control API as tools for agents (Model Context Protocol).

Rule: a tool is an operation, with its name, words and parameters; nothing is added. The protocol itself is the library
`mcp`, of the extra of that name. It speaks on standard input and output, so nothing else is printed there.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pykafka_broker import __version__
from pykafka_broker.cli.addresses import URL_VARIABLE, control_client
from pykafka_broker.cli.commands import CommandParser
from pykafka_broker.cli.control import call_operation
from pykafka_broker.control.operations import REQUIRED, Operation, Text, operations
from pykafka_broker.control.schema import describe
from pykafka_broker.testing.control_client import ControlClient, ControlError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

_NO_TOOLS = frozenset({"openapi"})  # what agents have from the tools themselves
INSTRUCTIONS = (
    "A Kafka broker for tests. Look first (topics, records, groups, requests, advice), then change it (produce, "
    "add_fault, advance_clock, reset). A failure says what is allowed."
)


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `mcp`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    try:
        server = _server(control_client(own, options.url))
    except ValueError as error:
        print(f"pykafka-broker mcp: {error}", file=sys.stderr)
        return 1
    except ImportError:
        print("pykafka-broker mcp: it needs the library mcp, of the extra of that name", file=sys.stderr)
        return 1
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no exception ends the library's thread that reads standard input
    asyncio.run(_serve(server))
    return 0


def parser() -> CommandParser:
    command = CommandParser(
        prog="pykafka-broker mcp",
        description="Offer the operations of a control API as tools for agents, on standard input and output.",
    )
    command.add_argument("--url", help=f"address of the broker's control API; by default {URL_VARIABLE}")
    return command


def offered() -> dict[str, Operation]:
    """Return the operations that are tools, by name."""
    return {each.name: each for each in operations() if each.name not in _NO_TOOLS}


def input_schema(operation: Operation) -> dict[str, Any]:
    """Return the JSON schema of an operation's arguments."""
    named: dict[str, Any] = {}
    properties = {
        name: {"type": "string"} if kind is Text else describe(kind, named)
        for name, kind, _default, _place in operation.parameters
    }
    required = [each.name for each in operation.parameters if each.default is REQUIRED]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    if named:
        text = json.dumps({"schema": schema, "named": named}).replace("#/components/schemas/", "#/$defs/")
        written = json.loads(text)
        schema = written["schema"] | {"$defs": written["named"]}
    return schema


def called(client: ControlClient, name: str, given: Mapping[str, Any]) -> tuple[str, bool]:
    """Call a tool; return its text, and whether it is that of a failure."""
    operation = offered().get(name)
    if operation is None:
        return f"there is no tool {name}", True
    known = [each.name for each in operation.parameters]
    if unknown := sorted(given.keys() - set(known)):
        return f"{name} has no {unknown[0]}; it takes {', '.join(known) or 'nothing'}", True
    if missing := [each.name for each in operation.parameters if each.default is REQUIRED and each.name not in given]:
        return f"{name} needs {missing[0]}", True
    try:
        answer = call_operation(client, operation, given)
    except (ControlError, OSError, ValueError) as error:
        return str(error), True
    return answer if isinstance(answer, str) else json.dumps(answer, indent=2, ensure_ascii=False), False


def _server(client: ControlClient) -> Server[Any]:
    """Return a server with the tools. Raises ImportError without the library."""
    from mcp import types
    from mcp.server.lowlevel import Server

    async def list_tools(*_: object) -> types.ListToolsResult:
        tools = [
            types.Tool(
                name=name,
                description=each.text,
                input_schema=input_schema(each),
                annotations=types.ToolAnnotations(read_only_hint=each.method == "GET"),
            )
            for name, each in offered().items()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: object, asked: types.CallToolRequestParams) -> types.CallToolResult:
        text, failed = await asyncio.to_thread(called, client, asked.name, asked.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    return Server(
        "pykafka-broker",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _serve(server: Server[Any]) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
