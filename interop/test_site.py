"""The site's search, in a browser: a reader's words lead to the method, key or page that is meant."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from interop import ROOT
from interop.chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

TIMEOUT_MS = 20_000


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("material", reason="pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder / "dev")]
    settings = {"NO_MKDOCS_2_WARNING": "1", "DOCS_VERSIONS": "mike"}
    subprocess.run(command, cwd=ROOT, env=os.environ | settings, check=True, timeout=120)
    listed: list[dict[str, object]] = [
        {"version": version, "title": version, "aliases": []} for version in ("7.1.0", "dev")
    ]
    (folder / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Page]:
    with playwright.sync_playwright() as started:
        found = chromium()
        options = {"env": found.environment} if found.environment else {}
        browser = started.chromium.launch(
            executable_path=found.program, args=["--no-sandbox", "--disable-gpu"], **options
        )
        page = browser.new_page()
        page.goto(f"{address}/dev/index.html")
        yield page
        browser.close()


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("wait_for_lag", "reference/python.html#kafkabrokerwait_for_lag"),
        ("lag", "reference/python.html#kafkabrokerlag"),
        ("KafkaCluster.move_leader", "reference/python.html#kafkaclustermove_leader"),
        ("advance", "reference/python.html#brokerclockadvance"),
        ("AWS_MSK_IAM", "security.html#aws_msk_iam"),
        ("ok", "reference/python.html#kafkabrokercreate_topic"),  # exist_ok: a word within a name
        ("log.retention.ms", "reference/configs.html#brokers"),
    ],
)
def test_what_is_typed_finds_its_place(typed: str, place: str, page: Page) -> None:
    field = page.locator("input.md-search__input")
    field.fill("")
    field.press_sequentially(typed)
    file, _, anchor = place.partition("#")  # the typed text stands between them, to be shown on the page
    found = page.locator(f".md-search-result__link[href*='{file}'][href$='#{anchor}']")
    found.first.wait_for(state="attached", timeout=TIMEOUT_MS)


def test_another_version_is_a_choice_away(page: Page) -> None:
    menu = page.locator(".md-version")
    menu.wait_for(timeout=TIMEOUT_MS)
    assert menu.locator(".md-version__link").all_text_contents() == ["7.1.0", "dev"]
