"""The files for a release and its hosts say what is true, and nothing in them can be changed by others."""

from __future__ import annotations

import json
import re
import tomllib
import xml.etree.ElementTree as ET
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
POM = {"m": "http://maven.apache.org/POM/4.0.0"}
PINNED = re.compile(r"uses: [\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
OWN = re.compile(r"uses: \./[\w./-]+$")


def workflow(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_of_others_are_pinned_by_digest(path: Path) -> None:
    used = [line.strip(" -") for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert used
    assert [line for line in used if not (PINNED.match(line) or OWN.match(line))] == []


def test_an_action_has_one_digest() -> None:
    pairs = {
        pair for path in WORKFLOWS for pair in re.findall(r"uses: (\S+)@(\S+ # \S+)", path.read_text(encoding="utf-8"))
    }
    assert len(pairs) == len({action for action, _ in pairs})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_has_the_rights_that_it_names_and_a_time_limit(path: Path) -> None:
    found = workflow(path.name)
    assert found["permissions"] == {}
    for job in found["jobs"].values():
        assert job["permissions"]
        assert "uses" in job or job["timeout-minutes"] > 0
        assert "write-all" not in job["permissions"]


def test_only_a_tag_publishes() -> None:
    jobs = workflow("release.yml")["jobs"]
    publishing = {name for name, job in jobs.items() if set(job["permissions"].values()) & {"write"}}
    assert publishing == {"index", "npm", "maven", "nuget", "go", "image", "page"}
    assert all(jobs[name]["if"] == "github.ref_type == 'tag'" for name in publishing)
    assert all({"checks", "build"} <= {*jobs[name]["needs"]} for name in publishing - {"page"})
    assert publishing - {"page"} <= {*jobs["page"]["needs"]}


def test_every_python_of_the_classifiers_is_tested() -> None:
    named = [each.rpartition(" :: ")[2] for each in PROJECT["classifiers"] if "Python :: 3." in each]
    tests = workflow("checks.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert tests["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert {each.partition("-")[0] for each in tests["system"]} == {"ubuntu", "macos", "windows"}


def test_the_citation_has_the_version_and_the_license_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert [each["name"] for each in citation["authors"]] == [each["name"] for each in PROJECT["authors"]]


def test_a_package_of_another_language_has_the_version_and_the_license() -> None:
    npm = json.loads((ROOT / "packaging" / "languages" / "node" / "package.json").read_text(encoding="utf-8"))
    assert (npm["name"], npm["version"], npm["license"]) == (PROJECT["name"], PROJECT["version"], PROJECT["license"])
    assert "dependencies" not in npm
    maven = ET.parse(ROOT / "packaging" / "languages" / "java" / "pom.xml")
    said = [maven.findtext(f"m:{each}", None, POM) for each in ("version", "licenses/m:license/m:name")]
    assert said == [PROJECT["version"], PROJECT["license"]]
    net = ET.parse(ROOT / "packaging" / "languages" / "dotnet" / "src" / "PykafkaBroker.csproj")
    told = [net.findtext(f"PropertyGroup/{each}") for each in ("Version", "PackageLicenseExpression", "Authors")]
    assert told == [PROJECT["version"], PROJECT["license"], PROJECT["authors"][0]["name"]]
    assert net.findall(".//PackageReference") == []


def test_a_report_of_a_fault_has_the_request_log() -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8"))
    asked = {each["id"]: each for each in form["body"]}
    assert asked["requests"]["validations"]["required"]
    assert "broker.requests(bodies=True)" in asked["requests"]["attributes"]["description"]


def test_the_changes_are_sorted_by_release_and_kind() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "<!-- releases -->\n\n## " in text
    assert f"\n## {PROJECT['version']} " in text
    assert {*re.findall(r"^### (.*)$", text, re.MULTILINE)} <= {"Added", "Changed", "Deprecated", "Removed", "Fixed"}
    assert [line for line in text.splitlines() if line.startswith("  ")] == []  # one line each


def test_the_bill_of_materials_says_what_the_wheel_needs() -> None:
    pytest.importorskip("cyclonedx", reason="pip install -e '.[test]'")
    from sbom import sbom

    metadata = Message()
    metadata["Name"], metadata["Version"], metadata["Summary"] = "pykafka-broker", "0.1.0", "A broker"
    metadata["License-Expression"] = "Apache-2.0"
    metadata["Requires-Dist"] = "crc32c>=2.7"
    metadata["Requires-Dist"] = 'PyJWT[crypto]>=2.9 ; extra == "security"'
    found = json.loads(sbom(metadata, 1_700_000_000))
    assert found == json.loads(sbom(metadata, 1_700_000_000))
    assert found["metadata"]["component"]["purl"] == "pkg:pypi/pykafka-broker@0.1.0"
    assert [each["name"] for each in found["components"]] == ["crc32c"]
    assert found["dependencies"][-1]["dependsOn"] == ["pkg:pypi/crc32c"]
