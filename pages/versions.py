"""The published site: the docs of every release beside those of the last commit.

    python -m pages.versions [FOLDER]    builds it, by default into build/site

Rule: a release's docs are built from its tag, with its own pages, and stand in the folder of its version; of the
patches of a minor release the last one counts. The last commit's stand in `dev`. Who comes to the root is led to the
newest release, or to `dev` before there is one. The page's own menu of versions reads `versions.json`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEV = "dev"
_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_TO_THE_NEWEST = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>pykafka-broker</title>
<meta http-equiv="refresh" content="0; url={version}/index.html"></head>
<body><a href="{version}/index.html">The docs of {version}</a></body></html>
"""


def releases(repository: Path) -> list[str]:
    """Return the versions that have docs, the newest first, by the tags of a repository."""
    listed = subprocess.run(["git", "tag", "--list", "v*"], cwd=repository, capture_output=True, text=True, check=True)
    last: dict[tuple[int, int], int] = {}
    for found in filter(None, map(_TAG.fullmatch, listed.stdout.split())):
        major, minor, patch = map(int, found.groups())
        last[major, minor] = max(patch, last.get((major, minor), 0))
    return [f"{major}.{minor}.{last[major, minor]}" for major, minor in sorted(last, reverse=True)]


def build(repository: Path, site: Path) -> None:
    """Build the whole site into a folder, which is emptied first. Raises CalledProcessError."""
    shutil.rmtree(site, ignore_errors=True)
    versions = [*releases(repository), DEV]
    for version in versions:
        if version == DEV:
            _build_one(repository, site / version)
            continue
        with tempfile.TemporaryDirectory() as folder:
            checkout = Path(folder, "checkout")
            _git(repository, "worktree", "add", "--quiet", "--detach", str(checkout), f"v{version}")
            try:
                _build_one(checkout, site / version)
            finally:
                _git(repository, "worktree", "remove", "--force", str(checkout))
    listed = [{"version": version, "title": version, "aliases": []} for version in versions]
    (site / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    (site / "index.html").write_text(_TO_THE_NEWEST.format(version=versions[0]), encoding="utf-8")


def _build_one(checkout: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"DOCS_VERSIONS": "mike", "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(checkout)}
    subprocess.run(command, cwd=checkout, env=environment, check=True)


def _git(repository: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=repository, check=True)


if __name__ == "__main__":
    build(ROOT, Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site")
