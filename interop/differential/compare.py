"""What counts as a difference. Rule: where Kafka stumbles (UNKNOWN_SERVER_ERROR) any other error will do, and a reason
may be told where Kafka tells none; all else that is different on purpose stands here with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from interop.answers.script import differences
from interop.differential.play import Outcome
from interop.differential.steps import Step


class OnPurpose(NamedTuple):
    """A pattern of the lines that `found` yields, which begin with the API's name."""

    pattern: str
    reason: str


ON_PURPOSE = [
    OnPurpose(r"ApiVersions\.\S+\.api_keys", "old versions are served that Kafka 4 has given up, and no telemetry"),
]
_EXCUSED = [re.compile(entry.pattern) for entry in ON_PURPOSE]


def found(steps: dict[str, Step], ours: Outcome, theirs: Outcome) -> Iterator[str]:
    """One line for each difference; `steps` are the requests that were answered, by connection."""
    for on in sorted(ours.keys() | theirs.keys()):
        api = steps[on].api if on in steps else on
        for line in differences(ours.get(on), theirs.get(on), f"{api} v{steps[on].version}" if on in steps else api):
            if not any(pattern.match(line) for pattern in _EXCUSED):
                yield line


def class_of(line: str) -> str:
    """The same for differences that are of one kind, whatever the version and the place in a list."""
    path, _, values = line.partition(": ")
    path = re.sub(r" v-?\d+|\[\d+\]", "", path)
    values = re.sub(r'<[^>]*>|§[^"]*', "…", values)
    return f"{path}: {values[:160]}"
