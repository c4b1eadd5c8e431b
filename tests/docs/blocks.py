"""The fenced blocks of README and docs, and what is done with each.

Rule: every block with a language is run, compiled or read by a test. `BY_LANGUAGE` says which; a block
that its test has to leave out stands in `LEFT_OUT`, with the reason. A block without a language, or of text, is
something to look at.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted((ROOT / "packaging" / "languages").glob("*/README.md"))  # of other languages
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")), *PACKAGES]
BY_LANGUAGE = {
    "python": "tests/docs/test_snippets.py runs it, as a program or by pytest",
    "sh": "tests/docs/test_shell.py runs it beside a broker",
    "console": "tests/docs/test_shell.py runs it beside a broker, and compares what it prints",
    "yaml": "tests/docs/test_formats.py reads it",
    "properties": "tests/docs/test_formats.py reads it, and looks for its keys",
    "java": "interop/test_docs.py compiles it; interop/test_language_packages.py runs the one of its package",
    "go": "interop/test_language_packages.py has it parsed by gofmt; with --slow it runs it",
    "javascript": "interop/test_language_packages.py runs it",
    "csharp": "interop/test_language_packages.py runs it",
    "text": "",
    "": "",
}
LEFT_OUT = {  # by page, and number among the blocks of its language there
    "README.md-python-1": "tests/testing/test_readme.py runs it and compares what pytest prints",
    "README.md-console-1": "tests/testing/test_readme.py compares it",
    "architecture.md-python-1": "declarations of what stands in the code",
    "architecture.md-python-2": "declarations of what stands in the code",
    "architecture.md-python-3": "declarations of what stands in the code",
    "ci.md-python-1": "starts a container; tests/packaging/test_container.py tests the class without one",
    "ci.md-sh-2": "starts a container; tests/packaging/test_container.py starts its command",
    "ci.md-sh-1": "builds a container; tests/packaging/test_container.py runs what is in it",
    "clusters.md-sh-1": "takes the ports 9092 to 9094; tests/cli/test_cluster.py starts one on free ports",
    "clusters.md-sh-2": "the file and the id are the reader's; tests/cli/test_format.py formats and starts",
    "clusters.md-sh-3": "Kafka's own scripts; interop/test_docs.py starts a Kafka on the properties above them",
    "dotnet.md-csharp-2": "its client is a package that can't be had where this is tested",
    "first-test.md-console-1": "runs the test above it, as tests/docs/test_snippets.py does",
    "security.md-sh-1": "takes the port 9092; tests/cli/test_format.py formats, starts and adds a user",
    "page.md-console-1": "takes the port 9644; tests/cli/test_process.py starts one on a free port",
    "schema-registry.md-sh-1": "takes the port 8081; tests/registry starts registries on free ports",
    "schema-registry.md-sh-2": "takes the port 9644; tests/cli/test_addresses.py reads its options",
    "spark.md-python-1": "interop/test_docs.py runs it with --slow: a Spark session takes half a minute",
}


class Block(NamedTuple):
    name: str  # of the page, with language and number
    language: str
    text: str


_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[Block]:
    counts: dict[str, int] = {}
    name = f"{page.parent.name}.md" if page in PACKAGES else page.name  # as the site has it
    found = []
    for language, text in _FENCE.findall(page.read_text(encoding="utf-8")):
        counts[language] = counts.get(language, 0) + 1
        found.append(Block(f"{name}-{language}-{counts[language]}", language, text))
    return found


ALL = [block for page in PAGES for block in blocks_of(page)]


def blocks(*languages: str) -> list[Block]:
    """Return the blocks of these languages, without those in `LEFT_OUT`."""
    return [block for block in ALL if block.language in languages and block.name not in LEFT_OUT]


def name_of(block: Block) -> str:
    return block.name
