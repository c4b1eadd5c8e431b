"""The preparation of clients. Rule: each release has a folder of its own in `.cache/matrix`, made once. A client that
can't be had on this machine makes its row grey with the reason, and stops nothing.

A row's `prepare` names one of these ways by its `kind`; `command` (the default) takes a command as it stands.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from interop import ROOT
from interop.jars import client_jars
from interop.matrix.rows import Row
from pipeline.java import JavaError, java_home, java_version

CACHE = ROOT / ".cache" / "matrix"
INSTALL_TIMEOUT_S = 600
_locks: dict[str, threading.Lock] = {}
_guard = threading.Lock()


class Unprepared(Exception):
    """The reason why a client can't be run on this machine."""


class Prepared(NamedTuple):
    command: list[str]
    environment: dict[str, str]
    says: str  # what the client runs with: "Python 3.11"


def prepare(row: Row) -> Prepared:
    kind = row.prepare.get("kind", "command")
    if kind not in KINDS:
        raise Unprepared(f"no way to prepare a {kind!r}; there are {', '.join(KINDS)}")
    with _guard:
        lock = _locks.setdefault(row.client if kind != "pip" else row.name, threading.Lock())
    with lock:
        return KINDS[kind](row)


def filled(row: Row, **more: str) -> list[str]:
    values = {"version": row.version, "here": row.here, "root": str(ROOT), **more}
    try:
        return [word.format_map(values) for word in row.command]
    except KeyError as error:
        raise Unprepared(f"the command wants {error}, which there is not") from error


def run(
    command: list[str],
    more: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = INSTALL_TIMEOUT_S,
) -> str:
    """Run a command and return its output. A failure raises Unprepared with the line that says most."""
    environment = {**os.environ, **(more or {})}
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unprepared(f"{Path(command[0]).name}: {error}") from error
    if done.returncode != 0:
        raise Unprepared(reason(done.stderr + done.stdout))
    return done.stdout


def reason(text: str) -> str:
    """Return the line that says most, without paths: the last one of an exception, or else of an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "complete log of this run" not in line]
    thrown = [line for line in lines if re.match(r"[\w.$]*(Error|Exception)\b", line)]
    telling = [line for line in lines if re.search(r"error|exception|not found|no matching", line, re.IGNORECASE)]
    return shortened((thrown or telling or lines or ["it said nothing"])[-1])


def shortened(line: str) -> str:
    line = re.sub(r"(/[\w.@+-]+){3,}/", "", line)
    line = re.sub(r"\b127\.0\.0\.1:\d+|localhost:\d+", "the broker", line)
    return line[:160]


def installed_python(version: str) -> str | None:
    """Return a Python of that version that runs: this one, pyenv's, or the one on the PATH; None without one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True), shutil.which(f"python{version}")]
    for candidate in filter(None, [sys.executable if version == _own_version() else None, *found]):
        if _runs(str(candidate)):
            return str(candidate)
    return None


def _own_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@functools.cache
def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", "pass"], capture_output=True, check=False).returncode == 0


def _pip(row: Row) -> Prepared:
    """Install the client into a folder, with the first of the row's `pythons` that can install and import it."""
    why = "none of the Pythons that it needs is here: " + ", ".join(row.prepare["pythons"])
    for version in row.prepare["pythons"]:
        python = installed_python(version)
        if python is None:
            continue
        folder = CACHE / f"{row.client}-{row.version}-py{version}".replace(" ", "-")
        folders = [folder, *_besides(python, version, row.prepare.get("besides", [])), ROOT]
        environment = {"PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONWARNINGS": "ignore"}
        try:
            packages = [each.format(version=row.version) for each in row.prepare["packages"]]
            _installed(folder, python, packages, row.prepare.get("options", []))
            run([python, "-c", f"import {row.prepare['imports']}"], environment, timeout_s=60)
        except Unprepared as error:
            why = f"not on Python {version}: {error}"
            continue
        return Prepared(filled(row, python=python), environment, f"Python {version}")
    raise Unprepared(why)


def _installed(folder: Path, python: str, packages: list[str], options: list[str]) -> None:
    fetch = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *options, *packages]
    once(folder, lambda unfinished: run([*fetch, "--target", str(unfinished)]))


def _besides(python: str, version: str, packages: list[str]) -> list[Path]:
    """Install libraries that a client uses if they are there, for all releases; leave out what can't be had."""
    folders = []
    for package in packages:
        folder = CACHE / f"{re.sub('[^A-Za-z0-9.]+', '-', package)}-py{version}"
        with _guard:
            lock = _locks.setdefault(folder.name, threading.Lock())
        with lock, contextlib.suppress(Unprepared):
            _installed(folder, python, [package], ["--only-binary=:all:"])
            folders.append(folder)
    return folders


def _command(row: Row) -> Prepared:
    command = filled(row, python=sys.executable)
    if shutil.which(command[0]) is None:
        raise Unprepared(f"{Path(command[0]).name} is not on this machine")
    return Prepared(command, {"PYTHONPATH": str(ROOT)}, row.prepare.get("says", ""))


