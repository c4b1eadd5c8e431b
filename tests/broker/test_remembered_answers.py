"""Answers that the router remembers by the bytes of a request are used only as long as they are right."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pykafka_broker.broker.metadata.metadata_source import MetadataLeader
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply, ReplyCache
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.api.real_broker import RealBroker
from tests.broker.support import batch

VERSION = 9


@pytest.fixture
def node(tmp_path: Path) -> RealBroker:
    return RealBroker(tmp_path)


def ask(node: RealBroker, topic: str = "t", *, create: bool = False) -> int:
    """Ask for one topic and return its error code."""
    answer = node.call(MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create), VERSION)
    assert [one.name for one in answer.topics] == [topic]
    code: int = answer.topics[0].error_code
    return code


def test_a_change_of_the_metadata_is_seen_by_the_next_request(node: RealBroker) -> None:
    assert [ask(node), ask(node)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 5)
    assert [ask(node), ask(node)] == [ErrorCode.NONE] * 2
    node.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000), 5)
    assert ask(node) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_versions_of_another_controller_are_told_at_once(node: RealBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    served = {ApiKey.CREATE_TOPICS: 7}
    other = SimpleNamespace(narrowed=lambda key, lowest, highest: (lowest, min(highest, served.get(key, highest))))
    monkeypatch.setattr(node.broker.services.node, "metadata_follower", other)
    for version in (7, 7, 5):
        served[ApiKey.CREATE_TOPICS] = version
        answer = node.call(ApiVersionsRequest("a", "1"), 4)
        assert {each.api_key: each.max_version for each in answer.api_keys}[ApiKey.CREATE_TOPICS] == version


def test_a_request_that_creates_creates_again_after_a_deletion(node: RealBroker) -> None:
    for _ in range(2):
        ask(node, create=True)
        assert "t" in node.broker.image.topics
        assert ask(node, create=True) == ErrorCode.NONE
        node.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000), 5)


def test_a_topic_for_which_there_was_no_room_is_tried_again(node: RealBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(MetadataLeader, "commit", refuse)
        assert [ask(node, create=True) for _ in range(2)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert ask(node, create=True) == ErrorCode.NONE


def test_each_client_is_told_the_address_that_it_dialled(node: RealBroker) -> None:
    hosts = []
    for dialled in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        here = node.connection
        node.connection = ConnectionContext(
            here.id, here.listener, (dialled, here.local_port), (here.client_host, here.client_port)
        )
        hosts.append(node.call(MetadataRequest([]), VERSION).brokers[0].host)
    assert hosts == ["10.0.0.1", "10.0.0.2", "10.0.0.1"]


class Denies:
    """An authorizer under which one user may not see topics."""

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        return resource is not AclResourceType.TOPIC or principal != "User:stranger"

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        return True

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        return "Denies"


def test_what_one_user_was_told_is_not_told_another(node: RealBroker) -> None:
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 5)
    node.broker.services.authorize_by(Denies())
    assert ask(node) == ErrorCode.NONE
    node.connection.principal = "User:stranger"
    assert [ask(node), ask(node)] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    node.connection.principal = "User:friend"
    assert ask(node) == ErrorCode.NONE


class Moody(Denies):
    """An authorizer in Python whose answers change."""

    says = True

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        return Moody.says


def test_an_authorizer_that_changes_its_mind_is_heeded_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = RealBroker(tmp_path, **{"authorizer.class.name": f"{__name__}:Moody"})
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 5)
    assert ask(node) == ErrorCode.NONE
    monkeypatch.setattr(Moody, "says", False)
    assert ask(node) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_same_request_is_decoded_once(node: RealBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 5)
    ask(node)
    endpoint = node.broker.router._endpoints[MetadataRequest.API_KEY]
    monkeypatch.setattr(endpoint, "handler", None)
    assert ask(node) == ErrorCode.NONE


def test_answers_that_are_remembered_take_no_more_than_so_many_bytes() -> None:
    image, cache = MetadataImage(), ReplyCache(most_bytes=100)
    for key in range(7):
        cache.put(image, key, EncodedReply(bytes(30)))
    assert [key for key in range(7) if cache.get(image, key)] == [6]
    assert cache.put(image, 7, EncodedReply(bytes(70))) is cache.get(image, 7)
    assert cache.get(image, 6) is not None
    image.generation += 1
    assert [key for key in range(8) if cache.get(image, key)] == []


def ask_end(node: RealBroker) -> int:
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])]
    found: int = node.call(ListOffsetsRequest(topics=topics), 7).topics[0].partitions[0].offset
    return found


def test_a_request_that_is_decoded_once_is_answered_anew(node: RealBroker) -> None:
    node.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 5)
    ends = []
    for _ in range(3):
        ends.append(ask_end(node))
        partition = PartitionProduceData(index=0, records=batch(b"x"))
        node.call(ProduceRequest(acks=-1, topic_data=[TopicProduceData("t", partition_data=[partition])]), 9)
    assert ends == [0, 1, 2]
    node.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000), 5)
    assert ask_end(node) == -1
