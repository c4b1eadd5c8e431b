"""A producer delivers each record once, where Java's producer would have it, and says what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pykafka_broker.client.batches import Delivery
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut, Unusable
from pykafka_broker.client.partitioner import partition_of
from pykafka_broker.client.producer import Producer
from pykafka_broker.peers import LinkBroken
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.produce_request import ProduceRequest
from pykafka_broker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.testing import KafkaBroker

Work = Callable[[Client], Awaitable[None]]


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


def run(broker: KafkaBroker, work: Work, properties: dict[str, str] | None = None) -> None:
    async def connected() -> None:
        async with Client(broker.bootstrap_servers, properties) as client:
            await work(client)

    asyncio.run(asyncio.wait_for(connected(), 30))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_arrive_in_their_order(broker: KafkaBroker, codec: str) -> None:
    found: list[Delivery] = []

    async def work(client: Client) -> None:
        async with Producer(client, {"compression.type": codec, "batch.size": "500"}) as producer:
            for n in range(300):
                await producer.send(f"order-{codec}", b"%d" % n, on_delivery=found.append)

    run(broker, work)
    assert [each.offset for each in found] == list(range(300))
    assert [record.value for record in broker.records(f"order-{codec}")] == [str(n) for n in range(300)]


def test_nobody_waits_for_a_record_any_more(broker: KafkaBroker) -> None:
    async def work(client: Client) -> None:
        async with Producer(client, {"max.in.flight.requests.per.connection": "1"}) as producer:
            await producer.deliver("given-up", b"first")
            waiting = []
            for value in (b"on its way", b"behind it"):
                waiting.append(asyncio.create_task(producer.deliver("given-up", value)))
                for _ in range(3):  # taken, and not answered yet
                    await asyncio.sleep(0)
            for each in waiting:
                each.cancel()
            raise LookupError

    with pytest.raises(LookupError):
        run(broker, work)


def test_a_key_goes_where_javas_producer_sends_it(broker: KafkaBroker) -> None:
    broker.create_topic("keyed", partitions=5)
    found: dict[bytes, Delivery] = {}

    async def work(client: Client) -> None:
        async with Producer(client) as producer:
            for key in (b"a", b"b", b"key"):
                found[key] = await producer.deliver("keyed", b"v", key)

    run(broker, work)
    assert {key: each.partition for key, each in found.items()} == {key: partition_of(key, 5) for key in found}


def test_without_acks_nobody_knows_the_offset(broker: KafkaBroker) -> None:
    async def work(client: Client) -> None:
        async with Producer(client, {"acks": "0"}) as producer:
            assert (await producer.deliver("unanswered", b"v")).offset == -1

    run(broker, work)
    assert broker.wait_for_records("unanswered", 1)[0].value == "v"


def test_a_batch_that_a_broker_finds_too_large_is_cut(broker: KafkaBroker) -> None:
    broker.create_topic("small", config={"max.message.bytes": "1000"})

    async def work(client: Client) -> None:
        async with Producer(client, {"linger.ms": "50"}) as producer:
            for n in range(40):
                await producer.send("small", b"%d" % n + b"-" * 100)
            await producer.flush()
            with pytest.raises(KafkaError, match="larger than the max message size"):
                await producer.deliver("small", b"-" * 2000)
            await producer.deliver("small", b"after")

    run(broker, work)
    values = [str(record.value).rstrip("-") for record in broker.records("small")]
    assert values == [*(str(n) for n in range(40)), "after"]


def test_a_transaction_is_seen_when_it_is_committed(broker: KafkaBroker) -> None:
    async def work(client: Client) -> None:
        async with Producer(client, {"transactional.id": "mover"}) as producer:
            await producer.begin_transaction()
            await producer.send("moved", b"0")
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send("moved", b"1")
            await producer.flush()

    run(broker, work)
    assert [record.value for record in broker.records("moved", isolation_level="read_committed")] == ["0"]


def test_a_commit_without_an_answer_may_have_been_carried_out(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is told that nobody knows; the next transaction begins all the same."""

    async def work(client: Client) -> None:
        plain, lost = client.ask_coordinator, list[Message]()

        async def ask_coordinator(kind: int, key: str, request: Message, *rest: Any, **options: Any) -> Any:
            answer = await plain(kind, key, request, *rest, **options)
            if isinstance(request, EndTxnRequest) and not lost:
                lost.append(request)
                raise TimedOut("no answer came")
            return answer

        monkeypatch.setattr(client, "ask_coordinator", ask_coordinator)
        async with Producer(client, {"transactional.id": "unanswered-commit"}) as producer:
            await producer.begin_transaction()
            await producer.send("unanswered-commit", b"0")
            with pytest.raises(TimedOut):
                await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send("unanswered-commit", b"1")
            await producer.commit_transaction()

    run(broker, work)
    found = broker.records("unanswered-commit", isolation_level="read_committed")
    assert [record.value for record in found] == ["0", "1"]


