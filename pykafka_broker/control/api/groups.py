"""Groups and how far they have read."""

from __future__ import annotations

from dataclasses import dataclass

from pykafka_broker.control.control import Control
from pykafka_broker.control.groups_view import (
    CommittedPartition,
    GroupDetails,
    GroupSummary,
    all_groups,
    committed,
    details,
    summary,
    total_lag,
)


@dataclass
class Lag:
    """How much a group has still to read: in all, and of each partition."""

    lag: int
    partitions: list[CommittedPartition]


def groups(control: Control) -> list[GroupSummary]:
    """All groups, of whatever kind."""
    return [summary(each) for each in all_groups(control.services)]


def group(control: Control, group: str) -> GroupDetails:
    """One group, with its members and offsets."""
    return details(control.services, group)


def lag(control: Control, group: str) -> Lag:
    """How much a group has still to read of the topics that it has committed offsets of."""
    partitions = committed(control.services, group)
    if not partitions:
        details(control.services, group)  # says so if there is no such group
    return Lag(total_lag(partitions), partitions)
