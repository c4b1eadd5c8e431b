"""A release tried without its host: what a step says that fails, and an index of this machine."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path

import pytest

import bare_root
import dist
import dry_run
import language_packages


def started(monkeypatch: pytest.MonkeyPatch, out: Path, *steps: str) -> int:
    monkeypatch.setattr(sys, "argv", ["dry_run", "--out", str(out), *(f"--only={step}" for step in steps)])
    return dry_run.main()


def test_the_first_step_that_fails_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(out: Path) -> str:
        return dry_run.run(sys.executable, "-c", "import sys; sys.exit('no room')")

    monkeypatch.setitem(dry_run.STEPS, "notes", lambda out: "fine")
    monkeypatch.setitem(dry_run.STEPS, "packages", fails)
    assert started(monkeypatch, tmp_path, "notes", "packages", "bill") == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("notes: fine (")
    assert printed.err.startswith("packages: failed\n")
    assert printed.err.endswith("ended with 1\nno room\n\n")
    assert "bill" not in printed.out


def test_a_step_on_request_runs_when_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in dry_run.STEPS:
        monkeypatch.setitem(dry_run.STEPS, name, lambda out: "fine")
    assert started(monkeypatch, tmp_path) == 0
    assert "bare-root" not in capsys.readouterr().out
    assert started(monkeypatch, tmp_path, "bare-root") == 0
    assert capsys.readouterr().out.startswith("bare-root: fine (")


def test_a_bare_root_that_can_not_be_made_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bare_root, "NEEDED", ("sh", "no-such-program"))
    assert started(monkeypatch, tmp_path, "bare-root") == 1
    assert capsys.readouterr().err == "bare-root: failed\na bare root needs root's rights, no-such-program\n"


def test_an_index_is_served_while_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "simple" / "pykafka-broker").mkdir(parents=True)
    (tmp_path / "simple" / "pykafka-broker" / "a.whl").touch()
    with dry_run.served(tmp_path) as address, urllib.request.urlopen(f"{address}/simple/pykafka-broker/") as page:
        assert b'href="a.whl"' in page.read()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{address}/simple/")


def test_a_package_is_copied_as_git_knows_it_and_one_without_its_program_is_not_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = language_packages.staged("node", tmp_path / "copy")
    assert {"LICENSE", "README.md", "index.js", "operations.js", "package.json"} <= {
        each.name for each in copy.iterdir()
    }
    assert not (copy / "node_modules").exists()
    monkeypatch.setitem(language_packages.PACKAGES, "npm", ("no-such-program", language_packages.npm))
    assert dry_run.STEPS["npm"](tmp_path) == "no-such-program is not installed"
    with pytest.raises(language_packages.PackageFailed, match="ended with 3\nno room"):
        language_packages.run(tmp_path, sys.executable, "-c", "print('no room'); raise SystemExit(3)")
    with pytest.raises(language_packages.PackageFailed, match="the README of node has no example"):
        language_packages.example("node", "cobol")


def test_every_file_for_a_host_is_checked() -> None:
    names = {
        path.relative_to(dry_run.ROOT) for pattern in dry_run.SCHEMAS.values() for path in dry_run.ROOT.glob(pattern)
    }
    made = {path.relative_to(dry_run.ROOT) for path in (dry_run.ROOT / ".github").rglob("*.yml")}
    assert made - names == {Path(".github/zizmor.yml")}
    assert {Path("CITATION.cff"), Path("packaging/compose.yaml"), Path("packaging/gitlab-ci.yml")} <= names


@pytest.mark.posix("the Pythons are scripts of a shell")
def test_packages_are_tried_with_the_newest_patch_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for version in ("3.13.2", "3.13.9", "3.13.10", "3.13.11t"):
        folder = tmp_path / "versions" / version / "bin"
        folder.mkdir(parents=True)
        (folder / "python").write_text("#!/bin/sh\n")
        (folder / "python").chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(dist, "VERSIONS", ("3.13",))
    assert dist.pythons() == [str(tmp_path / "versions" / "3.13.10" / "bin" / "python")]
