"""The container image, its testcontainer and its compose file, run on this machine without containers."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pykafka_broker.cli.healthy import main as healthy
from pykafka_broker.cli.settings import config_name
from pykafka_broker.testing import container

pytestmark = pytest.mark.posix("its image is of Linux, its paths and its signals too")

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
CONTAINERFILE = (PACKAGING / "Containerfile").read_text().replace("\\\n", " ")


def instruction(name: str) -> str:
    """Return the arguments of the Containerfile's last instruction of that name."""
    return re.findall(rf"^{name} (.*)$", CONTAINERFILE, re.MULTILINE)[-1]


def exec_form(text: str) -> list[str]:
    return [each for each in yaml.safe_load(text[text.index("[") :]) if isinstance(each, str)]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """The environment of the image, with another directory and a free port."""
    found = dict(each.split("=", 1) for each in shlex.split(instruction("ENV")))
    found["KAFKA_LOG_DIRS"] = str(tmp_path / "data")
    found["KAFKA_LISTENERS"] = found["KAFKA_LISTENERS"].replace("9092", "0")
    return {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")} | found


@pytest.fixture
def ready(settings: dict[str, str], tmp_path: Path) -> Iterator[Path]:
    """The broker of the image, started by its entry point."""
    file = tmp_path / "ready"
    entry = [each.replace("/tmp/ready", str(file)) for each in exec_form(instruction("ENTRYPOINT"))]
    command = [sys.executable, "-m", "pykafka_broker", *entry[1:]]
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on ")
        yield file
        process.send_signal(getattr(signal, instruction("STOPSIGNAL")))
        assert process.wait(30) == 0


def test_the_image_starts_is_healthy_and_stops(ready: Path) -> None:
    check = exec_form(instruction("HEALTHCHECK").partition(" CMD ")[2])
    command = [sys.executable, *check[1:-1], str(ready)]
    assert subprocess.run(command).returncode == 0
    ready.write_text("127.0.0.1:1")
    refused = subprocess.run(command, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)


def test_it_is_not_healthy_before_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["healthy", str(tmp_path / "ready")])
    assert healthy() == 1


def test_the_image_gets_what_it_installs() -> None:
    wanted = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert all((ROOT / each).exists() for each in wanted)
    assert {"pyproject.toml", "pykafka_broker", "README.md"} <= wanted


class FakeDocker:
    """A stand-in for a Docker client, which only has to exist."""

    def __init__(self, **options: Any) -> None:
        pass

    def host(self) -> str:
        return "docker.example"


def test_a_testcontainer_tells_clients_the_port_that_they_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testcontainers.core.container.DockerClient", FakeDocker)
    monkeypatch.setattr("testcontainers.core.container.DockerContainer.start", lambda self: self)
    monkeypatch.setattr(
        "testcontainers.core.container.DockerContainer.get_container_host_ip", lambda self: "docker.example"
    )
    kafka = container.PykafkaContainer(config={"num.partitions": 3, "log.dir-s_x": "y"}).start()
    assert kafka.get_bootstrap_server() == f"docker.example:{kafka.host_port}"
    assert kafka.env["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://docker.example:{kafka.host_port}"
    assert kafka.env["KAFKA_NUM_PARTITIONS"] == "3"


@pytest.mark.parametrize("name", ["log.retention.ms", "a_b", "a-b", "ssl.keystore.type"])
def test_a_setting_comes_through_the_environment(name: str) -> None:
    assert config_name(container.variable(name)) == name


def test_the_snippet_for_gitlab_waits_until_clients_may_connect() -> None:
    snippet = yaml.safe_load((PACKAGING / "gitlab-ci.yml").read_text())
    start, wait = snippet["test"]["before_script"][1:]
    assert start.endswith("&")
    assert re.search(r"--ready-file (\S+)", start)[1] in wait  # type: ignore[index]
    assert start.split()[2:4] == ["--listen", snippet["test"]["variables"]["BOOTSTRAP_SERVERS"].split(":")[1]]


def test_the_image_is_nobody_of_rank_and_of_no_architecture() -> None:
    assert instruction("USER").isdecimal()
    assert int(instruction("USER")) > 0
    assert "--platform=" not in CONTAINERFILE
    assert instruction("VOLUME") == found_in_env("KAFKA_LOG_DIRS")


def found_in_env(name: str) -> str:
    return dict(each.split("=", 1) for each in shlex.split(instruction("ENV")))[name]


def test_the_services_of_the_compose_file_start_with_page_and_registry(tmp_path: Path) -> None:
    (service,) = yaml.safe_load((PACKAGING / "compose.yaml").read_text())["services"].values()
    published = {each.split(":")[1]: each.split(":")[2] for each in service["ports"]}
    assert all(here == there for here, there in published.items())
    options = [each.replace("0.0.0.0", "127.0.0.1") for each in service["command"]]
    assert {"9092", *(each.rpartition(":")[2] for each in options if ":" in each)} == {*published}
    options = [re.sub(r":\d+$", ":0", each) for each in options]
    given = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")} | service[
        "environment"
    ]
    given["KAFKA_LISTENERS"] = re.sub(r"//:\d+", "//127.0.0.1:0", given["KAFKA_LISTENERS"])
    given["KAFKA_LOG_DIRS"] = str(tmp_path / "data")
    command = [sys.executable, "-m", "pykafka_broker", *options]
    with subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        told = {
            line.partition(" on ")[0]: line.partition(" on ")[2].strip() for line in _until_listening(process.stdout)
        }
        try:
            with urllib.request.urlopen(told["control"] + "/") as page:
                assert b"<title>pykafka-broker</title>" in page.read()
            with urllib.request.urlopen(told["schema registry"] + "/subjects") as subjects:
                assert subjects.read() == b"[]"
        finally:
            process.terminate()


def _until_listening(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.startswith("listening on "):
            return
