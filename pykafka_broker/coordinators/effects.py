"""What a coordinator asks its host to do.

Rule: a coordinator decides and hands back `Effects`; the host appends `records` as one batch, replays them into the
coordinator, waits until they are committed, and only then releases `reply` and `completions`. If the append fails
nothing has changed and every waiting request gets the error.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pykafka_broker.coordinators.record import CoordinatorRecord

Token = Any  # opaque to the coordinator: whatever the host handed in with a request that may have to wait
R = TypeVar("R")


class Effects(Generic[R]):
    """The outcome of one call.

    records: to append, in this order, as one batch.
    reply: the answer to the caller, released once the records are committed. A request that may wait under its token
        has `Effects[Response | None]`, and None while it does; others fill it in before they hand the effects back.
    completions: answers to requests that waited under these tokens, released with the same records.
    key: the group id or transactional id that all of this is about; its hash names the log that the records go to.
    """

    __slots__ = ("completions", "key", "records", "reply")

    def __init__(
        self,
        reply: R | None = None,
        records: list[CoordinatorRecord] | None = None,
        completions: list[tuple[Token, Any]] | None = None,
        key: str = "",
    ) -> None:
        self.reply: R = reply  # type: ignore[assignment]  # as the docstring says
        self.records = [] if records is None else records
        self.completions = [] if completions is None else completions
        self.key = key

    def complete(self, token: Token, reply: Any) -> None:
        """Answer a request that waited."""
        self.completions.append((token, reply))

    def __repr__(self) -> str:
        return (
            f"Effects({self.key!r}, reply={self.reply!r}, records={self.records!r}, completions={self.completions!r})"
        )
