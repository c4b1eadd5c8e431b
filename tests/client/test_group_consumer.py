"""Members of a group share its partitions, and go on where the group had come to, by both protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from pykafka_broker.client.cluster import Client, first_error
from pykafka_broker.client.errors import ClientError, KafkaError, Unusable
from pykafka_broker.client.group_consumer import GroupConsumer
from pykafka_broker.client.groups import committed_offsets
from pykafka_broker.client.producer import ProducerId
from pykafka_broker.peers import LinkBroken, LinkTimeout
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.heartbeat_response import HeartbeatResponse
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.offset_commit_request import OffsetCommitRequest
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka_broker.testing import KafkaBroker, NewRecord

Work = Callable[[Client, Client, dict[str, str]], Awaitable[None]]


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


@pytest.fixture(params=["classic", "consumer"])
def run(request: pytest.FixtureRequest, broker: KafkaBroker) -> Callable[[Work], None]:
    settings = {
        "group.id": f"{request.node.originalname}-{request.param}",
        "group.protocol": request.param,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": "100",
    }

    def running(work: Work) -> None:
        async def connected() -> None:
            async with Client(broker.bootstrap_servers) as one, Client(broker.bootstrap_servers) as two:
                await work(one, two, settings)

        asyncio.run(asyncio.wait_for(connected(), 30))

    return running


async def values(consumer: GroupConsumer, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        for chunk in await consumer.poll(1_000, count - len(found)):
            found += [(record.value or b"").decode() for record in chunk.records]
    return sorted(found)


def test_a_group_goes_on_where_it_had_come_to(run: Callable[[Work], None], broker: KafkaBroker) -> None:
    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic = settings["group.id"]
        await asyncio.to_thread(broker.produce, topic, [str(n) for n in range(10)])
        async with GroupConsumer(client, settings, [topic]) as consumer:
            assert await values(consumer, 4) == ["0", "1", "2", "3"]
        async with GroupConsumer(client, settings, [topic]) as consumer:
            assert await values(consumer, 6) == ["4", "5", "6", "7", "8", "9"]

    run(work)


def test_what_is_not_committed_comes_again(run: Callable[[Work], None], broker: KafkaBroker) -> None:
    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic = settings["group.id"]
        await asyncio.to_thread(broker.produce, topic, ["a", "b"])
        settings["enable.auto.commit"] = "false"
        for _attempt in range(2):
            async with GroupConsumer(client, settings, [topic]) as consumer:
                assert await values(consumer, 2) == ["a", "b"]
        async with GroupConsumer(client, settings, [topic]) as consumer:
            await values(consumer, 1)
            await consumer.commit()
        committed = await committed_offsets(client, settings["group.id"])
        assert committed[TopicPartition(topic, 0)].leader_epoch == 0  # by which a truncation is noticed
        async with GroupConsumer(client, settings, lambda name: name == topic) as consumer:
            assert await values(consumer, 1) == ["b"]

    run(work)


def test_a_position_in_a_topic_that_is_created_again_is_committed_again(
    run: Callable[[Work], None], broker: KafkaBroker
) -> None:
    """The broker forgets positions with the topic: a position at the same offset has to be committed once more."""

    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic = settings["group.id"]
        await asyncio.to_thread(broker.produce, topic, ["a"])
        async with GroupConsumer(client, settings, [topic]) as consumer:
            assert await values(consumer, 1) == ["a"]
            await consumer.commit()
            await asyncio.to_thread(broker.delete_topic, topic)
            assert await committed_offsets(client, settings["group.id"]) == {}
            await asyncio.to_thread(broker.produce, topic, ["b"])
            assert await values(consumer, 1) == ["b"]
            await consumer.commit()
            committed = await committed_offsets(client, settings["group.id"])
            assert committed[TopicPartition(topic, 0)].offset == 1

    run(work)


def test_a_position_is_committed_again_if_its_leader_epoch_is_another(
    run: Callable[[Work], None], broker: KafkaBroker
) -> None:
    """Go back after a truncation: without a commit, the next member would go back once more."""

    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic = settings["group.id"]
        await asyncio.to_thread(broker.produce, topic, ["a"])
        async with GroupConsumer(client, settings, [topic]) as consumer:
            await values(consumer, 1)
            await consumer.commit()
            consumer.consumer.seek((topic, 0), 1, 7)
            await consumer.commit()
            assert (await committed_offsets(client, topic))[TopicPartition(topic, 0)].leader_epoch == 7

    run(work)


def test_members_share_the_partitions(run: Callable[[Work], None], broker: KafkaBroker) -> None:
    async def work(one: Client, two: Client, settings: dict[str, str]) -> None:
        topic = settings["group.id"]
        await asyncio.to_thread(broker.create_topic, topic, 4)
        revoked: list[int] = []
        async with GroupConsumer(one, settings, [topic], on_revoked=lambda gone: revoked.append(len(gone))) as first:
            while len(first.consumer.assignment) != 4:
                await first.poll(50)
            async with GroupConsumer(two, settings, [topic]) as second:
                while (len(first.consumer.assignment), len(second.consumer.assignment)) != (2, 2):
                    await asyncio.gather(first.poll(50), second.poll(50))
                assert not {*first.consumer.assignment} & {*second.consumer.assignment}
            while len(first.consumer.assignment) != 4:
                await first.poll(50)
        assert revoked[0] == (4 if settings["group.protocol"] == "classic" else 2)

    run(work)


def test_a_member_that_is_not_polled_leaves_until_it_is_polled_again(
    run: Callable[[Work], None], broker: KafkaBroker
) -> None:
    """Heartbeats go on by themselves, and would keep the partitions from others for ever (KIP-62)."""

    async def work(one: Client, two: Client, settings: dict[str, str]) -> None:
        topic = settings["group.id"]
        await asyncio.to_thread(broker.create_topic, topic, 2)
        rarely = settings | {"max.poll.interval.ms": "500"}
        lost: list[TopicPartition] = []
        async with GroupConsumer(one, rarely, [topic], on_revoked=lost.extend) as first:
            while len(first.consumer.assignment) != 2:
                await first.poll(50)
            await first.poll(1_500)  # a poll that lasts longer is a poll
            assert not lost
            async with GroupConsumer(two, settings, [topic]) as second:
                while len(second.consumer.assignment) != 2:
                    await second.poll(50)
                assert first.consumer.assignment == []
                with pytest.raises(ClientError, match="not part of an active group"):
                    await first.commit({TopicPartition(topic, 0): 1})
                while (len(first.consumer.assignment), len(second.consumer.assignment)) != (1, 1):
                    await asyncio.gather(first.poll(50), second.poll(50))

    run(work)


def test_a_coordinator_is_waited_for_however_long_it_takes(
    run: Callable[[Work], None], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic, missed, plain = settings["group.id"], list[int](), client.coordinator
        await asyncio.to_thread(broker.produce, topic, ["a"])

        async def coordinator(kind: int, key: str, **options: Any) -> int:
            if len(missed) < 3:  # each time after `default.api.timeout.ms`
                missed.append(kind)
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return await plain(kind, key, **options)

        monkeypatch.setattr(client, "coordinator", coordinator)
        async with GroupConsumer(client, settings, [topic]) as consumer:
            assert await values(consumer, 1) == ["a"]

    run(work)


def test_an_assignment_in_a_lost_answer_is_told_again(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator tells a new assignment once, and later only to who sends all fields."""
    topic = "lost-answer"
    broker.create_topic(topic, 2)
    settings = {"group.id": topic, "group.protocol": "consumer"}

    async def work() -> None:
        async with Client(broker.bootstrap_servers) as one, Client(broker.bootstrap_servers) as two:
            plain, lost = two.ask_once, list[ConsumerGroupHeartbeatRequest]()

            async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
                answer = await plain(request, *rest, **options)
                if lost or not isinstance(request, ConsumerGroupHeartbeatRequest) or not request.member_epoch:
                    return answer
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    lost.append(request)
                    raise LinkBroken("cut off")
                return answer

            monkeypatch.setattr(two, "ask_once", ask_once)
            async with GroupConsumer(one, settings, [topic]) as first, GroupConsumer(two, settings, [topic]) as second:
                while not lost or (len(first.consumer.assignment), len(second.consumer.assignment)) != (1, 1):
                    await asyncio.gather(first.poll(50), second.poll(50))

    asyncio.run(asyncio.wait_for(work(), 30))


