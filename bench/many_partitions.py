"""Forty thousand partitions: what another client feels while each gets its first record, and how long a stop takes.

Rule: one request names them all, and the broker holds all of their logs when it is told to stop.
"""

import time

from bench.creation import WITHIN_S
from bench.fairness import beside
from bench.running import Running
from interop.answers.requests import create, new_topic
from interop.batches import batch
from interop.raw import RawClient, framed, request_bytes
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

_CREATE_VERSION, _PRODUCE_VERSION = 5, 9
_RECORD = batch(bytes(100))


def many_partitions(run: Running, topics: int, partitions_each: int) -> dict[str, float]:
    names = [f"one-of-many-{number}" for number in range(topics)]
    with RawClient(run.bootstrap, timeout_s=WITHIN_S) as client:
        for name in names:
            answer = client.call(create(new_topic(name, partitions_each)), _CREATE_VERSION)
            assert not answer.topics[0].error_code, answer
    data = [PartitionProduceData(number, _RECORD) for number in range(partitions_each)]
    request = ProduceRequest(None, 1, 30_000, [TopicProduceData(name, partition_data=data) for name in names])
    felt = beside(run, framed(request_bytes(request, _PRODUCE_VERSION)))
    begun = time.perf_counter()
    run.stop()
    stopped = time.perf_counter()
    run.start()
    return {
        "many_first_p99_ms": felt.p99_ms,
        "many_first_worst_ms": felt.worst_ms,
        "many_stop_s": stopped - begun,
        "many_start_s": run.start_s,
    }
