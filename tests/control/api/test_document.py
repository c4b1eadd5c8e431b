"""The document is true: it names what there is, and what is made up from it is never the broker's defect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis.core import NOT_SET

from pykafka_broker.control.api.document import document
from pykafka_broker.control.operations import operations
from pykafka_broker.testing import KafkaBroker

ALL = {operation.name: operation for operation in operations()}


def test_every_operation_is_described_with_all_its_parameters() -> None:
    described = document(operations())
    for operation in ALL.values():
        entry = described["paths"][operation.path][operation.method.lower()]
        assert entry["operationId"] == operation.name
        assert entry["summary"], operation.name
        named = {each["name"] for each in entry.get("parameters", [])}
        assert named == {each.name for each in operation.parameters if each.place != "body"}
    assert json.loads(json.dumps(described)) == described


def test_a_parameter_has_its_default_and_a_field_that_may_be_missing_is_not_required() -> None:
    described = document(operations())
    waiting = described["paths"]["/waits/records"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert waiting["properties"]["timeout_ms"]["default"] == 10_000
    assert "default" not in waiting["properties"]["topic"]
    (limit,) = (each for each in described["paths"]["/requests"]["get"]["parameters"] if each["name"] == "limit")
    assert limit["schema"]["default"] == 1_000
    advice = described["components"]["schemas"]["Advice"]
    assert {*advice["properties"]} - {*advice["required"]} == {"node_id"}


def test_no_two_operations_have_one_name() -> None:
    assert len(ALL) == sum(1 for _ in operations())


MADE_UP = schemathesis.openapi.from_dict(document(operations()))


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KafkaBroker]:
    """What is made up may do anything to it."""
    with KafkaBroker(in_process=True) as broker:
        yield broker
        assert broker.control.call("GET", "/healthz") == {"status": "ok"}
        assert "a defect" not in broker.log


@pytest.mark.whole
@pytest.mark.parametrize("name", sorted(ALL))
def test_what_is_made_up_from_it_is_answered_and_never_a_defect(own_broker: KafkaBroker, name: str) -> None:
    operation = ALL[name]
    short = {each.name: 1 for each in operation.parameters if each.name in ("timeout_ms", "within_ms")}

    @settings(max_examples=15, derandomize=True)
    @given(case=MADE_UP[operation.path][operation.method].as_strategy())
    def ask(case: Any) -> None:
        if short and case.body is NOT_SET:
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
