"""A consumer gives records in order, from where it is told to begin, and only those that it may see."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.consumer import Consumer
from pykafka_broker.client.errors import ClientError, KafkaError, LogTruncated, Unusable
from pykafka_broker.client.producer import Producer
from pykafka_broker.peers import LinkTimeout
from pykafka_broker.protocol.enums import EARLIEST
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from pykafka_broker.protocol.messages.list_offsets_request import ListOffsetsRequest
from pykafka_broker.records.builder import build_keyed_batch
from pykafka_broker.records.header import HEADER_SIZE
from pykafka_broker.testing import KafkaBroker, KafkaCluster, NewRecord

Work = Callable[[Client], Awaitable[None]]
BEGIN = {"auto.offset.reset": "earliest"}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


def run(broker: KafkaBroker, work: Work) -> None:
    async def connected() -> None:
        async with Client(broker.bootstrap_servers) as client:
            await work(client)

    asyncio.run(asyncio.wait_for(connected(), 30))


async def take(consumer: Consumer, count: int, most: int | None = None) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        for chunk in await consumer.poll(5_000, most):
            found += [(record.value or b"").decode() for record in chunk.records]
    return found


def test_records_come_in_their_order_and_as_many_as_are_wanted(broker: KafkaBroker) -> None:
    broker.produce("many", [str(n) for n in range(1000)])

    async def work(client: Client) -> None:
        async with Consumer(client, BEGIN) as consumer:
            consumer.assign([("many", 0)])
            assert sum(len(each.records) for each in await consumer.poll(5_000, 7)) == 7
            assert consumer.position(("many", 0)) == 7
            assert await take(consumer, 993, 100) == [str(n) for n in range(7, 1000)]

    run(broker, work)


def test_a_position_is_sought_by_offset_and_by_time(broker: KafkaBroker) -> None:
    broker.produce("sought", [{"value": str(n), "timestamp": 1_700_000_000_000 + n} for n in range(10)])

    async def work(client: Client) -> None:
        async with Consumer(client) as consumer:
            consumer.assign([("sought", 0)])
            consumer.seek(("sought", 0), 8)
            assert await take(consumer, 2) == ["8", "9"]
            consumer.seek_to_time(("sought", 0), 1_700_000_000_005)
            assert (await take(consumer, 5))[0] == "5"
            consumer.seek_to_time(("sought", 0), EARLIEST)
            assert (await take(consumer, 10))[0] == "0"

    run(broker, work)


def test_who_begins_at_the_end_sees_what_comes_later(broker: KafkaBroker) -> None:
    broker.produce("later", ["before"])

    async def work(client: Client) -> None:
        async with Consumer(client) as consumer, Producer(client) as producer:
            consumer.assign([("later", 0)])
            assert await consumer.poll(300) == []
            await producer.deliver("later", b"after")
            assert await take(consumer, 1) == ["after"]

    run(broker, work)


@pytest.mark.parametrize(("level", "seen"), [("read_uncommitted", ["a", "b", "c"]), ("read_committed", ["b", "c"])])
def test_aborted_records_are_for_who_reads_uncommitted(broker: KafkaBroker, level: str, seen: list[str]) -> None:
    async def work(client: Client) -> None:
        topic = f"decided-{level}"
        async with Producer(client, {"transactional.id": level}) as producer:
            await producer.begin_transaction()
            await producer.send(topic, b"a")
            await producer.flush()
        async with Producer(client, {"transactional.id": level}) as producer:  # a new one of the id aborts what is open
            await producer.begin_transaction()
            await producer.send(topic, b"b")
            await producer.commit_transaction()
        async with Producer(client) as producer:
            await producer.deliver(topic, b"c")
        async with Consumer(client, BEGIN | {"isolation.level": level}) as consumer:
            consumer.assign([(topic, 0)])
            assert await take(consumer, len(seen)) == seen

    run(broker, work)


def test_an_offset_that_is_not_there(broker: KafkaBroker) -> None:
    broker.produce("gone", ["only"])

    async def work(client: Client) -> None:
        for reset, says in (("none", "Fetch position 77 is out of range for partition gone-0"), ("earliest", "")):
            async with Consumer(client, {"auto.offset.reset": reset}) as consumer:
                consumer.assign([("gone", 0)])
                consumer.seek(("gone", 0), 77)
                if says:
                    with pytest.raises(ClientError, match=says):
                        await consumer.poll(5_000)
                else:
                    assert await take(consumer, 1) == ["only"]

    run(broker, work)


@pytest.mark.parametrize("reset", ["latest", "none"])
def test_records_that_a_leader_has_lost_are_read_anew_from_where_its_log_parts(reset: str) -> None:
    """A restore does what an unclean election does: the log is cut, and goes on in a higher leader epoch (KIP-320)."""

    async def work(broker: KafkaBroker) -> None:
        async with (
            Client(broker.bootstrap_servers) as client,
            Consumer(client, {"auto.offset.reset": reset}) as consumer,
        ):
            consumer.assign([("cut", 0)])
            consumer.seek(("cut", 0), 0)
            assert await take(consumer, 4) == ["a", "b", "lost", "lost"]
            await asyncio.to_thread(broker.restore, "shorter")
            await asyncio.to_thread(broker.produce, "cut", ["c", "d", "e"])
            if reset == "none":
                for _ in range(2):
                    with pytest.raises(LogTruncated, match=r"partition cut-0 at offset 4, .* diverge: 2"):
                        await take(consumer, 1)
            else:
                assert await take(consumer, 3) == ["c", "d", "e"]

    with KafkaBroker() as broker:
        broker.produce("cut", ["a", "b"])
        broker.snapshot("shorter")
        broker.produce("cut", ["lost", "lost"])
        asyncio.run(asyncio.wait_for(work(broker), 30))


def test_a_topic_that_is_created_again_is_read_from_its_own_start(broker: KafkaBroker) -> None:
    """A topic with another id (KIP-516), and more records than the position says."""
    broker.produce("again", ["old", "old"])

    async def work(client: Client) -> None:
        async with Consumer(client, BEGIN) as consumer, Consumer(client, {"auto.offset.reset": "none"}) as strict:
            for each in (consumer, strict):
                each.assign([("again", 0)])
                each.seek(("again", 0), 0)
                assert await take(each, 2) == ["old", "old"]
            await asyncio.to_thread(broker.delete_topic, "again")
            await asyncio.to_thread(broker.produce, "again", ["a", "b", "c", "d"])
            assert await take(consumer, 4) == ["a", "b", "c", "d"]
            for _ in range(2):
                with pytest.raises(ClientError, match="Topic again was deleted and created again"):
                    await take(strict, 1)
            strict.seek(("again", 0), 3)
            assert await take(strict, 1) == ["d"]

    run(broker, work)


def test_records_of_a_deleted_topic_are_no_position_in_the_topic_of_its_name(broker: KafkaBroker) -> None:
    """The group would commit the offset of a deleted topic when it revokes the partition."""
    broker.produce("anew", ["a", "b", "c"])

    async def work(client: Client) -> None:
        async with Consumer(client, BEGIN) as consumer:
            consumer.assign([("anew", 0)])
            assert await take(consumer, 1, 1) == ["a"]
            await asyncio.to_thread(broker.delete_topic, "anew")
            await asyncio.to_thread(broker.produce, "anew", ["new"])
            await consumer._leaders.ask(["anew"])  # as after `metadata.max.age.ms`
            assert await take(consumer, 2) == ["b", "c"]
            assert consumer.position_before(("anew", 0)) is None
            assert await take(consumer, 1) == ["new"]

    run(broker, work)


@pytest.mark.parametrize("release", ["2.4", "2.7"])
def test_a_node_of_an_older_release_is_told_no_epochs_and_no_ids(release: str) -> None:
    async def work(broker: KafkaBroker) -> None:
        async with Client(broker.bootstrap_servers) as client, Consumer(client, BEGIN) as consumer:
            consumer.assign([("older", 0)])
            for value in ("a", "b"):
                await asyncio.to_thread(broker.produce, "older", [value])
                assert await take(consumer, 1) == [value]

    with KafkaBroker(config={"pykafka.emulate": release}) as broker:
        broker.create_topic("older")
        asyncio.run(asyncio.wait_for(work(broker), 30))


def test_offsets_of_times_are_asked_of_the_known_leader_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of an earlier epoch, which has not heard of its successor, must refuse (KIP-320)."""

    async def work(broker: KafkaBroker) -> None:
        async with Client(broker.bootstrap_servers) as client, Consumer(client, BEGIN) as consumer:
            plain, asked = client.ask_once, list[int]()

            async def watched(request: Any, *rest: Any, **options: Any) -> Any:
                if isinstance(request, ListOffsetsRequest):
                    asked.append(request.topics[0].partitions[0].current_leader_epoch)
                return await plain(request, *rest, **options)

            monkeypatch.setattr(client, "ask_once", watched)
            consumer.assign([("led", 0)])
            assert await take(consumer, 1) == ["a"]
            assert asked == [epoch]

    with KafkaBroker() as broker:
        broker.produce("led", ["a"])
        epoch = broker.bump_leader_epoch("led")
        asyncio.run(asyncio.wait_for(work(broker), 30))


