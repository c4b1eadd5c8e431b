"""A release without its host: `make release-dry-run`.

Rule: each step of the release workflow that needs no account runs here, on the last commit: notes, wheel and sdist,
their bill of materials, an installation from an index of this machine into an environment that knows no checkout, the
first test of README, the page, the packages of other languages, the image's file, the workflows, the docs. A step
prints one line; the first that fails ends the run with exit code 1. What a host has to add is printed at the end. The
step `bare-root` runs when it is named: it makes a Debian of its own for a stranger, with root's rights.

    python packaging/dry_run.py [--out build/release-dry-run] [--only STEP ...]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from packaging.utils import canonicalize_name

import bare_root
import language_packages

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FIRST_TEST = ("pytest", "confluent-kafka")  # what README's first test needs beside the package
SCHEMAS = {  # of check-jsonschema, and the files that it reads
    "github-workflows": ".github/workflows/*.yml",
    "github-actions": "packaging/github-action/action.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "dependabot": ".github/dependabot.yml",
    "compose-spec": "packaging/compose.yaml",
    "gitlab-ci": "packaging/gitlab-ci.yml",
    "citation-file-format": "CITATION.cff",
}


class StepFailed(Exception):
    """A step of the release that does not work; the text says which and why."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=ROOT / "build" / "release-dry-run", help="where files go")
    options.add_argument("--only", action="append", choices=STEPS, help="run this step; may be repeated")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.only or [name for name in STEPS if name not in ON_REQUEST]:
        begun = time.monotonic()
        try:
            told = STEPS[name](chosen.out)
        except (StepFailed, language_packages.PackageFailed, bare_root.BareRootFailed, OSError) as error:
            print(f"{name}: failed\n{error}", file=sys.stderr)
            return 1
        print(f"{name}: {told} ({time.monotonic() - begun:.0f} s)", flush=True)
    if not chosen.only and "urls" not in PROJECT:
        print(
            "left for a host: [project.urls] in pyproject.toml, its environments, and a trusted publisher on the index"
        )
    return 0


def notes(out: Path) -> str:
    """Render the news fragments as the next section of CHANGELOG.md."""
    text = run(sys.executable, "-m", "towncrier", "build", "--draft", "--version", PROJECT["version"])
    (out / "notes.md").write_text(text, encoding="utf-8")
    if f"\n## {PROJECT['version']} " not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise StepFailed(f"CHANGELOG.md has no section for {PROJECT['version']}")
    return f"{text.count(chr(10) + '- ')} news fragments"


def packages(out: Path) -> str:
    """Make wheel and sdist twice, compare, and check what their pages would show."""
    shutil.rmtree(out / "dist", ignore_errors=True)
    run(sys.executable, "packaging/dist.py", "--no-install", "--out", str(out / "dist"))
    return ", ".join(path.name for path in sorted((out / "dist").iterdir()))


def bill(out: Path) -> str:
    """Validate the wheel's bill of materials against the schema of CycloneDX."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    from sbom import sbom_of

    (wheel,) = (out / "dist").glob("*.whl")
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom_of(wheel))
    if problem is not None:
        raise StepFailed(str(problem))
    return "valid"


def stranger(out: Path) -> str:
    """Install wheel and sdist from an index into bare environments, and use the package there."""
    with index(out, *FIRST_TEST, "flit_core") as address:
        for kind in ("--only-binary", "--no-binary"):
            with tempfile.TemporaryDirectory() as folder:
                use(Path(folder), ["--index-url", address, kind, PROJECT["name"]])
    return "wheel and sdist installed from an index, README's first test passed, the page answered"


def use(folder: Path, where: list[str]) -> None:
    """Install the package into a new environment in `folder`, and do there what README tells a reader to do."""
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    python = str(folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(python, "-m", "pip", "--isolated", "install", "-q", *where, PROJECT["name"], *FIRST_TEST, cwd=folder)
    run(python, str(ROOT / "packaging" / "trial.py"), cwd=folder)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[0]
    (folder / "test_orders.py").write_text(example, encoding="utf-8")
    run(python, "-m", "pytest", "-q", "test_orders.py", cwd=folder)
    run(python, "-c", PAGE, cwd=folder)


PAGE = """
import urllib.request
from pykafka_broker.testing import KafkaBroker
with KafkaBroker() as broker:
    page = urllib.request.urlopen(broker.control_url + "/").read().decode()
assert "<title>pykafka-broker</title>" in page, page[:200]
"""


def bare(out: Path) -> str:
    """Install the wheel from an index on a bare Debian, and use the package there."""
    with bare_root.bare_root() as root:
        wheels = ("--only-binary", ":all:", "--python-version", bare_root.python_of(root))
        with index(out, "pytest", "kafka-python", options=wheels) as address:
            return bare_root.use(root, address, PROJECT["name"])


def image(out: Path) -> str:
    """Lint the image's file."""
    run("hadolint", "packaging/Containerfile")
    return "packaging/Containerfile has no findings"


def workflows(out: Path) -> str:
    """Check the files for hosts: their schemas, actionlint (if installed), zizmor."""
    count = 0
    for schema, pattern in SCHEMAS.items():
        files = [str(path) for path in ROOT.glob(pattern)]
        if not files:
            raise StepFailed(f"there is no file {pattern}")
        run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
        count += len(files)
    run("zizmor", "--offline", "--quiet", "--persona", "pedantic", ".github", "packaging/github-action")
    if shutil.which("actionlint") is None:
        return f"{count} files fit their schemas, zizmor finds nothing; actionlint is not installed"
    run("actionlint", *map(str, ROOT.glob(".github/workflows/*.yml")))
    return f"{count} files fit their schemas, zizmor and actionlint find nothing"


def docs(out: Path) -> str:
    """Build the site; a warning is an error."""
    site = out / "site"
    run(sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site))
    return f"{sum(1 for _ in site.rglob('*.html'))} pages"


STEPS: dict[str, Callable[[Path], str]] = {
    "notes": notes,
    "packages": packages,
    "bill": bill,
    "stranger": stranger,
    **{name: partial(language_packages.build, name) for name in language_packages.PACKAGES},
    "image": image,
    "workflows": workflows,
    "docs": docs,
    "bare-root": bare,
}
ON_REQUEST = {"bare-root"}  # needs root's rights and a mirror of Debian


@contextlib.contextmanager
def index(out: Path, *others: str, options: Sequence[str] = ()) -> Iterator[str]:
    """Serve the package, what it needs and other packages while the block runs, and give the index's address."""
    shutil.rmtree(out / "index", ignore_errors=True)
    (wheel,), (source,) = (out / "dist").glob("*.whl"), (out / "dist").glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        pip("download", "--dest", folder, *options, str(wheel), *others)
        for path in [*Path(folder).iterdir(), source]:
            home = out / "index" / "simple" / canonicalize_name(path.name.split("-")[0])
            home.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, home)
    with served(out / "index") as address:
        yield f"{address}/simple/"


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder over HTTP while the block runs, and give its address."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            told = re.search(r"http://[\d.:]+", process.stdout.readline())
            if told is None:
                raise StepFailed("the index did not start")
            with urllib.request.urlopen(f"{told[0]}/simple/"):
                yield told[0]
        finally:
            process.terminate()


def pip(*options: str) -> str:
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *options)


def run(program: str, *options: str, cwd: Path = ROOT) -> str:
    """Run a program, one of this environment's first, and return its output. Raises StepFailed."""
    own = Path(sys.executable).parent / program  # or the program itself, if it is a path
    command = [str(own) if own.is_file() else program, *options]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["NO_MKDOCS_2_WARNING"] = "1"
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise StepFailed(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
