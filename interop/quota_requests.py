"""Requests of clients with quotas. Rule: each test has client ids of its own, so that none is counted with another."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from interop.batches import batch
from interop.raw import RawClient
from pykafka_broker.protocol.messages import alter_client_quotas_request as altering
from pykafka_broker.protocol.messages import fetch_request as fetching
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

VERSIONS = ApiVersionsRequest("python", "1")
_NUMBER = count()


class Quotas:
    """The quotas of one broker, with topics and clients for tests."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = RawClient(bootstrap, client_id="quotas-admin")
        self.bootstrap = bootstrap

    def set(self, *entity: tuple[str, str | None], **values: float | None) -> None:
        """Set quotas of an entity, or remove those that are None, and wait until they hold.

        Kafka's answer may come a little before its new quotas hold.
        """
        ops = [altering.OpData(key, value or 0.0, value is None) for key, value in values.items()]
        entities = [altering.EntityData(kind, name) for kind, name in entity]
        answer = self._admin.call(altering.AlterClientQuotasRequest([altering.EntryData(entities, ops)]), 1)
        assert answer.entries[0].error_code == 0, answer
        time.sleep(0.3)

    def client(self, **values: float) -> RawClient:
        """Return a client whose id has these quotas."""
        name = f"client-{next(_NUMBER)}"
        self.set(("client-id", name), **values)
        return RawClient(self.bootstrap, timeout_s=30, client_id=name)

    def topic(self, partitions: int = 1) -> str:
        name = f"quotas-{next(_NUMBER)}"
        answer = self._admin.call(creating(name, partitions=partitions), 7)
        assert answer.topics[0].error_code == 0, answer
        return name

    def fill(self, topic: str, batches: int, size: int) -> None:
        for _ in range(batches):
            produced(self._admin, topic, size)

    def close(self) -> None:
        self._admin.close()


def creating(*names: str, partitions: int = 1, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names], 10_000, validate_only)


def producing(topic: str, size: int, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(0, batch(b"x" * size))
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(topic, partition_data=[data])])


def produced(client: RawClient, topic: str, size: int) -> Any:
    """Return the answer to a produce request; the records are in the log."""
    answer = client.call(producing(topic, size), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer
    return answer


def reading(topic: str, offset: int = 0, *, most: int = 1 << 30, session: tuple[int, int] = (0, -1)) -> Any:
    partition = fetching.FetchPartition(0, -1, offset, -1, -1, most)
    return fetching.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 30,
        session_id=session[0],
        session_epoch=session[1],
        topics=[fetching.FetchTopic(topic, partitions=[partition])],
    )


def size_of(answer: Any) -> int:
    """Return the bytes of records in the answer to a fetch."""
    return sum(len(one.records or b"") for topic in answer.responses for one in topic.partitions)


LATE_MS = 20_000  # the delay that a busy machine may add


def ms_until_served(client: RawClient, began: float) -> float:
    """Send a request and return the milliseconds from `began` until its answer."""
    client.call(VERSIONS, 3)
    return (time.monotonic() - began) * 1000


def is_held_up(client: RawClient, began: float, throttle_ms: float) -> bool:
    """Return whether the client is served at the end of its throttle time, or a little later, and not before."""
    return throttle_ms - 5 <= ms_until_served(client, began) <= throttle_ms + LATE_MS
