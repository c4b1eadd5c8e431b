"""A client of a cluster: nobody there, secured connections, a coordinator that moves."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pykafka_broker.client.cluster import BrokerNode, Client
from pykafka_broker.client.configs import ConfigChange, Resource, alter_configs
from pykafka_broker.client.consumer import Consumer
from pykafka_broker.client.errors import AuthenticationFailed, ClientError, KafkaError, TimedOut, Unusable
from pykafka_broker.client.group_consumer import GroupConsumer
from pykafka_broker.client.groups import committed_offsets
from pykafka_broker.client.leaders import list_offsets
from pykafka_broker.client.quorum import describe_quorum
from pykafka_broker.client.share_consumer import ACCEPT, ShareConsumer
from pykafka_broker.client.topics import create_topic, list_topics
from pykafka_broker.peers import LinkTimeout
from pykafka_broker.protocol.enums import LATEST, AlterConfigOp, ConfigResourceType, CoordinatorType, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from pykafka_broker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from pykafka_broker.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData, TopicData
from pykafka_broker.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from pykafka_broker.testing import KafkaBroker
from tests.security.tls.certificates import authority

NOBODY = "127.0.0.1:1"
QUICK = {"default.api.timeout.ms": "300", "request.timeout.ms": "200", "retry.backoff.ms": "20"}


def with_client(
    bootstrap: str, properties: dict[str, str], act: Callable[[Client], Awaitable[Any]], **options: Any
) -> Any:
    """Run `act` with a new client and return its result."""

    async def run() -> Any:
        async with Client(bootstrap, properties, **options) as client:
            return await act(client)

    return asyncio.run(run())


def test_the_first_failure_at_an_address_is_logged_and_no_further_one(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TimedOut):
        with_client(NOBODY, QUICK, list_topics)
    (said,) = [record.message for record in caplog.records if record.name == "pykafka_broker.client.cluster"]
    assert said.startswith(f"no connection to {NOBODY}: ")
    assert said.endswith("; trying again for 0 s")


@pytest.mark.parametrize("security", ["ssl", "sasl_plaintext"])
def test_a_listener_of_another_protocol_is_hinted_at(security: Any, caplog: pytest.LogCaptureFixture) -> None:
    def said() -> list[str]:
        return [record.message for record in caplog.records if record.name == "pykafka_broker.client.cluster"]

    async def until_said(client: Client) -> None:
        asking = asyncio.create_task(list_topics(client))
        while not said():
            await asyncio.wait([asking], timeout=0.01)
            assert not asking.done()
        asking.cancel()

    with KafkaBroker(security=security, users=["alice"]) as broker:
        with_client(broker.bootstrap_servers, {}, until_said)
    (line,) = said()
    assert "closed the connection (does it want another security.protocol?); trying again" in line


def test_a_login_that_no_listener_wants_is_told() -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": line}
    with KafkaBroker() as broker, pytest.raises(ClientError, match="does not take PLAIN, but no login at all"):
        with_client(broker.bootstrap_servers, login, list_topics)


def test_a_login_or_a_certificate_that_is_refused_ends_the_attempts() -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="wrong";'
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": line}
    strangers = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority().pem}
    with (
        KafkaBroker(security="sasl_plaintext", users=["alice"], mechanisms=["PLAIN"]) as broker,
        pytest.raises(AuthenticationFailed, match=r"^Authentication failed: Invalid username or password$"),
    ):
        with_client(broker.bootstrap_servers, login, list_topics)
    with KafkaBroker(security="ssl") as broker, pytest.raises(AuthenticationFailed, match="certificate verify failed"):
        with_client(broker.bootstrap_servers, {"security.protocol": "SSL", **strangers}, list_topics)


def test_attempts_grow_rarer_whatever_the_error_says(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    async def unreachable(*asked: Any, **_: Any) -> Any:
        attempts.append(asked)
        raise LinkTimeout("no connection to certificates.example:9092: it does not take calls", sent=False)

    monkeypatch.setattr("pykafka_broker.server.link.Link.ask", unreachable)
    with pytest.raises(TimedOut):
        with_client(NOBODY, QUICK, list_topics)
    assert len(attempts) <= 6  # in 300 ms, with pauses of 20, 40, 80 and 160 ms, less a fifth


@pytest.mark.parametrize("name", ["retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"])
def test_pauses_are_properties(name: str) -> None:
    with pytest.raises(Unusable, match=f"Invalid value soon for configuration {name}"):
        Client(NOBODY, {name: "soon"})


def test_nobody_is_there() -> None:
    begun = time.monotonic()
    with pytest.raises(TimedOut, match=r"^Timed out waiting for a node assignment\. Call: listTopics$"):
        with_client(NOBODY, QUICK, list_topics)
    assert 0.2 < time.monotonic() - begun < 30  # and not the minute of the default


def test_the_next_address_is_tried() -> None:
    with KafkaBroker() as broker:
        assert with_client(f"{NOBODY},{broker.bootstrap_servers}", {}, list_topics) == []


def test_a_broker_that_comes_back_is_found_again() -> None:
    with KafkaBroker() as broker:

        async def through_a_restart(client: Client) -> int:
            await create_topic(client, "t", partitions=1)
            await asyncio.to_thread(broker.restart)
            return len(await list_topics(client))

        assert with_client(broker.bootstrap_servers, {}, through_a_restart) == 1


def test_a_request_to_an_unknown_broker_goes_to_no_other_broker() -> None:
    async def ask(client: Client) -> Any:
        return await client.ask(DescribeLogDirsRequest(None), 99, call="describeLogDirs")

    with (
        KafkaBroker() as broker,
        pytest.raises(TimedOut, match=r"^Timed out waiting for a node assignment\. Call: describeLogDirs$"),
    ):
        with_client(broker.bootstrap_servers, QUICK, ask)


def test_a_broker_that_is_unknown_at_first_is_asked_once_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(client: Client) -> Any:
        refresh, looks = client.refresh, 0

        async def late(**options: Any) -> None:
            nonlocal looks
            await refresh(**options)
            looks += 1
            if looks < 3:
                client.nodes = {}

        monkeypatch.setattr(client, "refresh", late)
        return await client.ask(DescribeLogDirsRequest(None), 1), looks

    with KafkaBroker() as broker:
        answer, looks = with_client(broker.bootstrap_servers, {}, ask)
    assert (len(answer.results), looks) == (1, 3)


def test_a_request_that_a_broker_is_too_old_for() -> None:
    async def ask(client: Client) -> Any:
        return await client.ask(DescribeClusterRequest())

    with KafkaBroker(config={"pykafka.emulate": "1.0"}) as broker, pytest.raises(KafkaError) as told:
        with_client(broker.bootstrap_servers, {}, ask)
    assert told.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert str(told.value) == "The node does not support DESCRIBE_CLUSTER"


def test_a_request_that_no_version_has_room_for() -> None:
    async def create(client: Client) -> None:
        await create_topic(client, "t", partitions=1 << 31)

    with KafkaBroker() as broker, pytest.raises(KafkaError, match=r"CREATE_TOPICS can't be sent: .* <= number") as told:
        with_client(broker.bootstrap_servers, {}, create)
    assert told.value.code == ErrorCode.INVALID_REQUEST


def test_a_request_with_a_value_that_no_version_carries_says_so() -> None:
    async def ask(client: Client) -> Any:
        return await client.ask(DeleteTopicsRequest(topic_names=["\udcff"]), versions=(1, 3))

    with KafkaBroker() as broker, pytest.raises(KafkaError) as told:
        with_client(broker.bootstrap_servers, {}, ask)
    assert str(told.value).startswith("DELETE_TOPICS can't be sent: DeleteTopicsRequest version 3: ")


def test_a_name_that_no_request_carries_is_not_looked_for_among_all_topics() -> None:
    """Nor is a coordinator that can't be asked for looked for with an older request."""

    async def ask(client: Client) -> None:
        with pytest.raises(KafkaError, match=r"METADATA can't be sent: MetadataRequest version 1\d: "):
            await client.metadata(["x" * 40_000])
        with pytest.raises(KafkaError, match=r"FIND_COORDINATOR can't be sent: FindCoordinatorRequest version 6: "):
            await client.coordinator(CoordinatorType.GROUP, "x" * 40_000)

    with KafkaBroker() as broker:
        with_client(broker.bootstrap_servers, {}, ask)


