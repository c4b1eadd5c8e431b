"""Our tools print what Kafka's scripts print, and end as they end (`interop/tools/`)."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interop.tools.brokers import brokers_of
from interop.tools.steps import Step, Table, names, run_ours, table

_WAIT = re.compile(r"--timeout-ms \d{3,4}\b")
NO_SCRIPT = {"mirror"}  # mirror prints nothing and does not end: test_mirror.py compares its results


@pytest.mark.parametrize("name", names())
def test_a_tool_prints_what_kafkas_script_prints(name: str, target_name: str, tmp_path: Path) -> None:
    wanted = table(name)
    recorded = json.loads(wanted.recorded.read_text())
    assert [each["command"] for each in recorded] == [step.command for step in wanted.steps], "to be recorded anew"
    with brokers_of(wanted, target_name == "kafka", tmp_path) as known:
        found = [_difference(step, row, known, tmp_path) for step, row in zip(wanted.steps, recorded, strict=True)]
    assert not list(filter(None, found)), "\n\n".join(filter(None, found))


def _difference(step: Step, row: dict[str, object], known: Mapping[str, str], directory: Path) -> str:
    # A busy machine may take longer for the first record than Kafka's script waited: then it is read once more.
    commands = [step.command]
    if row["out"] and "--group" not in step.command and _WAIT.search(step.command):
        commands.append(_WAIT.sub("--timeout-ms 30000", step.command))
    for command in commands:
        ours = run_ours(replace(step.where(known), command=command), known["bootstrap"], directory)
        out, err = [] if step.why_not else step.normal(ours.out), step.messages(ours.err)
        if (ours.status, out, err) == (row["status"], row["out"], row["err"]):
            return ""
    compared = (("Kafka's", row["out"], row["err"]), ("ours", out, err))
    texts = (
        f"--- {whose}\n{_text(lines)}\n--- {whose}, standard error\n{_text(said)}" for whose, lines, said in compared
    )
    return f"{step.tool} {step.command}: exit code {ours.status}, Kafka's {row['status']}\n" + "\n".join(texts)


def _text(lines: Any) -> str:
    return "\n".join(lines)


def test_every_tool_has_a_table() -> None:
    from pykafka_broker.tools import TOOLS

    assert {each.replace("-", "_") for each in TOOLS} - NO_SCRIPT <= set(names())


def test_a_table_is_recorded_whole() -> None:
    assert isinstance(table("topics"), Table)
    for name in names():
        assert len(json.loads(table(name).recorded.read_text())) == len(table(name).steps)
