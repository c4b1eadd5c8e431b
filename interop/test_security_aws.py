"""AWS_MSK_IAM: clients log in with what Amazon's own signers sign, in Java by that mechanism, else by OAUTHBEARER."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from interop.jars import aws_jars
from interop.java import QUICK_JVM, java_command, kafka_classpath
from interop.secured import deliver, secured
from pykafka_broker.testing import KafkaBroker

signer = pytest.importorskip("aws_msk_iam_sasl_signer.MSKAuthTokenProvider", reason="pip install -e '.[interop]'")
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
TOKEN_HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
KEY, SECRET, NAME = "AKIAEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "arn:aws:iam::123456789012:user/alice"
REGION = "eu-west-1"
LINE = (
    f'{MODULE} required secret_{KEY}="{SECRET}" name_{KEY}="{NAME}" region="{REGION}" '
    f'secret_ASIATEMP="{SECRET}" session_token_ASIATEMP="a+b/c=" name_ASIATEMP="role";'
)
SETTINGS = {
    "listener.name.aws.sasl.enabled.mechanisms": "AWS_MSK_IAM,OAUTHBEARER",
    "listener.name.aws.aws_msk_iam.sasl.jaas.config": LINE,
    "listener.name.aws.oauthbearer.sasl.jaas.config": LINE,
}


class AwsBroker:
    """A broker with a listener for the clients of Amazon MSK."""

    def __init__(self, broker: KafkaBroker, address: str) -> None:
        self.broker = broker
        self.address = address

    def principals(self, topic: str) -> set[str]:
        return {each["principal"] for each in self.broker.requests("Produce", topic=topic)}


@pytest.fixture(scope="module")
def aws() -> Iterator[AwsBroker]:
    with secured("broker", {"AWS": "SASL_PLAINTEXT"}, SETTINGS) as found:
        assert isinstance(found.target, KafkaBroker)
        yield AwsBroker(found.target, found.address("AWS"))


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment variables from which Amazon's libraries take their credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


def signed_token(region: str = REGION) -> tuple[str, int]:
    token, expires_ms = signer.generate_auth_token(region)
    return token, expires_ms


class Provider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    def token(self) -> str:
        return signed_token()[0]


def by_confluent(address: str, topic: str, region: str = REGION) -> None:
    errors: list[KafkaError] = []

    def token(_: str) -> tuple[str, float]:
        made, expires_ms = signed_token(region)
        return made, expires_ms / 1000

    producer = Producer(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": token,
            "error_cb": errors.append,
        }
    )
    producer.produce(topic, b"apples")
    deliver(producer, errors)


def by_kafka_python(address: str, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    producer.send(topic, b"apples").get(60)
    producer.close()


def by_java(address: str, topic: str, folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Write a record by Kafka's console producer, with Amazon's login module on its class path."""
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": f"{MODULE} required;"} | {
        name.replace("_", "."): value for name, value in settings.items()
    }
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    path = f"{kafka_classpath()}:{aws_jars()}/*"
    command = java_command(*QUICK_JVM, "-cp", path, "org.apache.kafka.tools.ConsoleProducer")
    command += [
        "--bootstrap-server",
        address,
        "--topic",
        topic,
        "--command-config",
        str(file),
        "--command-property",
        "delivery.timeout.ms=20000",
    ]
    command += ["--command-property", "request.timeout.ms=10000"]
    return subprocess.run(command, input="apples\n", capture_output=True, text=True, timeout=120)


@pytest.mark.usefixtures("identity")
@pytest.mark.parametrize("client", [by_confluent, by_kafka_python])
def test_a_token_of_amazons_signer_logs_in(client: Any, aws: AwsBroker) -> None:
    topic = client.__name__
    aws.broker.create_topic(topic)
    client(aws.address, topic)
    aws.broker.assert_records(topic, ["apples"])
    assert aws.principals(topic) == {f"User:{NAME}"}


def test_a_token_of_a_stranger_or_of_another_region_is_refused(aws: AwsBroker, identity: pytest.MonkeyPatch) -> None:
    with pytest.raises(PermissionError, match="invalid_token"):
        by_confluent(aws.address, "refused", "us-east-1")
    assert "its credential is of the region 'us-east-1'" in aws.broker.log
    identity.setenv("AWS_SECRET_ACCESS_KEY", "other")
    with pytest.raises(PermissionError, match="invalid_token"):
        by_confluent(aws.address, "refused")
    assert "its signature is wrong" in aws.broker.log


def test_a_temporary_identity_shows_its_session_token(aws: AwsBroker, identity: pytest.MonkeyPatch) -> None:
    identity.setenv("AWS_ACCESS_KEY_ID", "ASIATEMP")
    identity.setenv("AWS_SESSION_TOKEN", "a+b/c=")
    aws.broker.create_topic("temporary")
    by_confluent(aws.address, "temporary")
    assert aws.principals("temporary") == {"User:role"}


MECHANISMS = {
    "AWS_MSK_IAM": {"sasl_client_callback_handler_class": HANDLER},
    "OAUTHBEARER": {
        "sasl_login_callback_handler_class": TOKEN_HANDLER,
        "sasl_jaas_config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    },
}


@pytest.mark.java
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("temporary", [False, True], ids=["lasting", "temporary"])
def test_amazons_login_module_in_java(
    mechanism: str, temporary: bool, aws: AwsBroker, identity: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if temporary:
        identity.setenv("AWS_ACCESS_KEY_ID", "ASIATEMP")
        identity.setenv("AWS_SESSION_TOKEN", "a+b/c=")
    topic = f"java-{mechanism}-{temporary}"
    aws.broker.create_topic(topic)
    done = by_java(aws.address, topic, tmp_path, sasl_mechanism=mechanism, **MECHANISMS[mechanism])
    assert [each.value for each in aws.broker.records(topic)] == ["apples"], done.stdout + done.stderr
    assert aws.principals(topic) == {"User:role" if temporary else f"User:{NAME}"}


@pytest.mark.java
def test_a_java_client_with_another_secret_is_refused(
    aws: AwsBroker, identity: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    identity.setenv("AWS_SECRET_ACCESS_KEY", "other")
    aws.broker.create_topic("java-refused")
    by_java(aws.address, "java-refused", tmp_path, sasl_mechanism="AWS_MSK_IAM", **MECHANISMS["AWS_MSK_IAM"])
    assert aws.broker.records("java-refused") == []
    log = aws.broker.log
    assert re.search(r"Failed authentication with .*\[\S+\]: Access denied", log)
    assert "a signed request is not taken: its signature is wrong" in log
    assert SECRET not in log
