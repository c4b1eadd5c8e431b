"""A Chromium for the tests of pages.

Rule: the machine's own Chromium is used, if there is one; else npm fetches one that needs no other packages
(`@sparticuz/chromium`, made for functions in a cloud) into `.cache/chromium`; else the test is skipped with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.toolchains import BUILT, NPM_OPTIONS, made_once, need, run

_RELEASE = "153.0.0"
_FOLDER = BUILT.with_name("chromium")
_FETCH_TIMEOUT_S = 120
# Node unpacks what npm brought: Python's standard library has no Brotli.
_UNPACK = """
const { brotliDecompressSync } = require("node:zlib"), { readFileSync, writeFileSync } = require("node:fs");
const from = "node_modules/@sparticuz/chromium/bin/";
for (const [packed, name] of [["chromium.br", "chromium"], ["al2023.tar.br", "libraries.tar"]])
  writeFileSync(name, brotliDecompressSync(readFileSync(from + packed)));
"""


class Chromium(NamedTuple):
    """A Chromium program, with the variables that its environment needs."""

    program: str
    environment: dict[str, str]


def chromium() -> Chromium:
    """Return a Chromium; skip the test where there is none and none can be fetched."""
    named = os.environ.get("PYKAFKA_TEST_CHROMIUM")
    installed = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    program = named or next(filter(None, installed), None)
    return Chromium(program, {}) if program is not None else _from_npm()


def _from_npm() -> Chromium:
    need("node", "npm", "tar")
    folder = made_once(_FOLDER / _RELEASE, _RELEASE, lambda: _fetch(_FOLDER / _RELEASE))
    return Chromium(str(folder / "chromium"), {"LD_LIBRARY_PATH": str(folder / "lib")})


def _fetch(folder: Path) -> None:
    try:
        run(["npm", "install", *NPM_OPTIONS, f"@sparticuz/chromium@{_RELEASE}"], folder, _FETCH_TIMEOUT_S)
        run(["node", "-e", _UNPACK], folder)
        run(["tar", "-xf", "libraries.tar"], folder)
        (folder / "chromium").chmod(0o755)
        shutil.rmtree(folder / "node_modules")
        run([str(folder / "chromium"), "--version"], folder)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"there is no Chromium, and npm can't bring one: {error}")
