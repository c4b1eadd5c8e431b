"""The broker's outgoing connection to our own broker and to Kafka: both give the same answers."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import pytest

from interop.targets import Target, host_and_port, start
from pipeline.jars import JarsError
from pykafka_broker.peers import NotServed
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.errors import TruncatedBatch
from pykafka_broker.records.header import check_crc, iter_batches
from pykafka_broker.records.record import iter_records
from pykafka_broker.server.event_loop import EventLoop, SystemClock
from pykafka_broker.server.link import Link, LinkState

TIMEOUT_MS = 30_000
LATEST = -1  # ListOffsets: the end of the log
TOPIC = "through-a-link"
BATCHES = 200


@pytest.fixture(params=["pykafka", "kafka"])
def peer(request: pytest.FixtureRequest) -> Iterator[Target]:
    try:
        target = start(request.param)
    except JarsError as error:
        pytest.skip(str(error))
    with target:
        yield target


def over_a_link(peer: Target, scenario: Callable[[Link], Awaitable[None]]) -> None:
    async def run() -> None:
        turns = EventLoop(asyncio.get_running_loop(), SystemClock())
        link = Link(turns, *host_and_port(peer))
        try:
            await asyncio.wait_for(scenario(link), 120)
        finally:
            link.close()
            await asyncio.sleep(0)
            turns.close()

    asyncio.run(run())


def batch(number: int) -> bytes:
    builder = BatchBuilder()
    builder.append(b"key", b"%d" % number, 1_700_000_000_000 + number)
    return bytes(builder.build())


async def make_topic(link: Link) -> bytes:
    """Create a topic; return its id once the broker leads it, which Kafka's metadata say a moment too early."""
    topic = CreatableTopic(TOPIC, num_partitions=1, replication_factor=1)
    created = await link.ask(CreateTopicsRequest([topic], timeout_ms=TIMEOUT_MS), TIMEOUT_MS)
    assert created.topics[0].error_code == ErrorCode.NONE
    while True:
        asked = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=LATEST)])
        ends = await link.ask(ListOffsetsRequest(topics=[asked]), TIMEOUT_MS)
        if ends.topics[0].partitions[0].error_code == ErrorCode.NONE:
            return bytes(created.topics[0].topic_id)
        await asyncio.sleep(0.05)


def test_records_go_in_pipelined_and_come_back_in_order(peer: Target) -> None:
    async def scenario(link: Link) -> None:
        topic_id = await make_topic(link)
        requests = [
            ProduceRequest(
                acks=-1,
                timeout_ms=TIMEOUT_MS,
                topic_data=[
                    TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(0, batch(number))])
                ],
            )
            for number in range(BATCHES)
        ]
        replies = await asyncio.gather(*(link.ask(request, TIMEOUT_MS) for request in requests))
        answers = [reply.responses[0].partition_responses[0] for reply in replies]
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * BATCHES
        assert [answer.base_offset for answer in answers] == list(range(BATCHES))

        values: list[bytes | None] = []
        while len(values) < BATCHES:
            partition = FetchPartition(0, fetch_offset=len(values), partition_max_bytes=4_000)
            fetch = FetchRequest(
                max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])]
            )
            records = (await link.ask(fetch, TIMEOUT_MS)).responses[0].partitions[0].records
            with contextlib.suppress(TruncatedBatch):  # Kafka cuts at the size that was asked for
                for header, view in iter_batches(records):
                    check_crc(view, header)
                    values += [record.value for record in iter_records(view)]
        assert values == [b"%d" % number for number in range(BATCHES)]

    over_a_link(peer, scenario)


def test_every_version_of_a_request_is_understood(peer: Target) -> None:
    """Metadata is answered in at least ten versions, and each answer has the cluster's id and the broker."""

    async def scenario(link: Link) -> None:
        served = 0
        for version in range(2, SPECS[ApiKey.METADATA].stable_max_version + 1):
            try:
                answer = await link.ask(MetadataRequest(topics=None), TIMEOUT_MS, versions=(version, version))
            except NotServed:
                continue
            served += 1
            assert answer.cluster_id
            assert len(answer.brokers) == 1
        assert served >= 10

    over_a_link(peer, scenario)


def test_it_comes_back_when_the_peer_does(peer: Target) -> None:
    async def scenario(link: Link) -> None:
        before = await link.ask(MetadataRequest(topics=None), TIMEOUT_MS)
        await asyncio.to_thread(peer.stop)
        asked = asyncio.ensure_future(link.ask(MetadataRequest(topics=None), 60_000))
        await asyncio.to_thread(peer.restart)
        assert (await asked).cluster_id == before.cluster_id
        assert link.state is LinkState.READY

    over_a_link(peer, scenario)
