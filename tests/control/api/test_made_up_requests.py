"""Requests made up from the document of the control API: each answer is as the document says, and none is a defect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from pykafka_broker.control.api.document import document
from pykafka_broker.control.operations import operations
from pykafka_broker.testing import KafkaBroker

schemathesis = pytest.importorskip("schemathesis", reason="pip install -e '.[dev]'")
pytestmark = pytest.mark.whole

ALL = {operation.name: operation for operation in operations()}


@pytest.fixture(scope="module")
def made_up() -> Any:
    """Requests by path and method, as the document describes them."""
    return schemathesis.openapi.from_dict(document(operations()))


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KafkaBroker]:
    """A broker for these tests alone, as a request may do anything to it."""
    with KafkaBroker(in_process=True) as broker:
        yield broker
        assert broker.control.call("GET", "/healthz") == {"status": "ok"}
        assert "a defect" not in broker.log


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_operation_answers_as_the_document_says(own_broker: KafkaBroker, made_up: Any, name: str) -> None:
    operation = ALL[name]
    short = {each.name: 1 for each in operation.parameters if each.name in ("timeout_ms", "within_ms")}

    @settings(max_examples=15, derandomize=True)
    @given(case=made_up[operation.path][operation.method].as_strategy())
    def ask(case: Any) -> None:
        if short and case.body is schemathesis.core.NOT_SET:
            case.body = {}
        if isinstance(case.body, dict):  # a wait for as long as may be asked for would be one
            case.body.update(short)
        response = case.call(base_url=own_broker.control_url)
        case.validate_response(response, excluded_checks=[schemathesis.checks.positive_data_acceptance])

    try:
        ask()
    finally:  # what one operation has done to it is not the defect of the next
        own_broker.free_disk()
        own_broker.unpause()
        own_broker.faults.clear()
