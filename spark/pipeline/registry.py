"""The client of a schema registry. Rule: a schema of an id never changes, so it is asked for once in each process. A
registry that does not answer ends the job; an id that the registry does not have is the record's fault.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

TIMEOUT_S = 10.0
TRIES, PAUSE_S = 5, 1.0
NOT_FOUND, TOO_MANY, SERVER_ERROR = 404, 429, 500


class RegistryUnavailable(Exception):
    """The registry does not answer, or refuses the question."""


class UnknownSchema(Exception):
    """The registry has no schema of the id."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema and the schemas that it refers to. references: texts by name, in the order of reading."""

    kind: str  # AVRO, PROTOBUF, JSON
    text: str
    references: dict[str, str]


@dataclass(frozen=True)
class RegistryAddress:
    """A URL, which may hold `user:password@`, and the authorities to trust there, in PEM; empty for the machine's."""

    url: str
    authorities: str = ""


class Registry:
    """The registry at an address. form: `serialized` asks for descriptors of Protobuf."""

    def __init__(self, address: RegistryAddress, form: str = "") -> None:
        parts = urlsplit(address.url)
        host = parts.netloc.rpartition("@")[2]
        self._url = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self._tls = ssl.create_default_context(cadata=address.authorities) if address.authorities else None
        self._form = f"format={form}" if form else ""
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()

    def require_reachable(self) -> None:
        """Ask for something that every registry tells. Raises RegistryUnavailable without an answer."""
        self._ask("/schemas/types", tries=1)

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of an id.

        Raises:
            UnknownSchema: the registry has none.
            RegistryUnavailable: no answer, after several tries.
        """
        if schema_id < 0:
            raise UnknownSchema(schema_id)
        found = self._ask(f"/schemas/ids/{schema_id}?{self._form}")
        if found is None:
            raise UnknownSchema(schema_id)
        references: dict[str, str] = {}
        self._add_references(found, references)
        return RegisteredSchema(found.get("schemaType", "AVRO"), found["schema"], references)

    def _add_references(self, schema: dict[str, Any], found: dict[str, str]) -> None:
        for reference in schema.get("references") or ():
            if reference["name"] in found:
                continue
            subject, version = quote(reference["subject"], safe=""), reference["version"]
            answer = self._ask(f"/subjects/{subject}/versions/{version}?deleted=true&{self._form}")
            if answer is None:
                raise UnknownSchema(f"{reference['subject']} {version}")
            self._add_references(answer, found)
            found[reference["name"]] = answer["schema"]

    def _ask(self, path: str, tries: int = TRIES) -> Any:
        """Return what the registry says; None where there is nothing of that name."""
        for left in reversed(range(tries)):
            try:
                question = Request(self._url + path, headers=self._headers)
                with urlopen(question, timeout=TIMEOUT_S, context=self._tls) as answer:
                    return json.load(answer)
            except HTTPError as error:
                if error.code == NOT_FOUND:
                    return None
                if not left or SERVER_ERROR > error.code != TOO_MANY:
                    raise RegistryUnavailable(f"{self._url} answers {error.code} {error.reason}") from error
            except (OSError, ValueError, HTTPException) as error:  # the last one: an answer that breaks off
                if not left:
                    raise RegistryUnavailable(f"{self._url} does not answer ({error})") from error
            time.sleep(PAUSE_S)
        raise AssertionError("a last try returns or raises")
