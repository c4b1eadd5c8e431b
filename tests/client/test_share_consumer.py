"""A share consumer asks refused fetches again with pauses, and delivers what is sound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pykafka_broker.client import share_consumer
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError
from pykafka_broker.client.share_consumer import ACCEPT, REJECT, Delivered, OnAcknowledged, ShareConsumer
from pykafka_broker.peers import LinkBroken
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from pykafka_broker.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from pykafka_broker.protocol.messages.share_fetch_request import ShareFetchRequest
from pykafka_broker.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.records.builder import build_keyed_batch
from pykafka_broker.testing import KafkaBroker


def test_a_broker_without_room_for_a_session_is_asked_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(bootstrap: str) -> list[int]:
        epochs: list[int] = []
        async with Client(bootstrap, {"group.id": "g"}) as client:
            plain = client.ask_once

            async def no_room(request: Any, *rest: Any, **options: Any) -> Any:
                if isinstance(request, ShareFetchRequest):
                    epochs.append(request.share_session_epoch)
                    return ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_LIMIT_REACHED)
                return await plain(request, *rest, **options)

            monkeypatch.setattr(client, "ask_once", no_room)
            async with ShareConsumer(client, ["t"]) as consumer:
                while not epochs:
                    await consumer.poll(100, 1)
                epochs.clear()
                assert await consumer.poll(1_000, 1) == []
            assert len(epochs) <= 5  # after 100, 200, 400 and 800 ms, a fifth more or less
        return epochs

    with KafkaBroker() as broker:
        broker.create_topic("t", 1)
        epochs = asyncio.run(asyncio.wait_for(work(broker.bootstrap_servers), 30))
    assert set(epochs) == {0}  # no session was opened, so each fetch begins one


def test_a_member_that_is_not_polled_leaves_until_it_is_polled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats go on by themselves, and would keep the partitions from others for ever (KIP-62)."""

    async def work(broker: KafkaBroker) -> None:
        epochs, left = list[int](), asyncio.Event()
        settings = {"group.id": "g", "max.poll.interval.ms": "300"}
        async with Client(broker.bootstrap_servers, settings) as client:
            plain = client.ask_once

            async def watched(request: Any, *rest: Any, **options: Any) -> Any:
                if isinstance(request, ShareGroupHeartbeatRequest):
                    epochs.append(request.member_epoch)
                    if request.member_epoch == -1:
                        left.set()
                return await plain(request, *rest, **options)

            monkeypatch.setattr(client, "ask_once", watched)
            async with ShareConsumer(client, ["rarely"]) as consumer:
                await consumer.poll(1_000, 1)  # a poll that lasts longer is a poll
                assert -1 not in epochs
                await left.wait()
                epochs.clear()
                while 0 not in epochs:
                    await consumer.poll(100, 1)
                await asyncio.to_thread(broker.produce, "rarely", ["a"])
                while not await consumer.poll(100, 1):
                    pass

    with KafkaBroker(
        config={"group.share.heartbeat.interval.ms": "100", "group.share.min.heartbeat.interval.ms": "100"}
    ) as broker:
        broker.create_topic("rarely", 1)
        asyncio.run(asyncio.wait_for(work(broker), 30))


def test_a_topic_that_the_asked_broker_does_not_know_yet_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(bootstrap: str) -> None:
        async with Client(bootstrap, {"group.id": "g"}) as client:
            plain, asked = client.metadata, list[int]()

            async def behind(*topics: Any, **options: Any) -> Any:
                answer = await plain(*topics, **options)
                asked.append(len(answer.topics))
                answer.topics = answer.topics if len(asked) > 1 else []
                return answer

            monkeypatch.setattr(client, "metadata", behind)
            async with ShareConsumer(client, ["t"]) as consumer:
                while len(asked) < 2:
                    await consumer.poll(100, 1)
                while not await consumer.poll(500, 1):  # a group begins at the end
                    await asyncio.to_thread(broker.produce, "t", ["a"])

    with KafkaBroker() as broker:
        broker.create_topic("t", 1)
        asyncio.run(asyncio.wait_for(work(broker.bootstrap_servers), 20))


