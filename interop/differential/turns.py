"""Several sequences at a time on the same two brokers. Rule: each has names of its own, so sequences do not affect
each other; one that uses what all share (a broker's configs, quotas, the group without a name) plays alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition

from interop.differential.making.acls import PREPARER
from interop.differential.steps import Step

BROKER = 4


class Turns:
    """Turns of many at once, or of one alone. A player that wants to be alone comes before those that ask later."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._together = self.want_alone = 0
        self._alone = False

    @contextmanager
    def taken(self, alone: bool) -> Iterator[None]:
        with self._changed:
            if alone:
                self.want_alone += 1
                self._changed.wait_for(lambda: not self._alone and not self._together)
                self.want_alone -= 1
                self._alone = True
            else:
                self._changed.wait_for(lambda: not self._alone and not self.want_alone)
                self._together += 1
        try:
            yield
        finally:
            with self._changed:
                if alone:
                    self._alone = False
                else:
                    self._together -= 1
                self._changed.notify_all()


def is_for_all(steps: Sequence[Step]) -> bool:
    """Return whether one of the steps touches what all sequences on a broker share."""
    return any(_is_for_all(step) for step in steps)


def _is_for_all(step: Step) -> bool:
    if step.api in ("OffsetCommit", "TxnOffsetCommit"):
        return bool(step.fields.get("group_id") == "")
    if step.api in ("AlterConfigs", "IncrementalAlterConfigs"):
        return any(resource["resource_type"] == BROKER for resource in step.fields["resources"])
    if step.api in ("CreateAcls", "DeleteAcls", "DescribeAcls"):
        return step.on != PREPARER  # the preparer's ACLs are for one address
    return step.api == "AlterClientQuotas"