def test_nobody_says_where_to_begin(broker: KafkaBroker) -> None:
    broker.create_topic("unknown")

    async def work(client: Client) -> None:
        async with Consumer(client, {"auto.offset.reset": "none"}) as consumer:
            consumer.assign([("unknown", 0)])
            with pytest.raises(
                ClientError, match=r"Undefined offset with no reset policy for partitions: \[unknown-0\]"
            ):
                await consumer.poll(5_000)

    run(broker, work)


def test_a_broker_that_comes_back_is_read_on() -> None:
    async def work(broker: KafkaBroker) -> None:
        async with Client(broker.bootstrap_servers) as client, Consumer(client, BEGIN) as consumer:
            consumer.assign([("kept", 0)])
            assert await take(consumer, 1) == ["a"]
            await asyncio.to_thread(broker.restart)
            await asyncio.to_thread(broker.produce, "kept", ["b"])
            assert await take(consumer, 1) == ["b"]

    with KafkaBroker() as broker:
        broker.produce("kept", ["a"])
        asyncio.run(asyncio.wait_for(work(broker), 120))  # with a start of a process


def test_a_topic_that_is_missing_is_looked_up_with_pauses(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: Client) -> None:
        plain, asked = client.metadata, list[int]()

        async def counted(*rest: Any, **options: Any) -> Any:
            asked.append(1)
            return await plain(*rest, **options)

        monkeypatch.setattr(client, "metadata", counted)
        async with Consumer(client) as consumer:
            consumer.assign([("nowhere", 0)])
            assert await consumer.poll(1_000) == []
        assert 0 < len(asked) <= 5  # after 100, 200, 400 and 800 ms, a fifth more or less

    run(broker, work)