@pytest.mark.parametrize("client_id", ["\ud800", "x" * 40_000])
def test_a_client_id_that_no_request_can_carry_is_refused(client_id: str) -> None:
    with pytest.raises(Unusable, match=r"client\.id can't be sent: RequestHeader version 2: "):
        Client("127.0.0.1:1", {"client.id": client_id})


@pytest.mark.parametrize("security", ["ssl", "sasl_plaintext", "sasl_ssl"])
def test_secured_connections(security: str) -> None:
    users = {} if security == "ssl" else {"alice": "the-secret"}
    with KafkaBroker(security=security, users=users) as broker:
        properties = broker.client_config("java")
        assert with_client(broker.bootstrap_servers, properties, list_topics) == []


def test_a_wrong_password_ends_it_at_once_and_is_not_told() -> None:
    with KafkaBroker(security="sasl_plaintext", users={"alice": "right"}) as broker:
        properties = broker.client_config("java")
        properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace("right", "the-wrong-one")
        with pytest.raises(ClientError) as told:
            with_client(broker.bootstrap_servers, properties, list_topics)
    assert str(told.value).startswith("Authentication failed")
    assert not isinstance(told.value, TimedOut)
    assert "the-wrong-one" not in str(told.value)


def test_a_coordinator_that_moves_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """First no broker knows the coordinator, then the one that is found answers NOT_COORDINATOR."""
    answers: list[int] = []

    async def ask(client: Client) -> list[int]:
        plain = client.ask

        async def sometimes_elsewhere(request: Any, *rest: Any, **options: Any) -> Any:
            found = await plain(request, *rest, **options)
            name = type(request).__name__
            answers.append(1)
            if name == "FindCoordinatorRequest" and len(answers) < 3:
                code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                return FindCoordinatorResponse(coordinators=[Coordinator("g", -1, "", -1, code, None)])
            if name == "OffsetFetchRequest" and asked.count(name) == 0:
                found.groups[0].error_code = int(ErrorCode.NOT_COORDINATOR)
            asked.append(name)
            return found

        asked: list[str] = []
        monkeypatch.setattr(client, "ask", sometimes_elsewhere)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
        found = await client.ask_group("g", request, lambda answer: answer.groups[0])
        return [found.error_code, asked.count("OffsetFetchRequest"), asked.count("FindCoordinatorRequest")]

    with KafkaBroker() as broker:
        assert with_client(broker.bootstrap_servers, {"retry.backoff.ms": "5"}, ask) == [0, 2, 2]


