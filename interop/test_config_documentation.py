"""DescribeConfigs explains each config if the request asks for documentation, and otherwise does not (KIP-569)."""

from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.raw import RawClient
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

BROKER_ID = "1"


def told(bootstrap: str, kind: ConfigResourceType, name: str, asked: bool) -> dict[str, str | None]:
    """Return the documentation of each config by its name; asked: whether the request asks for documentation."""
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], False, asked)
    with RawClient(bootstrap) as client:
        (result,) = client.call(request, 4).results
    assert result.error_code == 0
    return {each.name: each.documentation for each in result.configs}


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"explained-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})  # the client must live as long as its answer is waited for
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


def test_configs_of_a_topic(bootstrap: str, topic: str) -> None:
    assert set(told(bootstrap, ConfigResourceType.TOPIC, topic, False).values()) == {None}
    assert all(told(bootstrap, ConfigResourceType.TOPIC, topic, True).values())


@pytest.mark.parametrize("kind", [ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS], ids=lambda it: it.name)
def test_configs_of_what_need_not_be_there(bootstrap: str, kind: ConfigResourceType) -> None:
    assert set(told(bootstrap, kind, "explained", False).values()) == {None}
    assert all(told(bootstrap, kind, "explained", True).values())


def test_configs_of_a_broker(bootstrap: str) -> None:
    assert set(told(bootstrap, ConfigResourceType.BROKER, BROKER_ID, False).values()) == {None}
    found = told(bootstrap, ConfigResourceType.BROKER, BROKER_ID, True)
    assert len([says for says in found.values() if says]) > 300


@pytest.mark.parametrize("asked", [False, True])
def test_what_loggers_are_for_is_never_said(bootstrap: str, asked: bool) -> None:
    assert set(told(bootstrap, ConfigResourceType.BROKER_LOGGER, BROKER_ID, asked).values()) == {""}
