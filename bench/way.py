"""The cost of each step of a record's way: a Produce request through the router to its file, and a Fetch back.

    python -m bench.way

Rule: a broker without sockets is handed frames, as a connection hands them on, and each step is also done alone, with
what it is given on that way. The figure is the least of many rounds, in microseconds: other work on the machine only
adds to it. Sockets, the disk's syncs and the client are left out; `python -m bench` has them.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pykafka_broker.broker.api.produce_checks import Prepared, check_batch, read_batch
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import ProduceResponse
from pykafka_broker.records.builder import BatchBuilder
from tests.broker.support import NOW, LightBroker

CONNECTION = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))
PRODUCE, FETCH = 9, 12
ROUNDS, ROUND_S = 40, 0.003
SIZES = ((1, 100), (9_000, 100), (1_000, 1_024))  # records in a batch, bytes of a value
FRONT = 16  # bytes of a batch that hold its offset and epoch
ANSWER_HEADER = 9  # bytes
Step = Callable[[], Any]


def least_us(step: Step) -> float:
    """Return the least of many rounds, each of as many repetitions as three milliseconds have."""
    begun = time.process_time()
    step()
    times = max(1, int(ROUND_S / (time.process_time() - begun)))
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(times):
            step()
        best = min(best, (time.process_time() - begun) / times)
    return best * 1e6


def frame(key: ApiKey, version: int, body: bytes) -> memoryview:
    return memoryview(bytearray(struct.pack(">hhih", key, version, 1, 5) + b"bench" + b"\0" + body))


def batch_of(records: int, size: int) -> bytearray:
    builder = BatchBuilder()
    for number in range(records):
        builder.append(None, f"{number:0{size}}".encode(), NOW)
    return bytearray(builder.build())


def of_a_produce(broker: LightBroker, batch: bytearray) -> Iterator[tuple[str, Step]]:
    router, partition = broker.router, broker.services.replicas.leader("t", 0)
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])
    body = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]).encode(PRODUCE)
    asked = frame(ApiKey.PRODUCE, PRODUCE, body)
    _, header = read_batch(memoryview(batch), PRODUCE)

    def look() -> Prepared:
        read, found = read_batch(memoryview(batch), PRODUCE)
        checked = check_batch(read, found, partition.log.config, NOW, validate=True)
        if not isinstance(checked, Prepared):
            for _ in checked.steps():
                pass
            checked = checked.prepared(read)
        return checked

    place = bytes(asked).index(bytes(batch))
    clean = bytes(batch[:FRONT])

    def whole() -> Any:
        asked[place : place + len(clean)] = clean  # a connection hands on each frame as it came
        return router.dispatch(CONNECTION, asked)

    answer = ProduceResponse.decode(b"".join(map(bytes, whole()))[ANSWER_HEADER:], PRODUCE)
    assert answer.responses[0].partition_responses[0].error_code == 0
    yield "a Produce, from frame to answer", whole
    yield "its request is decoded", lambda: ProduceRequest.decode(body, PRODUCE)
    yield "its batch is looked at: header, CRC, every record", look
    yield "offset and epoch are put in, and it is written", lambda: partition.append(batch, NOW, header=header)
    yield "the answer is encoded", lambda: answer.encode(PRODUCE)


def of_a_fetch(broker: LightBroker, size: int) -> Iterator[tuple[str, Step]]:
    router = broker.router
    wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=size, current_leader_epoch=-1)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=size, session_epoch=-1)
    request.topics = [FetchTopic("t", partitions=[wanted])]
    asked = frame(ApiKey.FETCH, FETCH, request.encode(FETCH))
    yield "a Fetch of it, from frame to answer", lambda: router.dispatch(CONNECTION, asked)


def measured(records: int, size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        broker = LightBroker(Path(directory))
        broker.add("t")
        batch = batch_of(records, size)
        steps = [*of_a_produce(broker, batch), *of_a_fetch(broker, len(batch))]
        return {name: least_us(step) for name, step in steps}


def main() -> None:
    columns = [measured(*each) for each in SIZES]
    heads = [f"{records:,} x {size:,} bytes" for records, size in SIZES]
    print("| " + " | ".join(["CPU time, µs", *heads]) + " |\n|---|" + "--:|" * len(SIZES))
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(f"{column[name]:,.1f}" for column in columns) + " |")


if __name__ == "__main__":
    main()
