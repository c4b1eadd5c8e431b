"""Frameworks that are built on the clients, each with a small application of its own (interop/frameworks).

Rule: an application prints its results as one line of JSON at its end. The line is the same against Kafka
(`--target=kafka`). Packages are fetched once, into `.cache/frameworks`; without a package its test is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from interop.targets import Target
from interop.toolchains import digest, made_once, need, run
from pipeline.java import java_home

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SOURCES = Path(__file__).with_name("frameworks")
BUILT = Path(__file__).resolve().parents[1] / ".cache" / "frameworks"
FETCH_TIMEOUT_S, RUN_TIMEOUT_S = 500, 240
OPEN = ["--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"]  # for Flink
RECORDS = 22


@pytest.fixture(scope="module")
def bootstrap(broker: Target) -> str:
    return broker.bootstrap_servers


def fetched(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(command[:3])}: {(done.stdout + done.stderr)[-500:]}")


def python(*packages: str) -> str:
    """Return the path of a Python that has these packages."""
    folder = BUILT / "-".join(packages).replace("[", "-").replace("]", "").replace(",", "-")
    program = str(folder / "bin" / "python")

    def make() -> None:
        venv.create(folder, with_pip=True)
        fetched([program, "-m", "pip", "--disable-pip-version-check", "-q", "install", *packages], folder)

    made_once(folder, " ".join(packages), make)
    return program


def java(project: str) -> list[str]:
    """Build a Java project; return the beginning of a command that runs one of its classes."""
    need("mvn")
    sources, folder = SOURCES / project, BUILT / project

    def make() -> None:
        shutil.copytree(sources, folder, dirs_exist_ok=True)
        fetched(["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"], folder)
        run(["mvn", "-q", "-B", "compile"], folder)

    made_once(folder, digest(sources), make)
    classpath = os.pathsep.join([str(folder / "target" / "classes"), (folder / "classpath").read_text().strip()])
    return [str(java_home() / "bin" / "java"), "-Xmx512m", *OPEN, "-cp", classpath]


def told(*command: str) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_quixstreams(bootstrap: str, guarantee: str) -> None:
    """Quix Streams keeps state in a changelog topic, and another instance goes on with the state."""
    program = python("quixstreams==3.28.1")
    assert told(program, str(SOURCES / "quix.py"), bootstrap, guarantee) == {"records": 700, "last": [100] * 7}


@pytest.mark.parametrize("client", ["aiokafka", "confluent"])
def test_faststream(bootstrap: str, client: str) -> None:
    """FastStream hands a failed message over again."""
    program = python("faststream[confluent,kafka]==0.7.8")
    doubled = [2 * number for number in range(RECORDS)]
    expected = {"doubled": doubled, "failed": [7], "ping": True}
    assert told(program, str(SOURCES / "fast.py"), bootstrap, client) == expected


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_pytest_asyncio(mode: str, tmp_path: Path) -> None:
    """The fixtures for aiokafka work under pytest-asyncio.

    It runs in a Python of its own, as it would take over the coroutine tests here.
    """
    program = python("pytest", "pytest-asyncio", "aiokafka", "h11", "crc32c", "cramjam", "backports.zstd")
    shutil.copy(SOURCES / "asyncio_fixtures.py", tmp_path / "test_application.py")
    options = ["-q", "-p", "pykafka_broker.pytest_plugin", "-p", "no:anyio", "-o", f"asyncio_mode={mode}"]
    done = subprocess.run(
        [program, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCES.parents[1])},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_spring_kafka(bootstrap: str) -> None:
    """Spring Kafka has retry topics, dead letters, listeners in transactions that roll back, and request-reply."""
    expected = {"done": 27, "dead": 3, "copied": 30, "different": 30, "answer": "to me"}
    assert told(*java("spring"), "SpringApp", bootstrap) == expected


def test_reactor_kafka(bootstrap: str) -> None:
    assert told(*java("spring"), "ReactorApp", bootstrap) == {"read": 1000, "different": 1000}


@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
def test_flink(bootstrap: str, naming: str) -> None:
    """Flink's exactly-once sink works in a job that fails and goes on from its last checkpoint."""
    assert told(*java("flink"), "FlinkApp", bootstrap, naming) == {"failed": True, "read": 3000, "different": 3000}
