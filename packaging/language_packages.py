"""The packages of other languages as a release has them: built from a copy, and used by a project of their own.

Rule: nothing is built in the checkout. A package is tried as its user has it: installed from the file that would be
published, into a folder that knows no checkout, where the example of its README passes against a real client. The
broker is PYKAFKA_BROKER_PROGRAM, or else the one of this Python.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
FOLDER = ROOT / "packaging" / "languages"
NPM_QUIET = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")


class PackageFailed(Exception):
    """A package that can't be built or used; the text has the output of what failed."""


def npm(out: Path) -> str:
    """Pack the npm package, check its types, and run README's example with the packed file."""
    with tempfile.TemporaryDirectory() as folder:
        copy = staged("node", Path(folder) / "package")
        run(copy, "npm", "install", *NPM_QUIET)
        run(copy, "npm", "test")
        run(copy, "npx", "--no-install", "tsc", "--noEmit", "--strict", "--types", "node", "test/types.ts")
        client = run(copy, "node", "-p", "'kafkajs@' + require('./package.json').devDependencies.kafkajs").strip()
        run(copy, "npm", "pack", "--silent", "--pack-destination", str(out))
        (made,) = out.glob("pykafka-broker-*.tgz")
        user = Path(folder) / "user"
        user.mkdir()
        (user / "package.json").write_text('{ "private": true }')
        run(user, "npm", "install", *NPM_QUIET, str(made), client)
        (user / "orders.test.js").write_text(example("node", "javascript"), encoding="utf-8")
        run(user, "node", "--test", "orders.test.js")
    return made.name


def go(out: Path) -> str:
    """Make the module as a proxy has it, and run README's example with that in a module of its own."""
    with tempfile.TemporaryDirectory() as folder:
        copy = staged("go", Path(folder) / "package")
        if unformatted := run(copy, "gofmt", "-l", "."):
            raise PackageFailed(f"gofmt would change {unformatted}")
        run(copy, "go", "vet", "./...")
        run(copy, "go", "test", "-count=1", "./...")
        module = json.loads(run(copy, "go", "mod", "edit", "-json"))["Module"]["Path"]
        version = f"v{VERSION}"
        versions = out / module / "@v"
        versions.mkdir(parents=True)
        (versions / f"{version}.info").write_text(json.dumps({"Version": version}))
        shutil.copy(copy / "go.mod", versions / f"{version}.mod")
        with zipfile.ZipFile(versions / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as made:
            for path in sorted(each for each in copy.rglob("*") if each.is_file()):
                made.write(path, f"{module}@{version}/{path.relative_to(copy).as_posix()}")
        user = Path(folder) / "user"
        user.mkdir()
        for name in ("go.mod", "go.sum"):
            shutil.copy(ROOT / "interop" / "languages" / "go" / name, user)
        (user / "orders_test.go").write_text(example("go", "go"), encoding="utf-8")
        where = {
            "GOPROXY": f"{out.resolve().as_uri()},{run(copy, 'go', 'env', 'GOPROXY').strip()}",
            "GONOSUMDB": module,
        }
        where |= {"GOFLAGS": "-mod=mod -modcacherw", "GOMODCACHE": str(Path(folder) / "modules")}
        own_cache = Path(run(copy, "go", "env", "GOMODCACHE").strip()) / "cache" / "download"
        if own_cache.is_dir():  # what this machine has need not be fetched again
            where["GOPROXY"] = f"{own_cache.as_uri()},{where['GOPROXY']}"
        run(user, "go", "get", f"{module}@{version}", environment=where)
        run(user, "go", "test", "-count=1", "./...", environment=where)
    return f"{module} {version}"


PACKAGES: dict[str, tuple[str, Callable[[Path], str]]] = {  # by step: the program that is needed, and what to do
    "npm": ("npm", npm),
    "go": ("go", go),
}


def build(name: str, out: Path) -> str:
    """Build and try a package, with its files in `out`. Raises PackageFailed."""
    program, make = PACKAGES[name]
    if shutil.which(program) is None:
        return f"{program} is not installed"
    folder = out / "packages" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return f"{make(folder)} built, and README's example passed with it"


def staged(language: str, copy: Path) -> Path:
    """Copy the files of a package that git knows, with the license. Returns the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=FOLDER / language,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FOLDER / language / name, copy / name)
    shutil.copy(ROOT / "LICENSE", copy)
    return copy


def example(language: str, fence: str) -> str:
    """Return the first program of a package's README."""
    readme = (FOLDER / language / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^```{fence}\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    if found is None:
        raise PackageFailed(f"the README of {language} has no example")
    return found[1]


def run(folder: Path, *command: str, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    environment = {"PYKAFKA_BROKER_PROGRAM": sys.executable, **os.environ, **environment}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise PackageFailed(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
