"""A cluster for tests with an event loop. The module is imported on first use, and apart from `asynchronous`, which the
cluster's parts need.

Rule: as in `asynchronous`: processes and settings are those of a `KafkaCluster`, which starts and ends in a thread.
"""

from __future__ import annotations

from typing import Any, Self

from pykafka_broker.testing.aio.cluster_data import AsyncClusterData
from pykafka_broker.testing.async_client import entered, forked, in_thread, threaded
from pykafka_broker.testing.asynchronous import AsyncKafkaBroker
from pykafka_broker.testing.cluster import KafkaCluster
from pykafka_broker.testing.data import made_as
from pykafka_broker.testing.trouble import ClusterTrouble


class AsyncKafkaCluster(AsyncClusterData):
    """`KafkaCluster` for tests with an event loop: `async with AsyncKafkaCluster(brokers=3) as cluster`.

    Arguments and methods are the same, and methods are awaited; `cluster.broker(1)` is an `AsyncKafkaBroker`.
    `AsyncKafkaCluster.of(kafka_cluster)` is the asynchronous form of an existing `KafkaCluster`.
    """

    @made_as(KafkaCluster.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._stand_for(KafkaCluster(*args, **kwargs))

    def _stand_for(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._ids, self._controller_id = cluster._ids, cluster._controller_id
        self._fault_handles, self._sides = cluster._fault_handles, cluster._sides

    @classmethod
    def of(cls, cluster: KafkaCluster) -> Self:
        """Return the asynchronous form of a cluster; both are the same processes."""
        form = cls.__new__(cls)
        form._stand_for(cluster)
        return form

    def __repr__(self) -> str:
        return repr(self._cluster)

    @property
    def nodes(self) -> dict[int, AsyncKafkaBroker]:
        """All nodes by id, with the controller."""
        return {node_id: AsyncKafkaBroker.of(each) for node_id, each in self._cluster.nodes.items()}

    @property
    def cluster_id(self) -> str:
        return self._cluster.cluster_id

    @property
    def host(self) -> str:
        return self._cluster.host

    async def start(self) -> Self:
        """Start all nodes at once and wait until clients may connect to each."""
        __tracebackhide__ = True
        await in_thread(self._cluster.start, undo=self._cluster.close)
        return self

    @made_as(KafkaCluster.trouble)
    def trouble(self, *args: Any, **kwargs: Any) -> ClusterTrouble:
        """Let trouble come at times of a seed, as of `KafkaCluster.trouble`."""
        return self._cluster.trouble(*args, **kwargs)

    @made_as(KafkaCluster.befall)
    def befall(self, *args: Any, **kwargs: Any) -> ClusterTrouble:
        """Let one trouble come to a broker, as of `KafkaCluster.befall`."""
        return self._cluster.befall(*args, **kwargs)

    calm = threaded(KafkaCluster.calm, "_cluster")
    start_recording = threaded(KafkaCluster.start_recording, "_cluster")
    save_recording = threaded(KafkaCluster.save_recording, "_cluster")
    snapshot = threaded(KafkaCluster.snapshot, "_cluster")
    restore = threaded(KafkaCluster.restore, "_cluster")
    snapshots = threaded(KafkaCluster.snapshots, "_cluster")
    delete_snapshot = threaded(KafkaCluster.delete_snapshot, "_cluster")
    close = threaded(KafkaCluster.close, "_cluster")

    @entered
    async def fork(self) -> AsyncKafkaCluster:
        """Start another cluster with the present state, on new ports and with new data directories; `close` ends the
        fork.
        """
        return AsyncKafkaCluster.of(await forked(self._cluster.fork))

    async def __aenter__(self) -> Self:
        __tracebackhide__ = True
        return self if self._cluster._is_started() else await self.start()

    async def __aexit__(self, *failure: Any) -> None:
        await in_thread(lambda: self._cluster.__exit__(*failure))