def test_records_that_can_t_be_taken(broker: KafkaBroker) -> None:
    async def work(client: Client) -> None:
        async with Producer(client, {"buffer.memory": "87"}) as small:
            await small.send("large", b"12345")
            with pytest.raises(KafkaError, match=r"88 bytes .* larger than the total memory buffer"):
                await small.send("large", b"123456")
        async with Producer(client, {"max.block.ms": "200"}) as producer:
            with pytest.raises(KafkaError, match=r"1048700 bytes when serialized which is larger than 1048576"):
                await producer.send("large", b"-" * (1048700 - 82))
            with pytest.raises(KafkaError, match=r"Invalid topics: \[a b\]"):
                await producer.send("a b", b"")
            with pytest.raises(TimedOut, match="Partition 7 of topic large with partition count 1 is not present"):
                await producer.send("large", b"", partition=7)

    run(broker, work)


def test_nobody_answers_in_time() -> None:
    async def work() -> None:
        properties = {"max.block.ms": "100", "delivery.timeout.ms": "100", "request.timeout.ms": "50", "linger.ms": "0"}
        async with Client("127.0.0.1:1", properties) as client, Producer(client) as producer:
            with pytest.raises(TimedOut, match="Topic t not present in metadata after 100 ms"):
                await producer.send("t", b"")

    asyncio.run(asyncio.wait_for(work(), 10))


def test_a_broker_that_comes_back_gets_each_record_once() -> None:
    found: list[Delivery] = []

    async def work(bootstrap: str, restart: Callable[[], None]) -> None:
        async with Client(bootstrap) as client, Producer(client) as producer:
            for n in range(200):
                await producer.send("kept", b"%d" % n, on_delivery=found.append)
                if n == 100:
                    await asyncio.to_thread(restart)

    with KafkaBroker() as broker:
        asyncio.run(asyncio.wait_for(work(broker.bootstrap_servers, broker.restart), 120))  # with a start of a process
        assert {each.error for each in found} == {None}
        assert [record.value for record in broker.records("kept")] == [str(n) for n in range(200)]


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"acks": "2"}, "Invalid value 2 for configuration acks"),
        ({"compression.type": "brotli"}, "one of: none, gzip, snappy, lz4, zstd"),
        ({"acks": "1", "enable.idempotence": "true"}, "Must set acks to all"),
        ({"enable.idempotence": "perhaps"}, "either true or false"),
        ({"delivery.timeout.ms": "5"}, "equal to or larger than linger.ms"),
        ({"batch.size": "much"}, "Not a number of type INT"),
        ({"request.timeout.ms": "2147483648"}, "Not a number of type INT"),
        ({"transactional.id": ""}, "String must be non-empty"),
        *(
            ({name: "-1"}, f"Invalid value -1 for configuration {name}: Value must be at least 0")
            for name in ("batch.size", "linger.ms", "buffer.memory", "max.block.ms", "max.request.size", "retries")
        ),
        ({"max.in.flight.requests.per.connection": "0"}, "Value must be at least 1"),
        ({"compression.gzip.level": "77"}, "Value must be between 1 and 9 or equal to -1"),
        ({"compression.lz4.level": "0"}, "Value must be at least 1"),
        ({"compression.zstd.level": "99"}, "Value must be no more than 22"),
    ],
)
def test_properties_that_make_no_sense(properties: dict[str, str], says: str) -> None:
    async def work() -> None:
        async with Client("127.0.0.1:1") as client:
            with pytest.raises(Unusable, match=says):
                Producer(client, properties)

    asyncio.run(work())


def test_what_is_left_at_an_error_is_told(broker: KafkaBroker) -> None:
    found: list[Delivery] = []

    async def work(client: Client) -> None:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with Producer(client, {"linger.ms": "5000"}) as producer:
                await producer.send("left", b"", on_delivery=found.append)
                raise ZeroDivisionError

    run(broker, work)
    assert isinstance(found[0].error, ClientError)


