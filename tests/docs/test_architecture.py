"""Names on the page of the architecture exist: each class and function, each module and folder.

Rule: a name in `backticks` that looks like one of Python's, or like a file, has its definition in the repository.
Kafka's own names stand in the first column of "Kafka's class, and ours", and in `KAFKAS` where a text needs one.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
FOLDERS = ("pykafka_broker", "protocol", "tests", "interop", "bench", "pages")
TABLE = "## Kafka's class, and ours"
KAFKAS = {"DescribeGroups", "ListGroups"}  # requests
OTHERS = {"linux", "posix", "sendfile", "w"}  # marks of pytest, a call of the system, an argument
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]+\.(?:py|js|json|md)|[\w./]+/")
DOTTED = re.compile(r"([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?(?:\(.*|)")
DEFINITION = re.compile(
    r"^\s*(?:class|def|async def)\s+(\w+)|^\s*(?:self\.)?(\w+)(?::[^=\n]*)?\s*=[^=]|^\s+(\w+): ", re.MULTILINE
)
METRIC = "pykafka_broker_"


def names(text: str) -> set[str]:
    """Return all names in backticks, Kafka's own left out."""
    before, _, behind = FENCED.sub("", text).partition(TABLE)
    table, _, rest = behind.partition("\n## ")
    ours = [row.split("|", 2)[2] for row in table.splitlines() if row.startswith("|")]
    return set(NAME.findall("\n".join([before, *ours, rest])))


@cache
def paths() -> frozenset[str]:
    """Return all files and folders, each with every end of its path, a folder with a slash behind it."""
    found: set[str] = set()
    for folder in FOLDERS:
        for path in [ROOT / folder, *(ROOT / folder).rglob("*")]:
            parts = path.relative_to(ROOT).parts
            end = "/" if path.is_dir() else ""
            found.update("/".join(parts[start:]) + end for start in range(len(parts)))
    return frozenset(found)


@cache
def defined() -> frozenset[str]:
    """Return the names of modules, classes, functions, attributes and constants."""
    found: set[str] = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            found.add(path.stem)
            for match in DEFINITION.finditer(path.read_text(encoding="utf-8")):
                found.update(filter(None, match.groups()))
    return frozenset(found)


def lost(name: str) -> bool:
    if name.startswith(("/", METRIC)) or name in KAFKAS | OTHERS:
        return False
    if FILE.fullmatch(name):
        return name not in paths() and not (PAGE.parent / name).exists()
    dotted = DOTTED.fullmatch(name)
    return dotted is not None and not {part for part in dotted.groups() if part} <= defined()


def test_what_the_page_names_is_there() -> None:
    assert sorted(filter(lost, names(PAGE.read_text(encoding="utf-8")))) == []


def test_what_is_gone_is_noticed() -> None:
    gone = ("PartitionLogg", "log/nowhere.py", "nowhere/", "PartitionLog.apend(batch)")
    there = ("PartitionLog.append(batch, now)", "log/flush.py", "--json")
    assert [*map(lost, gone), *map(lost, there)] == [True] * len(gone) + [False] * len(there)
    assert names(f"`a`\n{TABLE}\n| KafkaApis `B` | `c` |\n\n## Next\n`d`\n```\n`e`\n```\n") == {"a", "c", "d"}
