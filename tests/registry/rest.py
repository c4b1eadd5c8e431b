"""A client of the registry that says what a test tells it to."""

from __future__ import annotations

import http.client
import json
from typing import Any

TYPE = "application/vnd.schemaregistry.v1+json"


class Rest:
    """A client of the registry's API with one connection."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send a request; return status and answer. A body of bytes is sent as it is, any other as JSON."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        named = {"content-type": TYPE} | {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, data, named)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read() or "null")

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.ask(method, path, body)
        assert status == 200, answer
        return answer

    def extended(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer for a client that says that it accepts properties which it does not know."""
        status, answer = self.ask(method, path, body, confluent_accept_unknown_properties="true")
        assert status == 200, answer
        return answer

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, int]:
        """Send a request that must fail; return the HTTP status and the error code."""
        status, answer = self.ask(method, path, body)
        assert status >= 400, answer
        return status, answer["error_code"]

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """Register a schema and return its id."""
        return int(self.ok("POST", f"/subjects/{subject}/versions", of(schema, **more))["id"])

    def close(self) -> None:
        self._connection.close()


def of(schema: Any, **more: Any) -> dict[str, Any]:
    """Return the body of a request; a schema that is no text is written as JSON."""
    return {"schema": schema if isinstance(schema, str) else json.dumps(schema)} | more


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """Return an Avro record schema. fields: names, for type int, or whole descriptions."""
    listed = [{"name": each, "type": "int"} if isinstance(each, str) else each for each in fields]
    return {"type": "record", "name": name, "fields": listed} | more
