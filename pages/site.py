"""The hooks of MkDocs for files that are not in `docs/`, and for pages that no section names.

Rule: each text has one home in the repository. Some that stand elsewhere are pages of the site too; a link to a file
that is no page loses its address and keeps its text, and one to a file that is not there is left for MkDocs to refuse.

The site is for programs too: each page lies beside its HTML as Markdown, and `llms.txt` lists all of them with what
they are about (llmstxt.org).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
ADOPTED = {  # a file of the repository, and the page that it becomes
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "spark/README.md": "spark-pipeline.md",
    "interop/README.md": "clients-of-your-own.md",
    "interop/MATRIX.md": "matrix.md",
    "packaging/languages/dotnet/README.md": "dotnet.md",
    "packaging/languages/go/README.md": "go.md",
    "packaging/languages/java/README.md": "java.md",
    "packaging/languages/node/README.md": "node.md",
}
_HOMES = {page: home for home, page in ADOPTED.items()}
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:`[^`]*`|[^\]`])+)\]\((?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_pages: list[Page] = []
_nav: list[Any] = []
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put pages that no section names under "More"."""
    nav: list[Any] = config.nav or []
    named = _named(nav)
    pages = {path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md")}
    pages |= {page for home, page in ADOPTED.items() if (ROOT / home).exists()}
    if left := sorted(pages - named):
        config.nav = [*nav, {"More": left}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    for home, page in ADOPTED.items():
        if (ROOT / home).exists():
            files.append(File.generated(config, page, content=(ROOT / home).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return relinked(markdown, page.file.src_uri)


def on_env(env: object, config: MkDocsConfig, files: Files) -> None:
    """Keep the pages, which have their texts now, until the site is written."""
    _pages.clear()
    _pages.extend(page for file in files.documentation_pages() if (page := file.page) is not None)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    _nav[:] = nav.items


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    for page in _pages:
        (site / page.file.src_uri).write_text(page.markdown or "", encoding="utf-8")
    (site / "llms.txt").write_text(listed(config.site_name, config.site_description or "", _nav), encoding="utf-8")


def listed(name: str, description: str, items: Iterable[Any]) -> str:
    """Return the list of all pages for programs. items: of the navigation; a section's pages stand below its title."""
    top = [item for item in items if not item.children]
    text = f"# {name}\n\n> {description}\n\n{_lines(top)}"
    for section in items:
        if section.children:
            text += f"\n## {section.title}\n\n{_lines(section.children)}"
    return text


def _lines(pages: Iterable[Any]) -> str:
    return "".join(f"- [{page.title}]({page.file.src_uri}): {first_sentence(page.markdown or '')}\n" for page in pages)


def first_sentence(markdown: str) -> str:
    """Return the first sentence of a page's first paragraph, or nothing for a page without one."""
    for part in re.split(r"\n\s*\n", _FENCED.sub("", markdown)):
        if part.strip() and not part.lstrip().startswith(("#", "|", "<", "-", "*", ">")):
            text = _LINK.sub(lambda link: link["text"], " ".join(part.split()))
            return re.sub(r":$", ".", re.split(r"(?<=[.!?:]) ", text)[0])
    return ""


def relinked(markdown: str, page: str) -> str:
    """Return the text of a page with its links as the site has them; blocks of code stay as they are."""
    parts, end = [], 0
    for block in _FENCED.finditer(markdown):
        parts += [_relinked(markdown[end : block.start()], page), block[0]]
        end = block.end()
    return "".join([*parts, _relinked(markdown[end:], page)])


def _relinked(text: str, page: str) -> str:
    home = _HOMES.get(page, f"docs/{page}")

    def changed(link: re.Match[str]) -> str:
        if ":" in link["path"]:
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), link["path"]))
        there = ADOPTED.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        if there is None:
            return link["text"] if (ROOT / target).exists() else link[0]
        path = posixpath.relpath(there, posixpath.dirname(page) or ".")
        return f"[{link['text']}]({path}{link['anchor'] or ''})"

    return _LINK.sub(changed, text)


def _named(nav: Any) -> set[str]:
    """Return all pages that a navigation names."""
    if isinstance(nav, str):
        return {nav}
    parts = nav.values() if isinstance(nav, dict) else nav
    return set().union(*map(_named, parts))
