"""A cluster of one topic, as what messages leave unsaid."""

from __future__ import annotations

from typing import Any

ORDERS_ID = b"orders----------"


class Cluster:
    """`sessions` are what fetch sessions hold, by id."""

    def __init__(self, sessions: dict[int, list[tuple[Any, int]]] | None = None) -> None:
        self.sessions = sessions or {}

    def topic_name(self, topic_id: bytes) -> str | None:
        return "orders" if topic_id == ORDERS_ID else None

    def fetched(self, session_id: int) -> list[tuple[Any, int]]:
        return self.sessions.get(session_id, [])
