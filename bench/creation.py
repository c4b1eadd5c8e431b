"""Ten thousand partitions: how long until they are made, and until the first record into each is acknowledged. Forty
thousand: what another client feels while each gets its first record, and how long a stop takes.

Rule: one connection and one request in flight, made before, so that the broker is what is measured. A partition that is
not there yet, as in a Kafka whose broker follows its controller, is asked again until it is. Two requests make them, as
no Kafka takes more than 10,000 records of metadata from one.
"""

import time

from bench.fairness import beside
from bench.running import Running
from interop.answers.requests import create, new_topic
from interop.batches import batch
from interop.raw import RawClient, framed, request_bytes
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

TOGETHER = 100  # partitions of one Produce
WITHIN_S = 120.0
CREATE_VERSION, PRODUCE_VERSION = 5, 9
NOT_THERE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR}
_RECORD = batch(bytes(100))


def create_partitions(run: Running, topics: int, partitions_each: int) -> dict[str, float]:
    names = [f"made-{number}" for number in range(topics)]
    with RawClient(run.bootstrap, timeout_s=WITHIN_S) as client:
        begun = time.perf_counter()
        for half in (names[::2], names[1::2]):
            _create(client, half, partitions_each)
        answered = time.perf_counter()
        for name in names:
            for first in range(0, partitions_each, TOGETHER):
                _produce_into(client, name, range(first, min(first + TOGETHER, partitions_each)))
        ended = time.perf_counter()
    return {"create_partitions_s": answered - begun, "first_records_s": ended - answered}


def _create(client: RawClient, names: list[str], partitions_each: int) -> None:
    answer = client.call(create(*(new_topic(name, partitions_each) for name in names)), CREATE_VERSION)
    if wrong := next((each for each in answer.topics if each.error_code), None):
        raise RuntimeError(f"{wrong.name}: {ErrorCode(wrong.error_code).name}: {wrong.error_message}")


def _produce_into(client: RawClient, topic: str, partitions: range) -> None:
    """Write a record into each partition, again into those that are not there yet."""
    missing = list(partitions)
    deadline = time.monotonic() + WITHIN_S
    while missing:
        data = [PartitionProduceData(number, _RECORD) for number in missing]
        answer = client.call(
            ProduceRequest(None, -1, 10_000, [TopicProduceData(topic, partition_data=data)]), PRODUCE_VERSION
        )
        missing = []
        for each in answer.responses[0].partition_responses:
            if each.error_code in NOT_THERE:
                missing.append(each.index)
            elif each.error_code:
                raise RuntimeError(f"{topic}-{each.index}: {ErrorCode(each.error_code).name}")
        if missing and time.monotonic() > deadline:
            raise RuntimeError(f"{len(missing)} partitions of {topic} are not there")


def many_partitions(run: Running, topics: int, partitions_each: int) -> dict[str, float]:
    """Measure a first Produce to the partitions of many topics, then a stop and a start with all of their logs."""
    names = [f"one-of-many-{number}" for number in range(topics)]
    with RawClient(run.bootstrap, timeout_s=WITHIN_S) as client:
        for name in names:
            _create(client, [name], partitions_each)
    data = [PartitionProduceData(number, _RECORD) for number in range(partitions_each)]
    request = ProduceRequest(None, 1, 30_000, [TopicProduceData(name, partition_data=data) for name in names])
    felt = beside(run, framed(request_bytes(request, PRODUCE_VERSION)))
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
