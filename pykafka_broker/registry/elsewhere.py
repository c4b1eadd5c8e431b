"""Schemas of a registry that is not this process's, for the values that the page shows.

Rule: it is asked for a schema when a value names it, beside the loop and for no longer than a few seconds, and what it
has said is kept, unless it is very long: the schema of an id never changes.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import OrderedDict
from typing import Any
from urllib.parse import quote
from uuid import UUID

from pykafka_broker.registry.decoding import Found

_TIMEOUT_S = 5.0
_MOST_BYTES = 8 << 20  # of an answer
_MOST_KEPT = 1_000
_LONGEST_KEPT = 64 << 10  # characters; a longer one is asked for again
_MOST_REFERENCES = 1_000
_KINDS = ("AVRO", "PROTOBUF", "JSON")
_MISSING = 404


class SchemasElsewhere:
    """Those of the registry at that URL, which may want a `name:password`."""

    def __init__(self, url: str, user: str | None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if user is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        self._kept: OrderedDict[int | UUID, Found] = OrderedDict()

    async def find(self, name: int | UUID) -> Found | None:
        found = self._kept.get(name)
        if found is None:
            found = await asyncio.to_thread(self._ask, name)
        if found is not None and len(found.text) + sum(map(len, found.library.values())) <= _LONGEST_KEPT:
            self._kept[name] = found
            self._kept.move_to_end(name)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found

    def _ask(self, name: int | UUID) -> Found | None:
        if isinstance(name, int) and name < 0:
            return None
        path = f"/schemas/ids/{name}" if isinstance(name, int) else f"/schemas/guids/{name}"
        try:
            schema_id = name if isinstance(name, int) else self._id_of(path)
            schema = None if schema_id is None else self._get(path)
            if schema is None or schema_id is None:
                return None
            kind = schema.get("schemaType") or "AVRO"
            if kind not in _KINDS:
                raise ValueError(f"the schema registry has a schema of type {kind}, which can't be read here")
            return Found(schema_id, kind, str(schema["schema"]), self._library(schema))
        except (AttributeError, IndexError, KeyError, TypeError):
            raise ValueError("the schema registry answers something else than a schema") from None

    def _id_of(self, path: str) -> int | None:
        ids = self._get(f"{path}/ids")
        return int(ids[0]["id"]) if ids else None

    def _library(self, schema: Any) -> dict[str, str]:
        """What it needs, in the order in which that can be read."""
        library: dict[str, str] = {}
        begun: set[str] = set()
        waiting: list[tuple[Any, str | None]] = [(each, None) for each in reversed(schema.get("references") or ())]
        while waiting:
            reference, text = waiting.pop()
            name = str(reference["name"])
            if text is not None:
                library.setdefault(name, text)
            elif name not in begun:
                begun.add(name)
                if len(begun) > _MOST_REFERENCES:
                    raise ValueError(f"the schema needs more than {_MOST_REFERENCES} others")
                subject = quote(str(reference["subject"]), safe="")
                needed = self._get(f"/subjects/{subject}/versions/{int(reference['version'])}?deleted=true")
                if needed is None:
                    raise ValueError(f"the schema registry has no {name}, which the schema needs")
                waiting.append((reference, str(needed["schema"])))
                waiting += [(each, None) for each in reversed(needed.get("references") or ())]
        return library

    def _get(self, path: str) -> Any:
        """What stands there; None where nothing does. Raises ValueError where it can't be had."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        headers = self._headers

        class Redirects(HTTPRedirectHandler):
            def redirect_request(self, *args: Any) -> Request | None:  # a password is for nobody else
                return None if "Authorization" in headers else super().redirect_request(*args)

        try:
            request = Request(self._url + path, headers=headers)
            with build_opener(Redirects).open(request, timeout=_TIMEOUT_S) as answer:
                content = answer.read(_MOST_BYTES + 1)
        except HTTPError as error:
            with error:
                if error.code == _MISSING:
                    return None
            raise ValueError(f"the schema registry answers {error.code} {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise ValueError(f"the schema registry can't be asked: {getattr(error, 'reason', error)}") from None
        if len(content) > _MOST_BYTES:
            raise ValueError(f"the schema registry answers more than {_MOST_BYTES} bytes")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise ValueError("the schema registry answers something else than JSON") from None
