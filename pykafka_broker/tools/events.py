"""What the verifiable tools tell: one JSON object on each line, with the time at which it was told.

Rule: names of events and fields are those that Kafka's system tests read. With `--json` they become one list.
"""

from __future__ import annotations

import json
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.tools.frame import Tool


class Events:
    def __init__(self, tool: Tool, client: Client) -> None:
        self._tool = tool
        self._clock = client.clock
        if tool.options.json:
            tool.result = []

    def tell(self, name: str, **fields: Any) -> None:
        self._clock.tick()
        event = {"timestamp": self._clock.wall, "name": name, **fields}
        if self._tool.options.json:
            self._tool.result.append(event)
        else:
            print(json.dumps(event, separators=(",", ":"), ensure_ascii=False), flush=True)


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
