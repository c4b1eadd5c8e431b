"""The control API as tools of the Model Context Protocol, asked by the library's own client."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pykafka_broker.cli import main
from pykafka_broker.cli.mcp import called, input_schema, offered
from pykafka_broker.testing import KafkaBroker

if TYPE_CHECKING:
    from mcp import ClientSession


HELLO = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(in_process=True) as running:
        yield running


def asked(broker: KafkaBroker, talk: Callable[[ClientSession], Awaitable[Any]]) -> Any:
    from mcp import ClientSession  # a second of CPU, which every worker would take to collect this file
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = ["-m", "pykafka_broker", "mcp", "--url", str(broker.control_url)]

    async def run() -> Any:
        server = StdioServerParameters(command=sys.executable, args=command)
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            return await talk(session)

    return asyncio.run(run())


@pytest.mark.whole
def test_an_agent_finds_tools_and_calls_them(broker: KafkaBroker) -> None:
    async def talk(session: ClientSession) -> Any:
        tools = {each.name: each for each in (await session.list_tools()).tools}
        made = await session.call_tool("create_topic", {"name": "orders", "partitions": 2})
        wrong = await session.call_tool("create_topic", {"name": "orders"})
        return tools, made, wrong, await session.call_tool("topics", {})

    tools, made, wrong, topics = asked(broker, talk)
    assert tools.keys() == offered().keys()
    assert tools["topics"].annotations.read_only_hint
    assert not tools["reset"].annotations.read_only_hint
    assert tools["create_topic"].input_schema["required"] == ["name"]
    assert json.loads(made.content[0].text)["partitions"] == 2
    assert [wrong.is_error, made.is_error] == [True, False]
    assert "orders" in wrong.content[0].text
    assert "orders" in [each["name"] for each in json.loads(topics.content[0].text)]


@pytest.mark.parametrize("name", offered())
def test_the_schema_of_each_tool_is_one(name: str) -> None:
    operation = offered()[name]
    schema = input_schema(operation)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "components" not in json.dumps(schema)
    assert operation.text


def test_a_body_of_text_is_an_argument(broker: KafkaBroker) -> None:
    lines = '{"type": "topic", "name": "seeded"}\n{"type": "record", "topic": "seeded", "value": "x"}'
    (name,) = [each.name for each in offered()["seed"].parameters]
    text, failed = called(broker.control, "seed", {name: lines})
    assert not failed, text
    assert [record.value for record in broker.records("seeded")] == ["x"]


@pytest.mark.parametrize(
    ("tool", "given", "says"),
    [
        ("nothing", {}, "there is no tool nothing"),
        ("topic", {}, "topic needs topic"),
        ("topic", {"topic": "a", "colour": 1}, "topic has no colour; it takes topic"),
        ("topic", {"topic": "none"}, "no topic none"),
    ],
)
def test_a_wrong_call_says_what_is_allowed(broker: KafkaBroker, tool: str, given: dict[str, Any], says: str) -> None:
    text, failed = called(broker.control, tool, given)
    assert failed
    assert says in text


def test_an_address_is_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("PYKAFKA_BROKER_CONTROL_URL", raising=False)
    with pytest.raises(SystemExit, match="2"):
        main(["mcp"])
    assert "must name the control API" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["nonsense", "http://localhost:port", "http://localhost:99999", "http://[::1"])
def test_what_is_no_address_is_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--url", url]) == 1
    no_url = f"{url} is no URL of a control API: it must be http://HOST:PORT"
    assert capsys.readouterr().err == f"pykafka-broker mcp: {no_url}\n"


def test_without_the_library_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    assert main(["mcp", "--url", "http://127.0.0.1:1"]) == 1
    assert "it needs the library mcp, of the extra of that name" in capsys.readouterr().err


@pytest.mark.posix("Windows sends no SIGINT to another process")
def test_ctrl_c_ends_the_command_while_standard_input_is_open() -> None:
    command = [sys.executable, "-m", "pykafka_broker", "mcp", "--url", "http://127.0.0.1:1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as server:
        try:
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
            assert server.stdout is not None
            assert server.stderr is not None
            print(json.dumps(hello), file=server.stdin, flush=True)
            assert "result" in json.loads(server.stdout.readline())
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == -signal.SIGINT
            assert server.stderr.read() == ""
        finally:
            server.kill()
