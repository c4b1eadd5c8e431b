"""Blocks of producer ids for any broker."""

from __future__ import annotations

from pykafka_broker.cluster.producer_ids import allocate_producer_ids
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from tests.cluster.parts import cluster_of


def test_no_two_brokers_get_the_same_ids() -> None:
    cluster = cluster_of()
    blocks = []
    for broker in (2, 3, 2):
        decision = allocate_producer_ids(cluster.controller, AllocateProducerIdsRequest(broker, 10 + broker))
        cluster.apply(decision.records)
        blocks.append((decision.reply.producer_id_start, decision.reply.producer_id_len))
        assert (decision.records[0].message.broker_id, decision.records[0].message.broker_epoch) == (
            broker,
            10 + broker,
        )
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert cluster.image.next_producer_id == 3000


def test_a_broker_of_another_time_gets_none() -> None:
    cluster = cluster_of()
    for broker, epoch in ((2, 11), (9, 19)):
        decision = allocate_producer_ids(cluster.controller, AllocateProducerIdsRequest(broker, epoch))
        assert (decision.reply.error_code, decision.records) == (ErrorCode.STALE_BROKER_EPOCH, [])
