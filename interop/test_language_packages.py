"""The packages of other languages (`packaging/languages`): their own tests, and README's examples with a real client.

Rule: tests and examples run as they stand, in their language's own framework, with `pykafka-broker` on the PATH. With
--slow each package is also built and used as a release would have it (`packaging/dry_run.py`). A toolchain that is
missing is a skipped test with its reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import dry_run
import language_packages
from interop import ROOT, toolchains
from interop.java import QUICK_JVM, java_command, kafka_classpath
from pipeline.jars import fetched
from tests.docs.blocks import ALL

JUNIT = "org.junit.platform:junit-platform-console-standalone:1.11.4"
GSON = "com.google.code.gson:gson:2.10.1"
PACKAGES = ROOT / "packaging" / "languages"
TIMEOUT_S = 280
# Where nobody has compiled Go's own packages yet, that is nearly all of the time: without cgo and garbage collection
# the compiler takes a sixth less of it.
QUICK_GO = {"CGO_ENABLED": "0", "GOGC": "off"}


def example(language: str) -> str:
    """Return the first program of the package's README."""
    return next(block.text for block in ALL if block.name == language)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return toolchains.with_command(tmp_path)


def run(command: Sequence[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def passed_in_node(environment: dict[str, str], *files: Path) -> int:
    said = run(["node", "--test", "--test-reporter=tap", *map(str, files)], PACKAGES, environment)
    (count,) = re.findall(r"^# pass (\d+)$", said, re.MULTILINE)
    return int(count)


def test_the_npm_package(environment: dict[str, str]) -> None:
    toolchains.need("node")
    assert passed_in_node(environment, PACKAGES / "node" / "test" / "broker.test.js") >= 8


def test_the_example_of_the_npm_package(tmp_path: Path, environment: dict[str, str]) -> None:
    client = Path(toolchains.node("kafkajs.js")[1]).parent / "node_modules"
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "pykafka-broker").symlink_to(PACKAGES / "node")
    (tmp_path / "orders.test.js").write_text(example("node.md-javascript-1"))
    assert passed_in_node(environment | {"NODE_PATH": str(client)}, tmp_path / "orders.test.js") == 2


def test_the_go_module(environment: dict[str, str]) -> None:
    toolchains.need("go", "gofmt")
    assert run(["gofmt", "-l", "."], PACKAGES / "go", environment) == ""
    tests = ["go", "test", "-count=1", "-vet=off", "-ldflags=-w", "./..."]  # a release vets it
    assert run(tests, PACKAGES / "go", environment | QUICK_GO).startswith("ok")


def test_the_example_of_the_go_module_is_formatted_as_gofmt_wants_it(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Format alone: to compile its client takes minutes where nobody has done so before (--slow does)."""
    toolchains.need("gofmt")
    (tmp_path / "orders_test.go").write_text(example("go.md-go-1"))
    assert run(["gofmt", "-l", "orders_test.go"], tmp_path, environment) == ""


def java_tests(*sources: Path, classes: Path) -> list[str]:
    """Compile the package and the tests. Returns the command that runs the tests in `classes`."""
    jars = [fetched("junit-1.11.4", [JUNIT], transitive=False), fetched("gson-2.10.1", [GSON], transitive=False)]
    classpath = os.pathsep.join([*(f"{folder}/*" for folder in jars), kafka_classpath(), str(classes)])
    every = [*(PACKAGES / "java" / "src" / "main").rglob("*.java"), *sources]
    options = ["-proc:none", "-cp", classpath, "-d", str(classes)]
    toolchains.run([*toolchains.javac(), *options, *map(str, every)], classes.parent)
    console = "org.junit.platform.console.ConsoleLauncher"
    scan = ("execute", "--scan-classpath", str(classes), "--fail-if-no-tests")
    return java_command(*QUICK_JVM, "-cp", classpath, console, *scan)


@pytest.mark.java
def test_the_junit_extension_and_its_example(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "OrdersTest.java").write_text(example("java.md-java-1"))
    own = [*(PACKAGES / "java" / "src" / "test").rglob("*.java")]
    command = java_tests(*own, tmp_path / "OrdersTest.java", classes=tmp_path / "classes")
    said = run(command, tmp_path, environment)
    (count,) = re.findall(r"(\d+) tests successful", said)
    assert int(count) >= 14


def test_the_net_package_and_its_example(tmp_path: Path, environment: dict[str, str]) -> None:
    program, quiet = toolchains.dotnet()
    shutil.copytree(PACKAGES / "dotnet", tmp_path / "package", ignore=shutil.ignore_patterns("bin", "obj"))
    (tmp_path / "package" / "test" / "OrdersTest.cs").write_text(example("dotnet.md-csharp-1"))
    own = quiet | {"DOTNET_CLI_HOME": str(tmp_path), "NUGET_PACKAGES": str(tmp_path / "nuget")}
    said = run([program, "run", "--project", "test"], tmp_path / "package", environment | own)
    (count,) = re.findall(r"^(\d+) passed, 0 failed$", said, re.MULTILINE)
    assert int(count) >= 11


@pytest.mark.slow
@pytest.mark.timeout(900)  # packages are fetched, and franz-go is compiled
@pytest.mark.parametrize("step", [*language_packages.PACKAGES])
def test_a_release_of_the_package(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setitem(os.environ, "PATH", environment["PATH"])
    if step == "nuget":
        program, settings = toolchains.dotnet()
        monkeypatch.setenv("PATH", f"{environment['PATH']}{os.pathsep}{Path(program).parent}")
        monkeypatch.setenv("DOTNET_CLI_HOME", str(tmp_path))
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYKAFKA_BROKER_PROGRAM", str(tmp_path / "bin" / "pykafka-broker"))
    assert "not installed" not in dry_run.STEPS[step](tmp_path)
