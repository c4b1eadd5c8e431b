"""The nodes of each release, compared with nodes that the release itself wrote (`interop/zookeeper_record.py`)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cluster.image import BrokerImage, MetadataImage, PartitionImage
from pykafka_broker.config.extensions import own_settings
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from pykafka_broker.zookeeper import forms

RECORDED: dict[str, dict[str, list[Any]]] = json.loads((Path(__file__).parent / "recorded.json").read_bytes())
PORT = 9092


def number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def broker(*endpoints: tuple[str, int], rack: str | None = None) -> BrokerImage:
    points = [BrokerEndpoint(name, "127.0.0.1", PORT, protocol) for name, protocol in endpoints]
    return BrokerImage(RegisterBrokerRecord(1, end_points=points, rack=rack))


@pytest.mark.parametrize("release", RECORDED)
def test_nodes_of_a_release(release: str) -> None:
    nodes, shown = RECORDED[release], number(release)
    view = forms.ShownTopic(bytes(16), {index: PartitionImage(index, (1,), (1,), 1) for index in (0, 1)})
    image = MetadataImage()
    image.next_producer_id = 1000
    ours = {
        "/brokers/ids/1": forms.own_node(shown, broker(("PLAINTEXT", 0)), 5),
        "/controller": forms.controller(shown, 1, 5),
        "/brokers/topics/made": forms.topic(shown, view),
        "/brokers/topics/made/partitions/0/state": forms.state(view.partitions[0], 1),
        "/config/topics/made": forms.config({"retention.ms": "1000"}),
        **dict(forms.fixed(shown, "ID", image, 1)),
    }
    if shown >= (3,):
        del ours[forms.PRODUCER_IDS]  # asked for later there
    for path, value in ours.items():
        content, same = json.loads(value), nodes[path][0]
        assert content == {
            **same,
            **{key: content[key] for key in ("timestamp", "topic_id", "port", "endpoints") if key in same},
        }
    made = {path for path, (content, _) in nodes.items() if content is None and not path.startswith("/brokers/topics/")}
    for path in forms.folders(shown):
        assert path in made
    written = {path for path, (content, _) in nodes.items() if content is not None}
    assert {path for path in ours if path not in written} == set()


def test_releases_that_never_had_a_zookeeper_are_shown_as_the_last_that_had() -> None:
    for emulate, expected in (("0.8", (0, 8, 2, 2)), ("2.8", (2, 8, 2)), ("4.1", (3, 9)), ("", (3, 9))):
        own, _ = own_settings({"pykafka.emulate": emulate})
        assert forms.release_shown(own) == expected


def test_listeners_of_all_kinds() -> None:
    secure = broker(("INSIDE", 1), ("OUTSIDE", 0), rack="a")
    old = json.loads(forms.own_node((0, 10, 1), secure, 5))
    assert old["endpoints"] == ["SSL://127.0.0.1:9092", "PLAINTEXT://127.0.0.1:9092"]
    assert (old["rack"], old["version"]) == ("a", 3)
    new = json.loads(forms.own_node((1, 1), secure, 5))
    assert new["endpoints"] == ["INSIDE://127.0.0.1:9092", "OUTSIDE://127.0.0.1:9092"]
    assert new["listener_security_protocol_map"] == {"INSIDE": "SSL", "OUTSIDE": "PLAINTEXT"}
    without_plain = json.loads(forms.own_node((1, 1), broker(("INSIDE", 1)), 5))
    assert (without_plain["host"], without_plain["port"]) == (None, -1)


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        ((("user", "a b"),), "users/a%20b"),
        ((("client-id", None), ("user", "ann")), "users/ann/clients/<default>"),
        ((("client-id", "x*~/y"),), "clients/x%2A%7E%2Fy"),
        ((("ip", "10.0.0.1"),), "ips/10.0.0.1"),
    ],
)
def test_paths_of_quotas(entity: Any, path: str) -> None:
    assert forms.quota_path(entity) == path
    assert forms.quota_of(path) == entity


def test_paths_of_settings() -> None:
    assert forms.resource_path(ConfigResourceType.TOPIC, "a") == "topics/a"
    assert forms.resource_path(ConfigResourceType.BROKER, "") == "brokers/<default>"
    assert forms.resource_path(ConfigResourceType.GROUP, "a") is None
    assert forms.resource_of("brokers/<default>") == (ConfigResourceType.BROKER, "")
    assert forms.resource_of("users/a") is None
    for nonsense in ("users", "users/a/clients", "no/such"):
        assert forms.quota_of(nonsense) == ()


@pytest.mark.parametrize(
    ("notification", "path"),
    [
        ("made", "topics/made"),
        ({"version": 1, "entity_type": "clients", "entity_name": "app"}, "clients/app"),
        ({"version": 2, "entity_path": "users/ann"}, "users/ann"),
        (5, None),
    ],
)
def test_notifications_of_all_ages(notification: Any, path: str | None) -> None:
    assert forms.changed_path(notification) == path


def test_secrets_are_not_shown() -> None:
    image = MetadataImage()
    image.configs[ConfigResourceType.BROKER, "1"] = {"ssl.key.password": "x", "log.cleaner.threads": "2"}
    image.configs[ConfigResourceType.BROKER, ""] = {"min.insync.replicas": "1"}
    assert forms.settings(image, "brokers/1") == {"log.cleaner.threads": "2"}
    assert forms.settings(image, "brokers/<default>") == {}
    image.client_quotas[("user", "a"),] = {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    assert forms.settings(image, "users/a") == {"producer_byte_rate": "1024", "request_percentage": "12.5"}
    image.client_quotas[("user", "a"),] = {"request_percentage": math.inf}
    assert forms.settings(image, "users/a") == {"request_percentage": "inf"}
