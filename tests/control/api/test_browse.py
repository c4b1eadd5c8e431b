"""Lists for the page: a piece at a time, sorted and searched by the broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from interop.raw import RawClient
from pykafka_broker.control.api import browse as operations
from pykafka_broker.control.control import InProcessClient
from pykafka_broker.protocol.messages import alter_client_quotas_request as altering
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.testing import ControlError, KafkaBroker

MANY = 120


def browse(broker: KafkaBroker, path: str, **query: Any) -> Any:
    return broker.control.call("GET", f"/browse{path}", query=query)


@pytest.fixture(scope="module")
def listed(broker: KafkaBroker) -> str:
    for number in range(MANY):
        broker.create_topic(f"listed-{number:03}", partitions=1 + number % 3)
    broker.produce("listed-042", [{"value": "x" * 100}] * 10)
    broker.produce("listed-007", [{"value": "x"}] * 20)
    return "LISTED-"


def names(page: dict[str, Any]) -> list[str]:
    return [each["name"] for each in page["topics"]]


def test_a_list_of_topics_comes_in_pieces(broker: KafkaBroker, listed: str) -> None:
    first = browse(broker, "/topics", search=listed, limit=50)
    last = browse(broker, "/topics", search=listed, limit=50, offset=100)
    assert (first["total"], names(first)[0], len(first["topics"])) == (MANY, "listed-000", 50)
    assert names(last) == [f"listed-{number}" for number in range(100, MANY)]
    assert names(browse(broker, "/topics", search=listed, descending=True, limit=1)) == ["listed-119"]
    assert names(browse(broker, "/topics", search="no such")) == []


def test_topics_are_sorted_by_how_much_they_hold(broker: KafkaBroker, listed: str) -> None:
    by_bytes = browse(broker, "/topics", search=listed, sort="bytes", descending=True, limit=2)["topics"]
    assert [(each["name"], each["records"]) for each in by_bytes] == [("listed-042", 10), ("listed-007", 20)]
    assert by_bytes[0]["bytes"] > 1000
    by_records = browse(broker, "/topics", search=listed, sort="records", descending=True, limit=2)
    assert names(by_records) == ["listed-007", "listed-042"]
    assert names(browse(broker, "/topics", search=listed, sort="partitions", limit=1)) == ["listed-000"]
    with pytest.raises(ControlError, match="sort must be one of name, partitions, records, bytes"):
        browse(broker, "/topics", sort="colour")


def test_internal_topics_are_there_when_they_are_asked_for(broker: KafkaBroker) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "browsing-internal"})
    consumer.list_topics()
    broker.create_topic("internal-or-not")
    consumer.subscribe(["internal-or-not"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()
    assert "__consumer_offsets" not in names(browse(broker, "/topics", search="__consumer"))
    (found,) = browse(broker, "/topics", search="__consumer", internal=True)["topics"]
    assert (found["name"], found["internal"]) == ("__consumer_offsets", True)


def test_a_topic_tells_of_its_partitions(broker: KafkaBroker, listed: str) -> None:
    found = browse(broker, "/topics/listed-007")
    assert (found["total"], found["internal"]) == (2, False)
    first = found["partitions"][0]
    assert (first["leader"], first["replicas"], first["isr"]) == (1, [1], [1])
    assert sum(each["end"] - each["start"] for each in found["partitions"]) == 20
    assert all(each["stable"] == each["end"] and each["segments"] == 1 for each in found["partitions"])
    assert browse(broker, "/topics/listed-007", offset=1)["partitions"][0]["partition"] == 1
    with pytest.raises(ControlError, match="there is no topic nowhere"):
        browse(broker, "/topics/nowhere")


def test_groups_come_with_their_lag(broker: KafkaBroker) -> None:
    broker.create_topic("behind")
    broker.produce("behind", [{"value": str(number)} for number in range(5)])
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "browsing-lag",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(config | {"enable.auto.commit": False})
    consumer.subscribe(["behind"])
    message = consumer.poll(60)
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    (row,) = browse(broker, "/groups", search="BROWSING-LAG")["groups"]
    assert (row["lag"], row["group"]["state"], row["group"]["members"]) == (4, "Stable", 1)
    consumer.close()


def test_groups_of_a_topic_are_those_with_offsets_of_it(broker: KafkaBroker) -> None:
    for name in ("read-a", "read-b"):
        broker.create_topic(name)
        broker.commit(f"reads-{name}", name, 0)
    found = browse(broker, "/groups", topic="read-a")
    assert [each["group"]["group_id"] for each in found["groups"]] == ["reads-read-a"]
    assert found["total"] == 1
    assert browse(broker, "/groups", topic="never-read")["groups"] == []


def test_rights_are_listed() -> None:
    rights = ["alice may read topic orders", "bob may not write topic orders-*"]
    with KafkaBroker(security="sasl_plaintext", users=["alice", "bob"], acls=rights, in_process=True) as broker:
        found = browse(broker, "/access")["acls"]
    first, last = ((each["principal"], each["permission"], each["pattern_type"]) for each in (found[0], found[-1]))
    assert (first, last) == (("User:alice", "ALLOW", "LITERAL"), ("User:bob", "DENY", "PREFIXED"))
    assert {(each["operation"], each["resource_name"]) for each in found} >= {("READ", "orders"), ("WRITE", "orders-")}
    assert {(each["resource_type"], each["host"]) for each in found} == {("TOPIC", "*")}


def test_users_and_quotas_are_listed() -> None:
    with KafkaBroker(in_process=True) as broker, RawClient(broker.bootstrap_servers) as client:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        password = UserScramCredentialUpsertion("carol", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), b"x")
        for done in admin.alter_user_scram_credentials([password]).values():
            done.result(60)
        entity = [altering.EntityData("user", None), altering.EntityData("client-id", "shop")]
        quota = altering.OpData("producer_byte_rate", 1000.0, False)
        asked = altering.AlterClientQuotasRequest([altering.EntryData(entity, [quota])])
        assert client.call(asked, 1).entries[0].error_code == 0
        found = browse(broker, "/access")
    assert found["users"] == {"carol": ["SCRAM-SHA-512"]}
    whose = {"client-id": "shop", "user": None}
    assert found["quotas"] == [{"entity": whose, "quotas": {"producer_byte_rate": 1000.0}}]


def test_subjects_of_a_registry_are_listed() -> None:
    with KafkaBroker(schema_registry=True, in_process=True) as broker:
        registry = SchemaRegistryClient({"url": broker.schema_registry_url})
        for subject in ("orders-value", "payments-value"):
            registry.register_schema(subject, Schema('"string"', "AVRO"))
        registry.register_schema("orders-value", Schema('["string", "null"]', "AVRO"))
        registry.set_compatibility("orders-value", "FULL")
        found = browse(broker, "/schemas", search="ORDERS")
        assert found["total"] == 1
        (subject,) = found["subjects"]
        assert (subject["versions"], subject["compatibility"], subject["schema_type"]) == ([1, 2], "FULL", "AVRO")
        assert subject["text"] == '["string","null"]'
        registry.delete_subject("orders-value")
        assert [each["subject"] for each in browse(broker, "/schemas")["subjects"]] == ["payments-value"]


def test_without_a_registry_there_are_no_subjects(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="no schema registry is beside this broker") as refused:
        browse(broker, "/schemas")
    assert refused.value.status == 404


def test_names_for_a_fault_are_those_that_a_fault_takes(broker: KafkaBroker) -> None:
    found = browse(broker, "/names")
    assert {"Produce", "StreamsGroupHeartbeat"} <= {*found["apis"]}
    with broker.faults.add(api=found["apis"], error=found["errors"][0]):
        pass
    assert "NONE" not in found["errors"]
    assert found["errors"] == sorted(found["errors"])


def test_configs_say_where_they_come_from(broker: KafkaBroker) -> None:
    broker.create_topic("configured", config={"retention.ms": 5})
    configs = {each["name"]: each for each in browse(broker, "/configs/topic/configured")}
    assert (configs["retention.ms"]["value"], configs["retention.ms"]["source"]) == ("5", "topic")
    assert configs["cleanup.policy"]["source"] == "default"
    node = browse(broker, "/configs/broker/1")
    secrets = [each for each in node if each["name"] == "ssl.keystore.password"]
    assert [(each["secret"], each["value"]) for each in secrets] == [(True, None)]
    with pytest.raises(ControlError, match="kind must be one of topic, broker"):
        browse(broker, "/configs/colour/1")
    with pytest.raises(ControlError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        browse(broker, "/configs/topic/nowhere")


def test_what_there_is_in_sums(broker: KafkaBroker) -> None:
    before = browse(broker, "")
    broker.create_topic("summed", partitions=4)
    after = browse(broker, "")
    assert (after["topics"] - before["topics"], after["partitions"] - before["partitions"]) == (1, 4)
    assert after["now_ms"] >= before["now_ms"]


def test_transactions_are_described_a_few_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once: list[int] = []
    ask = InProcessClient.ask

    async def counted(client: InProcessClient, request: Any, version: int | None = None) -> Any:
        if isinstance(request, DescribeTransactionsRequest):
            at_once.append(len(request.transactional_ids))
        return await ask(client, request, version)

    monkeypatch.setattr(InProcessClient, "ask", counted)
    monkeypatch.setattr(operations, "_IDS_IN_A_TURN", 2)
    with KafkaBroker(in_process=True) as broker:
        assert browse(broker, "/transactions") == []
        for name in "edcba":
            Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name}).init_transactions()
        rows = browse(broker, "/transactions")
    assert [each["transactional_id"] for each in rows] == [*"abcde"]
    assert at_once == [2, 2, 1]
