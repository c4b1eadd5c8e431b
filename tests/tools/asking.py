"""A tool asked for JSON."""

import json
from typing import Any

import pytest

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main

STREAMING = ("console-consumer", "console-share-consumer")  # a line for each record


class Asked:
    """A caller of tools: `asked("topics", "--list")` returns the tool's JSON about a broker."""

    def __init__(self, broker: KafkaBroker, capsys: pytest.CaptureFixture[str]) -> None:
        self.broker = broker
        self.capsys = capsys

    def __call__(self, tool: str, *arguments: str, status: int = 0) -> Any:
        assert main(tool, ["--bootstrap-server", self.broker.bootstrap_servers, "--json", *arguments]) == status
        text = self.capsys.readouterr().out
        return list(map(json.loads, text.splitlines())) if tool in STREAMING else json.loads(text)
