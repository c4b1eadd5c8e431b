"""The faces of a broker and of a cluster have the same names, and tell the same mistakes."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from pykafka_broker.testing import (
    AsyncKafkaBroker,
    AsyncKafkaCluster,
    AsyncRemoteBroker,
    BrokerError,
    KafkaBroker,
    KafkaCluster,
    RemoteBroker,
)

NOWHERE = "http://127.0.0.1:1"
OF_A_PROCESS = {  # what a broker that was started elsewhere does not have
    *("allow_unknown_config", "config", "data_dir", "emulate", "fork", "history_path", "host", "in_process", "kill"),
    *("log", "log_level", "log_path", "log_since", "log_size", "loop", "pid", "port", "quick_groups", "restart"),
    *("running", "schema_registry", "start", "start_timeout_s", "stop", "strict", "give_up"),
}
SETTINGS = {  # of a `KafkaBroker`, which its asynchronous form has no part in
    *("allow_unknown_config", "emulate", "in_process", "log_level", "log_path", "loop", "quick_groups"),
    *("schema_registry", "start_timeout_s", "strict", "give_up"),
}


def names(face: object) -> set[str]:
    return {name for name in dir(face) if not name.startswith("_")}


def test_names() -> None:
    broker, cluster = KafkaBroker(), KafkaCluster(1)
    remote = names(RemoteBroker(NOWHERE))
    assert names(broker) - remote == OF_A_PROCESS
    assert remote <= names(broker)
    assert names(AsyncRemoteBroker(NOWHERE)) == remote
    assert names(broker) - names(AsyncKafkaBroker.of(broker)) == SETTINGS
    asynchronous = names(AsyncKafkaCluster.of(cluster)) - {"of"}
    assert names(cluster) == asynchronous
    assert remote <= names(cluster)
    cluster.close()
    broker.close()


def test_the_schema_registry_of_a_broker_elsewhere() -> None:
    with KafkaBroker(schema_registry=True, in_process=True) as broker:
        for remote in (RemoteBroker(broker.control_url), AsyncRemoteBroker(broker.control_url)):
            assert remote.schema_registry_url == broker.schema_registry_url
            assert remote.client_config("schema-registry") == broker.client_config("schema-registry")
    with KafkaBroker(in_process=True) as broker:
        for remote in (RemoteBroker(broker.control_url), AsyncRemoteBroker(broker.control_url)):
            with pytest.raises(BrokerError, match="there is no schema registry: start the broker with --schema-reg"):
                _ = remote.schema_registry_url


@pytest.fixture(scope="module")
def faces() -> Any:
    with (
        KafkaBroker(schema_registry=True, in_process=True) as broker,
        KafkaCluster(1, controllers=0, schema_registry=True, in_process=True) as cluster,
    ):
        for face in (broker, cluster):
            face.create_topic("t")
        yield broker, cluster


@pytest.mark.parametrize(
    "mistake",
    [
        lambda face: face.wait_for_records("t", 1, timeout=5000),
        lambda face: face.wait_for_group("g", timeout=5000),
        lambda face: face.wait_for_connections("c", timeout=5000),
        lambda face: face.assert_records("t", ["1"], timeout=5000),
        lambda face: face.wait_for_request(timeout=5000),
    ],
)
def test_milliseconds_for_seconds(faces: Any, mistake: Callable[[Any], object]) -> None:
    for face in faces:
        with pytest.raises(ValueError, match=r"^timeout is in seconds, at least 0 and at most 3600, not 5000$"):
            mistake(face)


def test_milliseconds_for_the_seconds_of_a_start() -> None:
    for face in (KafkaBroker, KafkaCluster):
        with pytest.raises(ValueError, match="start_timeout_s is in seconds, at least 0 and at most 3600, not 30000"):
            face(start_timeout_s=30_000)
    with KafkaBroker(in_process=True) as broker, pytest.raises(ValueError, match="timeout is in seconds"):
        broker.stop(timeout=30_000)


def test_a_client_id_is_text(faces: Any) -> None:
    for face in faces:
        with pytest.raises((TypeError, RuntimeError), match="client_id must be a string"):
            face.wait_for_connections(5, 0, timeout=1)


FRAMED = b"\0\0\0\0\1"  # of the first schema of a registry


def test_failures_show_values_by_their_schemas_alike(faces: Any) -> None:
    told: list[list[str]] = []
    for face in faces:
        face.create_topic("framed")
        schema = {"schemaType": "JSON", "schema": '{"type": "object"}'}
        _register(face.schema_registry_url, schema)
        face.produce("framed", [FRAMED + b'{"id": 1}', "text"])
        texts = []
        mistakes: list[Callable[[Any], object]] = [
            lambda face: face.assert_records("framed", [FRAMED + b'{"id": 2}', {"id": 3}]),
            lambda face: face.assert_contains("framed", [FRAMED + b'{"id": 2}']),
            lambda face: face.wait_for_record("framed", value=FRAMED + b'{"id": 2}', timeout=0.1),
            lambda face: face.wait_for_records("framed", 3, timeout=0.1),
        ]
        for mistake in mistakes:
            with pytest.raises(AssertionError) as raised:
                mistake(face)
            texts.append(str(raised.value).replace("after 100 ms ", "after 0.1 s "))
        assert "(JSON, schema 1)" in texts[0]
        told.append(texts)
    assert told[0] == told[1]


def _register(url: str, schema: dict[str, str]) -> None:
    request = urllib.request.Request(
        f"{url}/subjects/framed-value/versions",
        json.dumps(schema).encode(),
        {"content-type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request) as answer:
        assert json.loads(answer.read())["id"] == 1
