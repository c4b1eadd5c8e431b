"""The site of the docs is made without a warning, of pages that need nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pages.site import first_sentence, relinked

ROOT = Path(__file__).resolve().parents[2]
FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?((?:https?:)?//[^\"'>\s]+)")


pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, as `make docs` builds it."""
    pytest.importorskip("material", reason="pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_every_page_is_there(site: Path) -> None:
    missing = [page for page in (ROOT / "docs").rglob("*.md") if not _made_of(page, site).exists()]
    assert missing == []
    assert "A Kafka broker in pure Python" in (site / "index.html").read_text()
    assert (site / "contributing.html").exists()
    assert "Produce" in (site / "search" / "search_index.json").read_text()


def test_programs_find_every_page_as_markdown(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# pykafka-broker\n\n> A Kafka broker in pure Python")
    listed = re.findall(r"^- \[[^\]]+\]\(([\w./-]+)\): \S.*[.?!]$", text, re.MULTILINE)
    assert len(listed) == text.count("\n- ")
    pages = {path.relative_to(site).with_suffix(".md").as_posix() for path in site.rglob("*.html")} - {"404.md"}
    assert {*listed} == pages
    vague = [line for line in re.findall(r"^- .*", text, re.MULTILINE) if len(line.split(": ", 1)[1].split()) < 6]
    assert vague == []
    assert "def test_an_order_is_sent(kafka_broker):" in (site / "index.md").read_text(encoding="utf-8")
    assert [name for name in pages if not (site / name).read_text(encoding="utf-8").strip()] == []


def test_what_a_page_is_about_is_its_first_sentence() -> None:
    page = "# Title\n\n<!-- made -->\n\n| a |\n|---|\n\n```sh\n\nmake\n```\n\nRead [this](a.md) first. Then\nthat.\n"
    assert first_sentence(page) == "Read this first."
    assert first_sentence("# T\n\nWhat you need:\n\n- a\n") == "What you need."
    assert first_sentence("# Title\n\n- a list\n") == ""


def test_a_page_fetches_nothing_from_elsewhere(site: Path) -> None:
    found = {page.name: FETCHED.findall(page.read_text()) for page in site.rglob("*.html")}
    assert {name: addresses for name, addresses in found.items() if addresses} == {}


def test_a_font_or_a_script_from_elsewhere_would_be_found() -> None:
    page = '<link rel="stylesheet" href="https://fonts.example/a.css"><script src="//cdn.example/b.js"></script>'
    assert FETCHED.findall(page) == ["https://fonts.example/a.css", "//cdn.example/b.js"]


def test_links_lead_to_pages_of_the_site_or_nowhere() -> None:
    readme = "[a](docs/time.md#time) [`b[0]`](CONTRIBUTING.md) [c](Makefile) [d](https://example.org) [e](gone.md)"
    assert relinked(readme, "index.md") == (
        "[a](time.md#time) [`b[0]`](contributing.md) c [d](https://example.org) [e](gone.md)"
    )
    assert relinked("[a](../README.md) [b](../pyproject.toml)", "time.md") == "[a](index.md) b"
    assert relinked("```\n[a](../README.md)\n```\n", "time.md") == "```\n[a](../README.md)\n```\n"


def _made_of(page: Path, site: Path) -> Path:
    return (site / page.relative_to(ROOT / "docs")).with_suffix(".html")
