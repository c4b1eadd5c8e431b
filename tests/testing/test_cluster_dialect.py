"""The dialect that brokers and clusters share: the same names and parameters, over all nodes."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from interop.waiting import eventually
from pykafka_broker.testing import (
    AsyncKafkaCluster,
    BrokerError,
    ControlError,
    KafkaBroker,
    KafkaCluster,
    NewRecord,
    RecordsDiffer,
    RemoteBroker,
    WaitTimeout,
)
from pykafka_broker.testing.cluster_traffic import ClusterClock, ClusterFault, ClusterFaults, ClusterHistory
from pykafka_broker.testing.controlled import BrokerClock
from pykafka_broker.testing.history import History
from pykafka_broker.testing.traffic import Fault, Faults
from pykafka_broker.tools.frame import main as run_tool
from tests.releases.other import NEWEST_VERSION, name_of

ONE_ALONE_HAS = {  # what a broker has and a cluster has not, with the reason
    "of a process; `cluster.broker(1)` has it": """
        stop kill restart give_up pid port running log log_since log_size log_path history_path data_dir loop
    """,
    "an argument; nodes have their own: `cluster.broker(1).config`": """
        config allow_unknown_config emulate in_process log_level quick_groups schema_registry start_timeout_s strict
    """,
}
SEVERAL_HAVE = {  # what a cluster has and a broker has not, with the reason
    "of several nodes": "nodes brokers broker controller cluster_id partition_network heal_network",
    "leaders and replicas, which a broker alone has no others of": "leader_of isr wait_for_leader wait_for_isr",
    "of a controller apart from the broker": "wait_for_metadata",
    "trouble for processes, as chaos is for requests": "trouble befall calm",
}


@pytest.mark.parametrize("broker", [RemoteBroker("http://127.0.0.1:1"), KafkaCluster()])
@pytest.mark.parametrize(
    ("could_not_fail", "says"),
    [
        (lambda broker: broker.assert_contains("orders", []), "assert_contains('orders', []) names no record, so it "),
        (lambda broker: broker.assert_no_more("orders", within_ms=0), "within_ms must be at least 1, not 0"),
        (lambda broker: broker.wait_for_request("Fetch", n=0), "n must be at least 1, not 0"),
        (lambda broker: Fault(broker, 1).wait(n=0), "n must be at least 1, not 0"),
        (lambda broker: ClusterFault({1: Fault(broker, 1)}, {}).wait(n=0), "n must be at least 1, not 0"),
    ],
)
def test_what_could_not_fail_is_refused(broker: Any, could_not_fail: Callable[[Any], object], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
        could_not_fail(broker)


def test_what_is_kept_is_a_list() -> None:
    remote = RemoteBroker("http://127.0.0.1:1")
    for reset in (remote.reset, remote.reset_settings, KafkaCluster().reset):
        with pytest.raises(TypeError, match=r"^keep must be a list of names: keep=\['acls'\]$"):
            reset("acls")


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, quick=False, in_process=True, config={"offsets.topic.num.partitions": 3}) as running:
        yield running


def led_by_all(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    for partition in range(3):
        cluster.move_leader(topic, partition + 1, partition)


def parameters(function: Callable[..., Any]) -> list[tuple[object, ...]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


def face(each: object) -> set[str]:
    return {name for name in dir(each) if not name.startswith("_")}


def test_the_names_and_parameters_are_those_of_a_broker() -> None:
    with contextlib.closing(KafkaBroker()) as broker:
        assert face(broker) - face(KafkaCluster()) == {*" ".join(ONE_ALONE_HAS.values()).split()}
        assert face(KafkaCluster()) - face(broker) == {*" ".join(SEVERAL_HAVE.values()).split()}
    for name in face(KafkaBroker) & face(KafkaCluster):
        of_broker, of_cluster = (inspect.getattr_static(kind, name) for kind in (KafkaBroker, KafkaCluster))
        assert isinstance(of_broker, property) == isinstance(of_cluster, property), name
        if inspect.isfunction(of_broker):
            assert parameters(of_broker) == parameters(of_cluster), name


@pytest.mark.parametrize(
    ("kind", "of_several", "more"),
    [
        (BrokerClock, ClusterClock, set()),
        (Fault, ClusterFault, set()),
        (Faults, ClusterFaults, {"on"}),
        (History, ClusterHistory, set()),
    ],
)
def test_the_parts_of_a_cluster_are_those_of_a_broker(kind: type, of_several: type, more: set[str]) -> None:
    assert face(of_several) - face(kind) == more
    for name in face(kind):
        member = inspect.getattr_static(kind, name)
        if inspect.isfunction(member):
            assert parameters(member) == parameters(inspect.getattr_static(of_several, name)), name


def test_the_control_api_of_a_part_is_that_of_one_broker(cluster: KafkaCluster) -> None:
    fault = cluster.faults.add(api="Fetch", error="UNKNOWN_SERVER_ERROR", nth=1000)
    for part in (cluster.faults, cluster.history, fault):
        with pytest.raises(
            BrokerError, match=r"^each broker has a control API of its own: cluster\.broker\(1\)\.control$"
        ):
            _ = part.control
    assert fault.remove() == 0
    alone = cluster.faults.on(2)
    assert alone.control is cluster.broker(2).control is alone.add(api="Fetch", delay_ms=1, nth=1000).control
    alone.clear()
    assert cluster.clock.control is cluster.control


def test_both_forms_of_a_cluster_have_the_same_methods() -> None:
    for name in dir(KafkaCluster):
        member = inspect.getattr_static(KafkaCluster, name)
        if not name.startswith("_"):
            form = inspect.getattr_static(AsyncKafkaCluster, name)
            if inspect.isfunction(member):
                assert parameters(member) == parameters(form), name
    assert parameters(KafkaCluster.__init__) == parameters(AsyncKafkaCluster.__init__)


# -- records


def test_records_of_all_leaders_are_compared_together(cluster: KafkaCluster) -> None:
    led_by_all(cluster, "orders")
    expected = [(f"k{number}", {"n": number}) for number in range(20)]
    cluster.produce("orders", expected)
    assert len(cluster.assert_records("orders", expected)) == 20
    with pytest.raises(RecordsDiffer, match="partition 0 has another order"):
        cluster.assert_records("orders", reversed(expected))
    cluster.assert_contains("orders", [("k3", {"n": 3})])
    assert cluster.wait_for_record("orders", key="k7").json() == {"n": 7}
    cluster.assert_no_more("orders", within_ms=50)
    with pytest.raises(RecordsDiffer, match="20 records, expected 19") as differ:
        cluster.assert_records("orders", expected[1:])
    assert len(differ.value.found) == 20
    with pytest.raises(RecordsDiffer, match=r"1 of 1 expected records are missing\n- key 'k3'"):
        cluster.assert_contains("orders", [("k3", {"n": 4})])
    with pytest.raises(WaitTimeout, match="after 0 s topic orders has 20 records, and none is key 'k99'"):
        cluster.wait_for_record("orders", key="k99", timeout=0)
    with pytest.raises(WaitTimeout, match="topic orders has 20 records, expected 21"):
        cluster.wait_for_records("orders", 21, timeout=0)
    with pytest.raises(ControlError, match="there is no topic order"):
        cluster.assert_records("order", [])


def test_what_comes_while_nothing_should_is_told(cluster: KafkaCluster) -> None:
    cluster.create_topic("quiet")
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.05):  # the first may come before the assertion
            cluster.produce("quiet", ["late"])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(RecordsDiffer, match=r"topic quiet got \d+ more records? within 30000 ms"):
            cluster.assert_no_more("quiet", within_ms=30_000)
    finally:
        over.set()
        writer.join()


def test_records_are_deleted_where_they_are(cluster: KafkaCluster) -> None:
    led_by_all(cluster, "cut")
    cluster.produce("cut", [NewRecord(value=str(number), partition=number % 3) for number in range(9)])
    assert cluster.delete_records("cut", 2) == {0: 2, 1: 2, 2: 2}
    assert cluster.delete_records("cut", partition=1) == {1: 3}
    starts = [cluster.broker(cluster.leader_of("cut", number)).partition("cut", number) for number in range(3)]
    assert [each["log_start_offset"] for each in starts] == [2, 3, 2]


def test_a_broker_that_does_not_lead_says_who_does(cluster: KafkaCluster) -> None:
    cluster.create_topic("elsewhere")
    leader = cluster.leader_of("elsewhere")
    other = cluster.broker(leader % 3 + 1)
    cluster.produce("elsewhere", ["1"])
    asks: list[Callable[[], object]] = [
        lambda: other.assert_records("elsewhere", ["1"]),
        lambda: other.assert_contains("elsewhere", ["1"]),
        lambda: other.assert_no_more("elsewhere"),
        lambda: other.wait_for_records("elsewhere", 1),
        lambda: other.wait_for_record("elsewhere", value="1"),
    ]
    for ask in asks:
        with pytest.raises(
            ControlError, match=f"broker {leader} leads elsewhere-0: ask broker {leader}, or the cluster"
        ):
            ask()


def test_a_wait_at_a_broker_ends_when_another_one_leads(cluster: KafkaCluster) -> None:
    cluster.create_topic("leaving")
    leader = cluster.leader_of("leaving")

    async def run() -> None:
        form = AsyncKafkaCluster.of(cluster)
        waiting = asyncio.create_task(form.broker(leader).wait_for_records("leaving", 1, timeout=30))
        await asyncio.sleep(0.2)
        await form.move_leader("leaving", leader % 3 + 1)
        with pytest.raises(ControlError, match=f"broker {leader % 3 + 1} leads leaving-0"):
            await waiting
        await form.assert_records("leaving", [])

    asyncio.run(run())


def test_a_file_of_lines_is_seeded_everywhere(cluster: KafkaCluster) -> None:
    lines = ['{"type": "topic", "name": "seeded", "partitions": 3, "config": {"retention.ms": 1000000}}']
    lines += [f'{{"type": "record", "topic": "seeded", "partition": {n % 3}, "value": "{n}"}}' for n in range(6)]
    lines += ['{"type": "offset", "group": "seeders", "topic": "seeded", "partition": 1, "offset": 1}', ""]
    assert cluster.seed(lines) == {"topics": 1, "records": 6, "offsets": 1}
    assert cluster.topic("seeded")["config"] == {"retention.ms": "1000000"}
    cluster.assert_records("seeded", [str(number) for number in range(6)])
    assert cluster.lag("seeders") == 5
    with pytest.raises(ControlError, match="line 2: the line is not JSON"):
        cluster.seed(["", "{"])
    with pytest.raises(ControlError, match="line 1: the line must be an object with a type"):
        cluster.seed(["{}"])
    with pytest.raises(ControlError, match=r"line 1: record\.topic is missing"):
        cluster.seed(['{"type": "record", "value": "no topic"}'])
    with pytest.raises(ControlError, match="line 1: both key and key_base64 are given"):
        cluster.seed(['{"type": "record", "topic": "seeded", "key": "a", "key_base64": "YQ=="}'])
    rest = '{"type": "unreadable", "topic": "seeded", "partition": 0, "offset": 2, "why": "damaged"}'
    assert cluster.seed([rest]) == {"topics": 0, "records": 0, "offsets": 0}


# -- groups and transactions


def test_a_group_is_asked_of_its_coordinator_and_its_lag_of_the_leaders(cluster: KafkaCluster) -> None:
    led_by_all(cluster, "read")
    cluster.produce("read", [NewRecord(value="x", partition=number % 3) for number in range(9)])
    cluster.commit("readers", "read", 1)
    assert cluster.lag("readers") == 8
    assert [each["end"] for each in cluster.wait_for_group("readers", state="Empty")["offsets"]] == [3, 3, 3]
    with pytest.raises(WaitTimeout, match="read-0: 2, read-1: 3, read-2: 3"):
        cluster.wait_for_lag("readers", timeout=0)
    assert [each["committed"] for each in cluster.reset_offsets("readers", to="latest")] == [3, 3, 3]
    assert cluster.wait_for_lag("readers") == 0
    assert [each["committed"] for each in cluster.reset_offsets("readers", "read", 1)] == [1, 1, 1]
    at = datetime.fromtimestamp(0, UTC)
    assert [each["committed"] for each in cluster.reset_offsets("readers", "read", at, 2)] == [1, 1, 0]
    for wrong, says in ((7, "has offsets 0 to 3, not 7"), ("begin", "to must be earliest, latest")):
        with pytest.raises(ControlError, match=says):
            cluster.reset_offsets("readers", "read", wrong)
    assert "readers" in [each["group_id"] for each in cluster.groups()]
    other = cluster.broker(cluster.coordinator("readers") % 3 + 1)
    with pytest.raises(ControlError, match="there is no group readers"):
        other.group("readers")
    with pytest.raises(ControlError, match="leads read-"):
        cluster.broker(cluster.coordinator("readers")).lag("readers")
    cluster.delete_group("readers")
    with pytest.raises(ControlError, match="there is no group readers"):
        cluster.group("readers")
    with pytest.raises(WaitTimeout, match="there is no group readers"):
        cluster.wait_for_group("readers", timeout=0)
    with pytest.raises(ControlError, match="state must be one of Stable, Empty"):
        cluster.wait_for_group("readers", state="Stabel", timeout=30)


def test_members_and_transactions_are_waited_for(cluster: KafkaCluster) -> None:
    cluster.create_topic("paid", 2)
    settings = cluster.client_config("confluent") | {"metadata.recovery.strategy": "none"}
    consumer = Consumer(settings | {"group.id": "payers", "auto.offset.reset": "earliest", "client.id": "payer"})
    consumer.subscribe(["paid"])
    consumer.poll(0.1)
    try:
        assert len(cluster.wait_for_group("payers", "Stable", 1, timeout=30)["members"]) == 1
        assert {each["client_id"] for each in cluster.wait_for_connections("payer")} == {"payer"}
        assert cluster.wait_for_request("JoinGroup", client_id="payer")[0]["node_id"] == cluster.coordinator("payers")
        cluster.expire_member("payers", "payer")
    finally:
        consumer.close()
    producer = Producer(settings | {"transactional.id": "till"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("paid", "1")
    assert producer.flush(60) == 0
    assert cluster.wait_for_transaction("till", "Ongoing")["partitions"]
    producer.commit_transaction(30)
    cluster.wait_for_transaction("till", "CompleteCommit")
    with pytest.raises(WaitTimeout, match="the transaction of till is CompleteCommit"):
        cluster.wait_for_transaction("till", "Ongoing", timeout=0)


# -- time, faults, requests


def test_a_fault_is_one_of_all_brokers(cluster: KafkaCluster) -> None:
    led_by_all(cluster, "faulty")
    with cluster.faults.add(api="ListOffsets", client_id="someone", delay_ms=1) as fault:
        assert [each["node_id"] for each in cluster.faults.all()] == [1, 2, 3]
        someone = Consumer(cluster.client_config("confluent") | {"client.id": "someone", "group.id": "someone"})
        for partition in range(3):
            someone.get_watermark_offsets(TopicPartition("faulty", partition), 30)
        someone.close()
        assert fault.wait(3) >= 3
        assert sum(fault.describe()["nodes"].values()) == fault.hits
        with pytest.raises(WaitTimeout, match="of brokers 1, 2, 3> affected"):
            fault.wait(1000, timeout=0)
    assert cluster.faults.all() == []
    assert {each["node_id"] for each in cluster.requests("ListOffsets", client_id="someone")} == {1, 2, 3}
    cluster.clear_requests()
    assert cluster.requests("ListOffsets", client_id="someone") == []


def test_each_broker_counts_the_requests_that_a_fault_of_all_meets(cluster: KafkaCluster) -> None:
    led_by_all(cluster, "counted")
    given: dict[str, Any] = {"api": "ListOffsets", "client_id": "counter", "delay_ms": 1}
    first, second = cluster.faults.add(**given, times=1), cluster.faults.add(**given, nth=2)
    counter = Consumer(cluster.client_config("confluent") | {"client.id": "counter", "group.id": "counter"})
    for partition in range(3):
        assert not second.describe()["spent"]  # this broker waits for its second
        for _ in range(2):
            counter.get_watermark_offsets(TopicPartition("counted", partition), 30)
    counter.close()
    assert first.describe()["nodes"] == second.describe()["nodes"] == {1: 1, 2: 1, 3: 1}
    assert first.hits == second.hits == 3
    assert second.describe()["spent"]
    assert first.remove() == second.remove() == 3


def test_the_clocks_of_all_nodes_move_together(cluster: KafkaCluster) -> None:
    cluster.create_topic("timed", 3)
    before = [node.clock.now() for node in cluster.nodes.values()]
    now = cluster.clock.advance(minutes=30)
    after = [node.clock.now() for node in cluster.nodes.values()]
    assert all(1_800_000 <= late - early < 1_860_000 for early, late in zip(before, after, strict=True))
    assert now <= cluster.clock.now()
    for partition in range(3):
        assert len(cluster.isr("timed", partition)) == 3  # nobody is out of the cluster for it
    cluster.clock.freeze()
    assert all(node.clock.frozen for node in cluster.nodes.values())
    cluster.clock.resume()


def test_a_dead_leader_is_replaced_without_a_wait_for_its_session() -> None:
    session = {"broker.session.timeout.ms": "200000"}
    with KafkaCluster(3, quick=False, config=session, in_process=True) as cluster:
        cluster.create_topic("orders", config={"min.insync.replicas": 2})
        cluster.produce("orders", ["before"])
        leader = cluster.leader_of("orders")
        cluster.broker(leader).kill()
        begun = time.monotonic()
        cluster.clock.advance(seconds=201)
        cluster.wait_for_leader("orders", other_than=leader, timeout=100)
        assert time.monotonic() - begun < 150
        assert len(cluster.isr("orders")) == 2  # those that live are not given up
        cluster.assert_records("orders", ["before"])


# -- all of it


def test_a_reset_leaves_an_empty_cluster_of_all_its_nodes(cluster: KafkaCluster) -> None:
    cluster.create_topic("gone", 3)
    cluster.commit("goners", "gone", 0)
    cluster.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER")
    cluster.broker(1).pause()
    cluster.broker(2).kill()
    cluster.partition_network({1}, {3, 100})
    cluster.reset()
    assert all(node.running for node in cluster.nodes.values())
    assert cluster.topics(internal=True) == cluster.groups() == cluster.faults.all() == []
    cluster.create_topic("gone")
    assert cluster.records("gone") == []
    with pytest.raises(ValueError, match="records can't be kept; what can is acls, clock, configs, faults, quotas"):
        cluster.reset(keep=["records"])


def test_a_fault_can_be_that_of_one_broker(cluster: KafkaCluster) -> None:
    cluster.reset()
    with cluster.faults.on(2).add(api="Metadata", delay_ms=1, client_id="slowed") as fault:
        assert [each["node_id"] for each in cluster.faults.all()] == [2]
        assert cluster.broker(1).faults.all() == cluster.broker(3).faults.all() == cluster.faults.on(1).all() == []
        for broker_id in (1, 2):
            client = AdminClient({**cluster.broker(broker_id).client_config("confluent"), "client.id": "slowed"})
            assert len(client.list_topics(timeout=60).brokers) == 3
        assert fault.wait(1) >= 1
    with pytest.raises(ValueError, match="no broker 7 is running: 1, 2, 3"):
        cluster.faults.on(7)


def test_a_broker_does_not_tell_the_lag_of_partitions_that_others_lead(cluster: KafkaCluster) -> None:
    led_by_all(cluster, "shared-out")
    cluster.produce("shared-out", [{"value": "x", "partition": number} for number in range(3)])
    for number in range(3):
        cluster.commit("shared", "shared-out", 0, number)
    assert [each["lag"] for each in cluster.group("shared")["offsets"]] == [1, 1, 1]
    coordinator = cluster.coordinator("shared")
    alone = cluster.broker(coordinator).group("shared")["offsets"]
    assert [each["lag"] for each in alone] == [1 if number + 1 == coordinator else None for number in range(3)]
    assert [each["end"] for each in alone] == [each["lag"] for each in alone]


def test_a_reset_keeps_what_is_named(cluster: KafkaCluster) -> None:
    cluster.reset()
    cluster.create_topic("stays", 2, {"retention.ms": 1000}, replication_factor=2)
    cluster.produce("stays", ["gone"])
    cluster.faults.add(api="Heartbeat", delay_ms=1)
    cluster.clock.advance(hours=2)
    cluster.reset(keep=["topics", "faults", "clock"])
    (topic,) = cluster.topics()
    assert (topic["partitions"], topic["config"]["retention.ms"]) == (2, "1000")
    assert len(cluster.partition("stays")["replicas"]) == 2
    assert cluster.records("stays") == []
    assert len(cluster.faults.all()) == 3
    assert cluster.clock.now() > (time.time() + 7_000) * 1000
    cluster.reset()
    assert cluster.topics() == cluster.faults.all() == []
    assert abs(cluster.clock.now() - time.time() * 1000) < 10_000


def test_a_reset_takes_settings_back_to_those_of_the_first_start() -> None:
    users, acls = {"admin": "a", "alice": "s"}, ["alice may write and describe topic orders", "admin may do anything"]
    security: dict[str, Any] = {"users": users, "acls": acls, "mechanisms": ["SCRAM-SHA-256"]}
    with KafkaCluster(brokers=2, security="sasl_plaintext", in_process=True, **security) as cluster:
        admin: Any = AdminClient(cluster.client_config("confluent", user="admin"))
        binding: Any = AclBinding
        bindings: Any = AclBindingFilter
        all_acls = bindings("ANY", None, "ANY", None, None, "ANY", "ANY")
        of_alice = bindings("TOPIC", "orders", "LITERAL", "User:alice", None, "ANY", "ANY")
        of_bob = binding("TOPIC", "orders", "LITERAL", "User:bob", "*", "READ", "ALLOW")
        scram = ScramMechanism.SCRAM_SHA_256
        broker = ConfigResource(ConfigResource.Type.BROKER, "1")

        def settings() -> tuple[set[str], set[str], str]:
            rights = {str(each) for each in admin.describe_acls(all_acls).result(60)}
            known = set(admin.describe_user_scram_credentials().result(60))
            return rights, known, admin.describe_configs([broker])[broker].result(60)["log.cleaner.threads"].value

        before = settings()
        admin.create_acls([of_bob])[of_bob].result(60)
        admin.delete_acls([of_alice])[of_alice].result(60)
        changes: dict[str, Any] = {
            "bob": UserScramCredentialUpsertion("bob", ScramCredentialInfo(scram, 4096), b"b"),
            "alice": UserScramCredentialDeletion("alice", scram),
        }
        for name, change in changes.items():
            admin.alter_user_scram_credentials([change])[name].result(60)
        two = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
        broker.add_incremental_config(two)
        admin.incremental_alter_configs([broker])[broker].result(60)
        cluster.wait_for_metadata()
        assert all(one != other for one, other in zip(before, settings(), strict=True))
        cluster.reset(keep=["configs"])
        assert settings() == (*before[:2], "2")
        cluster.reset()
        assert settings() == before
        cluster.create_topic("orders")
        alice = Producer(cluster.client_config("confluent", user="alice"))
        alice.produce("orders", "paid")
        assert alice.flush(60) == 0
        with pytest.raises(ControlError, match="node 100 leads the metadata: ask there"):
            cluster.broker(1).reset_settings()


def test_what_the_controller_has_decided_is_waited_for_at_each_broker(cluster: KafkaCluster) -> None:
    cluster.partition_network({3}, {1, 2, 100})
    cluster.broker(1).create_topic("decided", replication_factor=1)
    with pytest.raises(WaitTimeout, match="broker 3 does not know yet what the controller has decided"):
        cluster.wait_for_metadata(timeout=0.5)
    cluster.heal_network()
    cluster.wait_for_metadata()
    assert "decided" in {topic["name"] for topic in cluster.broker(3).topics()}


def test_a_change_of_a_topic_is_known_to_every_broker(cluster: KafkaCluster) -> None:
    def known_to(broker: int) -> tuple[int, dict[str, str]] | None:
        topics = (each for each in cluster.broker(broker).topics() if each["name"] == "everywhere")
        return next(((each["partitions"], each["config"]) for each in topics), None)

    config = {"retention.ms": "5000"}
    changes: list[tuple[Callable[[], object], object]] = [
        (lambda: cluster.create_topic("everywhere"), (1, {})),
        (lambda: cluster.add_partitions("everywhere", total=2), (2, {})),
        (lambda: cluster.alter_config("everywhere", config), (2, config)),
        (lambda: cluster.delete_topic("everywhere"), None),
    ]
    with ThreadPoolExecutor(1) as pool:
        for change, told in changes:
            cluster.clock.freeze()  # so that broker 3 is not fenced
            cluster.broker(3).cut_off([100])
            changed = pool.submit(change)
            eventually(lambda: known_to(1), told)
            assert not changed.done()
            cluster.broker(3).rejoin()
            cluster.clock.resume()
            changed.result()
            assert known_to(3) == told
    cluster.create_topic("reachable")
    cluster.partition_network({3}, {1, 2, 100})
    cluster.alter_config("reachable", config)  # not waited for at a broker that can't know
    cluster.heal_network()
    cluster.delete_topic("reachable")


def test_every_broker_passes_for_an_older_release_and_copies_all_the_same() -> None:
    config = {"transaction.state.log.num.partitions": 2}
    with KafkaCluster(brokers=2, emulate="2.1", in_process=True, config=config) as cluster:
        cluster.create_topic("orders", 2)
        for partition in range(2):
            cluster.move_leader("orders", partition + 1, partition)
        producer = Producer(cluster.client_config("confluent") | {"transactional.id": "older", "client.id": "older"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(4):
            producer.produce("orders", str(number), partition=number % 2)
        producer.commit_transaction(60)
        values = [record.value for record in cluster.wait_for_records("orders", 4)]
        assert values == ["0", "2", "1", "3"]
        versions = {each["api"]: each["version"] for each in cluster.requests(client_id="older")}
        assert versions["Produce"] == 7, "the last one of 2.1"
        address = cluster.broker(1).bootstrap_servers
        cluster.broker(1).restart()
        assert cluster.broker(1).bootstrap_servers == address
        assert [cluster.wait_for_isr("orders", number, size=2) for number in range(2)]
    with pytest.raises(ValueError, match=r"emulate=\.\.\. needs a controller of its own"):
        KafkaCluster(controllers=0, emulate="2.1")


def test_a_cluster_of_the_newest_release_begins_with_its_features(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaCluster(brokers=1, emulate=name_of(NEWEST_VERSION)) as cluster:
        assert run_tool("features", ["--bootstrap-server", cluster.bootstrap_servers, "describe"]) == 0
        told = r"Feature: (\S+) .*SupportedMaxVersion: (\S+) +FinalizedVersionLevel: (\S+) "
        levels = {name: (highest, now) for name, highest, now in re.findall(told, capsys.readouterr().out)}
        for name in ("metadata.version", "share.version"):
            assert levels[name][0] == levels[name][1], "the levels of a new cluster"
        assert levels["share.version"] == ("2", "2")
        cluster.create_topic("letters", config={"max.decompressed.message.bytes": "1000000"})
    with pytest.raises(ValueError, match="no release of Kafka"):
        KafkaCluster(emulate="99.9")


def test_an_older_cluster_with_users_is_one_too() -> None:
    users = {"alice": "secret"}
    with KafkaCluster(brokers=2, emulate="2.8", security="sasl_plaintext", users=users, in_process=True) as cluster:
        cluster.create_topic("orders")
        producer = Producer(cluster.client_config("confluent", user="alice") | {"client.id": "older"})
        producer.produce("orders", "paid")
        assert producer.flush(60) == 0
        cluster.assert_records("orders", ["paid"])
        assert cluster.requests("Produce", client_id="older")[0]["version"] == 9, "the last one of 2.8"


def test_what_several_brokers_can_t_do_is_refused_with_the_reason(cluster: KafkaCluster) -> None:
    with pytest.raises(BrokerError, match=r"dump is for one broker. cluster.records\(topic\) reads a topic"):
        cluster.dump()
    for name in ("pause", "unpause", "fill_disk", "free_disk", "metrics"):
        with pytest.raises(BrokerError, match=rf"{name} is for one broker: cluster.broker\(1\).{name}\(\)"):
            getattr(cluster, name)()
    with pytest.raises(BrokerError, match="partition_network"):
        cluster.cut_off([1])


def test_a_mistake_is_one_clear_line(cluster: KafkaCluster) -> None:
    with pytest.raises(ValueError, match="size must be at least 1, not 0"):
        cluster.wait_for_isr("x", size=0)
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: cluster.wait_for_isr("x", size="1"), "size must be an integer, not '1'"),  # type: ignore[arg-type]
        (lambda: cluster.wait_for_isr("x", nodes=1), "nodes must be a list of broker ids, not 1"),  # type: ignore[arg-type]
        (lambda: cluster.partition_network(1, 2), "sides are sets of node ids"),  # type: ignore[arg-type]
        (lambda: cluster.broker("1"), "a broker's id is a number, not '1': 1, 2, 3"),  # type: ignore[arg-type]
        (lambda: cluster.create_topic("x", 3, 1), r"config must be a dict of topic configs, not 1; replicas are"),  # type: ignore[arg-type]
        (lambda: KafkaCluster({"a": 1}), "brokers must be a number of brokers"),  # type: ignore[arg-type]
        (lambda: KafkaCluster(config=["a=b"]), "config must be a dict, not"),  # type: ignore[arg-type]
        (lambda: cluster.wait_for_records("x", 1, timeout="5"), "timeout must be a number of seconds, not '5'"),  # type: ignore[arg-type]
    ]
    for mistake, says in mistakes:
        with pytest.raises(TypeError, match=says):
            mistake()


@pytest.fixture(params=["alone", "several"])
def of_any_size(request: pytest.FixtureRequest) -> Iterator[KafkaBroker | KafkaCluster]:
    if request.param == "several":
        yield request.getfixturevalue("cluster")
    else:
        with KafkaBroker(in_process=True) as broker:
            yield broker


def test_the_end_of_a_transaction_is_no_record_to_read(of_any_size: Any) -> None:
    of_any_size.create_topic("ended")
    producer = Producer(of_any_size.client_config("confluent") | {"transactional.id": "shop"})
    producer.init_transactions(30)
    for value in ("1", "2"):
        producer.begin_transaction()
        producer.produce("ended", value, partition=0)
        producer.commit_transaction(30)
    first, second = of_any_size.wait_for_records("ended", 2)
    of_any_size.commit("reader", "ended", second.offset + 1)
    assert of_any_size.wait_for_lag("reader", 0) == of_any_size.lag("reader") == 0
    assert [each["lag"] for each in of_any_size.group("reader")["offsets"]] == [0]
    of_any_size.commit("reader", "ended", first.offset + 1)
    assert of_any_size.lag("reader") == 3
    with pytest.raises(WaitTimeout, match="ended-0: 3"):
        of_any_size.wait_for_lag("reader", 0, timeout=0.2)


def test_a_wrong_argument_fails_at_once_and_in_the_same_way(of_any_size: Any) -> None:
    of_any_size.create_topic("wrong")
    day = date(2026, 11, 29)
    mistakes: list[tuple[type[Exception], Callable[[], object], str]] = [
        (TypeError, lambda: of_any_size.wait_for_records("wrong", "2"), "n must be an integer, not '2'"),
        (ValueError, lambda: of_any_size.wait_for_records("wrong", -1), "n must be at least 0, not -1"),
        (ValueError, lambda: of_any_size.wait_for_lag("g", -1), "lag must be at least 0, not -1"),
        (ValueError, lambda: of_any_size.wait_for_connections("c", -1), "n must be at least 0, not -1"),
        (TypeError, lambda: of_any_size.wait_for_group("g", members="2"), "members must be an integer, not '2'"),
        (ValueError, lambda: of_any_size.records("wrong", limit=-1), "limit must be at least 0, not -1"),
        (TypeError, lambda: of_any_size.assert_no_more("wrong", within_ms="5"), "within_ms must be an integer"),
        (
            ValueError,
            lambda: of_any_size.assert_no_more("wrong", within_ms=0),
            "within_ms must be at least 1, not 0",
        ),
        (ValueError, lambda: of_any_size.wait_for_request("Produce", n=0), "n must be at least 1, not 0, with which"),
        (TypeError, lambda: of_any_size.wait_for_request("Produce", n="1"), "n must be an integer"),
        (TypeError, lambda: of_any_size.requests(since="yesterday"), "since must be a datetime"),
        (ValueError, lambda: of_any_size.wait_for_records("wrong", 1, timeout=-1), "timeout is in seconds, at least 0"),
        (ValueError, lambda: of_any_size.wait_for_records("wrong", 1, timeout=math.inf), "timeout is in seconds"),
        (ControlError, lambda: of_any_size.wait_for_request("Prodcue", timeout=60), "no API Prodcue; did you mean"),
        (
            ControlError,
            lambda: of_any_size.assert_records("wrong", ["1"], timeout=60, isolation_level="committed"),
            "isolation_level must be one of",
        ),
        (ValueError, lambda: of_any_size.topic(""), "an empty name"),
        (ValueError, lambda: of_any_size.group(""), "an empty name"),
        (TypeError, lambda: of_any_size.produce("wrong", ("17", "apples")), "not a single record: produce"),
        (TypeError, lambda: of_any_size.produce("wrong", [{"value": "v", "headers": "h"}]), "headers must be a dict"),
        (TypeError, lambda: of_any_size.wait_for_record("wrong", headers=["h"]), r"headers must be .*, not \['h'\]"),
        (TypeError, lambda: of_any_size.produce("wrong", [{"value": "v", "headers": {b"h": "1"}}]), "headers must be"),
        (TypeError, lambda: of_any_size.records("wrong", key={"id": 1}), "key must be text or bytes"),
        (TypeError, lambda: of_any_size.create_topic("other", config=["a"]), "config must be a dict of topic configs"),
        (TypeError, lambda: of_any_size.alter_config("wrong", "a=b"), "config must be a dict of topic configs"),
        (TypeError, lambda: of_any_size.assert_contains("wrong", (None, {})), "not a single record: assert_contains"),
        (TypeError, lambda: of_any_size.produce(5, ["v"]), "topic must be text, not 5"),
        (
            TypeError,
            lambda: of_any_size.produce("wrong", ["v", {"at": day}]),
            r"^records\[1\]: value\['at'\] is .* no date",
        ),
        (
            TypeError,
            lambda: of_any_size.assert_records("wrong", [(day, "v")]),
            r"^records\[0\]: key is .* isoformat\(\)$",
        ),
        (
            TypeError,
            lambda: of_any_size.assert_contains("wrong", [{"value": {1, 2}}]),
            r"^records\[0\]: value is \{1, 2\}",
        ),
        (TypeError, lambda: of_any_size.wait_for_record("wrong", headers={"at": day}), "header at is .* pass its iso"),
        (TypeError, lambda: of_any_size.create_topic("other", config={"a": day}), "^config.* JSON has no date"),
        (ValueError, lambda: of_any_size.wait_for_request("Fetch", since=1_764_374_400), "since=.* are seconds"),
        (TypeError, lambda: of_any_size.seed([{"type": "topic"}]), r"a line to seed must be text, json\.dumps"),
        (ValueError, lambda: of_any_size.clock.set(1_764_374_400), "now=1764374400 are seconds"),
    ]
    for kind, mistake, says in mistakes:
        with pytest.raises(kind, match=says):
            mistake()
    for too_early in (of_any_size.assert_records, of_any_size.assert_contains):
        with pytest.raises(RecordsDiffer) as differ:
            too_early("wrong", ["apples"])
        assert differ.value.__notes__ == ["(looked once: timeout=10 waits for records that are still to come)"]
        with pytest.raises(RecordsDiffer) as differ:
            too_early("wrong", ["apples"], timeout=0.01)
        assert not hasattr(differ.value, "__notes__")
    of_any_size.produce("wrong", (("17", "apples"), ("18", "pears")))
    of_any_size.assert_records("wrong", ["apples", "pears"])


def test_a_cluster_is_awaited_too() -> None:
    async def run() -> None:
        async with AsyncKafkaCluster(brokers=2, controllers=0) as cluster:
            await cluster.create_topic("orders", 2)
            await cluster.produce("orders", ["1", "2"])
            await cluster.assert_records("orders", ["1", "2"])
            async with cluster.faults.add(api="Fetch", client_id="nobody", delay_ms=1) as fault:
                assert await fault.hits == 0
            await cluster.broker(2).restart()
            assert await cluster.wait_for_isr("orders", size=2)
            await cluster.clock.advance(seconds=2)
            assert cluster.client_config("aiokafka") == {"bootstrap_servers": cluster.bootstrap_servers}
            await cluster.reset()
            assert await cluster.topics() == []

    asyncio.run(run())


def test_users_and_rights_are_those_of_all_brokers() -> None:
    acls = ["alice may write topic orders", "alice may describe topic orders", "bob may read topic orders"]
    users = {"alice": "secret", "bob": "secret"}
    told: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _: object) -> None:
        told.append(error)

    with KafkaCluster(brokers=2, security="sasl_ssl", users=users, acls=acls, in_process=True) as cluster:
        led_by = cluster.create_topic("orders", 2)
        assert led_by["partitions"] == 2
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            producer = Producer(cluster.client_config("confluent", user="alice", mechanism=mechanism))
            for partition in range(2):
                producer.produce("orders", mechanism, partition=partition, on_delivery=on_delivery)
            assert producer.flush(30) == 0
            assert {*told} == {None}
        strange = Producer(cluster.client_config("confluent", user="bob"))
        strange.produce("orders", "no", on_delivery=on_delivery)
        assert strange.flush(30) == 0
        assert told[-1] is not None
        assert told[-1].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert len(cluster.records("orders")) == 4
        cluster.broker(1).restart()
        cluster.wait_for_isr("orders", size=2)
        cluster.assert_contains("orders", ["PLAIN", "SCRAM-SHA-256"])
    with pytest.raises(ValueError, match="needs a controller of its own"):
        KafkaCluster(brokers=1, controllers=0, security="ssl")


def test_nodes_end_while_the_clock_stands() -> None:
    with KafkaCluster(brokers=2) as cluster:
        cluster.create_topic("orders")
        cluster.clock.freeze()
        cluster.broker(2).stop()
        assert not cluster.broker(2).running
        assert cluster.leader_of("orders") in (-1, 1)
