"""Faults, chaos and the request log through the control API, with a client on a socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from pykafka_broker.control.traffic.exchange import decoded_response
from pykafka_broker.control.traffic.faults import _EVENTS, Chaos
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition as SharedPartition
from pykafka_broker.protocol.messages.share_fetch_request import FetchTopic as FetchedTopic
from pykafka_broker.protocol.messages.share_fetch_request import ShareFetchRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.runtime import Message, uuid_text
from pykafka_broker.server.link_codec import encode_request
from pykafka_broker.testing import ControlError, KafkaBroker
from pykafka_broker.testing.chaos import add_hit
from pykafka_broker.testing.data import WaitTimeout
from tests.control.raw_client import raw_client


class Client:
    """A client with one connection."""

    def __init__(self, broker: KafkaBroker, client_id: str) -> None:
        self.client_id = client_id
        self.socket = socket.create_connection((broker.host, broker.port), timeout=10)
        self._read = self.socket.makefile("rb")

    def send(self, request: Message, version: int) -> None:
        self.socket.sendall(b"".join(encode_request(request, version, 1, self.client_id)))

    def ask(self, request: Message, version: int) -> Any:
        """Send a request and return its answer; None if the connection ends before the answer."""
        self.send(request, version)
        return self.receive(request, version)

    def receive(self, request: Message, version: int) -> Any:
        try:
            size = int.from_bytes(self._read.read(4), "big")
            frame = self._read.read(size) if size else b""
        except ConnectionError:
            return None
        return decoded_response(frame, SPECS[request.API_KEY], version) if frame and len(frame) == size else None

    def close(self) -> None:
        self._read.close()
        self.socket.close()


@pytest.fixture
def client(broker: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[Client]:
    client = Client(broker, request.node.name)
    yield client
    client.close()


@pytest.fixture(autouse=True)
def no_fault_is_left(broker: KafkaBroker) -> Iterator[None]:
    yield
    broker.faults.clear()


VERSIONS = ApiVersionsRequest("test", "1.0")


def metadata(topic: str) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)


def test_a_fault_meets_as_often_as_it_was_told(broker: KafkaBroker, client: Client) -> None:
    fault = broker.faults.add(api="Metadata", error="LEADER_NOT_AVAILABLE", client_id=client.client_id, times=2)
    codes = [client.ask(metadata("t"), 12).topics[0].error_code for _ in range(3)]
    assert codes == [5, 5, 3]
    assert fault.hits == 2
    assert fault.wait(2, timeout=60) == 2
    described = fault.describe()
    assert (described["spent"], described["api"], described["error"]) == (True, ["Metadata"], "LEADER_NOT_AVAILABLE")
    assert [each["id"] for each in broker.faults.all()] == [fault.id]
    assert fault.remove() == 2
    assert broker.faults.all() == []


def test_a_fault_holds_as_long_as_its_block(broker: KafkaBroker, client: Client) -> None:
    with broker.faults.add(api="Metadata", topic="t", error="TOPIC_AUTHORIZATION_FAILED"):
        assert client.ask(metadata("t"), 12).topics[0].error_code == 29
    assert client.ask(metadata("t"), 12).topics[0].error_code == 3


def test_hits_outlive_the_fault(broker: KafkaBroker, client: Client) -> None:
    with broker.faults.add(api="Metadata", topic="t", error="TOPIC_AUTHORIZATION_FAILED") as fault:
        client.ask(metadata("t"), 12)
        assert fault.remove() == 1
    assert (fault.hits, fault.remove(), fault.describe()["held"]) == (1, 1, 0)
    broker.faults.clear()
    broker.reset(keep=["topics"])
    assert fault.hits == 1
    assert broker.faults.all() == []


def test_who_waits_for_a_fault_hears_of_it_at_once(broker: KafkaBroker, client: Client) -> None:
    fault = broker.faults.add(api="ApiVersions", client_id=client.client_id, throttle_ms=1)
    asker = threading.Timer(0.1, client.ask, (VERSIONS, 3))
    asker.start()
    began = time.monotonic()
    assert fault.wait(1, timeout=200) == 1
    assert time.monotonic() - began < 100  # long before the time-out
    asker.join()
    says = r"fault \d+ affected 1 request within 50 ms, expected 2\nthe last requests:(\n  .*)*ApiVersions"
    with pytest.raises(WaitTimeout, match=says):
        fault.wait(2, timeout=0.05)


def test_connections_are_dropped_and_cut(broker: KafkaBroker) -> None:
    for action in ({"drop": "before"}, {"drop": "after"}, {"cut": True}):
        client = Client(broker, "unlucky")
        broker.faults.add(client_id="unlucky", times=1, **action)
        assert client.ask(VERSIONS, 3) is None
        client.close()
    assert [each["response_bytes"] for each in broker.requests(client_id="unlucky")] == [None, None, None]


def test_a_delay_goes_by_the_wall_or_by_the_broker(broker: KafkaBroker, client: Client) -> None:
    for clock in ("wall", "broker"):
        broker.faults.add(client_id=client.client_id, delay_ms=100, delay_clock=clock, times=1)
        began = time.monotonic()
        assert client.ask(VERSIONS, 3) is not None
        assert time.monotonic() - began >= 0.09


def test_what_hangs_is_answered_when_the_fault_has_gone(broker: KafkaBroker, client: Client) -> None:
    fault = broker.faults.add(client_id=client.client_id, hang=True)
    client.send(VERSIONS, 3)
    fault.wait()
    assert fault.describe()["held"] == 1
    client.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(10)
    fault.remove()
    assert client.socket.recv(4) != b""


def test_who_connects_is_refused_or_waits(broker: KafkaBroker) -> None:
    fault = broker.faults.add(connect="refuse", times=1)
    assert is_refused(broker)
    assert not is_refused(broker)
    fault.remove()
    fault = broker.faults.add(connect="hang")
    waiting = Client(broker, "waiting")
    waiting.send(VERSIONS, 3)
    fault.wait()
    assert broker.requests(client_id="waiting") == []
    fault.remove()
    assert waiting.receive(VERSIONS, 3) is not None
    waiting.close()
    assert not is_refused(broker)


def test_a_client_that_hangs_and_goes_is_forgotten(broker: KafkaBroker) -> None:
    fault = broker.faults.add(connect="hang")
    staying, going = Client(broker, "staying"), Client(broker, "going")
    going.send(VERSIONS, 3)
    fault.wait(2)
    going.close()
    deadline = time.monotonic() + 60
    while fault.describe()["held"] > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert fault.describe()["held"] == 1
    fault.remove()
    assert staying.ask(VERSIONS, 3) is not None
    staying.close()


def is_refused(broker: KafkaBroker) -> bool:
    """Return whether a new client is refused or gets no answer."""
    try:
        client = Client(broker, "knocking")
        answered = client.ask(VERSIONS, 3) is not None
        client.close()
    except ConnectionError:
        return True
    return not answered


def test_a_fetch_that_waits_meets_a_fault_that_comes_later(broker: KafkaBroker, client: Client) -> None:
    broker.create_topic("parked")
    fetch = FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=[FetchTopic("parked", partitions=[FetchPartition(0)])])
    client.send(fetch, 11)
    broker.wait_for_request("Fetch", client_id=client.client_id)
    fault = broker.faults.add(api="Fetch", topic="parked", error="NOT_LEADER_OR_FOLLOWER")
    assert client.receive(fetch, 11).responses[0].partitions[0].error_code == 0
    assert client.ask(fetch, 11).responses[0].partitions[0].error_code == 6
    assert fault.hits == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "a fault must do something"),
        ({"error": "NOT_LEADER"}, "did you mean NOT_LEADER_OR_FOLLOWER"),
        ({"error": 0}, "there is no error 0"),
        ({"api": "Fech", "hang": True}, "did you mean Fetch"),
        ({"applied": True, "hang": True}, "applied needs an error"),
        ({"api": "Produce", "corrupt": True}, "corrupt spoils fetched records"),
        ({"drop": "during"}, "drop must be one of before, after"),
        ({"drop": "after", "hang": True}, "only one of error, drop, cut, hang and event"),
        ({"drop": "after", "error": "NOT_CONTROLLER"}, "a fault may have only one of error, drop, cut, hang and event"),
        ({"cut": True, "event": "expire_member"}, "only one of error, drop, cut, hang and event"),
        ({"event": "expire"}, "event must be one of bump_leader_epoch, move_coordinator, expire_member"),
        ({"nth": 2, "times": 1, "hang": True}, "nth is one request"),
        ({"nth": 2, "every": 3, "hang": True}, "nth is one request"),
        ({"nth": 2, "connect": "refuse"}, "nth counts requests"),
        ({"nth": 0, "hang": True}, "nth must be at least 1"),
        ({"connect": "refuse", "hang": True}, "connect can't be combined"),
        ({"connect": "refuse", "client_id": "a"}, "a new connection has no request yet"),
        ({"connect": "refuse", "topic": "a"}, "a new connection has no request yet"),
        ({"connect": "hang", "group": "a"}, "a new connection has no request yet"),
        ({"probability": 2.0, "hang": True}, "probability must be at most 1"),
        ({"every": 0, "hang": True}, "every must be at least 1"),
    ],
    ids=repr,
)
def test_a_fault_that_makes_no_sense_is_refused(broker: KafkaBroker, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ControlError, match=says) as refused:
        broker.faults.add(**given)
    assert refused.value.status == 400
    assert broker.faults.all() == []


def test_a_fault_that_is_not_there_is_told(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="there is no fault 999") as refused:
        broker.control.call("GET", "/faults/999")
    assert refused.value.status == 404


def forty_requests(broker: KafkaBroker) -> list[tuple[str, bool]]:
    """Send forty requests, reconnecting after each drop; return the errors of each, and whether it got no answer."""
    broker.clear_requests()
    client = Client(broker, "chaotic")
    for _ in range(40):
        if client.ask(metadata("none"), 12) is None:
            client.close()
            client = Client(broker, "chaotic")
    client.close()
    return [(",".join(each["errors"]), each["response_bytes"] is None) for each in broker.requests(client_id="chaotic")]


def chaos_of(broker: KafkaBroker, seed: int) -> list[tuple[str, bool]]:
    broker.faults.clear()
    assert broker.chaos(seed, 0.5)["seed"] == seed
    met = forty_requests(broker)
    broker.chaos(seed, 0)
    return met


def test_chaos_is_repeatable_by_its_seed(broker: KafkaBroker) -> None:
    first = chaos_of(broker, 7)
    assert {dropped for _, dropped in first} == {False, True}
    assert "LEADER_NOT_AVAILABLE" in {errors for errors, _ in first}
    assert chaos_of(broker, 7) == first
    assert chaos_of(broker, 8) != first


def test_what_chaos_has_drawn_can_be_added_by_itself(broker: KafkaBroker) -> None:
    drawn = chaos_of(broker, 7)
    state = broker.faults.chaos_state()
    assert (state["seed"], state["rate"], state["events"]) == (7, 0.5, False)
    assert len(state["met"]) == state["hits"] > 10
    assert {(hit["client_id"], hit["api"]) for hit in state["met"]} == {("chaotic", "Metadata")}
    faults = [add_hit(broker.faults, hit) for hit in state["met"]]
    assert forty_requests(broker) == drawn
    assert [fault.hits for fault in faults] == [1] * len(faults)


@pytest.mark.parametrize(
    ("limits", "met"),
    [
        ({"api": "Metadata"}, ["mail Metadata", "shop Metadata"]),
        ({"api": ["Metadata", "Heartbeat"], "client_id": "sh*"}, ["shop Heartbeat", "shop Metadata"]),
        ({"client_id": "mail"}, ["mail Heartbeat", "mail Metadata"]),
        ({"topic": "orders"}, ["shop Metadata"]),
        ({"group": "mailing"}, ["mail Heartbeat"]),
    ],
    ids=str,
)
def test_chaos_is_limited_to_the_requests_that_match(
    broker: KafkaBroker, limits: dict[str, Any], met: list[str]
) -> None:
    clients = {"shop": ("orders", "billing"), "mail": ("letters", "mailing")}

    def ask_all() -> list[tuple[str, bool]]:
        for name, (topic, group) in clients.items():
            for request, version in ((metadata(topic), 12), (HeartbeatRequest(group, 1, "member"), 4)):
                client = Client(broker, name)
                client.ask(request, version)
                client.close()
        asked = [each for each in broker.requests() if each["client_id"] in clients]
        return [(each["api"], each["fault"] is not None) for each in asked[-4:]]

    broker.faults.clear()
    assert ask_all() == [("Metadata", False), ("Heartbeat", False)] * 2
    broker.chaos(seed=3, rate=1, **limits)
    disturbed = ask_all()
    state = broker.faults.chaos_state()
    mine = [hit for hit in state["met"] if hit["client_id"] in clients]
    assert sorted(f"{hit['client_id']} {hit['api']}" for hit in mine) == met
    assert (state["topic"], state["group"]) == (limits.get("topic"), limits.get("group"))
    broker.faults.clear()
    for hit in mine:
        add_hit(broker.faults, hit)
    assert ask_all() == disturbed


def test_only_the_topic_of_a_limited_chaos_fails(broker: KafkaBroker) -> None:
    drawn = ((seed, Chaos(seed, 1).drawn("limited", ApiKey.METADATA, 1)) for seed in count())
    seed = next(seed for seed, action in drawn if action is not None and action.error)
    broker.chaos(seed=seed, rate=1, topic="orders", api="Metadata")
    client = Client(broker, "limited")
    names = [MetadataRequestTopic(name=name) for name in ("orders", "letters")]
    answer = client.ask(MetadataRequest(names, allow_auto_topic_creation=False), 12)
    client.close()
    broker.faults.clear()
    errors = {topic.name: ErrorCode(topic.error_code) for topic in answer.topics}
    assert errors == {"orders": ErrorCode.LEADER_NOT_AVAILABLE, "letters": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_limits_that_no_request_matches_are_refused(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="requests of Heartbeat name no topic"):
        broker.chaos(1, api="Heartbeat", topic="orders")


def test_chaos_is_told_after_its_end_until_a_reset(broker: KafkaBroker) -> None:
    broker.chaos(3, 1)
    broker.faults.clear()
    assert broker.faults.chaos_state()["seed"] == 3
    broker.reset()
    with pytest.raises(ControlError, match="there was no chaos since the last reset"):
        broker.faults.chaos_state()


def test_a_consumer_outlives_each_error_that_chaos_draws_for_its_committed_offsets(broker: KafkaBroker) -> None:
    drawn = (Chaos(1, 1).drawn("reader", ApiKey.OFFSET_FETCH, nth) for nth in range(1, 101))
    errors = sorted({each.error for each in drawn if each is not None and each.error is not None})
    assert errors
    broker.create_topic("read-on")
    broker.produce("read-on", ["1"])
    for error in errors:
        broker.faults.add(api="OffsetFetch", group=f"after-{error}", nth=1, error=error)
        settings = {"group.id": f"after-{error}", "auto.offset.reset": "earliest"}
        consumer = Consumer(broker.client_config("confluent") | settings)
        consumer.subscribe(["read-on"])
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        consumer.close()
    broker.faults.clear()


# -- the n-th request, and events


def test_the_nth_request_is_met_whatever_else_meets_those_before(broker: KafkaBroker, client: Client) -> None:
    second = broker.faults.add(api="Metadata", client_id=client.client_id, nth=2, error="LEADER_NOT_AVAILABLE")
    fourth = broker.faults.add(api="Metadata", client_id=client.client_id, nth=4, error="REQUEST_TIMED_OUT")
    third = broker.faults.add(api="Metadata", client_id=client.client_id, every=3, error="NOT_CONTROLLER")
    broker.create_topic("counted-requests")
    for _ in range(6):
        client.ask(metadata("counted-requests"), 12)
    told = [each["errors"] for each in broker.requests("Metadata", client_id=client.client_id)]
    # the third that meets neither of the first two is the fifth
    assert told == [[], ["LEADER_NOT_AVAILABLE"], [], ["REQUEST_TIMED_OUT"], ["NOT_CONTROLLER"], []]
    assert (second.hits, fourth.hits, third.hits) == (1, 1, 1)
    assert second.describe()["spent"]


def test_events_befall_what_a_request_names(broker: KafkaBroker, client: Client) -> None:
    broker.create_topic("led-anew", 2)
    broker.create_topic("left-alone")

    def epochs() -> list[int]:
        partitions = (("led-anew", 0), ("led-anew", 1), ("left-alone", 0))
        return [broker.partition(*partition)["leader_epoch"] for partition in partitions]

    before = epochs()
    with broker.faults.add(api="ListOffsets", topic="led-anew", event="bump_leader_epoch") as fault:
        other = ListOffsetsTopic("left-alone", [ListOffsetsPartition(0, -1, -1)])
        asked = ListOffsetsRequest(topics=[ListOffsetsTopic("led-anew", [ListOffsetsPartition(1, -1, -1)]), other])
        assert client.ask(asked, 7).topics[0].partitions[0].error_code == 0
        assert fault.hits == 1
    assert epochs() == [before[0], before[1] + 1, before[2]]
    client.ask(FindCoordinatorRequest(coordinator_keys=["moved"]), 6)
    with broker.faults.add(api="Heartbeat", group="moved", nth=3, event="move_coordinator"):
        errors = [client.ask(HeartbeatRequest("moved", 1, "nobody"), 4).error_code for _ in range(3)]
    unknown_member, not_coordinator = 25, 16
    assert errors == [unknown_member, unknown_member, not_coordinator]


def test_an_event_befalls_all_that_a_request_names_whatever_is_not_there(broker: KafkaBroker, client: Client) -> None:
    broker.create_topic("anew-there")
    before = broker.partition("anew-there", 0)["leader_epoch"]
    with broker.faults.add(api="ListOffsets", topic="anew-*", event="bump_leader_epoch"):
        names = ("anew-missing", "anew-there")
        topics = [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)]) for name in names]
        client.ask(ListOffsetsRequest(topics=topics), 7)
    assert broker.partition("anew-there", 0)["leader_epoch"] == before + 1


def test_only_the_coordinator_of_what_a_fault_names_moves(broker: KafkaBroker, client: Client) -> None:
    ids = ["moved-id", "left-id"]
    client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=ids), 6)

    def epochs() -> list[int]:
        return [broker.partition("__transaction_state", index)["leader_epoch"] for index in range(50)]

    before = epochs()
    with broker.faults.add(transactional_id="moved-*", times=1, event="move_coordinator"):
        client.ask(DescribeTransactionsRequest(ids), 0)
    assert sum(one != other for one, other in zip(before, epochs(), strict=True)) == 1


def test_the_session_of_a_member_ends_with_its_nth_commit(broker: KafkaBroker) -> None:
    broker.create_topic("committed-twice")
    broker.produce("committed-twice", list(range(6)))
    broker.faults.add(api="OffsetCommit", group="committing", nth=2, event="expire_member")
    consumer = Consumer(
        broker.client_config("confluent")
        | {
            "client.id": "committer",
            "group.id": "committing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["committed-twice"])
    told = []
    for _ in range(2):
        message = consumer.poll(60)
        assert message is not None
        try:
            consumer.commit(message=message, asynchronous=False)
        except KafkaException as error:
            told.append(error.args[0].name())
    consumer.close()
    broker.wait_for_connections("committer", n=0)
    assert told == ["UNKNOWN_MEMBER_ID"]


# -- the request log


def test_requests_are_found_by_what_they_are(broker: KafkaBroker, client: Client) -> None:
    broker.create_topic("looked-at")
    client.ask(VERSIONS, 3)
    client.ask(metadata("looked-at"), 12)
    client.ask(metadata("not-there"), 12)
    mine = broker.requests(client_id=client.client_id)
    assert [each["api"] for each in mine] == ["ApiVersions", "Metadata", "Metadata"]
    assert [each["software"] for each in mine] == ["test 1.0"] * 3
    assert [each["errors"] for each in mine] == [[], [], ["UNKNOWN_TOPIC_OR_PARTITION"]]
    (one,) = broker.requests("Metadata", topic="looked-at", client_id=client.client_id, bodies=True)
    assert one["request"]["topics"][0]["name"] == "looked-at"
    assert one["response"]["topics"][0]["error_code"] == "NONE"
    assert one["response"]["topics"][0]["topic_id"] == broker.topic("looked-at")["topic_id"]
    assert one["version"] == 12
    assert one["connection"] == mine[0]["connection"]
    assert broker.requests(client_id=client.client_id, error="UNKNOWN_TOPIC_OR_PARTITION") == [mine[2]]
    assert broker.requests(client_id=client.client_id, after=mine[0]["number"]) == mine[1:]
    assert broker.requests(client_id=client.client_id, before=mine[-1]["number"], limit=1) == mine[-2:-1]
    assert broker.requests(client_id=client.client_id, since=mine[2]["time"] + 60_000) == []
    assert broker.requests(client_id=client.client_id, since=time.time() - 60) == mine
    assert broker.requests(client_id=client.client_id, limit=1) == mine[-1:]
    broker.clear_requests()
    assert broker.requests(client_id=client.client_id) == []


def test_what_the_control_api_asks_is_not_a_request_of_a_client() -> None:
    with KafkaBroker(in_process=True) as broker:  # without the requests that earlier tests have left under way
        broker.create_topic("unseen")
        assert broker.requests() == []


def test_a_request_is_waited_for(broker: KafkaBroker, client: Client) -> None:
    with pytest.raises(WaitTimeout, match=r"after 50 ms 0 such requests, expected 1\n"):
        broker.wait_for_request("ApiVersions", client_id=client.client_id, timeout=0.05)
    asker = threading.Timer(0.1, client.ask, (VERSIONS, 3))
    asker.start()
    (seen,) = broker.wait_for_request("ApiVersions", client_id=client.client_id)
    asker.join()
    assert seen["client_id"] == client.client_id


def test_an_unknown_api_is_told(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="there is no API Producer; did you mean Produce"):
        broker.requests("Producer")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"api": "Fetch", "group": "billing"}, "requests of Fetch name no group: none would ever match"),
        ({"api": []}, "api names nothing: none would ever match"),
        ({"api": ["Heartbeat", "EndTxn"], "topic": "t"}, "requests of EndTxn and Heartbeat name no topic"),
        ({"api": "Heartbeat", "partition": 0}, "requests of Heartbeat name no partition"),
        ({"api": "Produce", "group": "*"}, "requests of Produce name no group"),
        ({"principal": "alice"}, "principal is a type and a name, such as User:alice"),
        ({"listener": "plaintext"}, r"there is no listener plaintext; did you mean PLAINTEXT\?"),
        ({"listener": "inner"}, "there is no listener inner; there are PLAINTEXT"),
    ],
)
def test_a_fault_that_nothing_could_meet_is_refused(broker: KafkaBroker, fault: dict[str, Any], says: str) -> None:
    with pytest.raises(ControlError, match=says):
        broker.faults.add(**fault, delay_ms=1)
    if not {"listener", "partition"} & fault.keys():
        with pytest.raises(ControlError, match=says):
            broker.wait_for_request(**fault, timeout=0)


@pytest.mark.parametrize(
    ("api", "event", "says"),
    [
        ("Heartbeat", "bump_leader_epoch", "requests of Heartbeat name no topic: bump_leader_epoch would do nothing"),
        ("Fetch", "move_coordinator", "requests of Fetch name no group and no transactional_id: move_coordinator"),
        (["Produce", "EndTxn"], "expire_member", "requests of EndTxn and Produce name no member: expire_member"),
    ],
)
def test_an_event_that_could_befall_nothing_is_refused(
    broker: KafkaBroker, api: str | list[str], event: Any, says: str
) -> None:
    with pytest.raises(ControlError, match=says):
        broker.faults.add(api=api, event=event)


def test_the_events_of_chaos_befall_what_its_requests_name(broker: KafkaBroker) -> None:
    for api, events in _EVENTS.items():
        for event in events:
            with broker.faults.add(api=str(int(api)), event=event):
                pass


def test_a_throttle_time_without_a_field(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="answers of SaslHandshake have no throttle time"):
        broker.faults.add(api="SaslHandshake", throttle_ms=1)
    with broker.faults.add(api=["SaslHandshake", "Fetch"], principal="*", throttle_ms=1):
        pass


def test_a_fault_that_never_comes_is_refused(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="a probability of 0 takes no request"):
        broker.faults.add(api="Fetch", delay_ms=1, probability=0.0)


def test_a_probability_is_a_number(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="NaN is no value of JSON"):
        broker.faults.add(api="Fetch", delay_ms=1, probability=float("nan"))


def share_fetch(topic_id: bytes, partitions: int, epoch: int, wait_ms: int = 0) -> ShareFetchRequest:
    """Return a ShareFetch, which names the partitions only when it opens the session (epoch 0)."""
    named = [FetchedTopic(topic_id, [SharedPartition(index) for index in range(partitions)])] if not epoch else []
    request = ShareFetchRequest("sharing", "member", epoch, max_wait_ms=wait_ms, min_bytes=1, topics=named)
    request.max_bytes, request.max_records, request.batch_size = 1 << 20 if epoch else 0, 100, 100
    return request


def test_a_fault_of_a_topic_meets_fetches_of_a_share_session(broker: KafkaBroker) -> None:
    broker.create_topic("shared", partitions=2)
    broker.produce("shared", [{"value": str(n), "partition": n} for n in range(2)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    option = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    (altered,) = admin.incremental_alter_configs(
        [ConfigResource(ConfigResource.Type.GROUP, "sharing", incremental_configs=[option])]
    ).values()
    altered.result(60)
    with raw_client(broker) as client:
        topic_id = client.ask(MetadataRequest([MetadataRequestTopic(name="shared")]), 12).topics[0].topic_id
        for key in ("sharing", f"sharing:{uuid_text(topic_id)}:0"):
            client.find_coordinator(key, 2 if ":" in key else 0)
        beat = client.ask(ShareGroupHeartbeatRequest("sharing", "member", 0, subscribed_topic_names=["shared"]), 1)
        while not (beat.assignment and beat.assignment.topic_partitions):  # the partitions are being prepared
            beat = client.ask(ShareGroupHeartbeatRequest("sharing", "member", beat.member_epoch), 1)
            assert beat.error_code == 0
        assert client.ask(share_fetch(topic_id, 2, 0), 1).error_code == 0
        with broker.faults.add(api="ShareFetch", topic="shared", partition=1, error="NOT_LEADER_OR_FOLLOWER") as fault:
            (topic,) = client.ask(share_fetch(topic_id, 2, 1), 1).responses
            assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(1, 6)]
            assert fault.hits == 1
        with broker.faults.add(api="ShareFetch", topic="other", drop="before") as fault:
            (topic,) = client.ask(share_fetch(topic_id, 2, 2, 5000), 1).responses  # the fault has acquired none
            assert {each.partition_index for each in topic.partitions if each.acquired_records} == {0, 1}
            assert fault.hits == 0
        with broker.faults.add(api="ShareFetch", topic="shared", times=1, throttle_ms=7):
            assert client.ask(share_fetch(topic_id, 2, 3), 1).throttle_time_ms == 7