def test_a_controller_that_moves_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first broker that is asked to create the topic answers NOT_CONTROLLER, and creates nothing."""
    asked: list[str] = []

    async def ask(client: Client) -> list[str]:
        plain = client._ask

        async def once_elsewhere(request: Any, *rest: Any, **options: Any) -> Any:
            asked.append(type(request).__name__)
            if asked.count("CreateTopicsRequest") == 1 and asked[-1] == "CreateTopicsRequest":
                return CreateTopicsResponse(topics=[CreatableTopicResult("t", error_code=ErrorCode.NOT_CONTROLLER)])
            return await plain(request, *rest, **options)

        monkeypatch.setattr(client, "_ask", once_elsewhere)
        await create_topic(client, "t", partitions=1, replication_factor=1, configs={})
        return [each.name or "" for each in await list_topics(client)]

    with KafkaBroker() as broker:
        assert with_client(broker.bootstrap_servers, {"retry.backoff.ms": "5"}, ask) == ["t"]
    assert asked.count("CreateTopicsRequest") == 2


def test_of_several_controllers_the_active_one_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client looks for the active controller again when one answers that it no longer leads the metadata log."""
    asked: list[int | None] = []

    async def ask(client: Client) -> int:
        async def answered(request: Any, node_id: int | None, **_: Any) -> Any:
            if isinstance(request, DescribeClusterRequest):
                nodes = [DescribeClusterBroker(each, "h", each) for each in (101, 102)]
                return DescribeClusterResponse(controller_id=102 if asked else 101, brokers=nodes)
            asked.append(node_id)
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if node_id == 101 else ErrorCode.NONE
            topic = TopicData("__cluster_metadata", [PartitionData(0, code, leader_id=102)])
            return DescribeQuorumResponse(topics=[topic])

        monkeypatch.setattr(client, "_ask", answered)
        return (await describe_quorum(client)).leader_id

    assert with_client("127.0.0.1:101,127.0.0.1:102", {"retry.backoff.ms": "5"}, ask, of_controllers=True) == 102
    assert asked == [101, 102]


# -- nodes that are away

AWAY = BrokerNode(99, "127.0.0.1", 1)
SOON = {"default.api.timeout.ms": "15000", "retry.backoff.ms": "5"}


def test_another_controller_is_looked_for_when_the_known_one_is_away() -> None:
    async def ask(client: Client) -> list[str | None]:
        await client.refresh()
        client.nodes[AWAY.node_id], client.controller_id = AWAY, AWAY.node_id
        await create_topic(client, "t", partitions=1)
        return [each.name for each in await list_topics(client)]

    with KafkaBroker() as broker:
        assert with_client(broker.bootstrap_servers, SOON, ask) == ["t"]


def test_another_coordinator_is_looked_for_when_the_known_one_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(client: Client) -> Any:
        plain, asked = client.coordinator, list[int]()

        async def first_away(*rest: Any, **options: Any) -> int:
            found = await plain(*rest, **options)
            asked.append(found)
            client.nodes[AWAY.node_id] = AWAY
            return AWAY.node_id if len(asked) == 1 else found

        monkeypatch.setattr(client, "coordinator", first_away)
        return await committed_offsets(client, "g")

    with KafkaBroker() as broker:
        assert with_client(broker.bootstrap_servers, SOON, ask) == {}


