"""Records of a cluster, without a client.

Rule: a broker has the records of the partitions that it leads. Whoever asks the cluster need not know which one that
is, nor that another takes its place meanwhile. Only what may have been written and was not answered is not written
again: that a broker has gone in the middle of it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykafka_broker.client.partitioner import partition_of
from pykafka_broker.control.bytes_in_json import meant
from pykafka_broker.testing.client_settings import client_settings
from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.process import KafkaBroker
from pykafka_broker.testing.record import Record, several, to_request
from pykafka_broker.testing.waits import wait_until

_PASSING = ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_OR_PARTITION")
_WAIT_S = 30.0
_AT_ONCE = 1_000  # records in one call


class ClusterData:
    """What a test may ask of the records of several brokers."""

    @property
    def bootstrap_servers(self) -> str:
        raise NotImplementedError

    @property
    def schema_registry_url(self) -> str:
        raise NotImplementedError

    def broker(self, node_id: int) -> KafkaBroker:
        raise NotImplementedError

    def leader_of(self, topic: str, partition: int = 0) -> int:
        raise NotImplementedError

    def _running(self) -> KafkaBroker:
        """Any broker that runs."""
        raise NotImplementedError

    def client_config(self, client: str) -> dict[str, Any]:
        """What a client needs to reach the cluster: "confluent", "kafka-python", "aiokafka", "java" or "spark", and
        "schema-registry" for the client of that.
        """
        if client == "schema-registry":
            return {"url": self.schema_registry_url}
        return client_settings(client, self.bootstrap_servers)

    def produce(self, topic: str, records: Iterable[Any]) -> list[tuple[int, int]]:
        """Write records and return partition and offset of each, once they are committed. They are as
        `KafkaBroker.produce` takes them. Raises ControlError where Kafka refuses them, WaitTimeout where a partition
        gets no leader, and ConnectionError where a broker goes before it has answered: they may be there or not.
        """
        partitions = self._partitions(topic)
        by_partition: dict[int, list[tuple[int, dict[str, Any]]]] = {}
        count = 0
        for number, request in enumerate(list(map(to_request, several(f"produce({topic!r}", records)))):
            partition = _partition_for(request, number, len(partitions))
            _check(topic, partition, partitions)
            by_partition.setdefault(partition, []).append((number, {**request, "partition": partition}))
            count = number + 1
        written: dict[int, tuple[int, int]] = {}
        for partition, those in by_partition.items():
            for start in range(0, len(those), _AT_ONCE):
                some = those[start : start + _AT_ONCE]
                requests = [request for _, request in some]

                def write(leader: KafkaBroker, requests: list[dict[str, Any]] = requests) -> list[tuple[int, int]]:
                    try:
                        return leader._write(topic, requests)
                    except ConnectionRefusedError:
                        raise
                    except ConnectionError as error:
                        raise _Refused(error) from error

                places = self._at_leader(topic, partition, write)
                written |= {number: place for (number, _), place in zip(some, places, strict=True)}
        return [written[number] for number in range(count)]

    def records(
        self,
        topic: str,
        partition: int | None = None,
        from_offset: int = 0,
        isolation_level: str = "read_committed",
        limit: int | None = None,
    ) -> list[Record]:
        """The records of a topic, or of one partition, each from that offset on; at most `limit` of them."""
        partitions = self._partitions(topic)
        if partition is not None:
            _check(topic, partition, partitions)
        found: list[Record] = []
        for number in partitions if partition is None else (partition,):
            left = None if limit is None else limit - len(found)
            if left == 0:
                break

            def read(leader: KafkaBroker, number: int = number, left: int | None = left) -> list[Record]:
                return leader.records(topic, number, from_offset, isolation_level, left)

            found += self._at_leader(topic, number, read)
        return found

    def wait_for_records(
        self, topic: str, n: int, timeout_s: float = 10, isolation_level: str = "read_committed"
    ) -> list[Record]:
        """Wait until the topic has at least `n` records, and return the first of them. Raises WaitTimeout."""
        found: list[Record] = []

        def there() -> bool:
            found[:] = self.records(topic, isolation_level=isolation_level, limit=n)
            return len(found) >= n

        wait_until(there, lambda: f"{topic} has {len(found)} records, not {n}", timeout_s)
        return found

    def _partitions(self, topic: str) -> range:
        return range(self._running().topic(topic)["partitions"])

    def _at_leader(self, topic: str, partition: int, step: Callable[[KafkaBroker], list[Any]]) -> list[Any]:
        """What the leader answers; asked again where it is not that any more."""
        found: list[Any] = []

        def answered() -> bool:
            leader = self.leader_of(topic, partition)
            if leader < 0:
                return False
            try:
                found[:] = step(self.broker(leader))
            except ControlError as error:
                if error.code not in _PASSING:
                    raise _Refused(error) from error
                raise
            return True

        try:
            wait_until(answered, lambda: f"{topic}-{partition} has no leader that answers", _WAIT_S)
        except _Refused as refused:
            raise refused.error from None
        return found


class _Refused(Exception):
    """What waiting does not change."""

    def __init__(self, error: ControlError | ConnectionError) -> None:
        super().__init__(error)
        self.error = error


def _check(topic: str, partition: int, partitions: range) -> None:
    if partition not in partitions:
        raise ControlError(404, f"topic {topic} has partitions 0 to {partitions[-1]}, not {partition}")


def _partition_for(request: Mapping[str, Any], number: int, partitions: int) -> int:
    """As a broker alone chooses it (`control/api/records.py`)."""
    if request.get("partition") is not None:
        return int(request["partition"])
    key = meant(request.get("key"), request.get("key_base64"), "key")
    return number % partitions if key is None else partition_of(key, partitions)