def test_a_member_that_has_missed_an_answer_asks_for_the_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lost answer may have told a new one, which the coordinator tells again to who names the topics."""

    async def work(bootstrap: str) -> list[list[str] | None]:
        named: list[list[str] | None] = []
        async with Client(bootstrap, {"group.id": "g"}) as client:
            plain = client.ask_once

            async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
                answer = await plain(request, *rest, **options)
                if isinstance(request, ShareGroupHeartbeatRequest):
                    named.append(request.subscribed_topic_names)
                    if len(named) == 2:
                        raise LinkBroken("cut off")
                return answer

            monkeypatch.setattr(client, "ask_once", ask_once)
            async with ShareConsumer(client, ["t"]) as consumer:
                while len(named) < 4:
                    await consumer.poll(50, 1)
        return named

    with KafkaBroker() as broker:
        broker.create_topic("t", 1)
        assert asyncio.run(asyncio.wait_for(work(broker.bootstrap_servers), 30))[:4] == [["t"], None, ["t"], None]


def batch(offset: int, value: bytes) -> bytearray:
    found = bytearray(build_keyed_batch([(b"", value)], 0)[0])
    found[:8] = offset.to_bytes(8)
    return found


def fetched(topic_id: bytes, *partitions: PartitionData) -> ShareFetchResponse:
    return ShareFetchResponse(responses=[ShareFetchableTopicResponse(topic_id, list(partitions))])


Answers = Callable[[ShareFetchRequest], Any]


def consume(
    monkeypatch: pytest.MonkeyPatch,
    answers: Answers,
    work: Callable[[ShareConsumer], Awaitable[None]],
    on_acknowledged: OnAcknowledged | None = None,
    acknowledged: ShareAcknowledgeResponse | Exception | None = None,
) -> None:
    """Run a share consumer whose fetches get the answers, and its acknowledgements one; an exception is raised."""

    async def running(bootstrap: str) -> None:
        async with Client(bootstrap, {"group.id": "g"}) as client:
            plain = client.ask_once

            async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
                answer: Any
                if isinstance(request, ShareAcknowledgeRequest):
                    answer = acknowledged or ShareAcknowledgeResponse()
                elif isinstance(request, ShareFetchRequest):
                    await asyncio.sleep(0.01)
                    answer = answers(request)
                else:
                    return await plain(request, *rest, **options)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            monkeypatch.setattr(client, "ask_once", ask_once)
            async with ShareConsumer(client, ["t"], on_acknowledged) as consumer:
                await work(consumer)

    with KafkaBroker() as broker:
        broker.create_topic("t", 2)
        asyncio.run(asyncio.wait_for(running(broker.bootstrap_servers), 30))


def test_records_of_a_partition_that_is_gone_are_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched any more that could take the acknowledgement along."""
    one = PartitionData(0, records=bytes(batch(0, b"v")), acquired_records=[AcquiredRecords(0, 0, 1)])
    told: list[tuple[dict[int, int], ClientError | None]] = []

    async def work(consumer: ShareConsumer) -> None:
        while not (found := await consumer.poll(100, 1)):
            pass
        consumer._assigned(set())
        consumer.acknowledge(found[0], ACCEPT)
        while not told:
            await consumer.poll(100, 1)

    def answers(request: ShareFetchRequest) -> ShareFetchResponse:
        return fetched(request.topics[0].topic_id, *([] if request.share_session_epoch else [one]))

    consume(monkeypatch, answers, work, lambda _, kinds, error: told.append((kinds, error)))
    assert told == [({0: ACCEPT}, None)]


