"""Expired tokens leave the metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.broker.controller import DelegationTokenExpiry
from pykafka_broker.cluster.delegation_tokens import create_token
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from tests.broker.api.real_broker import RealBroker
from tests.broker.controller_node import NOW, ControllerNode

HOUR = 3_600_000


@pytest.fixture
def node(tmp_path: Path) -> RealBroker:
    return RealBroker(tmp_path, **{"delegation.token.secret.key": "sesame"})


def create(node: RealBroker, lifetime_ms: int) -> None:
    metadata = node.broker.metadata
    wall = node.broker.clock.wall
    metadata.commit(create_token(metadata.controller, "User:a", "User:a", [], lifetime_ms, wall).records)


def test_they_go_when_the_interval_is_over(node: RealBroker) -> None:
    create(node, 1000)
    create(node, 10 * HOUR)
    node.broker.on_deadline(node.now + HOUR - 1)
    assert len(node.broker.image.delegation_tokens) == 2
    node.broker.on_deadline(node.now + HOUR)
    assert len(node.broker.image.delegation_tokens) == 1


def test_they_go_on_a_controller_that_is_no_broker(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path, delegation_token_secret_key="sesame")
    metadata = node.whole.node.led_metadata
    metadata.commit(create_token(metadata.controller, "User:a", "User:a", [], 1000, NOW).records)
    node.on_deadline(NOW + HOUR)
    assert not node.image.delegation_tokens


def test_the_wall_clock_says_what_has_expired(node: RealBroker) -> None:
    create(node, 2 * HOUR)
    node.broker.clock.set(node.now + HOUR, node.now + 3 * HOUR)
    node.broker.whole.on_deadline()
    assert not node.broker.image.delegation_tokens


def test_without_tokens_nothing_is_due(node: RealBroker) -> None:
    sweep = DelegationTokenExpiry(node.broker.whole.node)
    assert sweep.next_deadline() is None
    create(node, 1000)
    assert sweep.next_deadline() == node.now + HOUR


def test_without_a_secret_key_there_is_no_sweep(tmp_path: Path) -> None:
    node = RealBroker(tmp_path)
    assert not any(isinstance(machine, DelegationTokenExpiry) for machine in node.broker.whole.timed)


def test_what_the_disk_refuses_is_tried_again(node: RealBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    create(node, 1000)
    metadata = node.broker.metadata
    commit = metadata.commit

    def refuse(records: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    monkeypatch.setattr(metadata, "commit", refuse)
    node.broker.on_deadline(node.now + HOUR)
    monkeypatch.setattr(metadata, "commit", commit)
    node.broker.on_deadline(node.now + 2 * HOUR)
    assert not node.broker.image.delegation_tokens