def test_another_leader_is_looked_for_when_the_known_one_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(client: Client) -> Any:
        plain, asked = client.metadata, list[int]()

        async def first_away(*rest: Any, **options: Any) -> Any:
            found = await plain(*rest, **options)
            asked.append(1)
            if len(asked) == 1:
                client.nodes[AWAY.node_id] = AWAY
                found.topics[0].partitions[0].leader_id = AWAY.node_id
            return found

        monkeypatch.setattr(client, "metadata", first_away)
        found = await list_offsets(client, {TopicPartition("t", 0): LATEST})
        return found[TopicPartition("t", 0)].offset

    with KafkaBroker() as broker:
        broker.produce("t", ["a", "b"])
        assert with_client(broker.bootstrap_servers, SOON, ask) == 2


def test_a_node_with_another_address_is_found_there() -> None:
    async def ask(client: Client) -> tuple[bool, int]:
        await client.refresh()
        (known,) = client.nodes.values()
        client.nodes[known.node_id] = known._replace(port=AWAY.port)
        answer = await client.ask(DescribeLogDirsRequest([]), known.node_id)
        client.nodes[known.node_id] = known._replace(port=AWAY.port)
        found = await client.coordinator(CoordinatorType.GROUP, "g")
        return bool(answer.results), client.nodes[found].port - known.port

    with KafkaBroker() as broker:
        assert with_client(broker.bootstrap_servers, SOON, ask) == (True, 0)


def test_no_other_node_answers_for_one_that_is_away() -> None:
    async def ask(client: Client) -> None:
        await client.refresh()
        client.nodes[AWAY.node_id] = AWAY
        await client.ask(DescribeLogDirsRequest([]), AWAY.node_id)

    with KafkaBroker() as broker, pytest.raises(TimedOut):
        with_client(broker.bootstrap_servers, QUICK, ask)


def test_no_other_node_gets_what_is_for_one_that_has_left() -> None:
    """A produce without acknowledgement would be lost there."""

    async def work(client: Client) -> None:
        await client.refresh()
        client.nodes.clear()
        with pytest.raises(LinkTimeout, match="no node 1 at present"):
            await client.ask_once(DescribeLogDirsRequest([]), 1)

    with KafkaBroker() as broker:
        with_client(broker.bootstrap_servers, SOON, work)


def consumer_of(kind: str, client: Client) -> Any:
    """Return a consumer of a kind, which reads the topic "t" from the start."""
    if kind == "share":
        return ShareConsumer(client, ["t"])
    if kind != "assigned":
        return GroupConsumer(client, {"group.protocol": kind}, ["t"])
    consumer = Consumer(client)
    consumer.assign([("t", 0)])
    return consumer


@pytest.mark.parametrize("kind", ["assigned", "classic", "consumer", "share"])
def test_a_consumer_waits_for_its_broker_for_ever(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's consumers do so: without a broker at the start, and when a broker comes back after any time."""
    settings = QUICK | {"default.api.timeout.ms": "150", "group.id": "g", "auto.offset.reset": "earliest"}
    settings |= {"heartbeat.interval.ms": "50", "retry.backoff.max.ms": "50", "reconnect.backoff.max.ms": "50"}
    silence_of = {"assigned": "Call: metadata", "share": "Call: findCoordinator"}.get(kind, "")

    def silences() -> int:
        return sum(each.message.endswith("; trying again") and silence_of in each.message for each in caplog.records)

    async def work(broker: KafkaBroker) -> None:
        async with Client(broker.bootstrap_servers, settings) as client, consumer_of(kind, client) as consumer:
            for value in ("a", "b"):
                before = silences()
                while silences() < before + 2:
                    assert await consumer.poll(50, 1) == []
                await asyncio.to_thread(broker.start)
                await asyncio.to_thread(broker.produce, "t", [value])
                while not (found := await consumer.poll(1_000, 1)):
                    pass
                record = found[0].record if kind == "share" else found[0].records[0]
                assert record.value == value.encode()
                if kind == "share":
                    consumer.acknowledge(found[0], ACCEPT)
                    await consumer.commit()
                await asyncio.to_thread(broker.stop)

    with KafkaBroker() as broker:
        broker.create_topic("t", 1)
        from_start = [ConfigChange("share.auto.offset.reset", AlterConfigOp.SET, "earliest")]
        group = Resource(ConfigResourceType.GROUP, "g")
        with_client(broker.bootstrap_servers, {}, lambda client: alter_configs(client, group, from_start))
        broker.stop()
        asyncio.run(asyncio.wait_for(work(broker), 120))  # with two starts of a process