def test_damage_of_one_partition_keeps_no_records_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The damaged batch is rejected and told, as by Kafka's consumer; those around it are delivered."""
    damaged = batch(1, b"damaged")
    damaged[-1] ^= 1
    first = PartitionData(
        0,
        records=bytes(batch(0, b"before") + damaged + batch(2, b"behind")),
        acquired_records=[AcquiredRecords(0, 2, 1)],
    )
    second = PartitionData(1, records=bytes(batch(0, b"other")), acquired_records=[AcquiredRecords(0, 0, 1)])
    sent: list[tuple[int, int]] = []

    def answers(request: ShareFetchRequest) -> ShareFetchResponse:
        for each in request.topics[0].partitions:
            sent.extend((of.first_offset, of.acknowledge_types[0]) for of in each.acknowledgement_batches)
        return fetched(request.topics[0].topic_id, *([] if request.share_session_epoch else [first, second]))

    async def work(consumer: ShareConsumer) -> None:
        found: list[bytes | None] = []
        told: list[ClientError] = []
        while len(found) < 3 or not told or not sent:
            try:
                found += [each.record.value for each in await consumer.poll(100, 1)]
            except ClientError as error:
                told.append(error)
        assert sorted(map(str, found)) == ["b'before'", "b'behind'", "b'other'"]
        assert ["t-0" in str(error) for error in told] == [True]
        assert sent == [(1, REJECT)]

    consume(monkeypatch, answers, work)


def test_an_acknowledgement_after_the_end_of_a_session_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker refuses the first fetch of a session that has acknowledgements: poll raised INVALID_REQUEST."""
    told: list[ClientError | None] = []
    lost: list[int] = []

    def answers(request: ShareFetchRequest) -> Any:
        partitions = request.topics[0].partitions if request.topics else []
        if request.share_session_epoch == 0:
            assert not any(each.acknowledgement_batches for each in partitions)
            data = PartitionData(0, records=bytes(batch(0, b"v")), acquired_records=[AcquiredRecords(0, 0, 1)])
            return fetched(request.topics[0].topic_id, data)
        lost.append(1)
        return LinkBroken("lost")

    async def work(consumer: ShareConsumer) -> None:
        while not (found := await consumer.poll(100, 1)):
            pass
        while not lost:
            await consumer.poll(0, 1)
            await asyncio.sleep(0.02)
        consumer.acknowledge(found[0], ACCEPT)
        assert isinstance(told[0], KafkaError)
        assert told[0].code == ErrorCode.SHARE_SESSION_NOT_FOUND

    consume(monkeypatch, answers, work, lambda partition, kinds, error: told.append(error))


def test_a_closed_consumer_is_of_no_use_and_closes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    consumers: list[ShareConsumer] = []

    async def work(consumer: ShareConsumer) -> None:
        consumers.append(consumer)
        polling = asyncio.create_task(consumer.poll(20_000, 1))
        await asyncio.sleep(0.1)
        await consumer.__aexit__()
        for use in (polling, consumer.poll(100, 1)):
            with pytest.raises(ClientError, match="already been closed"):
                await use

    consume(monkeypatch, lambda request: fetched(b"\0" * 16), work)


def test_a_fetch_that_is_cancelled_by_the_close_is_no_reason_to_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_consumer, "_LAST_MS", 50)

    async def work(bootstrap: str) -> None:
        async with Client(bootstrap, {"group.id": "g"}) as client:
            plain, asked = client.ask_once, asyncio.Event()

            async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
                if isinstance(request, ShareFetchRequest):
                    monkeypatch.setattr(client, "pause_ms", lambda failures: 60_000)
                    asked.set()
                    await asyncio.get_running_loop().create_future()
                return await plain(request, *rest, **options)

            monkeypatch.setattr(client, "ask_once", ask_once)
            async with ShareConsumer(client, ["t"]) as consumer:
                while not asked.is_set():
                    await consumer.poll(100, 1)

    with KafkaBroker() as broker:
        broker.create_topic("t", 1)
        asyncio.run(asyncio.wait_for(work(broker.bootstrap_servers), 30))


def test_a_partition_that_is_not_assigned_any_more_is_forgotten_after_its_acknowledgements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that acknowledges records of a partition adds the partition to the session."""
    asked: list[ShareFetchRequest] = []

    def answers(request: ShareFetchRequest) -> ShareFetchResponse:
        asked.append(request)
        if request.share_session_epoch:
            return fetched(b"\0" * 16)
        acquired = [AcquiredRecords(0, 0, 1)]
        data = [PartitionData(index, records=bytes(batch(0, b"v")), acquired_records=acquired) for index in range(2)]
        return fetched(request.topics[0].topic_id, *data)

    async def work(consumer: ShareConsumer) -> None:
        found = list[Delivered]()
        while len(found) < 2:
            found += await consumer.poll(100, 2)
        gone = found[0].partition
        consumer._assigned({found[1].partition})
        consumer.acknowledge(found[0], ACCEPT)
        while len(asked) < 3:
            await consumer.poll(50, 1)
        acknowledging, forgetting = asked[1:3]
        assert gone.partition in [each.partition_index for each in acknowledging.topics[0].partitions]
        assert [each.partitions for each in forgetting.forgotten_topics_data] == [[gone.partition]]

    consume(monkeypatch, answers, work)


