"""`pykafka-broker format` does what kafka-storage does, and either broker starts on what it leaves."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from interop.real_kafka import RealKafka, free_port
from interop.storage_tool.__main__ import RECORDED
from interop.storage_tool.running import CLUSTER_ID, run
from interop.storage_tool.scripts import SCRIPTS
from pykafka_broker.cli.format import main
from pykafka_broker.testing import KafkaBroker

KAFKA: dict[str, Any] = json.loads(RECORDED.read_text())
USER = "SCRAM-SHA-512=[name=alice,password=alice-secret,iterations=8192]"


def ours(arguments: list[str]) -> tuple[int, str, str]:
    out, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(wrong):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), wrong.getvalue()


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_says_and_leaves_what_kafka_storage_does(name: str, tmp_path: Path) -> None:
    assert run(SCRIPTS[name], ours, tmp_path) == KAFKA[name]


def test_the_command_is_there() -> None:
    done = subprocess.run([sys.executable, "-m", "pykafka_broker", "random-uuid"], capture_output=True, text=True)
    assert (done.returncode, len(done.stdout)) == (0, 23)


def users(bootstrap_servers: str) -> dict[str, list[tuple[str, int]]]:
    """Name to mechanism and iterations."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    asked: Any = admin.describe_user_scram_credentials()
    return {
        name: [(each.mechanism.name, each.iterations) for each in user.scram_credential_infos]
        for name, user in asked.result(30).items()
    }


class Formatted:
    """A node's configuration, whose directory our command has formatted with a user."""

    def __init__(self, directory: Path, *options: str, **quorum: str) -> None:
        self.port, controller = free_port(), free_port()
        self.config = {
            "process.roles": "broker,controller",
            "node.id": "7",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": str(directory / "logs"),
            **{key.replace("_", "."): text.replace("PORT", str(controller)) for key, text in quorum.items()},
        }
        self.file = directory / "server.properties"
        self.file.write_text("".join(f"{key}={value}\n" for key, value in self.config.items()))
        code, _, wrong = ours(["format", "-c", str(self.file), "-t", CLUSTER_ID, "-S", USER, *options])
        assert (code, wrong) == (0, "")


@pytest.fixture(params=["static", "standalone"])
def formatted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Formatted]:
    if request.param == "static":
        yield Formatted(tmp_path, controller_quorum_voters="7@127.0.0.1:PORT")
    else:
        yield Formatted(tmp_path, "--standalone", controller_quorum_bootstrap_servers="127.0.0.1:PORT")


def test_our_broker_has_the_user_from_its_first_start(formatted: Formatted) -> None:
    with KafkaBroker(formatted.config, port=formatted.port) as broker:
        assert users(broker.bootstrap_servers) == {"alice": [("SCRAM_SHA_512", 8192)]}


@pytest.mark.java
def test_a_real_kafka_has_the_user_from_its_first_start(formatted: Formatted, tmp_path: Path) -> None:
    dynamic = "controller.quorum.bootstrap.servers" in formatted.config
    with RealKafka(formatted.config, directory=tmp_path, port=formatted.port, standalone=dynamic) as kafka:
        assert users(kafka.bootstrap_servers) == {"alice": [("SCRAM_SHA_512", 8192)]}


@pytest.mark.java
def test_our_broker_starts_on_what_kafka_storage_has_formatted(tmp_path: Path) -> None:
    kafka = RealKafka(directory=tmp_path, standalone=True)
    kafka.format()
    with KafkaBroker(data_dir=kafka.data_dir) as broker:
        assert users(broker.bootstrap_servers) == {}
        assert broker.topics() == []