def test_a_deleted_topic_that_is_not_assigned_any_more_is_not_looked_up(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("kept-topic", "deleted-topic"):
        broker.produce(topic, ["a"])

    async def work(client: Client) -> None:
        plain, asked = client.metadata, list[str]()

        async def noted(topics: list[str], **options: Any) -> Any:
            answer = await plain(topics, **options)
            asked.extend(each.name or "" for each in answer.topics if each.error_code)
            return answer

        monkeypatch.setattr(client, "metadata", noted)
        async with Consumer(client, BEGIN) as consumer:
            consumer.assign([("kept-topic", 0), ("deleted-topic", 0)])
            assert await take(consumer, 2) == ["a", "a"]
            await asyncio.to_thread(broker.delete_topic, "deleted-topic")
            while not asked:
                await consumer.poll(50)
            consumer.assign([("kept-topic", 0)])
            while consumer._looking is not None:
                await consumer.poll(50)
            asked.clear()
            assert await consumer.poll(500) == []
            assert not asked

    run(broker, work)


def test_a_consumer_whose_broker_is_away_is_closed_without_a_pause() -> None:
    async def work() -> None:
        settings = {"retry.backoff.ms": "60000", "retry.backoff.max.ms": "60000"}
        async with Client("127.0.0.1:1", settings) as client, Consumer(client) as consumer:
            consumer.assign([("t", 0)])
            while consumer._looking is None:
                await consumer.poll(10)

    asyncio.run(asyncio.wait_for(work(), 30))


def test_a_leader_that_refuses_a_fetch_is_asked_with_growing_pauses(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("refused")

    async def work(client: Client) -> None:
        asked: list[int] = []

        async def refused(*request: Any, **options: Any) -> Any:
            asked.append(1)
            refusal = PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return FetchResponse(responses=[FetchableTopicResponse("refused", partitions=[refusal])])

        monkeypatch.setattr(client, "ask_once", refused)
        async with Consumer(client) as consumer:
            consumer.assign([("refused", 0)])
            consumer.seek(("refused", 0), 0)
            while not asked:  # the leader is not known yet
                assert await consumer.poll(100) == []
            assert await consumer.poll(1_000) == []
        assert len(asked) <= 5  # after 100, 200, 400 and 800 ms, a fifth more or less

    run(broker, work)


def test_damage_takes_no_records_before_it_and_is_raised_each_time(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("damaged", 2)
    sound = bytes(build_keyed_batch([(b"", b"sound")], 0)[0])
    broken = bytearray(sound)
    broken[:8] = (1).to_bytes(8)  # the next offset
    broken[HEADER_SIZE] += 2  # the record is a byte longer than the batch

    async def work(client: Client) -> None:
        async def fetched(*request: Any, **options: Any) -> Any:
            await asyncio.sleep(0.01)
            data = [PartitionData(0, records=sound), PartitionData(1, records=sound + bytes(broken))]
            return FetchResponse(responses=[FetchableTopicResponse("damaged", partitions=data)])

        monkeypatch.setattr(client, "ask_once", fetched)
        async with Consumer(client, {"check.crcs": "false"}) as consumer:
            consumer.assign([("damaged", 0), ("damaged", 1)])
            for index in range(2):
                consumer.seek(("damaged", index), 0)
            assert await take(consumer, 2) == ["sound", "sound"]
            for _ in range(3):
                with pytest.raises(ClientError, match="damaged-1 at offset 1 is invalid"):
                    await take(consumer, 1)

    run(broker, work)


@pytest.mark.parametrize(
    "properties",
    [{"isolation.level": "serial"}, {"auto.offset.reset": "by_duration:P"}, {"check.crcs": "no"}],
)
def test_properties_that_make_no_sense(properties: dict[str, str]) -> None:
    async def work() -> None:
        async with Client("127.0.0.1:1") as client:
            with pytest.raises(Unusable):
                Consumer(client, properties)

    asyncio.run(work())


def answers(monkeypatch: pytest.MonkeyPatch, client: Client, *partitions: PartitionData, topic: str) -> None:
    """Let every fetch get the same partitions."""

    async def fetched(*request: Any, **options: Any) -> Any:
        await asyncio.sleep(0.01)
        return FetchResponse(responses=[FetchableTopicResponse(topic, partitions=list(partitions))])

    monkeypatch.setattr(client, "ask_once", fetched)


def test_an_error_of_one_partition_keeps_no_records_of_another(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("half-forbidden", 2)
    sound = bytes(build_keyed_batch([(b"", b"sound")], 0)[0])
    forbidden = PartitionData(0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def work(client: Client) -> None:
        answers(monkeypatch, client, forbidden, PartitionData(1, records=sound), topic="half-forbidden")
        async with Consumer(client) as consumer:
            consumer.assign([("half-forbidden", 0), ("half-forbidden", 1)])
            for index in range(2):
                consumer.seek(("half-forbidden", index), 0)
            assert await take(consumer, 1) == ["sound"]
            with pytest.raises(KafkaError, match="Not authorized"):
                await take(consumer, 1)

    run(broker, work)


def test_a_position_that_can_t_be_found_keeps_no_other_from_being_found(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("half-found", 2)
    broker.produce("half-found", [NewRecord("found", partition=1)])

    async def work(client: Client) -> None:
        plain = client.ask_once

        async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
            answer = await plain(request, *rest, **options)
            if isinstance(request, ListOffsetsRequest):
                for each in answer.topics[0].partitions:
                    if each.partition_index == 0:
                        each.error_code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            return answer

        monkeypatch.setattr(client, "ask_once", ask_once)
        async with Consumer(client, BEGIN) as consumer:
            consumer.assign([("half-found", 0), ("half-found", 1)])
            with pytest.raises(KafkaError):
                await take(consumer, 1)
            assert await take(consumer, 1) == ["found"]

    run(broker, work)


def test_a_position_is_looked_up_until_a_leader_answers(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.produce("late-leader", ["a"])
    asked: list[Any] = []

    async def work(client: Client) -> None:
        plain = client.ask_once

        async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(request, ListOffsetsRequest):
                asked.append(request)
                if len(asked) < 3:
                    raise LinkTimeout("no leader answered", sent=True)
            return await plain(request, *rest, **options)

        monkeypatch.setattr(client, "ask_once", ask_once)
        async with Consumer(client, BEGIN) as consumer:
            consumer.assign([("late-leader", 0)])
            assert await take(consumer, 1) == ["a"]
        assert len(asked) == 3

    run(broker, work)


def test_a_leader_that_does_not_answer_keeps_no_position_of_another_from_being_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck: list[Any] = []

    async def work(bootstrap: str) -> None:
        async with Client(bootstrap) as client:
            plain_once, plain = client.ask_once, client.ask

            async def silent(request: Any, node: int | None = None) -> None:
                if isinstance(request, ListOffsetsRequest) and node == 1:
                    stuck.append(request)
                    await asyncio.get_running_loop().create_future()

            async def ask_once(request: Any, node: int, **options: Any) -> Any:
                await silent(request, node)
                return await plain_once(request, node, **options)

            async def ask(request: Any, node: int | None = None, **options: Any) -> Any:
                await silent(request, node)
                return await plain(request, node, **options)

            monkeypatch.setattr(client, "ask_once", ask_once)
            monkeypatch.setattr(client, "ask", ask)
            async with Consumer(client, BEGIN) as consumer:
                consumer.assign([("first", 0)])
                while not stuck:
                    await consumer.poll(10)
                consumer.assign([("first", 0), ("second", 0)])
                assert await take(consumer, 1) == ["of the second"]

    with KafkaCluster(2, in_process=True) as cluster:
        for node_id, topic in enumerate(("first", "second"), 1):
            cluster.create_topic(topic, replication_factor=2)
            cluster.move_leader(topic, node_id)
            cluster.produce(topic, [f"of the {topic}"])
        asyncio.run(asyncio.wait_for(work(cluster.bootstrap_servers), 30))


def test_the_answers_of_two_leaders_bring_each_record_once(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition may move while its old leader still answers."""
    broker.create_topic("moved-on", 1)
    sound = b"".join(bytes(batch_at(offset)) for offset in range(3))
    moved: list[int] = []

    async def work(client: Client) -> None:
        answers(monkeypatch, client, PartitionData(0, records=sound), topic="moved-on")
        async with Consumer(client) as consumer:
            plain = consumer._leaders.leader
            monkeypatch.setattr(consumer._leaders, "leader", lambda each: plain(each) and 1 + len(moved))
            consumer.assign([("moved-on", 0)])
            consumer.seek(("moved-on", 0), 0)
            while not consumer._fetches:
                await consumer.poll(0)
            moved.append(1)
            assert await consumer.poll(0) == []
            assert len(consumer._fetches) == 2
            await asyncio.sleep(0.1)
            assert await take(consumer, 3) == ["0", "1", "2"]
            assert consumer.position(("moved-on", 0)) == 3

    run(broker, work)


def batch_at(offset: int) -> bytearray:
    found = bytearray(build_keyed_batch([(b"", b"%d" % offset)], 0)[0])
    found[:8] = offset.to_bytes(8)
    return found


def test_a_fault_of_ours_is_raised(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("faulty", 1)

    async def work(client: Client) -> None:
        async def faulty(*request: Any, **options: Any) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(client, "ask_once", faulty)
        async with Consumer(client) as consumer:
            consumer.assign([("faulty", 0)])
            consumer.seek(("faulty", 0), 0)
            with pytest.raises(ZeroDivisionError):
                await consumer.poll(5_000)

    run(broker, work)


def test_a_closed_consumer_or_client_is_of_no_use(broker: KafkaBroker) -> None:
    async def work(client: Client) -> None:
        async with Consumer(client) as consumer:
            polling = asyncio.create_task(consumer.poll(20_000))
            await asyncio.sleep(0)
        for use in (polling, consumer.poll(100)):
            with pytest.raises(ClientError, match="already been closed"):
                await use
        await client.__aexit__()
        with pytest.raises(ClientError, match="client is closed"):
            await client.metadata([])

    run(broker, work)


def test_an_idle_partition_keeps_no_busy_one_waiting(broker: KafkaBroker) -> None:
    """A fetch of the idle one alone would wait for a minute."""
    broker.create_topic("idle")
    broker.produce("busy", [str(n) for n in range(10)])
    broker.produce("busy", [str(n) for n in range(10, 20)])

    async def work(client: Client) -> None:
        most = str(HEADER_SIZE + 10)  # a batch
        settings = {**BEGIN, "fetch.max.wait.ms": "60000", "max.partition.fetch.bytes": most}
        async with Consumer(client, settings) as consumer:
            consumer.assign([("idle", 0), ("busy", 0)])
            assert await take(consumer, 20, 1) == [str(n) for n in range(20)]

    run(broker, work)


def test_records_come_from_the_replica_in_the_consumers_rack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of the leader alone are read there: a follower that is behind is no reason to begin elsewhere."""
    refused: list[int] = []
    asked: list[int] = []

    async def work(bootstrap: str) -> None:
        async with Client(bootstrap, {"client.rack": "near", "auto.offset.reset": "none"}) as client:
            plain = client.ask_once

            async def ask_once(request: Any, node: int, **options: Any) -> Any:
                asked.append(node)
                if node == 2 and not refused:
                    refused.append(node)
                    behind = PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE)
                    return FetchResponse(responses=[FetchableTopicResponse("near", partitions=[behind])])
                return await plain(request, node, **options)

            monkeypatch.setattr(client, "ask_once", ask_once)
            async with Consumer(client) as consumer:
                consumer.assign([("near", 0)])
                consumer.seek(("near", 0), 0)
                assert await take(consumer, 2) == ["a", "b"]

    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with KafkaCluster(
        2, racks=["far", "near"], config={"replica.selector.class": selector}, in_process=True
    ) as cluster:
        cluster.create_topic("near")
        cluster.move_leader("near", 1)
        cluster.produce("near", ["a", "b"])
        asyncio.run(asyncio.wait_for(work(cluster.bootstrap_servers), 30))
    assert refused
    assert asked[-1] == 2
