"""Wheel and sdist, as they are published: `make dist`.

Rule: the same commit gives the same bytes: files carry the commit's time. The wheel has its bill of materials in it
(`sbom.py`). A package that holds something else than
`pykafka_broker`, or not all of it, is not made; each is installed into a fresh environment of every Python that is
named or found, and tried there (`trial.py`).

    python packaging/dist.py [--out dist] [--python python3.12 ...]
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from sbom import add_sbom

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "pykafka_broker"
OF_THE_SOURCE = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")
TRIAL = ROOT / "packaging" / "trial.py"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=ROOT / "dist", help="where wheel and sdist go")
    options.add_argument("--python", action="append", default=[], help="a Python to try them in; may be repeated")
    options.add_argument("--no-install", action="store_true", help="build and check only")
    chosen = options.parse_args()
    made = build(chosen.out)
    with tempfile.TemporaryDirectory() as folder:
        again = build(Path(folder))
        for first, second in zip(made, again, strict=True):
            if digest(first) != digest(second):
                return failed(f"{first.name} is not the same when it is built again")
    problems = [problem for path in made for problem in wrong_with(path)]
    if problems:
        return failed("\n".join(problems))
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, made)], check=True)
    for path in made:
        print(f"{digest(path)}  {path.name}  {path.stat().st_size // 1024} KiB")
    for python in [] if chosen.no_install else chosen.python or pythons():
        for path in made:
            try_in(python, path)
    return 0


def failed(why: str) -> int:
    print(why, file=sys.stderr)
    return 1


def build(out: Path) -> list[Path]:
    """Build wheel and sdist of the last commit, whatever else lies in the working tree."""
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob(f"{PACKAGE}-*.whl"), *out.glob(f"{PACKAGE}-*.tar.gz")]:
        old.unlink()
    time = os.environ.get("SOURCE_DATE_EPOCH") or said("git", "log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        command = [sys.executable, "-m", "build", "--outdir", str(out), folder]
        environment = os.environ | {"SOURCE_DATE_EPOCH": time}
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    (wheel,), (source,) = out.glob(f"{PACKAGE}-*.whl"), out.glob(f"{PACKAGE}-*.tar.gz")
    add_sbom(wheel, int(time))
    return [wheel, source]


def said(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wrong_with(path: Path) -> list[str]:
    """Return a line for each file that a package should not have, or lacks."""
    names = names_in(path)
    wanted = {each for each in said("git", "ls-files", PACKAGE).splitlines() if not each.endswith(".md")}
    ours = (f"{PACKAGE}/", f"{PACKAGE}-")  # the package, and what a wheel says of it
    strange = {each for each in names if not each.startswith(ours) and each not in OF_THE_SOURCE} | {
        each for each in names if "__pycache__" in each or each.endswith(".pyc")
    }
    missing = wanted - names
    found = [f"{path.name} holds {each}" for each in sorted(strange)]
    return found + [f"{path.name} lacks {each}" for each in sorted(missing)]


def names_in(path: Path) -> set[str]:
    """Return the names of the files, without the folder that an sdist has around them."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return set(wheel.namelist())
    with tarfile.open(path) as source:
        return {each.name.partition("/")[2] for each in source if each.isfile()}


def pythons() -> list[str]:
    """Return the Pythons of this machine, of the versions that are served."""
    found = []
    homes = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        own = list(homes.glob(f"{version.rstrip('t')}.*{'t' if version.endswith('t') else '[0-9]'}/bin/python"))
        newest = max(
            own, key=lambda path: [int(digits) for digits in re.findall("[0-9]+", path.parts[-3])], default=None
        )
        known = shutil.which(f"python{version}") if newest is None else str(newest)
        if known is not None and subprocess.run([known, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0:
            found.append(known)
        else:
            print(f"no Python {version} on this machine: not tried there")
    return found


def try_in(python: str, path: Path) -> None:
    """Install a package into a new environment, and start a broker there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = str(Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python")
        quiet = ["--disable-pip-version-check", "-q"]
        subprocess.run([own, "-m", "pip", "install", *quiet, str(path)], check=True, cwd=folder)
        subprocess.run([own, "-m", "pykafka_broker", "--version"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        outcome = subprocess.run([own, str(TRIAL)], cwd=folder, capture_output=True, text=True)
        if not outcome.stdout.startswith("ok"):
            raise SystemExit(f"{path.name} does not work with {python}\n{outcome.stderr}")
        print(f"{path.name}: {outcome.stdout.strip()}")


if __name__ == "__main__":
    sys.exit(main())
