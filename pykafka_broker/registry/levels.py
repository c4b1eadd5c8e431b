"""What a compatibility level asks of a new schema.

Rule: BACKWARD is that the new schema reads what the old one wrote, FORWARD the other way round, FULL both; the plain
ones look at the newest version, the transitive ones at all.
"""

from __future__ import annotations

from pykafka_broker.registry.kinds import Parsed

NONE = "NONE"
DEFAULT_LEVEL = "BACKWARD"
LEVELS = frozenset(
    {NONE, *(f"{plain}{which}" for plain in ("BACKWARD", "FORWARD", "FULL") for which in ("", "_TRANSITIVE"))}
)


def is_transitive(level: str) -> bool:
    return level.endswith("_TRANSITIVE")


def differences(level: str, new: Parsed, old: Parsed) -> list[str]:
    """Why the new schema can't come after the old one; empty where it can."""
    if level == NONE:
        return []
    if type(new) is not type(old):
        return ["{errorType:'TYPE_CHANGED', description:'The new schema is of another schema type than the old one'}"]
    found: list[str] = []
    if level.startswith(("BACKWARD", "FULL")):
        found += [each.format(new="new", old="old") for each in new.differences(old)]
    if level.startswith(("FORWARD", "FULL")):
        found += [each.format(new="old", old="new") for each in old.differences(new)]
    return found
