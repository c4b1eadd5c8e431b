"""Where a `$ref` leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from pykafka_broker.registry.problems import InvalidSchema

Json = Any
_METASCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class Node(NamedTuple):
    """A schema, and the document that its references go out from."""

    schema: Json
    document: Document


class Library:
    """Documents by the names that they are referred to by, and by their own `$id`."""

    def __init__(self, found: Mapping[str, Json]) -> None:
        self._documents = {name: Document(name, schema, self) for name, schema in found.items()}
        self._documents |= {each.id: each for each in list(self._documents.values()) if each.id}

    def get(self, name: str) -> Document | None:
        return self._documents.get(name)


class Document:
    """One text. `id` is how it calls itself, nothing where it doesn't."""

    def __init__(self, name: str, schema: Json, library: Library) -> None:
        self.schema = schema
        self._library = library
        self._named = {where: found for found in _schemas(schema) for where in _names(found)}
        own = schema.get("$id", schema.get("id")) if isinstance(schema, dict) else None
        self.id = own if isinstance(own, str) else ""
        self._base = urldefrag(self.id or name).url

    def check(self) -> None:
        """Raises InvalidSchema where a reference leads nowhere."""
        for found in _schemas(self.schema):
            for word in _REFERENCES:
                if isinstance(found.get(word), str):
                    self.follow(found[word])

    def follow(self, reference: str) -> Node:
        """Raises InvalidSchema."""
        uri, fragment = urldefrag(reference)
        if not uri or urljoin(self._base, uri) == self._base:
            return self._within(fragment, reference)
        document = self._library.get(uri) or self._library.get(urljoin(self._base, uri))
        if document is not None:
            return document._within(fragment, reference)
        for name in (uri, urljoin(self._base, uri)):
            if name in self._named and not fragment:
                return Node(self._named[name], self)
        if uri.startswith(_METASCHEMAS):
            return Node(True, self)  # a schema in a schema: any
        raise InvalidSchema(f"the reference {reference} leads nowhere")

    def _within(self, fragment: str, reference: str) -> Node:
        if f"#{fragment}" in self._named:
            return Node(self._named[f"#{fragment}"], self)
        found = self.schema
        if fragment and not fragment.startswith("/"):
            raise InvalidSchema(f"the reference {reference} leads nowhere")
        for part in unquote(fragment).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isascii() and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            else:
                raise InvalidSchema(f"the reference {reference} leads nowhere")
        return Node(found, self)


def target(node: Node) -> Node:
    """The schema itself, where this one only refers to it. A circle of references means anything."""
    seen = set()
    while isinstance(node.schema, dict) and isinstance(node.schema.get("$ref"), str):
        if id(node.schema) in seen:
            return Node(True, node.document)
        seen.add(id(node.schema))
        node = node.document.follow(node.schema["$ref"])
    return node


def _schemas(schema: Json) -> Iterator[dict[str, Json]]:
    """Every object in it. What stands under a property's name is one as well."""
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting += [value for key, value in found.items() if key not in ("enum", "const", "default", "examples")]
        elif isinstance(found, list):
            waiting += found


def _names(found: dict[str, Json]) -> Iterator[str]:
    for word in ("$id", "id"):
        if isinstance(found.get(word), str):
            yield found[word]
    for word in ("$anchor", "$dynamicAnchor"):
        if isinstance(found.get(word), str):
            yield f"#{found[word]}"
