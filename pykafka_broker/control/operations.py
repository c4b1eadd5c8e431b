"""A function as an operation.

Rule: parameters that the path names come from the path. The others come from the query of a GET or DELETE, else from
the JSON object that is the body; where a parameter is a `Text`, that one is the body and the others are in the query.
A parameter with a default may be left out. The first parameter is the `Control`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple, get_type_hints

from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import one_line, read, read_text

IN_QUERY = frozenset({"GET", "DELETE"})
JSON_LINES = "application/jsonl"
REQUIRED = inspect.Parameter.empty


class Text(NamedTuple):
    """An answer, or a body, that is no JSON."""

    content_type: str
    text: str


class Lines(NamedTuple):
    """An answer that is told line by line while it is made: JSON Lines."""

    lines: AsyncIterator[str]


class Parameter(NamedTuple):
    name: str
    kind: Any
    default: Any  # REQUIRED if there is none
    place: str  # path, query, body


class Operation:
    """One function at one method and path (`/topics/{topic}`)."""

    def __init__(self, method: str, path: str, function: Callable[..., Any]) -> None:
        self.method = method
        self.path = path
        self.function = function
        self.name = function.__name__
        self.text = one_line(function.__doc__ or "")
        hints = get_type_hints(function, include_extras=True)
        self.answer = hints.get("return", type(None))
        declared = list(inspect.signature(function).parameters.values())[1:]
        self._in_query = method in IN_QUERY or any(hints[each.name] is Text for each in declared)
        self.parameters = [
            Parameter(each.name, hints[each.name], each.default, self._place_of(each.name, hints[each.name]))
            for each in declared
        ]
        self.text_parameter = next((each.name for each in self.parameters if each.kind is Text), None)
        self.takes_json = self.text_parameter is None and any(each.place == "body" for each in self.parameters)

    def _place_of(self, parameter: str, kind: Any) -> str:
        if f"{{{parameter}}}" in self.path:
            return "path"
        return "query" if self._in_query and kind is not Text else "body"

    def arguments(self, path: Mapping[str, str], query: Mapping[str, str], body: Any) -> dict[str, Any]:
        """What the function is called with. `body` is a `Text` where it takes one, else the JSON value. Raises
        `Problem` 400.
        """
        fields = self._fields(body)
        given: dict[str, Any] = {}
        self._refuse_others("query", query)
        for name, kind, default, place in self.parameters:
            if kind is Text:
                given[name] = body
            elif place == "body" and name in fields:
                given[name] = read(kind, fields[name], name)
            elif place != "body" and name in (texts := path if place == "path" else query):
                given[name] = read_text(kind, texts[name], name)
            elif default is REQUIRED:
                raise Problem(400, f"{name} is missing")
        return given

    def _fields(self, body: Any) -> Mapping[str, Any]:
        if self.text_parameter is not None:
            return {}
        if not isinstance(body, dict):
            raise Problem(400, "the body must be a JSON object")
        self._refuse_others("body", body)
        return body

    def _refuse_others(self, place: str, given: Mapping[str, Any]) -> None:
        known = [each.name for each in self.parameters if each.place == place]
        unknown = sorted(given.keys() - {*known})
        if unknown:
            allowed = f"it may have {', '.join(known)}" if known else "it takes nothing"
            raise Problem(400, f"the {place} has no {unknown[0]}; {allowed}")
