"""Every link from one text of the repository to another has its file, and its heading there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages.site import ADOPTED

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [path for path in map(ROOT.joinpath, ADOPTED) if path.exists()] + sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"(?<!!)\[(?:`[^`]*`|[^\]`])+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it and as mkdocs.yml sets it for MkDocs."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(text: str) -> set[str]:
    return {slug(each) for each in HEADING.findall(without_code(text))}


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def links(text: str) -> Iterator[tuple[str, str]]:
    """Yield file and heading of each link within the repository."""
    for target in LINK.findall(without_code(text)):
        if ":" not in target:
            file, _, heading = target.partition("#")
            yield file, heading


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_has_its_target(text: Path) -> None:
    lost = []
    for file, heading in links(text.read_text(encoding="utf-8")):
        target = text.parent / file if file else text
        if not target.exists() or (heading and heading not in headings(target.read_text(encoding="utf-8"))):
            lost.append(posixpath.join(file, f"#{heading}"))
    assert lost == []


def test_a_lost_heading_is_noticed() -> None:
    assert headings("# Words, and `code`\n\n```\n# not this\n```\n") == {"words-and-code"}
    assert list(links("[a](b.md#c) [x](#y) [d](https://e.org)\n```\n[f](g.md)\n```\n")) == [("b.md", "c"), ("", "y")]
