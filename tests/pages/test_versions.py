"""The published site, of a small repository with three releases."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pages import versions

pytest.importorskip("mkdocs", reason="pip install -e '.[docs]'")
pytestmark = pytest.mark.whole


def git(repository: Path, *arguments: str) -> None:
    own = [
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "-c",
        "tag.gpgsign=false",
        "-c",
        "commit.gpgsign=false",
    ]
    subprocess.run(["git", *own, *arguments], cwd=repository, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "docs").mkdir(parents=True)
    (folder / "mkdocs.yml").write_text("site_name: small\nuse_directory_urls: false\ntheme: mkdocs\n")
    git(folder, "init", "--quiet")
    return folder


def commit(repository: Path, says: str, *tags: str) -> None:
    (repository / "docs" / "index.md").write_text(f"# {says}\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", says)
    for tag in tags:
        git(repository, "tag", tag)


def test_each_release_has_its_own_docs(repository: Path, tmp_path: Path) -> None:
    commit(repository, "the first", "v0.9.0", "vendor-1", "v1")
    commit(repository, "mended", "v0.9.1")
    commit(repository, "the second", "v0.10.0")
    commit(repository, "not released")
    site = tmp_path / "site"
    (site / "0.8.0").mkdir(parents=True)

    versions.build(repository, site)

    told = {name: (site / name / "index.html").read_text() for name in ("0.10.0", "0.9.1", "dev")}
    assert ["the second" in told["0.10.0"], "mended" in told["0.9.1"], "not released" in told["dev"]] == [True] * 3
    assert [each["version"] for each in json.loads((site / "versions.json").read_text())] == ["0.10.0", "0.9.1", "dev"]
    assert "url=0.10.0/index.html" in (site / "index.html").read_text()
    assert sorted(each.name for each in site.iterdir() if each.is_dir()) == ["0.10.0", "0.9.1", "dev"]
    left = subprocess.run(["git", "worktree", "list"], cwd=repository, capture_output=True, text=True, check=True)
    assert len(left.stdout.splitlines()) == 1


def test_before_the_first_release_the_root_leads_to_the_last_commit(repository: Path, tmp_path: Path) -> None:
    commit(repository, "begun")
    versions.build(repository, tmp_path / "site")
    assert "url=dev/index.html" in (tmp_path / "site" / "index.html").read_text()