def _java(row: Row) -> Prepared:
    """Compile the programs against the release's jars; those that an old release can't compile are left out."""
    try:
        home = java_home()
        jars = client_jars(row.version)
    except (JavaError, OSError, subprocess.SubprocessError) as error:
        raise Unprepared(shortened(str(error).strip().splitlines()[-1])) from error
    compiler = home / "bin" / "javac"
    if not compiler.exists():
        raise Unprepared("no javac: a Java without its compiler")
    folder = Path(row.prepare["sources"].format(here=row.here, root=ROOT))
    sources = os.pathsep.join(map(str, [folder, *(ROOT / each for each in row.prepare.get("with", []))]))
    classes = CACHE / f"{row.client}-{row.version}".replace(" ", "-")
    classpath = f"{jars}/*"
    wanted = sorted(path.stem for path in folder.glob(row.prepare.get("only", "*.java")))
    newest = max(path.stat().st_mtime for path in folder.glob("*.java"))
    done = classes / ".compiled"
    if not done.exists() or done.stat().st_mtime < newest:
        shutil.rmtree(classes, ignore_errors=True)
        classes.mkdir(parents=True)
        options = ["-nowarn", "-proc:none", "-Xlint:none", "-cp", classpath, "-sourcepath", sources, "-d", str(classes)]
        for name in wanted:
            with contextlib.suppress(Unprepared) if name != row.prepare["main"] else contextlib.nullcontext():
                run([str(compiler), *options, str(folder / f"{name}.java")])
        done.touch()
    path = os.pathsep.join([classpath, str(classes)])
    return Prepared(filled(row, java=str(home / "bin" / "java"), classpath=path), {}, f"Java {java_version(home)}")


def _npm(row: Row) -> Prepared:
    """Install the packages with npm. Unless the row names `options`, no script runs that would build a part of them."""
    folder = CACHE / f"{row.client}-{row.version}".replace(" ", "-").replace("/", "-")
    need("node", "npm")

    def fetch(unfinished: Path) -> None:
        (unfinished / "package.json").write_text('{"private": true}')
        packages = [each.format(version=row.version) for each in row.prepare["packages"]]
        options = ["--omit=dev", "--no-audit", "--no-fund", "--loglevel=error"]
        options += row.prepare.get("options", ["--ignore-scripts"])
        run(["npm", "install", *options, *packages], row.prepare.get("environment"), cwd=unfinished)

    once(folder, fetch)
    version = run(["node", "--version"]).strip().removeprefix("v")
    return Prepared(filled(row), {"NODE_PATH": str(folder / "node_modules")}, f"Node.js {version.partition('.')[0]}")


def _go(row: Row) -> Prepared:
    """Build the Go program of a folder, with the row's modules in the versions that it names."""
    folder = CACHE / f"{row.client}-{row.version}".replace(" ", "-").replace("/", "-")
    need("go")
    sources = _sources(row, "*.go")

    def build(unfinished: Path) -> None:
        modules = [each.format(version=row.version) for each in row.prepare["modules"]]
        run(["go", "mod", "init", "matrix"], cwd=unfinished)
        for path in sources:
            shutil.copy(path, unfinished)
        run(["go", "get", *modules], cwd=unfinished)
        run(["go", "mod", "tidy"], cwd=unfinished)
        run(["go", "build", "-o", "program", "."], cwd=unfinished)

    once(folder, build, sources)
    version = run(["go", "version"]).split()[2].removeprefix("go")
    return Prepared(filled(row, program=str(folder / "program")), {}, f"Go {version}")


def _cargo(row: Row) -> Prepared:
    """Build the Rust program of a folder, not optimized, with the row's crates in the versions that it names."""
    folder = CACHE / f"{row.client}-{row.version}".replace(" ", "-")
    need("cargo")
    sources = _sources(row, "*.rs")

    def build(unfinished: Path) -> None:
        run(["cargo", "init", "--quiet", "--name", "matrix", "--vcs", "none"], cwd=unfinished)
        for path in sources:
            shutil.copy(path, unfinished / "src")
        for crate in row.prepare["crates"]:
            run(["cargo", "add", "--quiet", *crate.format(version=row.version).split()], cwd=unfinished)
        run(["cargo", "build", "--quiet"], cwd=unfinished)
        shutil.copy(unfinished / "target" / "debug" / "matrix", unfinished / "program")
        shutil.rmtree(unfinished / "target")

    once(folder, build, sources)
    version = run(["cargo", "--version"]).split()[1]
    return Prepared(filled(row, program=str(folder / "program")), {}, f"Rust {version}")


def _sources(row: Row, glob: str) -> list[Path]:
    return [*(ROOT / row.prepare["source"]).glob(glob), *(ROOT / each for each in row.prepare.get("with", []))]


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise Unprepared(f"{program} is not on this machine")


def once(folder: Path, make: Callable[[Path], object], sources: Sequence[Path] = ()) -> None:
    """Make a folder unless it is there and no source is newer.

    A folder that is there is complete. If it could not be made, the reason is kept, and the next try waits for a
    newer source.
    """
    refused = folder.with_name(folder.name + ".refused")
    newest = max((path.stat().st_mtime for path in sources), default=0)
    if folder.exists() and folder.stat().st_mtime >= newest:
        return
    if refused.exists() and refused.stat().st_mtime >= newest:
        raise Unprepared(refused.read_text())
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        make(unfinished)
    except Unprepared as error:
        refused.write_text(str(error))
        raise
    shutil.rmtree(folder, ignore_errors=True)
    refused.unlink(missing_ok=True)
    unfinished.replace(folder)


KINDS: Mapping[str, Callable[[Row], Prepared]] = {
    "command": _command,
    "pip": _pip,
    "java": _java,
    "npm": _npm,
    "go": _go,
    "cargo": _cargo,
}
