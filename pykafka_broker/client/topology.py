"""Which broker leads which partition, for who produces and consumes.

Rule: what is known stays until somebody says that it was wrong (`forget`), or for `metadata.max.age.ms`. Errors that
pass (a topic that is being created, a leader that is being elected) are waited for, all others are raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import Refused, TimedOut
from pykafka_broker.client.properties import number
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.metadata_response import MetadataResponseTopic

NOBODY = -1
_MAX_AGE_MS = 300_000
_OF_NAMES = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Invalid topics",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorized to access topics",
}


class Leaders:
    """By topic, the leader of each partition in their order, NOBODY where there is none at the moment.

    create: topics that somebody asks for are created, if the brokers do so.
    """

    def __init__(self, client: Client, *, create: bool = False) -> None:
        self._client = client
        self._create = create
        self._known: dict[str, list[int]] = {}
        self._until: dict[str, int] = {}
        self._max_age_ms = number(client.properties, "metadata.max.age.ms", _MAX_AGE_MS, least=0)

    def known(self, topic: str) -> list[int] | None:
        """What is known of the topic now, without asking."""
        return self._known.get(topic)

    def leader(self, partition: TopicPartition) -> int:
        leaders = self._known.get(partition.topic, ())
        return leaders[partition.partition] if 0 <= partition.partition < len(leaders) else NOBODY

    def forget(self, topic: str) -> None:
        """It was wrong, or is too old."""
        self._until[topic] = 0

    def stale(self) -> list[str]:
        """Topics to be asked for anew."""
        now = self._client.deadline(0)
        return [topic for topic, until in self._until.items() if until <= now]

    async def of(self, topic: str, timeout_ms: int) -> list[int]:
        """The leaders of a topic, waited for. Raises TimedOut and Refused."""
        until = self._client.deadline(timeout_ms)
        while topic not in self._known:
            try:
                await self.ask([topic], max(1, until - self._client.deadline(0)))
            except TimedOut:
                raise TimedOut(f"Topic {topic} not present in metadata after {timeout_ms} ms.") from None
            if topic not in self._known:
                if self._client.deadline(0) >= until:
                    raise TimedOut(f"Topic {topic} not present in metadata after {timeout_ms} ms.")
                await asyncio.sleep(self._client.backoff_ms / 1000)
        return self._known[topic]

    async def ask(self, topics: Iterable[str], timeout_ms: int | None = None) -> None:
        """Look at these topics once. Raises Refused for what does not pass."""
        answer = await self._client.metadata(list(topics), timeout_ms=timeout_ms, create=self._create)
        for each in answer.topics:
            self._note(each)

    def _note(self, found: MetadataResponseTopic) -> None:
        assert found.name is not None
        code = found.error_code
        if code in _OF_NAMES:
            raise Refused(code, f"{_OF_NAMES[ErrorCode(code)]}: [{found.name}]")
        if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
            raise Refused(code)
        if code == ErrorCode.NONE and found.partitions:
            leaders = [NOBODY] * (1 + max(each.partition_index for each in found.partitions))
            for each in found.partitions:
                leaders[each.partition_index] = each.leader_id
            self._known[found.name] = leaders
            self._until[found.name] = self._client.deadline(self._max_age_ms if NOBODY not in leaders else 0)
        elif code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._known.pop(found.name, None)
