"""A function's signature is what its operation takes."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.control.operations import Operation, Text
from pykafka_broker.control.problems import Problem


def copy(control: None, name: str, times: int = 1, deep: bool = False) -> None:
    """Copy a thing. It takes a while."""


def load(control: None, lines: Text, replace: bool = False) -> None:
    """Load lines."""


POST = Operation("POST", "/things/{name}/copies", copy)
GET = Operation("GET", "/things/{name}", copy)
LOAD = Operation("POST", "/load", load)


def test_what_the_path_does_not_name_is_in_the_body_or_the_query() -> None:
    assert [(each.name, each.place) for each in POST.parameters] == [
        ("name", "path"),
        ("times", "body"),
        ("deep", "body"),
    ]
    assert [each.place for each in GET.parameters] == ["path", "query", "query"]
    assert [(each.name, each.place) for each in LOAD.parameters] == [("lines", "body"), ("replace", "query")]


def test_only_what_was_given_is_handed_on() -> None:
    assert POST.arguments({"name": "a"}, {}, {"times": 3}) == {"name": "a", "times": 3}
    assert GET.arguments({"name": "a"}, {"deep": "true"}, {}) == {"name": "a", "deep": True}
    assert LOAD.arguments({}, {"replace": "true"}, Text("text/plain", "x")) == {
        "lines": Text("text/plain", "x"),
        "replace": True,
    }


@pytest.mark.parametrize(
    ("operation", "query", "body", "says"),
    [
        (POST, {}, {"time": 1}, "the body has no time; it may have times, deep"),
        (POST, {"times": "1"}, {}, "the query has no times; it takes nothing"),
        (POST, {}, [], "the body must be a JSON object"),
        (POST, {}, {"times": "1"}, "times must be an integer"),
        (GET, {"times": "x"}, {}, "times must be an integer"),
    ],
)
def test_anything_else_is_refused(operation: Operation, query: dict[str, str], body: Any, says: str) -> None:
    with pytest.raises(Problem) as refused:
        operation.arguments({"name": "a"}, query, body)
    assert refused.value.detail == says


def test_what_has_no_default_is_missed() -> None:
    def make(control: None, name: str) -> None: ...

    with pytest.raises(Problem, match="name is missing"):
        Operation("POST", "/things", make).arguments({}, {}, {})
