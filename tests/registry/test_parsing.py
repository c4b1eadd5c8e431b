"""Parsed schemas are kept, and large ones are parsed beside the loop."""

from __future__ import annotations

import json
import threading

import pytest

from pykafka_broker.registry import parsing as module
from pykafka_broker.registry import records
from pykafka_broker.registry.kinds import Parsed, parse
from pykafka_broker.registry.parsing import Needed, Parsing, texts_of
from pykafka_broker.registry.problems import InvalidSchema, RegistryError
from pykafka_broker.registry.records import Reference, Schema, Version
from pykafka_broker.registry.state import RegistryState
from tests.registry.rest import record
from tests.server.support import run


def state_with(*versions: Version) -> RegistryState:
    state = RegistryState()
    for each in versions:
        state.replay(records.schema_key(each.subject, each.version), records.schema_value(each))
    return state


def test_a_large_schema_is_parsed_in_a_thread_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noted(kind: str, text: str, library: dict[str, str]) -> Parsed:
        threads.append(threading.current_thread())
        return parse(kind, text, library)

    monkeypatch.setattr(module, "parse", noted)

    async def scenario() -> None:
        parsing, state = Parsing(), RegistryState()
        for schema in (record("x"), record("x", doc="d" * 40_000)):
            for _ in range(2):
                await parsing.parse(state, "s", Schema("AVRO", json.dumps(schema)))
        assert [each is threading.main_thread() for each in threads] == [True, False]

    run(scenario)


def test_what_is_referred_to_comes_before_what_refers_to_it() -> None:
    a = Schema("AVRO", json.dumps(record("x", name="A")))
    b = Schema("AVRO", json.dumps(record({"name": "a", "type": "A"}, name="B")), (Reference("A", "a", 1),))
    state = state_with(Version("a", 1, 1, a), Version("b", 1, 2, b))
    both = (Reference("B", "b", -1), Reference("A", "a", 1))
    text = json.dumps(record({"name": "a", "type": "A"}, {"name": "b", "type": "B"}))

    async def scenario() -> None:
        parsed = await Parsing().parse(state, "s", Schema("AVRO", text, both))
        assert json.loads(parsed.canonical)["fields"][1]["type"] == "B"
        with pytest.raises(RegistryError, match="no schema reference found for subject 'c' and version 1"):
            await Parsing().parse(state, "s", Schema("AVRO", text, (Reference("C", "c", 1),)))

    run(scenario)


def test_schemas_that_refer_to_each_other_come_to_an_end() -> None:
    one, other = (Reference("B", "b", 1),), (Reference("A", "a", 1),)
    state = state_with(
        Version("a", 1, 1, Schema("AVRO", json.dumps(record("x", name="A")), one)),
        Version("b", 1, 2, Schema("AVRO", json.dumps(record("x", name="B")), other)),
    )

    async def scenario() -> None:
        assert await Parsing().parse(state, "a", Schema("AVRO", json.dumps(record("x")), one))

    run(scenario)


def test_references_count_in_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def noted(kind: str, text: str, library: dict[str, str]) -> Parsed:
        parsed.append(json.loads(text)["name"])
        return parse(kind, text, library)

    monkeypatch.setattr(module, "parse", noted)
    monkeypatch.setattr(module, "_MOST_CHARACTERS_KEPT", 15_000)
    state = state_with(Version("large", 1, 1, Schema("AVRO", json.dumps(record("x", name="Large", doc="d" * 10_000)))))
    reference = (Reference("Large", "large", 1),)

    async def scenario() -> None:
        parsing = Parsing()
        for name in ("A", "B", "B", "A"):
            schema = Schema("AVRO", json.dumps(record({"name": "x", "type": "Large"}, name=name)), reference)
            await parsing.parse(state, "s", schema)
        assert parsed == ["A", "B", "A"]
        assert parsing._characters < 15_000

    run(scenario)


def test_references_are_bounded_in_number_and_in_length() -> None:
    def needs(count: int, text: str) -> Needed:
        return Needed(text, "s", [Reference(str(number), "s", number) for number in range(count)])

    def texts(count: int, text: str) -> dict[str, str]:
        return texts_of(needs(count, text), lambda subject, reference: Needed(text, "s", []))

    assert len(texts(1_000, "")) == 1_000
    with pytest.raises(InvalidSchema, match="needs more than 1000 others"):
        texts(1_001, "")
    mebi = " " * (1 << 20)
    assert len(texts(16, mebi)) == 16
    with pytest.raises(InvalidSchema, match=r"references have more than 16777216 characters"):
        texts(17, mebi)


def test_no_more_than_a_thousand_schemas_are_kept() -> None:
    parsing = Parsing()

    async def scenario() -> None:
        for number in range(1_001):
            await parsing.parse(RegistryState(), "s", Schema("AVRO", json.dumps(record("x", name=f"R{number}"))))
        assert len(parsing._kept) == 1_000
        assert "R0" not in next(iter(parsing._kept))[1]

    run(scenario)