def test_positions_that_a_group_does_not_take_now_are_committed_later(
    run: Callable[[Work], None], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a refused commit the consumer goes on, as Java's does in a rebalance, and commits later."""

    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic, refused, plain = settings["group.id"], list[int](), client.ask_group

        async def ask_group(group_id: str, request: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(request, OffsetCommitRequest) and not refused:
                refused.append(1)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
            return await plain(group_id, request, *rest, **options)

        monkeypatch.setattr(client, "ask_group", ask_group)
        await asyncio.to_thread(broker.produce, topic, ["a", "b"])
        settings["auto.commit.interval.ms"] = "0"
        async with GroupConsumer(client, settings, [topic]) as consumer:
            assert await values(consumer, 1) == ["a"]
            assert await values(consumer, 1) == ["b"]
        assert refused
        assert "were not committed" in caplog.text
        found = await committed_offsets(client, topic)
        assert [each.offset for each in found.values()] == [2]

    run(work)


def test_records_come_while_a_commit_waits(
    run: Callable[[Work], None], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit without an answer holds up no `poll`, as with Java's consumer, and a later commit comes after it."""

    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic, answered, plain = settings["group.id"], asyncio.Event(), client.ask_group
        asked: list[int] = []

        async def ask_group(group_id: str, request: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(request, OffsetCommitRequest):
                asked.append(request.topics[0].partitions[0].committed_offset)
                await answered.wait()
            return await plain(group_id, request, *rest, **options)

        monkeypatch.setattr(client, "ask_group", ask_group)
        await asyncio.to_thread(broker.produce, topic, ["a", "b", "c"])
        settings["auto.commit.interval.ms"] = "0"
        async with GroupConsumer(client, settings, [topic]) as consumer:
            assert [await values(consumer, 1) for _ in range(3)] == [["a"], ["b"], ["c"]]
            assert await consumer.poll(0) == []
            assert asked == [1]
            answered.set()
        assert asked == [1, 3]
        found = await committed_offsets(client, topic)
        assert [each.offset for each in found.values()] == [3]

    run(work)


def test_a_commit_with_an_epoch_that_a_heartbeat_has_raised_is_sent_again(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, epochs = "raised", list[int]()
    settings = {"group.id": topic, "group.protocol": "consumer", "auto.offset.reset": "earliest"}

    async def work() -> None:
        async with Client(broker.bootstrap_servers) as client:
            plain, once, raised = client.ask_group, client.ask_once, asyncio.Event()

            async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
                answer = await once(request, *rest, **options)
                if isinstance(answer, ConsumerGroupHeartbeatResponse) and epochs and answer.member_epoch > epochs[0]:
                    asyncio.get_running_loop().call_soon(raised.set)  # when the member has taken it
                return answer

            async def ask_group(group_id: str, request: Any, *rest: Any, **options: Any) -> Any:
                if isinstance(request, OffsetCommitRequest):
                    epochs.append(request.generation_id_or_member_epoch)
                    if len(epochs) == 1:
                        await asyncio.to_thread(broker.add_partitions, topic, total=2)
                        await raised.wait()
                    if len(epochs) != 2:
                        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)
                return await plain(group_id, request, *rest, **options)

            monkeypatch.setattr(client, "ask_group", ask_group)
            monkeypatch.setattr(client, "ask_once", ask_once)
            own = {"enable.auto.commit": "false", "heartbeat.interval.ms": "100"}
            async with GroupConsumer(client, settings | own, [topic]) as consumer:
                assert await values(consumer, 1) == ["a"]
                await consumer.commit()
                assert epochs == [epochs[0], consumer._member.generation]
                assert [each.offset for each in (await committed_offsets(client, topic)).values()] == [1]
                with pytest.raises(KafkaError, match="member epoch is stale"):  # no newer epoch is known
                    await consumer.commit({TopicPartition(topic, 0): 0})

    broker.produce(topic, ["a"])
    asyncio.run(asyncio.wait_for(work(), 20))


def test_commits_take_turns(run: Callable[[Work], None], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older of two commits under way at once could win."""

    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic, asked, plain = settings["group.id"], list[int](), client.ask_group
        begun, answered = asyncio.Event(), asyncio.Event()

        async def ask_group(group_id: str, request: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(request, OffsetCommitRequest):
                asked.append(request.topics[0].partitions[0].committed_offset)
                begun.set()
                await answered.wait()
            return await plain(group_id, request, *rest, **options)

        monkeypatch.setattr(client, "ask_group", ask_group)
        await asyncio.to_thread(broker.produce, topic, ["a", "b"])
        settings["auto.commit.interval.ms"] = "0"
        async with GroupConsumer(client, settings, [topic]) as consumer:
            assert [await values(consumer, 1) for _ in range(2)] == [["a"], ["b"]]
            await begun.wait()  # the consumer commits by itself
            own = asyncio.create_task(consumer.commit({TopicPartition(topic, 0): 2}))
            await asyncio.sleep(0.05)
            assert asked == [1]
            answered.set()
            await own
            assert asked == [1, 2]
            found = await committed_offsets(client, topic)
            assert [each.offset for each in found.values()] == [2]

    run(work)


def test_records_that_the_caller_may_be_working_on_are_not_committed(
    run: Callable[[Work], None], broker: KafkaBroker
) -> None:
    """A rebalance may come while the caller waits for something else. The next owner of the partition gets them."""

    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic = settings["group.id"]
        await asyncio.to_thread(broker.produce, topic, ["a", "b", "c"])
        async with GroupConsumer(client, settings, [topic]) as consumer:
            assert [await values(consumer, 1) for _ in range(2)] == [["a"], ["b"]]
            await consumer.revoke(consumer.consumer.assignment)
            assert [each.offset for each in (await committed_offsets(client, topic)).values()] == [1]
            await consumer.assign([TopicPartition(topic, 0)])
            assert await values(consumer, 1) == ["b"]
            await consumer.commit()
            await consumer.revoke(consumer.consumer.assignment)
            assert [each.offset for each in (await committed_offsets(client, topic)).values()] == [2]

    run(work)


def test_partitions_that_are_being_revoked_are_not_read(
    run: Callable[[Work], None], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic, answered, plain = settings["group.id"], asyncio.Event(), client.ask_group

        async def ask_group(group_id: str, request: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(request, OffsetCommitRequest):
                await answered.wait()
            return await plain(group_id, request, *rest, **options)

        monkeypatch.setattr(client, "ask_group", ask_group)
        await asyncio.to_thread(broker.produce, topic, ["a", "b"])
        async with GroupConsumer(client, settings, [topic]) as consumer:
            assert await values(consumer, 1) == ["a"]
            assert await consumer.poll(0, 0) == []
            revoking = asyncio.create_task(consumer.revoke(consumer.consumer.assignment))
            await asyncio.sleep(0)
            assert await consumer.poll(500) == []
            answered.set()
            await revoking

    run(work)


def test_a_poll_that_is_cancelled_loses_no_records(
    run: Callable[[Work], None], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic, found = settings["group.id"], list[str]()
        await asyncio.to_thread(broker.produce, topic, ["a", "b"])
        async with GroupConsumer(client, settings, [topic]) as consumer:
            read = consumer.consumer._read

            def cancelling(most: int) -> Any:
                chunks = read(most)
                if chunks:
                    asyncio.get_running_loop().call_soon(reading.cancel)
                return chunks

            async def reader() -> None:
                while True:
                    found.extend(await values(consumer, 1))

            monkeypatch.setattr(consumer.consumer, "_read", cancelling)
            reading = asyncio.create_task(reader())
            await asyncio.wait([reading])
            monkeypatch.undo()
            assert found + await values(consumer, 2 - len(found)) == ["a", "b"]

    run(work)


def test_an_offset_in_an_open_transaction_is_waited_for(
    run: Callable[[Work], None], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member sends heartbeats meanwhile: without, the group would put it out."""

    async def work(client: Client, other: Client, settings: dict[str, str]) -> None:
        topic = settings["group.id"]
        client.api_timeout_ms = 100  # longer transactions are waited for, too
        asked, beats, plain, once = asyncio.Event(), list[Any](), client.ask_group, client.ask_once

        async def ask_group(group_id: str, request: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(request, OffsetFetchRequest):
                asked.set()
            return await plain(group_id, request, *rest, **options)

        async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
            if asked.is_set() and isinstance(request, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
                beats.append(request)
            return await once(request, *rest, **options)

        monkeypatch.setattr(client, "ask_group", ask_group)
        monkeypatch.setattr(client, "ask_once", ask_once)
        await asyncio.to_thread(broker.produce, topic, ["a", "b", "c"])
        producer = ProducerId(other, topic)
        await producer.begin()
        identity = producer.identity
        begun = AddOffsetsToTxnRequest(topic, identity.producer_id, identity.epoch, topic)
        await other.ask_coordinator(CoordinatorType.TRANSACTION, topic, begun, versions=(0, 3))
        committed = TxnOffsetCommitRequestTopic(topic, partitions=[TxnOffsetCommitRequestPartition(0, 2)])
        request = TxnOffsetCommitRequest(topic, topic, identity.producer_id, identity.epoch, topics=[committed])
        await other.ask_group(topic, request, first_error, versions=(0, 2))
        producer.added.add(TopicPartition(topic, 0))
        async with GroupConsumer(client, settings, [topic]) as consumer:
            reading = asyncio.create_task(values(consumer, 1))
            while len(beats) < 3:
                await asyncio.wait([reading], timeout=0.1)
                assert not reading.done()
            await producer.commit()
            assert await reading == ["c"]

    run(work)


def test_a_coordinator_that_does_not_answer_is_asked_with_growing_pauses(
    run: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        asked: list[Any] = []

        async def silent(request: Any, *rest: Any, **options: Any) -> Any:
            asked.append(request)
            raise LinkTimeout("no answer", sent=False)

        monkeypatch.setattr(client, "ask_once", silent)
        async with GroupConsumer(client, settings | {"enable.auto.commit": "false"}, ["t"]) as consumer:
            assert await consumer.poll(1_000) == []
            assert 0 < len(asked) <= 5  # after 100, 200, 400 and 800 ms, a fifth more or less

    run(work)


def test_a_topic_that_the_asked_broker_does_not_know_yet_is_read_later(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.produce("new", ["a"])
    settings = {"group.id": "of-new", "group.protocol": "consumer", "auto.offset.reset": "earliest"}

    async def work() -> None:
        async with Client(broker.bootstrap_servers) as client:
            plain, asked = client.metadata, list[int]()

            async def behind(topics: Any, **options: Any) -> Any:
                answer = await plain(topics, **options)
                if topics is None:
                    asked.append(len(answer.topics))
                    answer.topics = answer.topics if len(asked) > 1 else []
                return answer

            monkeypatch.setattr(client, "metadata", behind)
            async with GroupConsumer(client, settings, ["new"]) as consumer:
                assert await values(consumer, 1) == ["a"]
            assert len(asked) == 2

    asyncio.run(asyncio.wait_for(work(), 20))


def test_what_a_group_refuses_is_raised(broker: KafkaBroker) -> None:
    async def work() -> None:
        async with Client(broker.bootstrap_servers) as client:
            for topic, settings in (("a b", {}), ("any", {"session.timeout.ms": "1"})):
                async with GroupConsumer(client, {"group.id": "refused", **settings}, [topic]) as consumer:
                    with pytest.raises(KafkaError):
                        await consumer.poll(5_000)

    asyncio.run(asyncio.wait_for(work(), 20))


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({}, "valid group.id"),
        ({"group.id": "g", "group.protocol": "old"}, "CLASSIC, CONSUMER"),
        ({"group.id": "g", "partition.assignment.strategy": "org.example.Mine"}, "ClassNotFoundException"),
    ],
)
def test_properties_that_make_no_sense(properties: dict[str, str], says: str) -> None:
    async def work() -> None:
        async with Client("127.0.0.1:1") as client:
            with pytest.raises(Unusable, match=says):
                GroupConsumer(client, properties, ["t"])

    asyncio.run(work())


def test_the_last_commit_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's consumer gives up after 30 s where no broker is there, whatever default.api.timeout.ms says."""
    monkeypatch.setattr("pykafka_broker.client.group_consumer._CLOSE_S", 0)

    async def work(broker: KafkaBroker) -> None:
        settings = {"group.id": "g", "auto.offset.reset": "earliest"}
        async with Client(broker.bootstrap_servers) as client, GroupConsumer(client, settings, ["t"]) as consumer:
            assert await values(consumer, 1) == ["a"]
            await asyncio.to_thread(broker.stop)

    with KafkaBroker() as broker:
        broker.produce("t", ["a"])
        asyncio.run(asyncio.wait_for(work(broker), 20))
    assert "the positions of group g were not committed in 0 s" in caplog.messages


def test_heartbeats_go_on_while_positions_are_committed_for_the_next_owner(
    run: Callable[[Work], None], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: Client, other: Client, settings: dict[str, str]) -> None:
        topic, answered, plain, once = settings["group.id"], asyncio.Event(), client.ask_group, client.ask_once
        waiting, beats = asyncio.Event(), list[Any]()

        async def ask_group(group_id: str, request: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(request, OffsetCommitRequest):
                waiting.set()
                await answered.wait()
            return await plain(group_id, request, *rest, **options)

        async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
            if waiting.is_set() and isinstance(request, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
                beats.append(request)
                if len(beats) == 3:
                    answered.set()
            return await once(request, *rest, **options)

        monkeypatch.setattr(client, "ask_group", ask_group)
        monkeypatch.setattr(client, "ask_once", ask_once)
        await asyncio.to_thread(broker.create_topic, topic, 2)
        await asyncio.to_thread(broker.produce, topic, [NewRecord(each, partition=0) for each in "ab"])
        await asyncio.to_thread(broker.produce, topic, [NewRecord(each, partition=1) for each in "cd"])
        async with GroupConsumer(client, settings, [topic]) as first:
            assert await values(first, 4) == ["a", "b", "c", "d"]
            async with GroupConsumer(other, settings, [topic]) as second:
                await first.poll(0, 0)
                while len(second.consumer.assignment) != 1:
                    await asyncio.gather(first.poll(50), second.poll(50))
                assert answered.is_set()

    run(work)


def test_an_offset_that_must_not_be_read_is_no_reason_to_begin_elsewhere(
    run: Callable[[Work], None], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic, plain = settings["group.id"], client.ask_group

        async def ask_group(group_id: str, request: Any, *rest: Any, **options: Any) -> Any:
            answer = await plain(group_id, request, *rest, **options)
            if isinstance(request, OffsetFetchRequest):
                answer.topics[0].partitions[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return answer

        monkeypatch.setattr(client, "ask_group", ask_group)
        await asyncio.to_thread(broker.produce, topic, ["a"])
        async with GroupConsumer(client, settings, [topic]) as consumer:
            with pytest.raises(KafkaError, match="Not authorized to access topics"):
                await values(consumer, 1)

    run(work)


def test_a_closed_consumer_is_of_no_use_and_closes_again(run: Callable[[Work], None], broker: KafkaBroker) -> None:
    async def work(client: Client, _: Client, settings: dict[str, str]) -> None:
        topic, revoked = settings["group.id"], list[Any]()
        await asyncio.to_thread(broker.produce, topic, ["a"])
        async with GroupConsumer(client, settings, [topic], on_revoked=revoked.append) as consumer:
            await values(consumer, 1)
            polling = asyncio.create_task(consumer.poll(20_000))
            await asyncio.sleep(0.1)
            await consumer.__aexit__(None)
        for use in (polling, consumer.poll(100), consumer.commit()):
            with pytest.raises(ClientError, match="already been closed"):
                await use
        assert revoked == [[TopicPartition(topic, 0)]]

    run(work)


def test_a_member_of_an_old_generation_keeps_its_id(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another id the group would wait for the first one, which never comes back."""

    async def work() -> None:
        async with Client(broker.bootstrap_servers) as client:
            joined, refused, plain = list[str](), list[int](), client.ask_once

            async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
                if isinstance(request, JoinGroupRequest):
                    joined.append(request.member_id)
                if isinstance(request, HeartbeatRequest) and not refused:
                    refused.append(1)
                    return HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
                return await plain(request, *rest, **options)

            monkeypatch.setattr(client, "ask_once", ask_once)
            settings = {"group.id": "generations", "heartbeat.interval.ms": "50"}
            async with GroupConsumer(client, settings, ["generations"]) as consumer:
                while len(joined) < 3:
                    await consumer.poll(50)
            first, named, again = joined[:3]
            assert first == ""
            assert named == again != ""

    asyncio.run(asyncio.wait_for(work(), 20))
