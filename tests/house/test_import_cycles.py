"""No import goes in a circle of more than two modules, TYPE_CHECKING included: else none of them can be read alone."""

from __future__ import annotations

from pathlib import Path

from tests.house.sources import cycles, import_graph, sources

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pykafka_broker"
ALLOWED_LENGTH = 2  # a class and what makes it may know each other


def test_there_are_no_circles() -> None:
    graph = import_graph(sources(ROOT, PACKAGE))
    found = {" > ".join(name.removeprefix(f"{PACKAGE}.") for name in cycle) for cycle in cycles(graph, ALLOWED_LENGTH)}
    assert not found


def test_a_circle_is_found_wherever_the_import_stands(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    texts = {
        "a": "from p import b, d",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.c import C",
        "c": "def f() -> None:\n    import p.a",
        "d": "from p.a import A",
        "e": "import p.a",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    assert cycles(import_graph(sources(tmp_path, "p")), ALLOWED_LENGTH) == {("p.a", "p.b", "p.c")}
    assert ("p.a", "p.d") in cycles(import_graph(sources(tmp_path, "p")), 1)