def test_what_is_on_its_way_at_an_error_is_told(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Delivery] = []

    async def work(client: Client) -> None:
        sent = asyncio.Event()

        async def never(*rest: Any, **options: Any) -> Any:
            sent.set()
            await asyncio.Event().wait()

        with pytest.raises(ZeroDivisionError):  # noqa: PT012  # the block that the error leaves is what is tested
            async with Producer(client) as producer:
                await producer.deliver("on-its-way", b"taken")
                monkeypatch.setattr(client, "ask_once", never)
                await producer.send("on-its-way", b"v", on_delivery=found.append)
                await sent.wait()
                raise ZeroDivisionError

    run(broker, work)
    assert isinstance(found[0].error, ClientError)


def test_a_record_in_a_hurry_takes_along_those_that_linger(broker: KafkaBroker) -> None:
    found: list[Delivery] = []

    async def work(client: Client) -> None:
        async with Producer(client, {"linger.ms": "60000"}) as producer:
            await producer.deliver("hurried", b"first")
            await producer.send("hurried", b"lingers", on_delivery=found.append)
            await asyncio.sleep(0.1)  # the sender waits for the end of the linger time
            assert (await producer.deliver("hurried", b"second")).offset == 2

    run(broker, work)
    assert [each.offset for each in found] == [1]


def test_a_topic_that_is_forbidden_later_fails_alone(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Delivery] = []
    look = Client.metadata

    async def forbidden(self: Client, topics: list[str] | None, **options: Any) -> Any:
        answer = await look(self, topics, **options)
        for each in answer.topics:
            if each.name == "forbidden":
                each.error_code, each.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
        return answer

    async def work(client: Client) -> None:
        looked = asyncio.Event()

        def note(delivery: Delivery) -> None:
            found.append(delivery)
            looked.set()

        async with Producer(client, {"linger.ms": "60000"}) as producer:
            for topic in ("allowed", "forbidden"):
                await producer.deliver(topic, b"taken")
            monkeypatch.setattr(Client, "metadata", forbidden)
            for topic in ("allowed", "forbidden"):
                producer._leaders.forget(topic)
                await producer.send(topic, b"v", on_delivery=note)
            await looked.wait()
            with pytest.raises(KafkaError, match=r"Not authorized to access topics: \[forbidden\]"):
                await producer.deliver("forbidden", b"v")
            await producer.deliver("allowed", b"v")

    run(broker, work)
    assert [(each.topic, each.error is None) for each in found] == [("forbidden", False), ("allowed", True)]


def test_a_batch_that_is_refused_again_and_again_is_sent_with_growing_pauses(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Delivery] = []

    async def work(client: Client) -> None:
        async with Producer(client, {"request.timeout.ms": "100", "delivery.timeout.ms": "1000"}) as producer:
            asked, plain = list[Message](), client.ask_once

            async def refused(request: Message, *rest: Any, **options: Any) -> Any:
                if not isinstance(request, ProduceRequest):
                    return await plain(request, *rest, **options)
                asked.append(request)
                error = PartitionProduceResponse(0, ErrorCode.NOT_ENOUGH_REPLICAS)
                return ProduceResponse([TopicProduceResponse("refused", partition_responses=[error])])

            monkeypatch.setattr(client, "ask_once", refused)
            await producer.send("refused", b"v", on_delivery=found.append)
            await producer.flush()
            assert len(asked) <= 5  # after 100, 200, 400 and 800 ms, a fifth more or less

    broker.create_topic("refused")
    run(broker, work)
    assert isinstance(found[0].error, TimedOut)


