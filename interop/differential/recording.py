"""Sequences with Kafka's answers, as JSON. Rule: reading a recording needs no maker of sequences, so recordings
stay the same when the makers change. A difference that was found stays as the short sequence that showed it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.differential.cleaning import clean
from interop.differential.compare import Chance, found
from interop.differential.play import Outcome, Side, replay
from interop.differential.steps import Step, step_of

RECORDED = Path(__file__).parent / "recorded"
RIGHTS = RECORDED / "rights.json"  # sequences of a client whose rights change


@dataclass(frozen=True)
class Recording:
    """A sequence of steps, and Kafka's answers to them."""

    name: str
    steps: list[Step]
    answers: list[Outcome]


def read(path: Path) -> list[Recording]:
    table = json.loads(path.read_text())
    return [
        Recording(name, [step_of(line["ask"]) for line in lines], [line["kafka"] for line in lines])
        for name, lines in table.items()
    ]


def write(path: Path, recordings: Sequence[Recording]) -> None:
    """Write one line for each step, so that a step that changes is a line that changes."""
    parts = []
    for one in recordings:
        pairs = zip(one.steps, one.answers, strict=True)
        lines = [json.dumps({"ask": step.to_json(), "kafka": said}, ensure_ascii=False) for step, said in pairs]
        parts.append(f"  {json.dumps(one.name)}: [\n    " + ",\n    ".join(lines) + "\n  ]")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _of_that_time(ours: Any, theirs: Any) -> Any:
    """Return an answer of the broker without fields that the recorded one does not have.

    No version that was recorded has the fields that a later release has brought into the schemas.
    """
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {name: _of_that_time(ours[name], theirs[name]) for name in ours if name in theirs}
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [_of_that_time(one, other) for one, other in zip(ours, theirs, strict=True)]
    return ours


def differences(recording: Recording, bootstrap_servers: str, prefix: str, stranger: str = "") -> Iterator[str]:
    """Yield the differences from Kafka's recorded answers, of the first step that has any.

    stranger: the address of the client whose rights change.
    """
    side, chance = Side(bootstrap_servers, prefix, stranger=stranger), Chance()
    try:
        for at, (step, expected) in enumerate(zip(recording.steps, recording.answers, strict=True)):
            answered = dict(side.waiting) | {step.on: step}
            outcome = replay(side, step, expected)
            ours = {on: _of_that_time(answer, expected.get(on)) for on, answer in outcome.items()}
            lines = list(found(answered, ours, expected))
            if chance.is_it(answered, expected, lines):
                return
            if lines:
                yield from (f"step {at}, {step}\n    {line}" for line in lines)
                return
    finally:
        side.close()
        clean(bootstrap_servers, prefix, recording.steps, stranger)
