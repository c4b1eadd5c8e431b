"""`configs` as JSON, what its errors must not say, and which of the two commands of this name is meant."""

import re

import pytest

from pykafka_broker.cli.commands import is_tool
from pykafka_broker.client.configs import NewCredential, ScramMechanism
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main
from tests.tools.asking import Asked


def test_configs_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("t")
        told = Asked(broker, capsys)
        changed = told("configs", "--topic", "t", "--alter", "--add-config", "cleanup.policy=[compact,delete]")
        assert changed == {"entities": [{"type": "topics", "name": "t"}], "added": ["cleanup.policy"], "deleted": []}
        (topic,) = told("configs", "--entity-type", "topics", "--describe")
        (config,) = topic["configs"]
        assert (topic["entity_name"], config["name"], config["value"]) == ("t", "cleanup.policy", "compact,delete")
        assert config["synonyms"][0]["source"] == "DYNAMIC_TOPIC_CONFIG"
        told("configs", "--user-defaults", "--alter", "--add-config", "producer_byte_rate=5")
        told("configs", "--user", "bob", "--alter", "--add-config", "SCRAM-SHA-256=[password=p,q]")
        assert told("configs", "--entity-type", "users", "--describe") == [
            {"entity": {"user": None}, "quotas": {"producer_byte_rate": 5.0}},
            {"user": "bob", "credentials": {"SCRAM-SHA-256": 4096}},
        ]


@pytest.mark.parametrize(
    "added",
    [
        "SCRAM-SHA-256=[iterations=4096,pass=the-secret]",
        "SCRAM-SHA-256=the-secret",
        "SCRAM-SHA-256=[password=the-secret",
        "SCRAM-SHA-512=[iterations=9,password=the-secret]",
        "SCRAM-SHA-1=[password=the-secret]",
    ],
)
def test_a_password_stands_in_no_error(added: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        where = ["--bootstrap-server", broker.bootstrap_servers]
        main("configs", [*where, "--user", "bob", "--alter", "--add-config", added])
    out, err = capsys.readouterr()
    assert "the-secret" not in out + err


def test_a_credential_does_not_show_its_password() -> None:
    assert "the-secret" not in repr(NewCredential(ScramMechanism.SCRAM_SHA_256, 4096, "the-secret"))


@pytest.mark.parametrize(
    ("arguments", "tool"),
    [
        ([], False),
        (["--scope", "topic"], False),
        (["--scope=topic", "--effect", "none"], False),
        (["--scope", "topic", "--help"], False),
        (["--help"], True),
        (["--topic", "t", "--describe"], True),
        (["--bootstrap-server=localhost:9092"], True),
    ],
)
def test_which_configs_is_meant(arguments: list[str], tool: bool) -> None:
    assert is_tool(["configs", *arguments]) is tool


def test_help_tells_of_both(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main("configs", ["--help"])
    assert re.search(r"lists\s+every\s+config\s+key", capsys.readouterr().err)


def test_a_name_that_no_host_can_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("configs", "--bootstrap-server", "127.0.0.1:1", "--entity-type", "ips", "--entity-name", "a..b")
    assert main(words[0], [*words[1:], "--alter", "--add-config", "connection_creation_rate=5"]) == 1
    assert "must be a valid IP or resolvable host, but it is: a..b" in capsys.readouterr().err
