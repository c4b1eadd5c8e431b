"""The committed code is what the generator makes of the committed schemas, and the schemas hold facts only."""

from __future__ import annotations

import json

from protocol.generator.__main__ import PROTOCOL, SCHEMAS, check, generate
from protocol.generator.code import PACK, ModuleCode
from protocol.generator.hot import BOTH_SIDES, OTHERS, PAIRS
from protocol.generator.importer import FIELD_FACTS, MESSAGE_FACTS, dump
from protocol.generator.layout import layouts_of
from protocol.generator.schema import load_messages
from tests.protocol.values import messages


def test_generated_code_is_up_to_date() -> None:
    assert check(generate()) == []


def test_the_check_names_what_differs() -> None:
    files = generate()
    path = PROTOCOL / "messages" / "fetch_request.py"
    files[path] += "# another line\n"
    del files[PROTOCOL / "messages" / "fetch_response.py"]
    files[PROTOCOL / "messages" / "new_request.py"] = ""
    assert check(files) == [
        "left over: pykafka_broker/protocol/messages/fetch_response.py",
        "differs: pykafka_broker/protocol/messages/fetch_request.py",
        "missing: pykafka_broker/protocol/messages/new_request.py",
    ]


def test_versions_share_code_where_they_share_bytes() -> None:
    layouts = {name: layouts_of(message) for name, message in messages().items()}
    assert sum(len(found) for found in layouts.values()) < sum(len(list(m.versions)) for m in messages().values()) * 0.8
    assert [versions for _, versions in layouts["HeartbeatRequest"]] == [[0, 1, 2], [3], [4]]


def test_messages_that_are_called_hot_exist() -> None:
    assert messages().keys() >= OTHERS | {f"{name}{kind}" for name in PAIRS for kind in ("Request", "Response")}
    assert PAIRS.keys() >= BOTH_SIDES


def test_code_is_flat_on_the_side_that_a_broker_runs() -> None:
    def structs(module: str, side: str) -> bool:
        text = (PROTOCOL / "messages" / f"{module}.py").read_text()
        return any(line.startswith(f"def _{side}_") and f"def _{side}_v" not in line for line in text.splitlines())

    assert [structs("metadata_request", side) for side in ("read", "write")] == [False, True]
    assert [structs("metadata_response", side) for side in ("read", "write")] == [True, False]
    assert [structs("fetch_response", side) for side in ("read", "write")] == [False, False]


def test_structs_of_other_messages_share_code_over_versions() -> None:
    text = (PROTOCOL / "messages" / "describe_groups_response.py").read_text()
    readers = [line for line in text.splitlines() if line.startswith("def _read_described_group_member_v")]
    assert len(readers) == 3  # seven versions: without an instance id, with it, flexible


def test_schemas_are_written_as_they_are_read() -> None:
    for path in SCHEMAS.glob("*/*.json"):
        assert dump(json.loads(path.read_text())) == path.read_text(), path


def test_schemas_hold_facts_only() -> None:
    for path in SCHEMAS.glob("*/*.json"):
        raw = json.loads(path.read_text())
        assert set(raw) <= {*MESSAGE_FACTS, "fields", "commonStructs"}, path
        for structs in raw.get("commonStructs", []):
            assert set(structs) == {"name", "versions", "fields"}
        todo = [*raw["fields"], *(field for struct in raw.get("commonStructs", []) for field in struct["fields"])]
        while todo:
            field = todo.pop()
            assert set(field) <= {*FIELD_FACTS, "fields"}, path
            todo += field.get("fields", [])


def test_no_array_element_is_empty_on_the_wire() -> None:
    """Else a count could not be bounded by the bytes that are left."""
    for message in load_messages(SCHEMAS):
        for layout, _ in layouts_of(message):
            todo = [*layout.items, *layout.tagged]
            while todo:
                item = todo.pop()
                assert not item.field.array or item.element_min_size > 0, (message.name, item.field.name)
                if item.child is not None:
                    todo += [*item.child.items, *item.child.tagged]


def test_formats_get_names_that_python_takes() -> None:
    module = ModuleCode()
    assert module.format(PACK, "i?16sx") == "_PACK_io16sx"
    assert module.definitions() == ['_PACK_io16sx = Struct(">i?16sx").pack']
