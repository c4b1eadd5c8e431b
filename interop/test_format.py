"""`pykafka-broker format` does what kafka-storage does, and either broker starts on what it leaves."""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from interop.jars import KAFKA_VERSION
from interop.real_kafka import RealKafka, free_port
from interop.storage_tool.__main__ import RECORDED
from interop.storage_tool.running import CLUSTER_ID, run
from interop.storage_tool.scripts import SCRIPTS
from pykafka_broker.cli.format import main
from pykafka_broker.testing import KafkaBroker
from tests.releases.other import OTHER_VERSION, emulated

KAFKA: dict[str, Any] = {release: json.loads(path.read_text()) for release, path in RECORDED.items()}
USER = "SCRAM-SHA-512=[name=alice,password=alice-secret,iterations=8192]"


def ours(arguments: list[str]) -> tuple[int, str, str]:
    out, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(wrong):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), wrong.getvalue()


def as_by(release: str) -> list[str]:
    return ["--emulate", emulated(release)] if emulated(release) else []


@pytest.mark.parametrize("release", KAFKA)
@pytest.mark.parametrize("name", SCRIPTS)
def test_it_says_and_leaves_what_kafka_storage_does(name: str, release: str, tmp_path: Path) -> None:
    def passing_for_it(arguments: list[str]) -> tuple[int, str, str]:
        return ours([*arguments, *as_by(release)])

    assert run(SCRIPTS[name], passing_for_it, tmp_path) == KAFKA[release][name]


def test_the_command_is_there() -> None:
    done = subprocess.run([sys.executable, "-m", "pykafka_broker", "random-uuid"], capture_output=True, text=True)
    assert (done.returncode, len(done.stdout)) == (0, 23)


def users(bootstrap_servers: str) -> dict[str, list[tuple[str, int]]]:
    """Return the mechanism and iterations of each user, by name."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    asked: Any = admin.describe_user_scram_credentials()
    return {
        name: [(each.mechanism.name, each.iterations) for each in user.scram_credential_infos]
        for name, user in asked.result(60).items()
    }


class Formatted:
    """A node whose directory our command has formatted with a user, as the release's tool does."""

    def __init__(self, directory: Path, release: str, *options: str, **quorum: str) -> None:
        self.release = release
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
        code, _, wrong = ours(["format", "-c", str(self.file), "-t", CLUSTER_ID, "-S", USER, *options, *as_by(release)])
        assert (code, wrong) == (0, "")


@pytest.fixture(params=["static", "standalone"])
def quorum(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[KAFKA_VERSION, pytest.param(OTHER_VERSION, marks=pytest.mark.slow)])
def formatted(request: pytest.FixtureRequest, quorum: str, tmp_path: Path) -> Formatted:
    if quorum == "static":
        return Formatted(tmp_path, request.param, controller_quorum_voters="7@127.0.0.1:PORT")
    return Formatted(tmp_path, request.param, "--standalone", controller_quorum_bootstrap_servers="127.0.0.1:PORT")


def test_our_broker_has_the_user_from_its_first_start(formatted: Formatted) -> None:
    emulate = emulated(formatted.release)
    with KafkaBroker(formatted.config, port=formatted.port, emulate=emulate) as broker:
        assert users(broker.bootstrap_servers) == {"alice": [("SCRAM_SHA_512", 8192)]}


@pytest.mark.java
def test_a_real_kafka_has_the_user_from_its_first_start(formatted: Formatted, tmp_path: Path) -> None:
    dynamic = "controller.quorum.bootstrap.servers" in formatted.config
    kafka = RealKafka(
        formatted.config, directory=tmp_path, port=formatted.port, standalone=dynamic, release=formatted.release
    )
    with kafka:
        assert users(kafka.bootstrap_servers) == {"alice": [("SCRAM_SHA_512", 8192)]}


@pytest.mark.java
@pytest.mark.parametrize("release", [KAFKA_VERSION, pytest.param(OTHER_VERSION, marks=pytest.mark.slow)])
def test_our_broker_starts_on_what_kafka_storage_has_formatted(release: str, quorum: str, tmp_path: Path) -> None:
    kafka = RealKafka(directory=tmp_path, standalone=quorum == "standalone", release=release)
    kafka.format("-S", USER)
    with KafkaBroker(data_dir=kafka.data_dir, emulate=emulated(release)) as broker:
        assert users(broker.bootstrap_servers) == {"alice": [("SCRAM_SHA_512", 8192)]}
        assert broker.topics() == []
