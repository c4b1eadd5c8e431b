"""The parts of the command for a new release; the whole command takes an hour and another Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interop import ROOT, new_release
from interop.java import kafka_classpath
from interop.new_release import (
    DECISIONS,
    OTHER_RELEASES,
    PIN,
    Change,
    Step,
    Steps,
    change,
    changed_files,
    kinds_of_differences,
    of_fields,
    of_jars,
    report,
)
from interop.record import RECORDINGS
from pykafka_broker.releases.release import OWN_VERSION
from tests.releases.record import DATA, facts_of, number


def test_a_change_is_told_by_what_came_what_went_and_what_is_otherwise() -> None:
    assert change({"a": 1, "b": 2}, {"b": 3, "c": 4}) == (["c"], ["a"], ["b: 2 -> 3"])
    assert not change({"a": 1}, {"a": 1})


def test_fields_are_told_by_path_with_the_fields_inside() -> None:
    fields = [
        {"name": "A", "type": "[]B", "versions": "0+", "fields": [{"name": "C", "type": "int8", "versions": "1+"}]}
    ]
    assert of_fields("clients/X", fields) == {"clients/X.A": "[]B 0+ - - -", "clients/X.A.C": "int8 1+ - - -"}


def test_facts_of_a_release_include_those_of_older_ones() -> None:
    recorded = json.loads(DATA.read_bytes())
    older, newer = facts_of(recorded, "4.3.1"), facts_of(recorded, "4.4.0")
    found = change(older["apis"], newer["apis"])
    assert found.new == ["93", "94"]
    assert "18: [0, 4] -> [0, 5]" in found.changed
    assert "max.decompressed.message.bytes" in change(older["topic"], newer["topic"]).new
    assert change(older["features"], newer["features"]).changed == [
        "metadata.version: [7, 30, 30] -> [7, 33, 33]",
        "share.version: [0, 1, 1] -> [0, 2, 2]",
    ]


def test_a_candidate_counts_as_its_release() -> None:
    assert number("4.5.0-rc1") == number("4.5.0") == (4, 5, 0)


def test_files_and_differences_are_read_from_what_the_steps_print() -> None:
    assert changed_files("12\t3\ta/b.json\n-\t-\tc.gz\n") == ["a/b.json (+12 -3)", "c.gz (+- --)"]
    assert kinds_of_differences(
        "\n3000 steps in 200 sequences, 60 s\n    2 x Fetch.a: Kafka 1, found 2\n  key x\n"
    ) == ["2 x Fetch.a: Kafka 1, found 2"]


def test_the_report_says_what_is_new_what_differs_and_who_decides(tmp_path: Path) -> None:
    log = tmp_path / "differential.log"
    log.write_text("    2 x Fetch.a: Kafka 1, found 2\n")
    changes = {part: Change([], [], []) for part in DECISIONS} | {"errors": Change(["NEW_ERROR"], [], [])}
    steps = [
        Step("storage", True, 3.0, tmp_path / "storage.log", ["interop/storage_tool/recorded.json (+1 -1)"]),
        Step("share", False, 4.0, tmp_path / "share.log", []),
        Step("differential", False, 5.0, log, []),
    ]
    text = report("4.5.0", "abc", changes, steps)
    assert "### errors, new (1)\n- NEW_ERROR" in text
    assert "### differential (1)\n- 2 x Fetch.a: Kafka 1, found 2" in text
    assert f"| errors | {' | '.join(DECISIONS['errors'])} |" in text
    assert "| storage | follow, or say in the test why not | interop/storage_tool/recorded.json |" in text
    assert f"| share | 4 | failed: {tmp_path / 'share.log'} |" in text
    assert "| differential | 5 | with differences |" in text
    assert "| APIs |" not in text


def test_the_tree_is_the_last_commit_with_the_pin_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_release, "release_jars", lambda version: tmp_path / f"kafka-{version}")
    steps = Steps("9.8.7-rc1", tmp_path / "run")
    steps.prepare()
    assert 'OWN_VERSION = "9.8.7-rc1"' in (steps.tree / PIN).read_text()
    steps.run("well", "-c", "from interop.jars import KAFKA_VERSION as v; open('said', 'w').write(v + '\\n')")
    steps.run("pinned", "-c", f"open({PIN!r}, 'a').write('x\\n')")
    steps.run("failed", "-c", "raise SystemExit('no such Kafka')")
    assert [(each.name, each.well, each.files) for each in steps.done] == [
        ("well", True, []),
        ("pinned", True, [f"{PIN} (+1 -0)"]),
        ("failed", False, []),
    ]
    assert (steps.tree / "said").read_text() == "9.8.7-rc1\n"
    assert "no such Kafka" in steps.done[-1].log.read_text()
    assert f'OWN_VERSION = "{OWN_VERSION}"' in (ROOT / PIN).read_text()


def test_all_paths_that_a_person_is_sent_to_are_there() -> None:
    names = [name for _, where in DECISIONS.values() for name in where.split("`")[1::2]]
    roots = [ROOT, ROOT / "pykafka_broker"]
    missing = [name for name in names if "/" in name and not any((root / name).exists() for root in roots)]
    assert not missing
    assert set(RECORDINGS) >= OTHER_RELEASES


@pytest.mark.java
def test_jars_tell_schemas_errors_and_tools() -> None:
    found = of_jars(Path(kafka_classpath().removesuffix("/*")))
    assert found["API names"]["18"] == "ApiVersions"
    assert found["schemas"]["clients/ApiVersionsRequest"] == "0-5"
    assert "clients/ApiVersionsRequest.ClientSoftwareName" in found["fields"]
    assert found["errors"]["SHARE_SESSION_LIMIT_REACHED"] == 133
    assert {"TopicCommand", "StreamsGroupCommand", "ConsoleConsumer"} <= found["tools"].keys()
    assert {"kafka-clients", "kafka-storage", "kafka_2.13"} <= found["jars"].keys()
