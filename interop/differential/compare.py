"""What counts as a difference. Rule: where Kafka stumbles (UNKNOWN_SERVER_ERROR) any other error will do, and a reason
may be told where Kafka tells none; all else that is different on purpose stands here with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from interop.answers.script import differences
from interop.differential.play import Outcome
from interop.differential.steps import Step
from pykafka_broker.broker.routes import ROUTES
from pykafka_broker.protocol.api_keys import SPECS


class OnPurpose(NamedTuple):
    """A pattern of the lines that `found` yields, which begin with the API's name."""

    pattern: str
    reason: str


STUMBLED = -1  # UNKNOWN_SERVER_ERROR
ON_PURPOSE = [
    OnPurpose(
        rf"({'|'.join(SPECS[key].name for key in SPECS.keys() - ROUTES.keys())}) ",
        "no telemetry is collected, and what is not for clients is refused (UNSUPPORTED_VERSION), not cut off",
    ),
]
# Where one of these comes up the sequence ends: what follows depends on it.
CHANCE = re.compile(
    # Which member becomes a group's leader when the old one is gone comes from a hash table of random ids.
    r"JoinGroup v\d+\.(leader|members)\b"
    # A JoinGroup with an unknown id that an empty group of a newer protocol refuses: Kafka describes it as it was,
    # and takes offsets and heartbeats as if there were none.
    r"|OffsetCommit v\d+\.topics\[\d+\]\.partitions\[\d+\]\.error_code: Kafka 69, found 25"
    r"|StreamsGroupHeartbeat v\d+\.error_code: Kafka 69, found 25"
)
# Differences that the makers of sequences keep clear of:
# - The header of an uncompressed batch is believed; Kafka looks at every record of it, and writes the greatest
#   timestamp anew.
# - A topic or partition that is named twice in Produce, Fetch or OffsetCommit is answered twice; no client does it.
# - To negative limits of a fetch, to unknown isolation levels and to null records Kafka answers UNKNOWN_SERVER_ERROR or
#   nothing at all, and to AlterConfigs that names a resource twice nothing either.
# - A group whose only commit was refused stays with Kafka, empty and in memory, until the broker stops.
# - A regular expression is resolved within the heartbeat that brings it, not some time later.
# - A topic that Metadata creates is in the same answer, where Kafka says UNKNOWN_TOPIC_OR_PARTITION at first.
# - Produce v0-v2 are served, which Kafka 4 only says.
# - Which of several partitions of a share session gets what the limits leave depends on how far Kafka has looked into
#   each; a topic that there is not, or that the group does not read, makes it fail with UNKNOWN_SERVER_ERROR, or not.
# - Where a share group has read, Kafka notices that its offsets were altered or deleted with its next write.
# - Kafka does not answer DescribeShareGroupOffsets for a partition that there is not.
# Forgiven is also that Kafka lists aborted transactions behind those of the records in the answer.
_EXCUSED = [re.compile(entry.pattern) for entry in ON_PURPOSE]


def forgiven(ours: Any, theirs: Any) -> Any:
    """Our answer, with Kafka's in its place wherever Kafka stumbled and we have an error with a name."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if theirs.get("error_code") == STUMBLED and has_error(ours):
            return theirs
        aborted, listed = ours.get("aborted_transactions"), theirs.get("aborted_transactions")
        if aborted is not None and listed and all(one in listed for one in aborted):
            ours = {**ours, "aborted_transactions": listed}
        return {name: forgiven(value, theirs.get(name)) for name, value in ours.items()}
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [forgiven(one, other) for one, other in zip(ours, theirs, strict=True)]
    return ours


def has_error(answer: Any) -> bool:
    """Somewhere in it."""
    if isinstance(answer, list):
        return any(map(has_error, answer))
    return isinstance(answer, dict) and any(
        bool(value) if name == "error_code" else has_error(value) for name, value in answer.items()
    )


def found(steps: dict[str, Step], ours: Outcome, theirs: Outcome) -> Iterator[str]:
    """One line for each difference; `steps` are the requests that were answered, by connection."""
    for on in sorted(ours.keys() | theirs.keys()):
        api = steps[on].api if on in steps else on
        for line in differences(
            forgiven(ours.get(on), theirs.get(on)),
            theirs.get(on),
            f"{api} v{steps[on].version}" if on in steps else api,
        ):
            if not any(pattern.match(line) for pattern in _EXCUSED):
                yield line


def class_of(line: str) -> str:
    """The same for differences that are of one kind, whatever the version and the place in a list."""
    path, _, values = line.partition(": ")
    path = re.sub(r" v-?\d+|\[\d+\]", "", path)
    values = re.sub(r'<[^>]*>|§[^"]*', "…", values)
    return f"{path}: {values[:160]}"
