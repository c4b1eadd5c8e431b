"""Builds the programs of interop/languages. Rule: a toolchain that is missing is a skipped test with its reason; so are
packages that can't be had, in the one test that every run has. What is built is kept in `.cache/languages`.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from interop.jars import client_jars
from pipeline.java import java_home

SOURCES = Path(__file__).with_name("languages")
BUILT = Path(__file__).resolve().parents[1] / ".cache" / "languages"
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


def go(program: str) -> list[str]:
    need("go")
    executable = BUILT / "go" / program
    run(["go", "build", "-o", str(executable), f"./{program}"], SOURCES / "go")
    return [str(executable)]


def node(program: str) -> list[str]:
    """`npm ci` beside a copy of the sources, as ES modules look for packages nowhere else."""
    need("node", "npm")
    folder = BUILT / "node"
    shutil.copytree(SOURCES / "node", folder, dirs_exist_ok=True)
    wanted = (folder / "package-lock.json").read_text()
    fetched = folder / "node_modules" / ".fetched"
    if not fetched.exists() or fetched.read_text() != wanted:
        try:
            run(["npm", "ci", *NPM_OPTIONS], folder, FETCH_TIMEOUT_S)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"npm can't fetch the packages: {error}")
        fetched.write_text(wanted)
    return ["node", str(folder / program)]


def rust(program: str) -> list[str]:
    """Without a lock file in the sources, as it would name where crates come from; Cargo.toml pins what is used."""
    need("cargo")
    folder = BUILT / "rust"
    shutil.copytree(SOURCES / "rust", folder, dirs_exist_ok=True)
    run(["cargo", "build", "--quiet"], folder, timeout_s=800)
    return [str(folder / "target" / "debug" / program)]


def java(program: str, release: str) -> list[str]:
    """A class compiled against the jars of that release of Kafka's clients, which it then runs with."""
    home = java_home()
    if not (home / "bin" / "javac").exists():
        pytest.skip("no javac: a Java without its compiler")
    classpath = f"{client_jars(release)}/*"
    classes = BUILT / f"java-{release}"
    classes.mkdir(parents=True, exist_ok=True)
    folder = SOURCES / "java"
    common = ["-nowarn", "-proc:none", "-Xlint:none", "-cp", classpath, "-sourcepath", str(folder), "-d", str(classes)]
    run([str(home / "bin" / "javac"), *common, str(folder / f"{program}.java")], folder)
    command = [str(home / "bin" / "java"), "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    return [*command, "-cp", f"{classpath}{os.pathsep}{classes}", program]
