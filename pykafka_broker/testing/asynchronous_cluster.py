"""A cluster for tests with an event loop. The module is imported on first use, and apart from `asynchronous`, which the
cluster's parts need.

Rule: as in `asynchronous`: processes and settings are those of a `KafkaCluster`, which starts and ends in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from pykafka_broker.testing.aio.cluster_data import AsyncClusterData
from pykafka_broker.testing.async_client import in_thread
from pykafka_broker.testing.asynchronous import AsyncKafkaBroker, made_as
from pykafka_broker.testing.cluster import KafkaCluster


class AsyncKafkaCluster(AsyncClusterData):
    """`KafkaCluster` for tests with an event loop: `async with AsyncKafkaCluster(brokers=3) as cluster`.

    Arguments and methods are the same, and methods are awaited; `cluster.broker(1)` is an `AsyncKafkaBroker`.
    `AsyncKafkaCluster.of(kafka_cluster)` is the asynchronous form of an existing `KafkaCluster`.
    """

    @made_as(KafkaCluster.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._cluster = KafkaCluster(*args, **kwargs)
        self._ids = self._cluster._ids

    @classmethod
    def of(cls, cluster: KafkaCluster) -> Self:
        """Return the asynchronous form of a cluster; both are the same processes."""
        form = cls.__new__(cls)
        form._cluster = cluster
        form._ids = cluster._ids
        return form

    def __repr__(self) -> str:
        return repr(self._cluster)

    @property
    def brokers(self) -> list[AsyncKafkaBroker]:
        """All brokers, sorted by id."""
        return [AsyncKafkaBroker.of(each) for each in self._cluster.brokers]

    @property
    def nodes(self) -> dict[int, AsyncKafkaBroker]:
        """All nodes by id, with the controller."""
        return {node_id: AsyncKafkaBroker.of(each) for node_id, each in self._cluster.nodes.items()}

    @property
    def controller(self) -> AsyncKafkaBroker:
        """The leader of the metadata."""
        return AsyncKafkaBroker.of(self._cluster.controller)

    @property
    def cluster_id(self) -> str:
        return self._cluster.cluster_id

    @property
    def host(self) -> str:
        return self._cluster.host

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for a client's `bootstrap.servers`."""
        return self._cluster.bootstrap_servers

    @property
    def schema_registry_url(self) -> str:
        """The addresses of all schema registries, separated by commas."""
        return self._cluster.schema_registry_url

    def client_config(self, client: str, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Return the settings of a client of the cluster, as `KafkaBroker.client_config`."""
        return self._cluster.client_config(client, user, mechanism)

    def _check_nodes(self, wanted: Iterable[int]) -> None:
        self._cluster._check_nodes(wanted)

    async def start(self) -> Self:
        """Start all nodes at once and wait until clients may connect to each."""
        __tracebackhide__ = True
        await in_thread(self._cluster.start, undo=self._cluster.close)
        return self

    async def close(self) -> None:
        """Stop all nodes, the controller last, and remove temporary files."""
        await in_thread(self._cluster.close)

    async def __aenter__(self) -> Self:
        __tracebackhide__ = True
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(lambda: self._cluster.__exit__(kind, error, trace))
