"""The way of a new Kafka release as one command: `python -m interop.new_release 4.5.0`, or `make release-of-kafka`.

Rule: nothing changes in this checkout. All steps run in a copy of the last commit, `build/release/VERSION/tree`, whose
pin says the new release: schemas, errors, levels and config keys are taken over there, every recording is made anew,
and random steps are played on the new Kafka beside this broker, which passes for it. `report.md` beside the tree says
what is new, what differs, and what a person decides where; `git diff` in the tree is what can be taken over.

A failed step is reported with its log, and the steps after it go on. Release candidates are named as the registry
names them (`4.5.0-rc1`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from interop import ROOT
from interop.jars import KAFKA_VERSION, release_jars
from interop.java import java_command
from interop.record import RECORDINGS
from protocol.generator.importer import read_jars
from tests.releases.record import facts_of

PIN = "pykafka_broker/releases/release.py"
RELEASES = "pykafka_broker/releases/data.json"
ERRORS_PAGE = "org.apache.kafka.common.protocol.Errors"
OTHER_RELEASES = {
    "newest",
    "newest-dead-letters",
    "other-configs",
    "other-produced",
    "other-storage",
}  # recordings of the other release: the pin does not move them
_ERROR = re.compile(r"<td>(\w+)</td><td>(-?\d+)</td>")
_TOOL = re.compile(r"org/apache/kafka/tools/(?:\w+/)*(\w+(?:Command|Tool|Tester|Performance|Consumer|Producer))\.class")
_NUMSTAT = re.compile(r"(\d+|-)\t(\d+|-)\t(.+)")
_KIND_OF_DIFFERENCE = re.compile(r" *(\d+) x (.+)")

# The decision that news in a part ask for, and the files where it is made.
DECISIONS = {
    "APIs": ("a route and a handler, or held back", "`broker/requests/routes.py`, `protocol/schemas/ahead.json`"),
    "errors": (
        "whether clients may repeat; what older releases had",
        "`protocol/schemas/errors.json`, `client/errors.json`, `_BEFORE` in `broker/requests/emulation.py`",
    ),
    "features": ("which levels work here", "`METADATA_VERSIONS` and `_DEFAULTS_FROM` in `cluster/features.py`"),
    "broker": ("honoured, refused or without effect", "`config/documentation.json`, `config/effects.py`"),
    "topic": ("honoured, refused or without effect", "`config/documentation.json`, `config/effects.py`"),
    "schemas": ("which versions of records are written", "`cluster/controller.py`, `coordinators/`"),
    "fields": ("what a field does, and from which level on it is written", "the handler or the records of the message"),
    "jars": ("nothing, unless a jar holds a part that this broker has", "`docs/architecture.md`"),
    "tools": ("a tool of ours, or none", "`pykafka_broker/tools`, `interop/tools/tables`"),
}


class Change(NamedTuple):
    """The difference between two releases in a part: names that are new or gone, and facts before and after."""

    new: list[str]
    gone: list[str]
    changed: list[str]

    def __bool__(self) -> bool:
        return any(self)


class Step(NamedTuple):
    """A step that ran: its name, whether it ended well, its seconds, its log, and the files that it changed."""

    name: str
    well: bool
    seconds: float
    log: Path
    files: list[str]


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change:
    """Return the difference between two tables by name."""
    return Change(
        sorted(after.keys() - before.keys()),
        sorted(before.keys() - after.keys()),
        [
            f"{name}: {before[name]} -> {after[name]}"
            for name in sorted(before.keys() & after.keys())
            if before[name] != after[name]
        ],
    )


def of_jars(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what the jars of a release show without being started: schemas, errors, tools and the jars' names."""
    schemas, _ = read_jars([folder])
    by_name = {f"{area}/{name}": message for (area, name), message in schemas.items()}
    jars = sorted(folder.glob("kafka*.jar"))
    classes = {name for jar in jars for name in zipfile.ZipFile(jar).namelist()}
    errors = java_command("-cp", f"{folder}/*", ERRORS_PAGE)
    page = subprocess.run(errors, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {
        "API names": {
            str(message["apiKey"]): message["name"].removesuffix("Request")
            for message in schemas.values()
            if message["type"] == "request"
        },
        "schemas": {name: message["validVersions"] for name, message in by_name.items()},
        "fields": {
            path: facts
            for name, message in by_name.items()
            for path, facts in of_fields(name, message["fields"]).items()
        },
        "errors": {name: int(code) for name, code in _ERROR.findall(page)},
        "tools": {match[1]: "" for name in classes if (match := _TOOL.fullmatch(name))},
        "jars": {re.sub(r"-\d[\w.-]*\.jar$", "", jar.name): "" for jar in jars},
    }


def of_fields(where: str, fields: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return every field of a schema by its path, with the facts about the field itself."""
    found = {}
    for field in fields:
        path = f"{where}.{field['name']}"
        found[path] = " ".join(
            str(field.get(fact, "-")) for fact in ("type", "versions", "nullableVersions", "tag", "default")
        )
        found |= of_fields(path, field.get("fields", ()))
    return found


def changes_of(version: str, tree: Path) -> dict[str, Change]:
    """Return what a release has changed, by part: from both releases' jars and the answers recorded in the tree."""
    recorded = json.loads((tree / RELEASES).read_bytes())
    before = of_jars(release_jars(KAFKA_VERSION)) | facts_of(recorded, KAFKA_VERSION)
    after = of_jars(release_jars(version)) | facts_of(recorded, version)
    for facts in (before, after):
        facts["APIs"] = {after["API names"].get(key, key): versions for key, versions in facts["apis"].items()}
    return {part: change(before[part], after[part]) for part in DECISIONS}


class Steps:
    """The steps in the tree, one after the other; each has its log, and the files that it changed."""

    def __init__(self, version: str, folder: Path) -> None:
        self.version, self.folder, self.tree = version, folder, folder / "tree"
        self.name = ".".join(version.split(".")[:2])
        self.done: list[Step] = []
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.tree), str(self.tree / "spark")]),
            "PYKAFKA_BROKER_JARS": str(release_jars(version).parent),
            "KAFKA_JARS": str(release_jars(version)),
        }

    def prepare(self) -> None:
        """Make the tree from the last commit, and let its pin say the new release."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._git("clone", "--quiet", "--shared", str(ROOT), str(self.tree), cwd=ROOT)
        pin, text = f'OWN_VERSION = "{KAFKA_VERSION}"', (self.tree / PIN).read_text()
        if pin not in text:
            raise RuntimeError(f"{PIN} of the last commit does not say {pin}")
        (self.tree / PIN).write_text(text.replace(pin, f'OWN_VERSION = "{self.version}"'))
        self._git("add", "--all")

    def run(self, name: str, *arguments: object) -> None:
        """Run Python in the tree with the arguments, until it ends; a failure is told of and not raised."""
        log, begin = self.folder / f"{name}.log", time.monotonic()
        command = [sys.executable, *map(str, arguments)]
        with log.open("wb") as out:
            status = subprocess.run(
                command, cwd=self.tree, env=self._environment, stdout=out, stderr=subprocess.STDOUT, check=False
            ).returncode
        changed = changed_files(self._git("diff", "--numstat"))
        self._git("add", "--all")
        self.done.append(Step(name, status == 0, time.monotonic() - begin, log, changed))
        print(f"{name}: {'done' if status == 0 else 'failed'} after {self.done[-1].seconds:.0f} s", flush=True)

    def facts(self) -> None:
        """Take over what needs no decision: schemas, the release's answers, its config keys, and the generated code."""
        jars = release_jars(self.version)
        self.run("schemas", "-m", "protocol.generator", "import", "--ahead", jars)
        self.run("release", "-m", "tests.releases.record", "add", self.version)
        self.run("keys", "tests/config/recorder/record.py", "newer", jars, self.name)
        self.run("generated", "-m", "protocol.generator")

    def commit(self) -> str:
        return self._git("rev-parse", "--short", "HEAD").strip()

    def _git(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(["git", *arguments], cwd=cwd or self.tree, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout


def changed_files(numstat: str) -> list[str]:
    """Return each file that `git diff --numstat` names, with the lines that came and went."""
    found = map(_NUMSTAT.fullmatch, numstat.splitlines())
    return [f"{match[3]} (+{match[1]} -{match[2]})" for match in found if match]


def kinds_of_differences(log: str) -> list[str]:
    """Return the kinds of differences that the differential has reported, with their numbers."""
    return [f"{match[1]} x {match[2]}" for line in log.splitlines() if (match := _KIND_OF_DIFFERENCE.fullmatch(line))]


def report(version: str, commit: str, changes: Mapping[str, Change], steps: Sequence[Step]) -> str:
    """Return the report as Markdown."""
    lines = [f"# Kafka {version} beside {KAFKA_VERSION}", "", f"Made from commit {commit}.", "", "## What is new"]
    for part, found in changes.items():
        for title, names in zip(found._fields, found, strict=True):
            lines += _listed(f"{part}, {title}", names)
    lines += ["", "## What differs"]
    for step in steps:
        differences = step.files
        if step.name == "differential":
            differences = kinds_of_differences(step.log.read_text(errors="replace"))
        lines += _listed(step.name, differences)
    lines += ["", "## What a person decides", "", "| of | what | where |", "|---|---|---|"]
    lines += [
        f"| {part} | {' | '.join(DECISIONS[part])} |" for part, found in changes.items() if found.new or found.changed
    ]
    lines += [
        f"| {step.name} | follow, or say in the test why not | {', '.join(each.split()[0] for each in step.files)} |"
        for step in steps
        if step.name in RECORDINGS and step.files
    ]
    lines += ["", "## Steps", "", "| step | seconds | end |", "|---|---|---|"]
    lines += [f"| {each.name} | {each.seconds:.0f} | {_end_of(each)} |" for each in steps]
    return "\n".join([*lines, ""])


def _end_of(step: Step) -> str:
    """Return how a step has ended; the differential's status tells of differences, too."""
    if step.well:
        return "well"
    if step.name == "differential" and kinds_of_differences(step.log.read_text(errors="replace")):
        return "with differences"
    return f"failed: {step.log}"


def _listed(title: str, names: Iterable[str]) -> list[str]:
    items = [f"- {name}" for name in names]
    return ["", f"### {title} ({len(items)})", *items] if items else []


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="interop.new_release", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", help="as the registry of jars names it: 4.5.0, 4.5.0-rc1")
    parser.add_argument("--recordings", nargs="*", choices=RECORDINGS, help="only these; none without a name")
    parser.add_argument("--steps", type=int, default=3000, help="of the differential, 0 for none")
    parser.add_argument("--seed", type=int, default=1, help="of the differential")
    chosen = parser.parse_args(arguments)
    steps = Steps(chosen.version, ROOT / "build" / "release" / chosen.version)
    steps.prepare()
    steps.facts()
    changes = changes_of(chosen.version, steps.tree)
    for name in (
        [each for each in RECORDINGS if each not in OTHER_RELEASES] if chosen.recordings is None else chosen.recordings
    ):
        steps.run(name, "-m", "interop.record", name)
    if chosen.steps:
        played = ("--steps", chosen.steps, "--seed", chosen.seed, "--emulate", steps.name)
        steps.run("differential", "-m", "interop.differential", *played)
    text = report(chosen.version, steps.commit(), changes, steps.done)
    (steps.folder / "report.md").write_text(text, encoding="utf-8")
    print(text)
    return 0 if all(each.well for each in steps.done if each.name != "differential") else 1


if __name__ == "__main__":
    sys.exit(main())
