"""Services for handlers: names, rights, addresses, and coordinators that are made at their first use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.api.init_producer_id import init_producer_id
from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tests.broker.support import LightBroker

COORDINATORS = {"groups": CONSUMER_OFFSETS, "transactions": TRANSACTION_STATE, "shares": SHARE_GROUP_STATE}


@pytest.fixture
def broker(tmp_path: Path) -> LightBroker:
    return LightBroker(tmp_path, offsets_topic_num_partitions="3", transaction_state_log_num_partitions="2")


@pytest.fixture
def services(broker: LightBroker) -> Services:
    return broker.services


def code_of(action: Any, *arguments: Any) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        action(*arguments)
    return caught.value.code


class Denying:
    """An authorizer that denies everything and keeps the questions."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def allows(self, *asked: Any) -> bool:
        self.asked.append(asked)
        return False

    def rule(self, *asked: Any) -> str:
        return "Denying"

    allows_some = allows


# -- coordinators


@pytest.mark.parametrize("name", COORDINATORS)
def test_a_coordinator_comes_at_its_first_use_and_stays(broker: LightBroker, services: Services, name: str) -> None:
    assert not services.hosts
    host = getattr(services, name)
    assert getattr(services, name) is host
    assert host in broker.whole.timed, "its deadlines are driven"


def test_a_producer_without_transactions_does_not_wait_for_a_coordinator(
    broker: LightBroker, services: Services
) -> None:
    asked = init_producer_id(services, broker.context(ApiKey.INIT_PRODUCER_ID, 5), InitProducerIdRequest(None, 60_000))
    response = asked.result() if isinstance(asked, Future) else asked
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.NONE, 0, 0)
    assert not services.hosts


def test_a_start_brings_up_those_that_have_a_topic(tmp_path: Path) -> None:
    broker = LightBroker(tmp_path)
    assert not set(COORDINATORS) & set(broker.services.__dict__)
    broker.create_missing_topics([CONSUMER_OFFSETS])
    broker.stop(broker.now)
    again = LightBroker(tmp_path)
    assert set(COORDINATORS) & set(again.services.__dict__) == {"groups"}


def test_the_partition_of_a_group_is_known_before_its_topic_is_there(broker: LightBroker, services: Services) -> None:
    before = services.offsets_partition("g")
    assert before == (CONSUMER_OFFSETS, partition_for("g", 3))
    broker.create_missing_topics([CONSUMER_OFFSETS])
    assert services.offsets_partition("g") == before


# -- topics and rights


def test_a_topic_by_its_id(broker: LightBroker, services: Services) -> None:
    topic_id = broker.add("t")
    assert services.topic_name(topic_id) == "t"
    assert code_of(services.topic_name, b"?" * 16) is ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (AclResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (AclResourceType.DELEGATION_TOKEN, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        (AclResourceType.USER, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
    ],
)
def test_what_is_denied_is_told_by_its_resource(
    broker: LightBroker, services: Services, resource: AclResourceType, code: ErrorCode
) -> None:
    context = broker.context(ApiKey.FETCH, 13)
    assert services.allows(context, AclOperation.READ, resource, "x")
    denying = Denying()
    services.authorize_by(denying)
    assert not services.allows(context, AclOperation.READ, resource, "x")
    assert code_of(services.authorise, context, AclOperation.READ, resource, "x") is code
    asked = ("User:ANONYMOUS", "127.0.0.1", AclOperation.READ, resource, "x")
    assert denying.asked == [asked, asked]


# -- addresses


class Listener:
    name, host, port, protocol = "PLAINTEXT", "0.0.0.0", 9092, "PLAINTEXT"

    def __init__(self, advertised: tuple[str, int] | None) -> None:
        self.advertised = advertised


def test_a_client_is_told_the_address_that_it_dialled_unless_one_is_advertised(
    broker: LightBroker, services: Services
) -> None:
    context = broker.context(ApiKey.METADATA, 12)
    assert services.advertised(context) == ("127.0.0.1", 9092)
    services.listeners = {"PLAINTEXT": Listener(None)}
    assert services.advertised(context) == ("127.0.0.1", 9092)
    services.listeners = {"PLAINTEXT": Listener(("broker.example", 19092))}
    assert services.advertised(context) == ("broker.example", 19092)


@pytest.mark.parametrize(
    ("fenced", "listener", "seen"), [(False, "PLAINTEXT", [1, 2]), (True, "PLAINTEXT", [1]), (False, "OTHER", [1])]
)
def test_other_nodes_are_told_by_the_listener_of_the_client(
    broker: LightBroker, services: Services, fenced: bool, listener: str, seen: list[int]
) -> None:
    endpoint = BrokerEndpoint(listener, "other.example", 9093, 0)
    record = RegisterBrokerRecord(2, broker_epoch=9, end_points=[endpoint], fenced=fenced, rack=None)
    broker.commit_metadata([ApiMessageAndVersion(record, 3)])
    context = broker.context(ApiKey.METADATA, 12)
    nodes = services.nodes(context)
    assert [node[0] for node in nodes] == seen
    assert nodes[1:] in ([], [(2, "other.example", 9093, None)])
    told_of_all = [node[0] for node in services.nodes(context, fenced=True)]
    assert told_of_all == ([1, 2] if listener == "PLAINTEXT" else [1])
