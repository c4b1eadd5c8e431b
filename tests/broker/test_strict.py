"""Every switch of `pykafka.strict`: what this broker does otherwise for speed or comfort is done as Kafka does it.

What is expected here is what a running Kafka 4.4.0 answered, and 2.8 where the release matters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.routes import ROUTES
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.runtime import ZERO_UUID
from tests.broker.api.real_broker import RealBroker

UNKNOWN, NO_LEADER = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE
# Requests to a controller alone, and those of controllers of releases before 4.0 to brokers.
BETWEEN_NODES = frozenset(
    [
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    ]
)


@pytest.fixture
def strict(tmp_path: Path) -> RealBroker:
    return RealBroker(tmp_path, **{"pykafka.strict": "true"})


@pytest.fixture
def quick(tmp_path: Path) -> RealBroker:
    return RealBroker(tmp_path)


def topic_of(node: RealBroker, name: str, version: int = 12) -> Any:
    return node.call(MetadataRequest([MetadataRequestTopic(name=name)]), version).topics[0]


def test_a_topic_that_a_request_creates_is_in_the_next_answer(strict: RealBroker) -> None:
    first = topic_of(strict, "t")
    assert (first.error_code, first.topic_id, first.partitions) == (UNKNOWN, ZERO_UUID, [])
    second = topic_of(strict, "t")
    assert (second.error_code, second.partitions[0].leader_id) == (0, 1)


@pytest.mark.parametrize(("release", "code"), [("0.9", NO_LEADER), ("2.8", NO_LEADER), ("3.9", UNKNOWN)])
def test_what_a_release_said_of_it(tmp_path: Path, release: str, code: ErrorCode) -> None:
    node = RealBroker(tmp_path, **{"pykafka.strict": "true", "pykafka.emulate": release})
    assert topic_of(node, "t", 0).error_code == code
    assert topic_of(node, "t", 0).error_code == 0


def test_what_may_be_done_is_told_of_a_topic_that_comes(strict: RealBroker) -> None:
    asked = MetadataRequest([MetadataRequestTopic(name="t")], True, include_topic_authorized_operations=True)
    coming, here = (strict.call(asked, 9).topics[0] for _ in range(2))
    assert (coming.error_code, here.error_code) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert coming.topic_authorized_operations == here.topic_authorized_operations == 3576


def test_a_name_that_can_not_be_a_topic_is_told_at_once(strict: RealBroker) -> None:
    assert topic_of(strict, "bad/name").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_is_in_the_very_answer_otherwise(quick: RealBroker) -> None:
    assert topic_of(quick, "t").partitions[0].leader_id == 1


@pytest.mark.parametrize("key_type", [0, 1])
def test_a_coordinator_is_there_at_the_second_question(strict: RealBroker, key_type: int) -> None:
    def find() -> list[Any]:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k", "l", "m"])
        return list(strict.call(request, 4).coordinators)

    for found in find():
        assert (found.error_code, found.node_id, found.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
    assert [(found.error_code, found.node_id) for found in find()] == [(0, 1)] * 3


@pytest.mark.parametrize("api_key", sorted(BETWEEN_NODES))
def test_what_only_nodes_ask_closes_the_connection_anyhow(quick: RealBroker, api_key: ApiKey) -> None:
    with pytest.raises(FrameError, match="is not served"):
        quick.call(SPECS[api_key].request_class()(), SPECS[api_key].min_version)


def test_what_a_client_may_ask_is_nothing_between_nodes() -> None:
    assert not BETWEEN_NODES & ROUTES.keys()
    assert BETWEEN_NODES | ROUTES.keys() == SPECS.keys()


def test_what_a_release_offered_is_refused_in_words(tmp_path: Path) -> None:
    """Clients that are offered an API ask for it, again and again if they are hung up on."""
    node = RealBroker(tmp_path, **{"pykafka.strict": "true", "pykafka.emulate": "2.8"})
    request = SPECS[ApiKey.ALTER_PARTITION].request_class()()
    assert node.call(request, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
