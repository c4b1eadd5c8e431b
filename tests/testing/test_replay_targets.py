"""Recordings of clusters, played again on as many brokers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from pykafka_broker.cli import main
from pykafka_broker.client.cluster import Client
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka_broker.protocol.runtime import leaves
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.testing import AnomaliesFound, ControlError, KafkaBroker, KafkaCluster
from pykafka_broker.testing.compared_answers import CHOSEN, NODE, Ids
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import BadRecording, Recorded, Recording, lines_of, read_recording
from pykafka_broker.testing.replay_targets import PlainTarget, matched
from tests.broker.support import batch

pytest_plugins = ["pytester"]

ORDERS = 6
ASKED = ["--check", "--input", "orders", "--output", "billed", "--guarantee", "at_least_once"]


def bill(cluster: KafkaCluster, trouble: Callable[[], None]) -> None:
    """Run an application that commits each order before it writes the bill, and ends between the two."""
    settings = {**cluster.client_config("confluent"), "client.id": "biller"}
    reading = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer, producer = Consumer({**settings, **reading}), Producer(settings)
    consumer.subscribe(["orders"])
    for number in range(ORDERS):
        order = consumer.poll(60)
        assert order is not None
        consumer.commit(message=order, asynchronous=False)
        if number == ORDERS - 1:
            break
        if number == ORDERS // 2:
            trouble()
        producer.produce("billed", b"paid", key=order.key())
        assert producer.flush(60) == 0
    consumer.close()


def test_a_partition_that_a_kafka_does_not_have_is_told() -> None:
    async def look(address: str) -> None:
        host, port = address.split(":")
        target = PlainTarget(host, int(port))
        async with Client(address, {"default.api.timeout.ms": "1000", "request.timeout.ms": "1000"}) as target._client:
            with pytest.raises(BadRecording, match="orders has no partition 1 there"):
                await target._state("orders", 1)

    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        asyncio.run(look(broker.bootstrap_servers))


class Recorded3:
    """The recording of a cluster of three brokers whose leaders move, and what a check found there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with KafkaCluster(history=True, in_process=True) as cluster:
            cluster.create_topic("orders")
            cluster.create_topic("billed")
            cluster.move_leader("orders", cluster.leader_of("orders") % 3 + 1)
            cluster.produce("orders", [(f"order-{number}", "{}") for number in range(ORDERS)])
            cluster.start_recording()
            self.leaders = [cluster.leader_of("billed")]

            def move() -> None:
                cluster.create_topic("later", 3)
                for topic in ("billed", "orders"):
                    cluster.move_leader(topic, cluster.leader_of(topic) % 3 + 1)
                self.leaders.append(cluster.leader_of("billed"))

            bill(cluster, move)
            self.state = cluster.save_recording(path)
            with pytest.raises(AnomaliesFound) as raised:
                cluster.check(input="orders", output="billed", guarantee="at_least_once")
        self.found = [each.text for each in raised.value.findings]

    def read(self) -> Recording:
        with self.path.open() as file:
            return read_recording(file)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded3:
    return Recorded3(tmp_path_factory.mktemp("recorded") / "cluster.jsonl")


def with_ids(event: Recorded, ids: dict[int, int]) -> Recorded:
    """Return the event with other node ids."""
    message = RecordedMessages(event)
    for each in (message.request, message.response):
        for struct, name, value in leaves(each) if each is not None else ():
            if CHOSEN.get(name) == NODE:
                told = [ids.get(node, node) for node in value] if isinstance(value, list) else ids.get(value, value)
                if told != value:
                    setattr(struct, name, told)
    found = message.rewritten()._replace(node=ids.get(event.node, 0))
    if event.call is None or not event.call[2].startswith("{") or "leader" not in event.call[2]:
        return found
    body = json.loads(event.call[2])
    return found._replace(call=(*event.call[:2], json.dumps(body | {"leader": ids[body["leader"]]})))


def compared(told: str) -> list[str]:
    """Return the lines of a replay without the one about brokers that are slow to hear of a change."""
    return [line for line in told.splitlines() if not line.endswith("are not compared")]


def produced(recording: Recording) -> Iterator[tuple[int, Any]]:
    """Yield the index and the answer of each Produce that was served."""
    for at, event in enumerate(recording.events):
        if event.request[:2] == b"\0\0" and event.request:
            answer = RecordedMessages(event).response.responses[0].partition_responses[0]
            if not answer.error_code:
                yield at, answer


