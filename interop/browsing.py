"""A browser on the page of a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from interop.chromium import chromium
from pykafka_broker.testing import KafkaBroker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

TIMEOUT_MS = 20_000
# Answers come to the page so much later than a test takes a step: one that does not wait for them fails each time.
LATE_MS = 250
ANSWERED_LATE = f"""
const ask = fetch;
window.fetch = async (...all) => {{
  await new Promise((go) => setTimeout(go, {LATE_MS}));
  return ask(...all);
}};
"""


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Run a Chromium without a window."""
    with playwright.sync_playwright() as started:
        found = chromium()
        options = {"env": found.environment} if found.environment else {}
        browser = started.chromium.launch(
            executable_path=found.program, args=["--no-sandbox", "--disable-gpu"], **options
        )
        yield browser
        browser.close()


class Tab:
    """A tab on the broker's page, with the errors that the page had."""

    def __init__(self, browser: Browser, broker: KafkaBroker, dark: bool = False) -> None:
        context = browser.new_context(color_scheme="dark" if dark else "light", viewport={"width": 1280, "height": 800})
        self.page = context.new_page()
        self.page.add_init_script(ANSWERED_LATE)
        self.page.set_default_timeout(TIMEOUT_MS)
        playwright.expect.set_options(timeout=TIMEOUT_MS)
        self.wrongs: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.wrongs.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrongs.append(f"dialog: {dialog.message}"))
        self.page.on("console", self._heard)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self._url = broker.control_url

    def _heard(self, message: ConsoleMessage) -> None:
        refused = "the server responded with a status of 4" in message.text  # the browser itself logs each of these
        if not refused and (message.type == "error" or "Content Security Policy" in message.text):
            self.wrongs.append(message.text)

    def open(self, address: str) -> Page:
        self.page.goto(f"{self._url}/#{address}")
        return self.page

    def close(self) -> None:
        assert all(url.startswith(self._url) for url in self.asked), "something came from elsewhere"
        self.page.context.close()


def see(page: Page, text: str) -> None:
    playwright.expect(page.locator("main")).to_contain_text(text)


def produce(broker: KafkaBroker, topic: str, count: int = 1) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "page"})
    for number in range(count):
        producer.produce(topic, key=f"key-{number}", value=json.dumps({"number": number}), headers={"trace": "abc"})
    assert producer.flush(60) == 0