def test_a_session_forgets_the_topic_that_was_deleted_and_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fetch would be answered with an error for the deleted topic, and the next one sent after a pause."""
    named, forgotten = list[bytes](), list[bytes]()

    async def work(broker: KafkaBroker) -> None:
        async with Client(broker.bootstrap_servers, {"group.id": "g"}) as client:
            plain = client.ask_once

            async def watched(request: Any, *rest: Any, **options: Any) -> Any:
                if isinstance(request, ShareFetchRequest):
                    named.extend(each.topic_id for each in request.topics)
                    forgotten.extend(each.topic_id for each in request.forgotten_topics_data)
                return await plain(request, *rest, **options)

            async def read_one() -> None:
                while not (found := await consumer.poll(200, 1)):  # a group begins at the end
                    await asyncio.to_thread(broker.produce, "t", ["a"])
                consumer.acknowledge(found[0], ACCEPT)

            monkeypatch.setattr(client, "ask_once", watched)
            async with ShareConsumer(client, ["t"]) as consumer:
                await read_one()
                await asyncio.to_thread(broker.delete_topic, "t")
                await asyncio.to_thread(broker.create_topic, "t", 1)
                await read_one()

    with KafkaBroker() as broker:
        broker.create_topic("t", 1)
        asyncio.run(asyncio.wait_for(work(broker), 30))
    assert forgotten == [named[0]]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ShareAcknowledgeResponse(), None),
        (ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_RECORD_STATE), ErrorCode.INVALID_RECORD_STATE),
        (LinkBroken("lost"), ErrorCode.NETWORK_EXCEPTION),
        (KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
    ids=["taken", "refused", "lost", "forbidden"],
)
def test_what_became_of_the_last_acknowledgements_is_told_at_the_close(
    monkeypatch: pytest.MonkeyPatch, answer: ShareAcknowledgeResponse | Exception, code: ErrorCode | None
) -> None:
    told: list[tuple[str, dict[int, int], int | None]] = []

    def answers(request: ShareFetchRequest) -> ShareFetchResponse:
        if request.share_session_epoch:
            return fetched(b"\0" * 16)
        data = PartitionData(0, records=bytes(batch(0, b"v")), acquired_records=[AcquiredRecords(0, 0, 1)])
        return fetched(request.topics[0].topic_id, data)

    def on_acknowledged(partition: TopicPartition, kinds: dict[int, int], error: ClientError | None) -> None:
        told.append((str(partition), kinds, error.code if isinstance(error, KafkaError) else None))

    async def work(consumer: ShareConsumer) -> None:
        while not (found := await consumer.poll(100, 1)):
            pass
        consumer.acknowledge(found[0], ACCEPT)
        assert told == []

    consume(monkeypatch, answers, work, on_acknowledged, answer)
    assert told == [("t-0", {0: ACCEPT}, code)]
