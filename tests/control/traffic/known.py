"""A cluster of one topic: it knows the names and sessions that messages refer to by id."""

from __future__ import annotations

from typing import Any

from pykafka_broker.control.traffic.mentions import FetchedSession

ORDERS_ID = b"orders----------"


class Cluster:
    """A cluster with the topic `orders`.

    sessions: the partitions of fetch sessions, by id, and of share sessions, by group and member.
    """

    def __init__(self, sessions: dict[FetchedSession, list[tuple[Any, int]]] | None = None) -> None:
        self.sessions = sessions or {}

    def topic_name(self, topic_id: bytes) -> str | None:
        return "orders" if topic_id == ORDERS_ID else None

    def has_topic(self, topic: str) -> bool:
        return topic == "orders"

    def fetched(self, session: FetchedSession) -> list[tuple[Any, int]]:
        return self.sessions.get(session, [])

    def log_end(self, topic: str, partition: int, size: int) -> None:
        return None
