"""A broker of a cluster imports nothing for ordinary clients and replicas once it serves."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import Consumer, Producer

from pykafka_broker.testing import KafkaCluster

_IMPORTED = re.compile(r"^import time: .*\| +(pykafka_broker\.[\w.]+)$", re.MULTILINE)
_MEANT = re.compile(r"pykafka_broker\.(broker\.api|broker\.coordinators|broker\.partitions|coordinators|records)\.")

_FROM_THE_START = {"auto.offset.reset": "earliest"}


def test_no_first_request_of_a_usual_client_imports_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # every import is a line of the broker's log
    with KafkaCluster(
        2, config={"transaction.state.log.num.partitions": 2, "offsets.topic.num.partitions": 2}
    ) as cluster:
        cluster.create_topic("t", partitions=2)
        starts = {node: cluster.broker(node).log_size for node in (1, 2)}
        client = cluster.client_config("confluent-kafka")
        producer = Producer({**client, "transactional.id": "x"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in range(2):
            producer.produce("t", b"value", partition=partition)
        producer.commit_transaction(30)
        for protocol in ("classic", "consumer"):
            consumer = Consumer({**client, "group.id": protocol, "group.protocol": protocol} | _FROM_THE_START)
            consumer.subscribe(["t"])
            assert len(consumer.consume(2, 30)) == 2
            consumer.commit(asynchronous=False)
            consumer.close()
        logs = {node: cluster.broker(node).log_since(starts[node]) for node in (1, 2)}
        assert all(_IMPORTED.search(broker.log) for broker in cluster.brokers)  # they do tell
    late = {node: [name for name in _IMPORTED.findall(log) if _MEANT.match(name)] for node, log in logs.items()}
    assert late == {1: [], 2: []}
