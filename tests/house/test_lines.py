"""JSON Lines end with a line feed alone.

`str.splitlines` ends lines at eight other characters too, and JSON has three of them unescaped within its texts, so a
record with one of them would be cut in two.
"""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "pykafka_broker"
ROOMS = ("cli", "control", "registry", "testing", "tools")


def test_no_lines_of_a_text_are_cut_at_other_characters() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for line in path.read_text().split("\n")
        if re.search(r"\.splitlines\(", line)
    ]
    assert found == [], "use split('\\n')"
