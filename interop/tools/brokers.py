"""The brokers that a table is run against: one with default settings, or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from interop.kafka_cluster import OURS, THEIRS, KafkaCluster
from interop.secured import secured
from interop.targets import start
from interop.tools.steps import Table

_AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}  # or each first member of a group waits 3 s for others


@contextmanager
def brokers_of(table: Table, kafka: bool, directory: Path) -> Iterator[Mapping[str, str]]:
    """Start fresh brokers and prepare them.

    Yields:
        Their addresses as `bootstrap`; those of the controllers of several brokers as `controllers`.
    """
    if table.listeners:
        with secured("kafka" if kafka else "pykafka", table.listeners, table.settings) as broker:
            address = broker.address(list(table.listeners)[-1])
            with table.prepared(address):
                yield {"bootstrap": address}
        return
    if table.brokers == 1:
        target = start("kafka" if kafka else "pykafka", {**_AT_ONCE, **table.settings})
        with target, table.prepared(target.bootstrap_servers):
            yield {"bootstrap": target.bootstrap_servers}
        return
    kind = THEIRS if kafka else OURS
    cluster = KafkaCluster(directory, controllers=[kind], brokers=[kind] * table.brokers)
    with cluster, table.prepared(cluster.bootstrap_servers):
        known = {"bootstrap": cluster.bootstrap_servers, "controllers": cluster.bootstrap_controllers}
        if table.stopped:
            cluster.broker(table.stopped).stop()
            table.module.settle(known)
        yield known
