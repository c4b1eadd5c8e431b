"""Calls of ordinary clients to a cluster, through the brokers at an address. Rule: a record that is not acknowledged
is an error, and values that are read are returned in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.raw import RawClient
from interop.waiting import eventually
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType
from pykafka_broker.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TIMEOUT_S = 60  # three Kafkas elect a leader within a second, and within half a minute on a busy machine


def admin_at(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address})


def create(address: str, topic: str, partitions: int, replicas: int, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = admin_at(address)  # the client must live as long as the answer is waited for
    admin.create_topics([NewTopic(topic, partitions, replicas, config=settings)])[topic].result(TIMEOUT_S)


def configure_group(addresses: Iterable[str], group: str, configs: Mapping[str, str]) -> None:
    """Set configs of a group at the first of these addresses, and wait until the brokers at all of them know these."""
    first, *_ = every = list(addresses)
    resource = AlterConfigsResource(
        ConfigResourceType.GROUP,
        group,
        [AlterableConfig(name, AlterConfigOp.SET, value) for name, value in configs.items()],
    )
    with RawClient(first, TIMEOUT_S) as client:
        [altered] = client.call(IncrementalAlterConfigsRequest([resource]), 1).responses
    assert not altered.error_code, altered.error_message
    for address in every:
        eventually(partial(_group_configs, address, group, list(configs)), dict(configs), TIMEOUT_S)


def _group_configs(address: str, group: str, names: list[str]) -> dict[str, str | None]:
    asked = DescribeConfigsResource(ConfigResourceType.GROUP, group, names)
    with RawClient(address, TIMEOUT_S) as client:
        [described] = client.call(DescribeConfigsRequest([asked]), 4).results
    return {each.name: each.value for each in described.configs}


def partitions_of(address: str, topic: str) -> dict[int, Any]:
    return dict(admin_at(address).list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)


def leaders(address: str, topic: str) -> list[int]:
    return [each.leader for _, each in sorted(partitions_of(address, topic).items())]


def in_sync(address: str, topic: str) -> dict[int, list[int]]:
    """Return the ISR of each partition."""
    return {number: sorted(each.isrs) for number, each in partitions_of(address, topic).items()}


def brokers_told_by(address: str) -> set[int]:
    return set(admin_at(address).list_topics(timeout=TIMEOUT_S).brokers)


def quorum_told_by(address: str) -> Any:
    """Return the answer of one broker about the metadata log, once a leader of the quorum answers."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        with RawClient(address, timeout_s=TIMEOUT_S) as client:
            answer = client.call(DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])]))
        if not answer.error_code:
            return answer.topics[0].partitions[0]
        assert time.monotonic() < deadline, answer
        time.sleep(0.2)


def add_voter(address: str, node_id: int, port: int, directory_id: bytes) -> None:
    """Ask a broker to let a controller vote that has caught up (KIP-853)."""
    listeners = [Listener("CONTROLLER", "127.0.0.1", port)]
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        with RawClient(address, timeout_s=TIMEOUT_S) as client:
            answer = client.call(AddRaftVoterRequest(None, 5000, node_id, directory_id, listeners))
        if not answer.error_code or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert not answer.error_code, answer


def produce(address: str, topic: str, values: Iterable[int], *, idempotent: bool = True) -> None:
    """Write values with acks=all, and wait for every acknowledgement."""
    errors: list[Any] = []
    settings = {"acks": "all", "linger.ms": 5, "max.in.flight": 1}  # one request at a time: as `cluster_load.Load`
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": idempotent, **settings})
    for value in values:
        producer.produce(topic, str(value), on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(60) == 0
    assert errors == []


def consumed(address: str, topic: str, partitions: int, count: int) -> list[int]:
    """Wait for `count` values in these partitions; return them sorted."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found.append(int(message.value() or b""))
    consumer.close()
    return sorted(found)
