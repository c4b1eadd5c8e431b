"""The matrix: rows are files, a program's exit code makes a cell, and a run may be ended and resumed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from interop.matrix.__main__ import arguments, chosen, main
from interop.matrix.brokers import TARGETS, plain
from interop.matrix.cells import run_cell
from interop.matrix.columns import COLUMNS
from interop.matrix.preparing import KINDS, Prepared, Unprepared, once, reason
from interop.matrix.publishing import as_markdown, ranges, red_here
from interop.matrix.results import GREEN, GREY, RED, Cell, Results
from interop.matrix.rows import ROWS, load

INTEROP = Path(__file__).parent
PROGRAM = """
import sys
scenario, bootstrap, topic = sys.argv[1:]
open(sys.argv[0] + ".asked", "a").write(scenario + " ")
if scenario == "produce":
    print("all went well")
elif scenario == "large":
    sys.exit("Error: the broker <b>answered</b> nothing")
elif scenario == "restart":
    print("restart", flush=True)
    sys.stdin.readline()
else:
    print("the toy can't")
    sys.exit(77)
"""
ROW = """
client = "toy"
language = "Python"
command = ["{python}", "{here}/toy.py"]
lacks.admin = "no toy has it"
explains.large = "as is known"

[[releases]]
versions = ["1"]
older = "0.10.0"
"""


class Stand:
    """A stand-in for a broker, for programs that never connect."""

    bootstrap_servers = "127.0.0.1:1"

    def __init__(self) -> None:
        self.topics: list[tuple[str, int]] = []
        self.restarts = 0

    def create_topic(self, name: str, partitions: int) -> None:
        self.topics.append((name.partition("-")[0], partitions))

    def restart(self) -> None:
        self.restarts += 1


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Stand:
    stand = Stand()

    @contextmanager
    def plain(target: str, older: str) -> Iterator[Stand]:
        yield stand

    monkeypatch.setattr("interop.matrix.brokers.plain", plain)
    monkeypatch.setattr("interop.matrix.runs.plain", plain)
    return stand


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "toy.py").write_text(PROGRAM)
    (tmp_path / "toy.toml").write_text(ROW)
    return tmp_path


def run(folder: Path, *more: str) -> tuple[int, dict[tuple[str, str], Cell]]:
    """Run the matrix in the folder; return its exit code, and the cells by target and column."""
    places = ["--folder", str(folder), "--results", str(folder / "results.json"), "--out", str(folder)]
    code = main([*places, *more])
    return code, {key[1:]: cell for key, cell in Results(folder / "results.json").cells.items()}


def test_a_toy_row_runs_and_each_exit_code_has_its_colour(toy: Path, broker: Stand) -> None:
    run(toy, "--targets", "older", "--columns", "headers")
    code, cells = run(toy, "--targets", "ours", "--columns", "produce,large,group,restart,admin")
    assert code == 0, "what is red was not run against Kafka"
    ours = {column: cell for (target, column), cell in cells.items() if target == "ours"}
    assert {column: cell.state for column, cell in ours.items()} == {
        "produce": GREEN, "restart": GREEN, "large": RED, "admin": GREY, "group": GREY,
    }  # fmt: skip
    assert broker.restarts == 1
    assert sorted(broker.topics) == [("group", 4), ("large", 1), ("produce", 1), ("restart", 1)]
    assert ours["produce"].note == "all went well"
    assert ours["large"].note.startswith("Error: the broker <b>answered</b> nothing (")
    assert ours["large"].note.endswith("/ours/toy-1/large.log)")
    assert ours["admin"].note == "no toy has it"
    assert ours["group"].note == "the toy can't"
    assert (cells["older", "headers"].state, cells["older", "headers"].note) == (GREY, "Kafka 0.10.0 has none")
    page = (toy / "index.html").read_text()
    assert "&lt;b&gt;answered" in page
    assert "as is known: Error: the broker" in page
    assert "<b>answered" not in page
    assert "it can't be tried" in page
    assert "| 1 | 0.10.0 |" in (toy / "MATRIX.md").read_text()


def test_what_is_known_of_a_column_and_of_a_target_is_both_said(toy: Path) -> None:
    (toy / "toy.toml").write_text(ROW + 'explains.older = "it asks in the old way"\n')
    [row] = load(toy)
    assert row.why("older", "large", "Error") == "as is known; it asks in the old way: Error"
    assert row.why("ours", "large", "Error") == "as is known: Error"
    assert row.why("older", "seek", "Error") == "it asks in the old way: Error"


def test_what_is_red_here_and_green_against_kafka_is_named(toy: Path) -> None:
    results = Results(toy / "results.json")
    results.put(("toy 1", "ours", "seek"), Cell(RED, "2026-11-22 10:00"))
    results.put(("toy 1", "kafka", "seek"), Cell(GREEN, "2026-11-22 10:00"))
    text = as_markdown(load(toy), results)
    assert "Red here and green against Kafka: 1 (toy 1: seek).\n" in text
    assert "Red here and not run against Kafka: 0.\n" in text


def test_what_is_known_of_a_target_is_said_of_its_red_cells_once(toy: Path, broker: Stand) -> None:
    (toy / "toy.toml").write_text(ROW.replace("explains.large", "explains.older"))
    run(toy, "--targets", "ours,older", "--columns", "large,produce")
    [ours, older] = [line for line in (toy / "MATRIX.md").read_text().splitlines() if line.startswith("- ✗ large")]
    assert "(ours): Error: the broker" in ours
    assert "(older): as is known: Error: the broker" in older
    assert load(toy)[0].why("older", "large", "as is known: so it is") == "as is known: so it is"


@pytest.mark.parametrize(
    ("said", "telling"),
    [
        (
            "npm error notarget No matching version\nnpm error A complete log of this run is in x",
            "npm error notarget No m",
        ),
        (
            "FileNotFoundError: CHANGES.rst\n---\nCommand setup.py failed with error code 1",
            "FileNotFoundError: CHANGES",
        ),
        ("java.net.ConnectException: no\nand no more", "java.net.ConnectException: no"),
        ("one\ntwo", "two"),
        ("", "it said nothing"),
    ],
)
def test_the_line_that_says_most_is_told(said: str, telling: str) -> None:
    assert reason(said).startswith(telling)


def test_records_that_are_years_old_stay_in_a_topic_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic of the matrix has no retention, so that records with a time years ago stay.

    With default retention they were deleted half a minute later: once in a hundred runs a look-up by time found
    nothing.
    """
    asked: list[dict[str, str]] = []

    @contextmanager
    def broker(**_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(bootstrap_servers="", create_topic=lambda *_, config: asked.append(config))

    monkeypatch.setattr("interop.matrix.brokers.KafkaBroker", broker)
    with plain("ours", "2.8") as running:
        running.create_topic("seek-1", 1)
    assert asked == [{"retention.ms": "-1"}]


def test_a_program_that_does_not_end_is_red_and_gone(tmp_path: Path) -> None:
    program = Prepared([sys.executable, "-c", "import time; time.sleep(200)"], {}, "")
    cell = run_cell(program, "seek", Stand(), "seek-1", {}, tmp_path / "seek.log", limit_s=0.5)
    assert cell.state == RED
    assert cell.note.startswith("not within ")
    assert cell.seconds < 100


def test_a_run_that_is_resumed_does_what_is_missing(toy: Path, broker: Stand) -> None:
    run(toy, "--targets", "ours", "--columns", "produce")
    run(toy, "--targets", "ours", "--columns", "produce,large", "--resume")
    run(toy, "--targets", "ours", "--red")
    assert (toy / "toy.py.asked").read_text() == "produce large large "
    old = Results(toy / "results.json")
    options = arguments(["--resume", "--hours", "-1", "--targets", "ours", "--columns", "produce"])
    assert len(chosen(load(toy), options, old)) == 1, "it is older than that"


def test_no_cell_is_begun_when_the_time_is_over(toy: Path) -> None:
    code, cells = run(toy, "--targets", "ours", "--minutes", "-1")
    assert (code, cells) == (0, {})


def test_the_row_of_the_readme_runs(tmp_path: Path) -> None:
    """The example files in interop/README.md run as they stand there."""
    text = (INTEROP / "README.md").read_text()
    for name in ("mine.py", "mine.toml"):
        found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", text, re.DOTALL)
        assert found is not None
        (tmp_path / name).write_text(found[1])
    code, cells = run(tmp_path, "--targets", "ours", "--columns", "produce,large")
    assert code == 0
    assert cells["ours", "produce"].state == GREEN
    assert cells["ours", "large"][::3] == (GREY, "not written yet")


def test_a_client_that_can_not_be_had_is_grey_and_says_why(toy: Path) -> None:
    (toy / "toy.toml").write_text(ROW.replace('"{python}"', '"no-such-program"'))
    code, cells = run(toy, "--targets", "ours", "--columns", "produce")
    assert code == 0
    assert cells["ours", "produce"].note == "not run here: no-such-program is not on this machine"


def test_a_program_is_built_again_when_its_source_is_newer(tmp_path: Path) -> None:
    source, folder, asked = tmp_path / "main.go", tmp_path / "built", []
    source.touch()

    def build(unfinished: Path) -> None:
        asked.append(unfinished)
        (unfinished / f"program-{len(asked)}").touch()

    def built_at(source_s: int) -> list[str]:
        os.utime(source, (source_s, source_s))
        once(folder, build, [source])
        return [path.name for path in folder.iterdir()]

    assert built_at(1) == built_at(2) == ["program-1"]
    os.utime(folder, (3, 3))
    assert built_at(4) == ["program-2"]


def test_one_that_can_not_be_built_is_tried_again_when_its_source_is_newer(tmp_path: Path) -> None:
    source, folder = tmp_path / "main.go", tmp_path / "built"
    source.touch()
    os.utime(source, (1, 1))
    tried = []

    def build(unfinished: Path) -> None:
        tried.append(unfinished)
        if len(tried) == 1:
            raise Unprepared("no such module")

    for _ in range(2):
        with pytest.raises(Unprepared, match="no such module"):
            once(folder, build, [source])
    assert len(tried) == 1
    os.utime(folder.with_name("built.refused"), (2, 2))
    os.utime(source, (3, 3))
    once(folder, build, [source])
    assert folder.exists()
    assert not folder.with_name("built.refused").exists()


@pytest.mark.parametrize(
    ("instead", "says"),
    [
        ("client: toy", "toy.toml: "),
        ('command = ["x"]\n', "missing ['client', 'language', 'releases']"),
        (ROW.replace("lacks.", "lack."), "unknown ['lack']"),
        (ROW.replace('["1"]', '["1", "1"]'), "rows that are there twice: toy 1"),
    ],
)
def test_a_wrong_file_of_rows_is_told(toy: Path, instead: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "toy.toml").write_text(instead)
    assert main(["--folder", str(toy), "--results", str(toy / "results.json"), "--minutes", "-1"]) == 2
    assert says in capsys.readouterr().err


def test_an_unknown_target_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--targets", "theirs"]) == 2
    assert "no such target: theirs" in capsys.readouterr().err


def test_what_is_red_here_is_told_by_what_it_is_against_kafka(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    for row, target, column, state in [
        ("a 1", "ours", "group", RED), ("a 1", "kafka", "group", RED), ("a 1", "ours", "seek", RED),
        ("a 1", "kafka", "seek", GREEN), ("a 1", "older", "large", RED), ("a 1", "ours", "large", GREEN),
    ]:  # fmt: skip
        results.put((row, target, column), Cell(state, "2026-11-22 10:00"))
    results.put(("a 2", "ours", "seek"), Cell(RED, "2026-11-22 10:00"))
    found = {theirs: red_here(results, theirs) for theirs in (GREEN, RED, None)}
    assert found[GREEN] == [("a 1", "ours", "seek")]
    assert found[RED] == [("a 1", "ours", "group")]
    assert found[None] == [("a 2", "ours", "seek")]


def test_results_of_two_runs_join_and_the_newer_counts(tmp_path: Path) -> None:
    one, other = Results(tmp_path / "one.json"), Results(tmp_path / "other.json")
    key, both = ("a 1", "ours", "group"), ("a 1", "ours", "seek")
    one.put(both, Cell(RED, "2026-11-22 10:00", 1.5, "why"))
    other.put(both, Cell(GREEN, "2026-11-22 11:00", 0.5))
    other.put(key, Cell(GREY, "2026-11-22 11:00", 0.5, "why"))
    other.ran_with("a 1", "Python 3.11")
    other.save()
    one.take_over(Results(other.path))
    one.save()
    found = Results(one.path)
    assert found.cells == {both: Cell(GREEN, "2026-11-22 11:00", 0.5), key: Cell(GREY, "2026-11-22 11:00", 0.5, "why")}
    assert found.with_what == {"a 1": "Python 3.11"}


def test_releases_that_follow_each_other_are_a_range() -> None:
    assert ranges(["1.0", "1.1", "2.0"], ["1.0", "1.1", "1.2", "2.0"]) == "1.0 to 1.1, 2.0"


def test_the_rows_of_the_project_are_sound() -> None:
    rows = load(ROWS)
    names = {column.name for column in COLUMNS}
    assert len(rows) > 100
    assert {name for row in rows for name in (*row.lacks, *row.explains)} <= {*names, *TARGETS}
    assert {row.prepare.get("kind", "command") for row in rows} <= {*KINDS}


def test_the_published_page_is_that_of_the_results() -> None:
    """The published page shows the recorded results; `python -m interop.matrix --render` writes the page anew."""
    assert (INTEROP / "MATRIX.md").read_text() == as_markdown(load(ROWS), Results())


@pytest.mark.skipif(sys.platform == "win32", reason="paths are those of the machine it was made on")
def test_the_published_results_name_no_place_of_a_machine() -> None:
    text = (INTEROP / "MATRIX.md").read_text() + (INTEROP / "matrix" / "results.json").read_text()
    assert not re.search(r"/(root|home|tmp|work|usr)/|127\.0\.0\.1:\d|localhost:\d", text)