def test_no_batch_waits_for_the_answer_about_another_one(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("apart", partitions=2)
    found: list[Delivery] = []

    async def work(client: Client) -> None:
        async with Producer(client, {"linger.ms": "20"}) as producer:
            await producer.deliver("apart", b"v", partition=0)
            ask, sent, later = client.ask_once, asyncio.Event(), asyncio.Event()

            async def late(request: ProduceRequest, *rest: Any, **options: Any) -> Any:
                if request.topic_data[0].partition_data[0].index == 0:
                    sent.set()
                    await later.wait()
                return await ask(request, *rest, **options)

            def note(delivery: Delivery) -> None:
                found.append(delivery)
                later.set()

            monkeypatch.setattr(client, "ask_once", late)
            await producer.send("apart", b"a", partition=0, on_delivery=note)
            await sent.wait()
            await producer.send("apart", b"b", partition=1, on_delivery=note)
            await later.wait()

    run(broker, work, {"retry.backoff.ms": "60000", "retry.backoff.max.ms": "60000"})
    assert [each.partition for each in found] == [1, 0]


def test_a_refused_record_keeps_the_batches_behind_it_from_nothing(broker: KafkaBroker) -> None:
    """Their sequence numbers follow those of the refused batch, which the log does not have."""
    broker.create_topic("behind", config={"cleanup.policy": "compact"})
    found: dict[int, Delivery] = {}

    async def work(client: Client) -> None:
        async with Producer(client, {"batch.size": "0"}) as producer:
            await producer.deliver("behind", b"0", b"key")
            for n in range(1, 8):
                key = None if n == 2 else b"key"
                await producer.send("behind", b"%d" % n, key, on_delivery=partial(found.__setitem__, n))

    run(broker, work)
    assert [n for n, delivery in found.items() if delivery.error is not None] == [2]
    assert [record.value for record in broker.records("behind")] == ["0", "1", "3", "4", "5", "6", "7"]


def test_no_batch_overtakes_the_first_one(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker takes any sequence number from a producer that it does not know."""
    broker.create_topic("first")
    found: list[Delivery] = []

    async def work(client: Client) -> None:
        ask, refused = client.ask_once, list[Message]()

        async def refused_once(request: Message, *rest: Any, **options: Any) -> Any:
            if not isinstance(request, ProduceRequest) or refused:
                return await ask(request, *rest, **options)
            refused.append(request)
            error = PartitionProduceResponse(0, ErrorCode.NOT_ENOUGH_REPLICAS)
            return ProduceResponse([TopicProduceResponse("first", partition_responses=[error])])

        monkeypatch.setattr(client, "ask_once", refused_once)
        async with Producer(client, {"batch.size": "0"}) as producer:
            for n in range(3):
                await producer.send("first", b"%d" % n, on_delivery=found.append)

    run(broker, work)
    assert [(each.offset, each.error) for each in found] == [(0, None), (1, None), (2, None)]
    assert [record.value for record in broker.records("first")] == ["0", "1", "2"]


def test_a_lost_answer_doubles_nothing_when_another_partition_needs_a_new_id(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("renewed", 2, config={"cleanup.policy": "compact"})

    async def work(client: Client) -> None:
        async with Producer(client) as producer:
            ask, lost = client.ask_once, asyncio.Event()

            async def without_an_answer(request: Any, *rest: Any, **options: Any) -> Any:
                answer = await ask(request, *rest, **options)
                if isinstance(request, ProduceRequest) and not lost.is_set():
                    lost.set()
                    raise LinkBroken("cut off")
                return answer

            await producer.deliver("renewed", b"first", b"key", partition=0)
            monkeypatch.setattr(client, "ask_once", without_an_answer)
            await producer.send("renewed", b"once", b"key", partition=0)
            await lost.wait()
            with pytest.raises(KafkaError, match="rejected"):
                await producer.deliver("renewed", b"", partition=1)
            await producer.deliver("renewed", b"after", b"key", partition=1)

    run(broker, work, {"retry.backoff.ms": "500"})
    assert [record.value for record in broker.records("renewed", partition=0)] == ["first", "once"]


def test_a_refused_batch_does_not_linger_again(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("no-linger")

    async def work(client: Client) -> None:
        async with Producer(client, {"linger.ms": "60000"}) as producer:
            ask, refused = client.ask_once, asyncio.Event()

            async def later(request: Any, *rest: Any, **options: Any) -> Any:
                if refused.is_set():
                    return await ask(request, *rest, **options)
                refused.set()
                error = PartitionProduceResponse(0, ErrorCode.NOT_ENOUGH_REPLICAS)
                return ProduceResponse([TopicProduceResponse("no-linger", partition_responses=[error])])

            monkeypatch.setattr(client, "ask_once", later)
            await producer.deliver("no-linger", b"v")  # or `run` fails after 30 s

    run(broker, work)


def test_a_deleted_topic_is_not_made_again_without_records(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: Client) -> None:
        async with Producer(client) as producer:
            for topic in ("idle", "in-use"):
                await producer.deliver(topic, b"v")
            await asyncio.to_thread(broker.delete_topic, "idle")
            looked, plain = asyncio.Event(), client.metadata

            async def metadata(topics: list[str] | None, **options: Any) -> Any:
                answer = await plain(topics, **options)
                looked.set()
                return answer

            monkeypatch.setattr(client, "metadata", metadata)
            while not looked.is_set():
                await producer.deliver("in-use", b"v")

    run(broker, work, {"metadata.max.age.ms": "100"})
    assert "idle" not in [each["name"] for each in broker.topics()]


def test_a_node_that_has_just_started_is_asked_again_for_an_id(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []
    ask = Client.ask

    async def loading(self: Client, request: Message, *arguments: Any, **options: Any) -> Any:
        answer = await ask(self, request, *arguments, **options)
        if isinstance(request, InitProducerIdRequest) and not refused:
            refused.append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            answer.error_code = refused[0]
        return answer

    async def work(client: Client) -> None:
        async with Producer(client) as producer:
            assert (await producer.deliver("started", b"v")).offset == 0

    monkeypatch.setattr(Client, "ask", loading)
    run(broker, work)
    assert refused


def test_a_fault_of_the_producer_is_told_to_whoever_waits(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Delivery] = []

    async def faulty(*rest: Any, **options: Any) -> Any:
        raise ZeroDivisionError

    async def work(client: Client) -> None:
        async with Producer(client, {"linger.ms": "60000"}) as producer:
            for partition in (0, 1):
                await producer.deliver("faulty", b"v", partition=partition)
            monkeypatch.setattr(client, "ask_once", faulty)
            await producer.send("faulty", b"lingers", partition=1, on_delivery=found.append)
            with pytest.raises(ClientError, match="ZeroDivisionError"):
                await producer.deliver("faulty", b"v", partition=0)
            with pytest.raises(ZeroDivisionError):
                await producer.send("faulty", b"v")
            raise LookupError

    broker.create_topic("faulty", 2)
    with pytest.raises(LookupError):
        run(broker, work)
    assert [each.error is None for each in found] == [False]


def test_an_exception_of_one_delivery_keeps_no_other_from_its_own(broker: KafkaBroker) -> None:
    """The next call raises the exception, once, and the producer goes on."""
    found: list[int] = []

    def told(delivery: Delivery) -> None:
        found.append(delivery.partition)
        if len(found) == 1:
            raise ZeroDivisionError

    async def work(client: Client) -> None:
        async with Producer(client, {"linger.ms": "50"}) as producer:
            for partition in (0, 0, 1, 1):
                await producer.send("told", b"v", partition=partition, on_delivery=told)
            with pytest.raises(ZeroDivisionError):
                await producer.flush()
            assert sorted(found) == [0, 0, 1, 1]
            await producer.deliver("told", b"v", partition=0)

    broker.create_topic("told", 2)
    run(broker, work)


def test_an_exception_that_ends_the_block_is_logged_no_second_time(
    broker: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A callback that prints each delivery, where nobody reads the output any more."""

    def broken(_: Delivery) -> None:
        raise BrokenPipeError

    async def work(client: Client) -> None:
        async with Producer(client, {"linger.ms": "60000"}) as producer:
            await producer.send("unread", b"", on_delivery=broken)
            raise BrokenPipeError

    caplog.set_level("ERROR")
    with pytest.raises(BrokenPipeError):
        run(broker, work)
    assert not caplog.records


def test_a_partition_that_is_added_meanwhile_is_waited_for(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: Client) -> None:
        asked, plain = list[int](), client.metadata

        async def metadata(*rest: Any, **options: Any) -> Any:
            asked.append(1)
            if len(asked) == 3:
                await asyncio.to_thread(broker.add_partitions, "growing", total=2)
            return await plain(*rest, **options)

        async with Producer(client) as producer:
            await producer.deliver("growing", b"v", partition=0)
            monkeypatch.setattr(client, "metadata", metadata)
            assert (await producer.deliver("growing", b"v", partition=1)).partition == 1
            with pytest.raises(Unusable, match="Invalid partition: -1"):
                await producer.send("growing", b"v", partition=-1)

    broker.create_topic("growing", 1)
    run(broker, work)


def test_a_topic_that_is_created_again_takes_the_next_records(broker: KafkaBroker) -> None:
    """Their sequence numbers go on, and the new log knows none."""
    broker.create_topic("new", 1)

    async def work(client: Client) -> None:
        async with Producer(client) as producer:
            assert [(await producer.deliver("new", b"old")).offset for _ in range(3)] == [0, 1, 2]
            await asyncio.to_thread(broker.delete_topic, "new")
            await asyncio.to_thread(broker.create_topic, "new", 1)
            assert [(await producer.deliver("new", b"new")).offset for _ in range(3)] == [0, 1, 2]

    run(broker, work)


def test_a_closed_producer_takes_nothing_and_closes_again(broker: KafkaBroker) -> None:
    found: list[Delivery] = []

    async def work(client: Client) -> None:
        producer = Producer(client, {"linger.ms": "5000"})
        with pytest.raises(ZeroDivisionError):  # noqa: PT012  # the block that the error leaves is what is tested
            async with producer:
                await producer.send("closed", b"", on_delivery=found.append)
                flushing = asyncio.create_task(producer.flush())
                await asyncio.sleep(0)
                raise ZeroDivisionError
        with pytest.raises(ClientError, match="after producer has been closed"):
            await flushing
        for use in (producer.send("closed", b""), producer.deliver("closed", b""), producer.flush()):
            with pytest.raises(ClientError, match="after producer has been closed"):
                await use
        await producer.__aexit__(None)

    run(broker, work)
    assert len(found) == 1


def test_a_transaction_that_failed_waits_for_no_batch_behind_the_failed_one(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed batch leaves a gap in the sequence numbers, which nothing fills before the next transaction."""
    asked: list[Any] = []

    async def work(client: Client) -> None:
        plain = client.ask_once

        async def ask_once(request: Any, *rest: Any, **options: Any) -> Any:
            is_refused = isinstance(request, ProduceRequest) and b"refused" in bytes(
                request.topic_data[0].partition_data[0].records or b""
            )
            if not is_refused:
                return await plain(request, *rest, **options)
            asked.append(request)
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if len(asked) == 1 else ErrorCode.INVALID_RECORD
            refused = PartitionProduceResponse(error_code=code)
            return ProduceResponse([TopicProduceResponse("gap", partition_responses=[refused])])

        monkeypatch.setattr(client, "ask_once", ask_once)
        async with Producer(client, {"transactional.id": "gap", "batch.size": "1"}) as producer:
            await producer.begin_transaction()
            await producer.deliver("gap", b"accepted")
            for value in (b"refused", b"behind"):
                await producer.send("gap", value)
            with pytest.raises(KafkaError):
                await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send("gap", b"anew")
            await producer.commit_transaction()

    broker.create_topic("gap", 1)
    run(broker, work)
    assert [each.value for each in broker.records("gap", isolation_level="read_committed")] == ["anew"]


def test_a_transaction_that_failed_is_aborted_before_the_next_one(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("halves", 2)

    async def work(client: Client) -> None:
        plain = client.ask_once

        async def refusing(request: Message, *rest: Any, **options: Any) -> Any:
            if isinstance(request, ProduceRequest) and request.topic_data[0].partition_data[0].index == 1:
                refused = PartitionProduceResponse(1, ErrorCode.INVALID_RECORD)
                return ProduceResponse([TopicProduceResponse("halves", partition_responses=[refused])])
            return await plain(request, *rest, **options)

        async with Producer(client, {"transactional.id": "halves"}) as producer:
            await producer.begin_transaction()
            await producer.send("halves", b"half", partition=0)
            await producer.flush()
            monkeypatch.setattr(client, "ask_once", refusing)
            await producer.send("halves", b"other half", partition=1)
            with pytest.raises(KafkaError):
                await producer.commit_transaction()
            monkeypatch.undo()
            await producer.begin_transaction()
            for partition in range(2):
                await producer.send("halves", b"whole", partition=partition)
            await producer.commit_transaction()

    run(broker, work)
    assert [each.value for each in broker.records("halves", isolation_level="read_committed")] == ["whole", "whole"]


def test_a_transaction_that_is_open_at_the_end_is_aborted(broker: KafkaBroker) -> None:
    async def work(client: Client) -> None:
        async with Producer(client, {"transactional.id": "open"}) as producer:
            await producer.begin_transaction()
            await producer.send("opened", b"v")

    run(broker, work)
    broker.produce("opened", ["after"])
    assert [each.value for each in broker.records("opened", isolation_level="read_committed")] == ["after"]
