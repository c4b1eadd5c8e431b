"""The control API in other languages, made from its OpenAPI document: `packaging/languages`.

Rule: each operation is a method in every language, with the document's parameters and answers, so a new operation is in
all of them after `make generate`. What starts the broker, and what a record is, is written by hand beside it. A
language (`node`, `go`, `java`, `dotnet`) turns the `Api` into the text of its files, and knows no code of this broker.
"""

from __future__ import annotations

from collections.abc import Callable

from pages.languages import dotnet, go, java, node
from pages.languages.model import Api, api

LANGUAGES: tuple[Callable[[Api], dict[str, str]], ...] = (node.files, go.files, java.files, dotnet.files)


def files() -> dict[str, str]:
    """Return the text of each generated file, by its path below the root."""
    read = api()
    return {f"packaging/languages/{name}": text for make in LANGUAGES for name, text in make(read).items()}
