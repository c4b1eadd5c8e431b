"""`python -m pages` writes what is made: the asynchronous form of `pykafka_broker.testing`, the control API in other
languages, the pages of the reference, and the tables of figures. With `--check` it names the files that are not what
code and figures say.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from pages import asynchronous, figures, languages
from pages.commands import commands, tools
from pages.configs import configs
from pages.control import control
from pages.exit_codes import exit_codes
from pages.metrics import metrics
from pages.protocol import apis, errors
from pages.python import python

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
MARK = "<!-- Made from the code by `make generate`. -->\n"
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "tools.md": tools,
    "python.md": python,
    "control.md": control,
    "configs.md": configs,
    "apis.md": apis,
    "errors.md": errors,
    "exit-codes.md": exit_codes,
    "metrics.md": metrics,
}


def text_of(name: str) -> str:
    """Return a page as the code makes it now."""
    return MARK + PAGES[name]()


def outdated() -> list[str]:
    """Return the files that are missing, out of date or left over; pages are compared once modules are right."""
    if modules := asynchronous.outdated(asynchronous.twins()):
        return modules
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    wrong = [name for name in PAGES.keys() | there.keys() if name not in PAGES or there.get(name) != text_of(name)]
    return sorted(
        [*(f"docs/reference/{name}" for name in wrong), *asynchronous.outdated(languages.files()), *figures.outdated()]
    )


def main() -> int:
    it = argparse.ArgumentParser(prog="python -m pages", description=__doc__)
    it.add_argument("--check", action="store_true", help="write nothing")
    if it.parse_args().check:
        for name in (wrong := outdated()):
            print(f"differs: {name} (make generate)", file=sys.stderr)
        return 1 if wrong else 0
    asynchronous.write(asynchronous.twins())
    asynchronous.write(languages.files())
    figures.write()
    for name in PAGES:
        (FOLDER / name).write_text(text_of(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
