"""Builds the programs of interop/languages. Rule: a toolchain that is missing is a skipped test with its reason; so are
packages that can't be had, in the one test that every run has. Programs are kept in `.cache/languages`; a folder there
is built by one process at a time and never changes while a program runs from it (`made_once`).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from interop.jars import client_jars
from pipeline.java import java_home

ROOT = Path(__file__).resolve().parents[1]
SOURCES = Path(__file__).with_name("languages")
BUILT = ROOT / ".cache" / "languages"
FETCH_TIMEOUT_S = 60
NPM_OPTIONS = ["--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
NPM_OPTIONS += ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"]  # no network is known in seconds
BUILD_TIMEOUT_S = 280


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on this machine")


def run(command: Sequence[str], cwd: Path, timeout_s: float = BUILD_TIMEOUT_S) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"


def with_command(folder: Path) -> dict[str, str]:
    """Return the environment with the command `pykafka-broker` of this clone on the PATH."""
    programs = folder / "bin"
    programs.mkdir()
    command = programs / "pykafka-broker"
    command.write_text(f'#!/bin/sh\nexec env PYTHONPATH={ROOT} {sys.executable} -m pykafka_broker "$@"\n')
    command.chmod(0o755)
    return os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def made_once(folder: Path, key: str, make: Callable[[], object]) -> Path:
    """Return the folder once `make` has filled it for this key; an older or unfinished folder is made again.

    Tests run in several processes: a lock file beside the folder lets one of them make it while the others wait, so
    that nobody runs from a folder half made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / ".made"
        if not stamp.exists() or stamp.read_text() != key:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make()
            stamp.write_text(key)
    return folder


def digest(sources: Path) -> str:
    """Return the hash of all files below the folder, with their names."""
    files = sorted(path for path in sources.rglob("*") if path.is_file())
    parts = (f"{path.relative_to(sources)}:{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def go(program: str) -> list[str]:
    need("go")
    sources, folder = SOURCES / "go", BUILT / "go" / program
    made_once(folder, digest(sources), lambda: run(["go", "build", "-o", str(folder), f"./{program}"], sources))
    return [str(folder / program)]


def node(program: str) -> list[str]:
    """`npm ci` beside a copy of the sources, as ES modules look for packages nowhere else."""
    need("node", "npm")
    sources, folder = SOURCES / "node", BUILT / "node"

    def make() -> None:
        shutil.copytree(sources, folder, dirs_exist_ok=True)
        try:
            run(["npm", "ci", *NPM_OPTIONS], folder, FETCH_TIMEOUT_S)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"npm can't fetch the packages: {error}")

    return ["node", str(made_once(folder, digest(sources), make) / program)]


def rust(program: str) -> list[str]:
    """Without a lock file in the sources, as it would name where crates come from; Cargo.toml pins what is used."""
    need("cargo")
    sources, folder = SOURCES / "rust", BUILT / "rust"

    def make() -> None:
        shutil.copytree(sources, folder, dirs_exist_ok=True)
        run(["cargo", "build", "--quiet"], folder, timeout_s=800)

    return [str(made_once(folder, digest(sources), make) / "target" / "debug" / program)]


def java_classes(program: str, release: str) -> Path:
    """Return the folder with a class compiled against the jars of that release of Kafka's clients."""
    home = java_home()
    if not (home / "bin" / "javac").exists():
        pytest.skip("no javac: a Java without its compiler")
    sources, classes = SOURCES / "java", BUILT / f"java-{release}" / program
    common = ["-nowarn", "-proc:none", "-Xlint:none", "-cp", f"{client_jars(release)}/*"]
    common += ["-sourcepath", str(sources), "-d", str(classes)]
    compiling = [str(home / "bin" / "javac"), *common, str(sources / f"{program}.java")]
    return made_once(classes, digest(sources), lambda: run(compiling, sources))


def java(program: str, release: str) -> list[str]:
    """A class compiled against the jars of that release of Kafka's clients, which it then runs with."""
    classes = java_classes(program, release)
    command = [str(java_home() / "bin" / "java"), "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    return [*command, "-cp", f"{client_jars(release)}/*{os.pathsep}{classes}", program]
