"""The document of the control API names what there is."""

from __future__ import annotations

import json

from pykafka_broker.control.api.document import document
from pykafka_broker.control.operations import operations

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