def test_a_recording_has_what_clients_asked_of_every_broker(recorded: Recorded3) -> None:
    recording = recorded.read()
    assert sorted(recording.nodes) == [1, 2, 3, 100]
    assert recording.brokers == [1, 2, 3]
    asked = [recording.events[at].node for at, _ in produced(recording)]
    assert asked == [recorded.leaders[0]] * 3 + [recorded.leaders[1]] * 2
    assert recorded.state["exchanges"] == sum(bool(each.request) for each in recording.events)
    fetches = [RecordedMessages(each).request for each in recording.events if each.request[:2] == b"\0\1"]
    assert fetches
    assert all(each.replica_state.replica_id < 0 for each in fetches if each is not None)
    calls = [each.call[1] for each in recording.events if each.call is not None and each.node == 100]
    assert calls == ["/incidents/leader", "/incidents/leader"]
    assert [len(recording.placements[name]) for name in ("orders", "billed", "later")] == [1, 1, 3]


def test_a_cluster_gives_the_same_answers_and_the_same_verdict(
    recorded: Recorded3, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded.found == [f"orders-0@{ORDERS - 1} has no output"]
    code = main(["replay", str(recorded.path), "--all", *ASKED])
    told = compared(capsys.readouterr().out)
    assert code == 4, told
    summary, verdict, *_ = told
    assert summary.endswith("requests played, all answered as recorded")
    assert verdict == f"lost: {recorded.found[0]}"


def test_the_answer_that_differs_is_told_with_its_node(
    recorded: Recorded3, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last Produce has another offset in the changed recording."""
    recording = recorded.read()
    at, _ = list(produced(recording))[-1]
    message = RecordedMessages(recording.events[at])
    message.response.responses[0].partition_responses[0].base_offset = 17
    recording.events[at] = message.rewritten()
    path = tmp_path / "changed.jsonl"
    path.write_text("\n".join([*lines_of(recording), ""]))
    assert main(["replay", str(path)]) == 3
    first, summary = compared(capsys.readouterr().out)
    where = f"Produce v{message.version} to node {recorded.leaders[1]}"
    assert f"{where}: recorded at responses[0].partition_responses[0].base_offset 17, now 4" in first
    assert summary.endswith("requests played, 1 answered otherwise")


@pytest.mark.parametrize(
    ("recorded", "now", "differs"),
    [
        *(((b"a",), (b"a", b"b"), False), ((b"a", b"b"), (b"a",), False), ((), (b"a",), False)),
        *(((b"a",), (), True), ((b"a",), (b"b",), True)),
    ],
)
def test_how_many_records_a_fetch_got_is_of_the_followers(
    recorded: tuple[bytes, ...], now: tuple[bytes, ...], differs: bool
) -> None:
    request = b"".join(encode_request(FetchRequest(), 4, 1, "reader"))[4:]

    def answer(values: tuple[bytes, ...]) -> bytes:
        partition = PartitionData(0, records=memoryview(batch(*values)) if values else None)
        body = FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[partition])]).encode(4)
        return (1).to_bytes(4, "big") + body

    for nodes, found in (({1: 1, 2: 2}, differs), ({}, recorded != now)):
        told = list(Ids(nodes=nodes).compared(request, answer(recorded), answer(now)))
        assert bool(told) is found


@pytest.mark.parametrize(
    ("now", "differs"),
    [((b"a", b"b"), False), ((b"a", b""), False), ((b"", b"b"), False), ((b"", b""), True), ((b"c", b""), True)],
)
def test_partitions_of_a_fetch_may_be_late(now: tuple[bytes, bytes], differs: bool) -> None:
    """A Fetch is answered with the first records that are committed."""
    request = b"".join(encode_request(FetchRequest(), 4, 1, "reader"))[4:]

    def answer(values: tuple[bytes, bytes]) -> bytes:
        parts = [PartitionData(n, records=memoryview(batch(each)) if each else None) for n, each in enumerate(values)]
        body = FetchResponse(responses=[FetchableTopicResponse("orders", partitions=parts)]).encode(4)
        return (1).to_bytes(4, "big") + body

    told = list(Ids(nodes={1: 1, 2: 2}).compared(request, answer((b"a", b"b")), answer(now)))
    assert bool(told) is differs


@pytest.mark.parametrize(
    ("now", "differs", "early"),
    [((2, 5), True, False), ((2, 6), False, True), ((1, 5), False, False), ((2, 4), True, False)],
)
def test_a_broker_may_not_have_heard_of_a_leader(now: tuple[int, int], differs: bool, early: bool) -> None:
    """Answers are compared with a recorded one that names leader 1 in epoch 5."""
    request = b"".join(encode_request(MetadataRequest([]), 7, 1, "reader"))[4:]

    def answer(leader: int, epoch: int) -> bytes:
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
        body = MetadataResponse(topics=[MetadataResponseTopic(name="orders", partitions=[partition])]).encode(7)
        return (1).to_bytes(4, "big") + body

    ids = Ids(nodes={1: 1, 2: 2})
    told = list(ids.compared(request, answer(1, 5), answer(*now)))
    assert bool(told) is differs
    assert ids.was_early is early
    assert list(Ids().compared(request, answer(1, 5), answer(1, 6)))  # of a broker alone


def test_an_id_that_comes_twice_is_told() -> None:
    """A broker that gives the id of one producer to another one answers otherwise, though each id alone is new."""
    request = b"".join(encode_request(InitProducerIdRequest(None, 0), 4, 1, "writer"))[4:]

    def answer(producer_id: int) -> bytes:
        return (1).to_bytes(4, "big") + b"\0" + InitProducerIdResponse(producer_id=producer_id).encode(4)

    ids = Ids()
    assert list(ids.compared(request, answer(4), answer(1000))) == []
    assert list(ids.compared(request, answer(5), answer(1001))) == []
    assert list(ids.compared(request, answer(4), answer(1000))) == []
    assert list(ids.compared(request, answer(6), answer(1000))) == [
        ("producer_id", "6, a new id", "1000, which came before")
    ]


def test_a_recording_of_a_cluster_is_listed_and_masked(
    recorded: Recorded3, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(recorded.path), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("/incidents/leader" in line and line.endswith("(node 100)") for line in lines) == 2
    masked = tmp_path / "masked.jsonl"
    assert main(["replay", str(recorded.path), "--masked", str(masked)]) == 0
    with masked.open() as file:
        read = read_recording(file)
    whole = recorded.read()
    assert (read.nodes, read.controller, read.placements) == (whole.nodes, whole.controller, whole.placements)
    assert [each.node for each in read.events] == [each.node for each in whole.events]


def test_a_cluster_needs_as_many_brokers(recorded: Recorded3, capsys: pytest.CaptureFixture[str]) -> None:
    few = "the recording has 3 brokers, and the cluster there has"
    assert main(["replay", str(recorded.path), "--brokers", "2"]) == 1
    assert f"{few} 2" in capsys.readouterr().err
    with KafkaBroker(in_process=True) as alone:
        assert main(["replay", str(recorded.path), "--to", alone.bootstrap_servers]) == 1
        assert f"{few} 1" in capsys.readouterr().err
    assert main(["replay", str(recorded.path), "--to", "127.0.0.1:9", "--url", "http://127.0.0.1:9"]) == 1
    assert "--url is the control API of one broker" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["replay", str(recorded.path), "--to", "127.0.0.1:9", "--emulate", "2.8"])
    assert "leave out --to" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["replay", str(recorded.path), "--url", "http://127.0.0.1:9"])
    assert "--url is of the broker that --to names" in capsys.readouterr().err


def test_brokers_play_the_parts_of_those_of_other_ids() -> None:
    assert matched([1, 2, 3], [3, 2, 1]) == {1: 1, 2: 2, 3: 3}
    assert matched([0, 1, 2], [1, 2, 3, 4]) == {0: 3, 1: 1, 2: 2}
    with pytest.raises(BadRecording, match="2 brokers, and the cluster there has 1"):
        matched([1, 2], [1])


def test_any_other_cluster_gives_the_same_answers(recorded: Recorded3, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster with other broker ids, reached without its control API, gives the recorded answers."""
    recording = recorded.read()
    ids = {1: 11, 2: 12, 3: 13, 100: 100}
    there = recording._replace(
        nodes={ids[node]: last for node, last in recording.nodes.items()},
        placements={
            name: [
                each._replace(replicas=[ids[node] for node in each.replicas], leader=ids[each.leader]) for each in of
            ]
            for name, of in recording.placements.items()
        },
        events=[with_ids(each, ids) for each in recording.events],
    )
    path = recorded.path.with_name("ids.jsonl")
    path.write_text("\n".join([*lines_of(there), ""]))
    with KafkaCluster(in_process=True) as cluster:
        code = main(["replay", str(path), "--to", cluster.broker(2).bootstrap_servers, "--all"])
    told, problems = capsys.readouterr()
    assert code == 0, told or problems
    assert told.splitlines()[-1].endswith("requests played, all answered as recorded")


class Busy:
    """A producer that writes without a pause, in a thread."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._ended = threading.Event()
        self._written = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            self._producer.produce("orders", b"paid")
            assert self._producer.flush(60) == 0
            self._written += 1

    def wait(self) -> None:
        """Wait until the producer has written a few more records."""
        wanted = self._written + 5
        while self._written < wanted and self._thread.is_alive():
            time.sleep(0.01)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


@pytest.mark.whole
def test_a_broker_that_is_killed_and_started_is_so_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "killed.jsonl"
    with KafkaCluster(2) as cluster:
        with pytest.raises(ControlError, match="nothing is recorded"):
            cluster.save_recording(path)
        cluster.create_topic("orders", config={"min.insync.replicas": 1})
        cluster.start_recording()
        producer = Producer({**cluster.client_config("confluent"), "client.id": "shop"})
        busy = Busy(producer)
        leader = cluster.leader_of("orders")
        busy.wait()
        cluster.broker(leader).kill()
        busy.wait()
        cluster.broker(leader).start()
        cluster.wait_for_isr("orders")
        busy.end()
        cluster.save_recording(path)
    processes = [json.loads(line) for line in path.read_text().splitlines() if '"PROCESS"' in line]
    assert [(each["target"], each["node"]) for each in processes] == [("/kill", leader), ("/start", leader)]
    code = main(["replay", str(path), "--all"])
    told = capsys.readouterr().out
    assert code == 0, told
    with KafkaCluster(2, in_process=True) as other:
        code = main(["replay", str(path), "--all", "--to", other.bootstrap_servers.partition(",")[0]])
    told, problems = capsys.readouterr()
    assert code == 0, told or problems
    *_, left_out, summary = told.splitlines()
    assert left_out.startswith(f"played up to request {summary.partition(' ')[0]} of ")
    assert left_out.endswith(f": then broker {leader} was killed, which can't be done there")


def test_the_recordings_of_all_nodes_are_played_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Return recordings as a test in another language gets them, from the control API of each node."""
    with KafkaCluster(2, in_process=True) as cluster:
        cluster.create_topic("orders", 2, replication_factor=1)
        cluster.produce("orders", [("a", "1"), ("b", "2"), ("c", "3")])
        for index in (0, 1):  # whatever leads the partitions, one of them is not led by the coordinator
            cluster.commit("billing", "orders", len(cluster.records("orders", index)), index)
        for node in cluster.nodes.values():
            node.start_recording()
        settings = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**cluster.client_config("confluent"), **settings})
        consumer.subscribe(["orders"])
        producer = Producer({**cluster.client_config("confluent"), "client.id": "shop", "transactional.id": "shop"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("orders", b"4", partition=partition)
        producer.commit_transaction(60)
        for _ in range(2):
            order = consumer.poll(60)
            assert order is not None
            assert order.value() == b"4"
            consumer.commit(message=order, asynchronous=False)
        consumer.close()
        paths = []
        for node_id, node in cluster.nodes.items():
            paths.append(str(tmp_path / f"node-{node_id}.jsonl"))
            node.save_recording(paths[-1])
    code = main(["replay", *paths, "--all"])
    told = capsys.readouterr().out
    assert code == 0, told
    alone = tmp_path / "alone.jsonl"
    alone.write_text('{"recording": 1}\n')
    assert main(["replay", *paths, str(alone)]) == 1
    assert "a recording is of no node of a cluster" in capsys.readouterr().err


def test_a_failed_test_with_a_cluster_leaves_its_recording(
    pytester: pytest.Pytester, only_our_plugin: None, capsys: pytest.CaptureFixture[str]
) -> None:
    pytester.makepyfile("""
        import pytest
        from confluent_kafka import Producer

        @pytest.mark.kafka_cluster(brokers=2, in_process=True)
        def test_it(kafka_cluster):
            kafka_cluster.create_topic("orders", 1)
            producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
            for leader in (1, 2):
                kafka_cluster.move_leader("orders", leader)
                producer.produce("orders", "paid")
                assert producer.flush(60) == 0
            assert False
    """)
    result = pytester.runpytest_subprocess("--kafka-record=recorded")
    result.assert_outcomes(failed=1)
    (path,) = (pytester.path / "recorded").iterdir()
    result.stdout.re_match_lines([rf"\d+ requests: pykafka-broker replay recorded/{path.name}"])
    assert main(["replay", str(path)]) == 0, capsys.readouterr().out
