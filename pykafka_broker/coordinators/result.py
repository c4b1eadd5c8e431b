"""The outcome of a coordinator's decision, for its host to carry out.

Rule: a coordinator decides and hands back a `CoordinatorResult`; the host appends `records` as one batch, replays them
into the coordinator, waits until they are committed, and only then releases `reply` and `completions`. If the append
fails nothing has changed and every waiting request gets the error.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pykafka_broker.coordinators.record import CoordinatorRecord

Token = Any  # opaque to the coordinator: the host's handle for a request that may have to wait
R = TypeVar("R")


class CoordinatorResult(Generic[R]):
    """The outcome of a call. (Kafka: CoordinatorResult)

    records: To append, in this order, as one batch.
    reply: The answer to the caller, released once the records are committed. A request that may wait under its token
        has `CoordinatorResult[Response | None]`, and None while it waits; other requests fill the reply in before they
        hand the result back.
    completions: Answers to requests that waited under these tokens, released with the same records.
    key: The group id or transactional id that the call is about; its hash names the log for the records.
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
        """Answer a waiting request."""
        self.completions.append((token, reply))

    def __repr__(self) -> str:
        return (
            f"CoordinatorResult({self.key!r}, reply={self.reply!r}, records={self.records!r}, "
            f"completions={self.completions!r})"
        )
