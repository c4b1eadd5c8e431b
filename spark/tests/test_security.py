"""Security, told once: what it is translated to, what is refused, and the whole way over SASL_SSL."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import security, silver
from pipeline.cli import main
from pipeline.errors import SettingsError
from pipeline.kafka import Kafka
from pipeline.settings import load
from pykafka_broker.testing import KafkaBroker

PASSWORD = 'k"n\\ock'


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaBroker]:
    acls = ["spark may all topic *", "spark may read group *", "spark may describe cluster"]
    with KafkaBroker(security="sasl_ssl", users={"spark": PASSWORD, "eve": "eve"}, acls=acls) as broker:
        yield broker


def authority(broker: KafkaBroker) -> str:
    return str(broker.client_config("confluent", user="spark")["ssl.ca.location"])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"user": "x"}, "there is no user; there are protocol, mechanism"),
        ({"username": "x"}, "protocol is '', and can be PLAINTEXT"),
        ({"protocol": "SASL_SSL"}, "mechanism is '', and can be PLAIN, SCRAM"),
        ({"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "x"}, "password is not set, and SASL_SSL needs it"),
        ({"protocol": "SSL", "ca_file": "none.pem"}, r"there is no file none.pem, which ca_file names"),
        ({"protocol": "SSL", "key_file": "x"}, "certificate_file is not set, and key_file needs it"),
        ({"protocol": "SSL", "username": "x"}, "username is of no use with protocol SSL: it has to begin with SASL_"),
        ({"protocol": "PLAINTEXT", "ca_file": "x"}, "ca_file is of no use with protocol PLAINTEXT: it has to end with"),
        ({"protocol": "SSL", "verify_hostname": "no"}, "verify_hostname can be true or false"),
    ],
)
def test_what_is_refused(table: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        security.check(table)


def test_a_truth_value_of_toml(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[security]\nprotocol = "SSL"\nverify_hostname = false\n')
    assert load("silver", {"config": str(file)}).client_config["ssl.endpoint.identification.algorithm"] == "none"


def test_both_kinds_of_clients(tmp_path: Path) -> None:
    certificate = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----"
    key = "-----BEGIN PRIVATE KEY-----\nYg==\n-----END PRIVATE KEY-----"
    identity = tmp_path / "identity.pem"
    identity.write_text(f"{key}\nwords\n{certificate}\n{certificate}\n")
    table = {"protocol": "SSL", "ca_file": str(identity), "certificate_file": str(identity), "key_password": "s"}
    security.check(table)
    assert security.java_config(table) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": f"{certificate}\n{certificate}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": f"{certificate}\n{certificate}",
        "ssl.keystore.key": key,
        "ssl.key.password": "s",
    }
    assert security.librdkafka_config(table | {"verify_hostname": "false"}) == {
        "security.protocol": "ssl",
        "ssl.ca.location": str(identity),
        "ssl.certificate.location": str(identity),
        "ssl.key.location": str(identity),
        "ssl.key.password": "s",
        "ssl.endpoint.identification.algorithm": "none",
    }
    identity.write_text(f"{key.replace('PRIVATE', 'RSA PRIVATE')}\n{certificate}\n")
    with pytest.raises(SettingsError, match="is not PKCS#8, as Java's clients want it: openssl pkcs8 -topk8 makes one"):
        security.java_config(table)
    identity.write_bytes(b"\xfe\xed\xfe\xed")  # a key store of Java
    with pytest.raises(SettingsError, match="has no certificate in PEM"):
        security.java_config(table)


def test_a_secret_of_the_environment() -> None:
    table = ["protocol=SASL_PLAINTEXT", "mechanism=PLAIN", "username=spark", "password=${SECRET}"]
    settings = load("silver", {"security": table}, {"SECRET": "x y"})
    assert settings.client_config["sasl.password"] == "x y"
    assert 'password="x y";' in settings.java_config["sasl.jaas.config"]
    with pytest.raises(SettingsError, match="security: password needs the variable SECRET, and the environment has"):
        load("silver", {"security": table}, {})
    assert load("store", {"database": "postgresql://u:${P}@h/d"}, {"P": "q"}).database == "postgresql://u:q@h/d"


@pytest.mark.spark
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_whole_way(
    mechanism: str, secured: KafkaBroker, spark: SparkSession, tmp_path: Path, event: Any,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Files to a topic, topic to a table, dead letters and metrics to topics: one table in one file for all of it."""
    monkeypatch.setenv("SPARK_PASSWORD", PASSWORD)
    (tmp_path / "events.jsonl").write_bytes(b"\n".join([event(1), event(2), b"{"]))
    topic = f"events-{mechanism}"
    config = tmp_path / "pipeline.toml"
    config.write_text(f"""
bootstrap_servers = "{secured.bootstrap_servers}"
data_dir = "{tmp_path}/data"
bronze_topic = "{topic}"
dead_letter_topic = "{topic}.dead"
metrics_topic = "{topic}.metrics"
group = "silver"
[security]
protocol = "SASL_SSL"
mechanism = "{mechanism}"
username = "spark"
password = "${{SPARK_PASSWORD}}"
ca_file = "{authority(secured)}"
""")
    given = ["--config", str(config)]
    assert main(["ingest", *given, "--input", str(tmp_path / "events.jsonl")]) == 0
    assert main(["silver", *given]) == 0
    done = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (done["accepted"], done["rejected"]) == (2, 1)
    settings = load("silver", {"config": str(config)})
    assert spark.read.parquet(silver.table_path(settings)).count() == 2
    kafka = Kafka(settings)
    assert [record.value() for record in kafka.read_all(f"{topic}.dead")] == [b"{"]
    assert kafka.committed("silver", topic)
    assert main(["silver", *given, "--security", "protocol=SSL"]) == 3


@pytest.mark.spark
def test_no_plan_shows_the_secrets(secured: KafkaBroker, spark: SparkSession) -> None:
    """Spark prints the options of a source in its UI and its event log."""
    table = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "spark", "password": PASSWORD}
    config = security.java_config({**table, "ca_file": authority(secured)})
    secured.create_topic("planned")
    options = {f"kafka.{name}": value for name, value in config.items()}
    options |= {"kafka.bootstrap.servers": secured.bootstrap_servers, "subscribe": "planned"}
    frame = spark.read.format("kafka").options(**options).load()
    execution: Any = frame._jdf.queryExecution()
    assert "kafka.security.protocol" in execution.toString() or "Kafka" in execution.toString()
    assert "ock" not in execution.toString()
