"""Nodes that log in at each other by tokens of an OAuth server, and by Kerberos tickets."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.bearer_tokens import AUDIENCE, ISSUER, PACKAGE, VALIDATOR, KeySite, key_set, signed
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster, Kind
from interop.kdc import REALM, Kdc, missing, running_kdc
from interop.waiting import eventually

pytestmark = pytest.mark.ours_only
PATIENCE_S = 60.0
LISTENERS = ("plaintext", "controller")
PLAIN_LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_tool="tool-secret";'
KINDS = [
    (OURS, (OURS, OURS)),
    *(
        pytest.param(
            *each, marks=[pytest.mark.java, pytest.mark.skipif("not config.getoption('--slow', default=False)")]
        )
        for each in ((THEIRS, (OURS, THEIRS)), (OURS, (THEIRS, OURS)))
    ),
]


def settings(mechanism: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of all nodes, for both of their listeners. own: the settings of the mechanism."""
    found = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": f"PLAIN,{mechanism}",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node;User:tool",
    }
    for listener in LISTENERS:
        found[f"listener.name.{listener}.plain.sasl.jaas.config"] = PLAIN_LINE
        for key, value in own.items():
            of_mechanism = f"{mechanism.lower()}." if key.endswith(("jaas.config", "handler.class")) else ""
            found[f"listener.name.{listener}.{of_mechanism}{key}"] = value
    return found


def tool(cluster: KafkaCluster) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "tool",
        "sasl.password": "tool-secret",
        "log_level": 0,
    }


def make(cluster: KafkaCluster, topic: str) -> None:
    """Create a topic with a replica on each of the two brokers, and wait until both are in sync."""
    admin = AdminClient(tool(cluster))

    def made() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(60)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR:
                return False  # the controller knows only one broker so far
            raise
        return True

    eventually(made, True, PATIENCE_S)

    def in_sync() -> int:
        partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
        return len(partitions[0].isrs) if partitions else 0

    eventually(in_sync, 2, PATIENCE_S)


def produce(cluster: KafkaCluster, topic: str) -> None:
    """Produce one record that both replicas acknowledge."""
    told: list[object] = []
    producer = Producer(tool(cluster) | {"acks": "all"})
    producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert told == [None]


@contextmanager
def running(
    kinds: tuple[Kind, tuple[Kind, ...]], directory: Path, config: Mapping[str, str], host: str = "127.0.0.1"
) -> Iterator[KafkaCluster]:
    controller, brokers = kinds
    with KafkaCluster(directory, controllers=[controller], brokers=brokers, config=config, host=host) as cluster:
        yield cluster


def of_tokens(url: str, keys: Path) -> dict[str, str]:
    return {
        "sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required;",
        "sasl.server.callback.handler.class": VALIDATOR,
        "sasl.login.callback.handler.class": PACKAGE + "OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


def allow(monkeypatch: pytest.MonkeyPatch, *urls: str) -> None:
    """Allow Kafka's JVM to fetch keys and tokens from these URLs and files only."""
    names = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{what}={','.join(urls)}" for what in ("urls", "files"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join(names))


@pytest.mark.parametrize(("controller", "brokers"), KINDS)
def test_tokens_of_an_endpoint_by_client_credentials(
    controller: Kind, brokers: tuple[Kind, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(key_set("one"))
    with KeySite("") as site:
        only_ours = THEIRS not in (controller, *brokers)
        site.life_s = 2 if only_ours else 60
        allow(monkeypatch, site.url, keys.as_uri())
        own = {
            **of_tokens(site.url, keys),
            "sasl.oauthbearer.client.credentials.client.id": "node-id",
            "sasl.oauthbearer.client.credentials.client.secret": "node-secret",
            "sasl.oauthbearer.scope": "kafka",
        }
        with running((controller, brokers), tmp_path / "nodes", settings("OAUTHBEARER", own)) as cluster:
            make(cluster, "by-token")
            produce(cluster, "by-token")
            if only_ours:
                first = len(site.sold)
                time.sleep(site.life_s)
                produce(cluster, "by-token")  # over connections that have logged in anew
                eventually(lambda: len(site.sold) > first, True, PATIENCE_S)
            logs = "".join(node.log for node in cluster.nodes if node.kind is OURS)
    credentials, body = site.sold[0]
    assert base64.b64decode(credentials.removeprefix("Basic ")) == b"node-id:node-secret"
    assert parse_qs(body) == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    for hidden in ("node-secret", "Bearer", "eyJ", "Traceback"):
        assert hidden not in logs


@pytest.mark.parametrize(("controller", "brokers"), KINDS[1:])
def test_tokens_of_a_file(
    controller: Kind, brokers: tuple[Kind, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, token = tmp_path / "keys.json", tmp_path / "token"
    keys.write_text(key_set("one"))
    token.write_text(signed(3600, sub="node"))
    allow(monkeypatch, token.as_uri(), keys.as_uri())
    own = of_tokens(token.as_uri(), keys)
    with running((controller, brokers), tmp_path / "nodes", settings("OAUTHBEARER", own)) as cluster:
        make(cluster, "by-file")
        produce(cluster, "by-file")


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    pytest.importorskip("gssapi", reason="the extra gssapi is not installed")
    if missing():
        pytest.skip(f"krb5-kdc is not installed: {missing()}")
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def keytab(kdc: Kdc) -> Path:
    return kdc.keytab("node/localhost")


@pytest.mark.parametrize(("controller", "brokers"), KINDS)
def test_tickets(
    controller: Kind, brokers: tuple[Kind, ...], kdc: Kdc, keytab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.config))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.config}")
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    own = {
        "sasl.jaas.config": f'{module} keyTab="{keytab}" principal="node/localhost@{REALM}";',
        "sasl.kerberos.service.name": "node",
    }
    config = settings("GSSAPI", own)
    with running((controller, brokers), tmp_path / "nodes", config, "localhost") as cluster:
        make(cluster, "by-ticket")
        produce(cluster, "by-ticket")
