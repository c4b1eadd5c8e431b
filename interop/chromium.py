"""A Chromium for the tests of pages. Rule: one that the machine has is taken; else npm brings one that needs nothing
else of the machine (`@sparticuz/chromium`, made for functions in a cloud), kept in `.cache/chromium`; else the test is
skipped with its reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.toolchains import BUILT, NPM_OPTIONS, need, run

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
    """How it is started: the program, and what has to be in its environment."""

    program: str
    environment: dict[str, str]


def chromium() -> Chromium:
    """Skips the test where there is none and none can be had."""
    named = os.environ.get("PYKAFKA_TEST_CHROMIUM")
    installed = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    program = named or next(filter(None, installed), None)
    return Chromium(program, {}) if program is not None else _from_npm()


def _from_npm() -> Chromium:
    ready = _FOLDER / _RELEASE
    if not ready.exists():
        need("node", "npm", "tar")
        _fetch(ready)
    return Chromium(str(ready / "chromium"), {"LD_LIBRARY_PATH": str(ready / "lib")})


def _fetch(ready: Path) -> None:
    unfinished = _FOLDER / f"unfinished-{os.getpid()}"
    unfinished.mkdir(parents=True)
    try:
        run(["npm", "install", *NPM_OPTIONS, f"@sparticuz/chromium@{_RELEASE}"], unfinished, _FETCH_TIMEOUT_S)
        run(["node", "-e", _UNPACK], unfinished)
        run(["tar", "-xf", "libraries.tar"], unfinished)
        (unfinished / "chromium").chmod(0o755)
        shutil.rmtree(unfinished / "node_modules")
        run([str(unfinished / "chromium"), "--version"], unfinished)
        unfinished.rename(ready)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        pytest.skip(f"there is no Chromium, and npm can't bring one: {error}")
