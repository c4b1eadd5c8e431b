"""Checkpoints and tables of others: a job refuses them before a JVM starts, where they are on this machine's disk."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import session
from pipeline.cli import main


@pytest.fixture
def refused(
    settings: Any, make_topic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Runs a job that may not start Spark; returns its exit code and its words."""

    def no_session(*_: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "build_session", no_session)
    make_topic(settings.bronze_topic)

    def run(*argv: str) -> tuple[int, str]:
        own = ["--bootstrap-servers", settings.bootstrap_servers, "--data-dir", str(tmp_path / "data")]
        if argv[0] != "flows":
            own += ["--bronze-topic", settings.bronze_topic]
        code = main([argv[0], *own, *argv[1:]])
        return code, capsys.readouterr().err

    return run


def leave(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.parametrize("job", ["bronze", "silver", "aggregate", "sessions"])
def test_a_lost_checkpoint(refused: Any, tmp_path: Path, job: str) -> None:
    leave(tmp_path / "data" / job / "_pipeline.json", json.dumps({"checkpoint": "another"}))
    code, words = refused(job)
    assert (code, "was written with another checkpoint" in words) == (6, True), words


@pytest.mark.parametrize(("job", "name"), [("route", "route"), ("store", "store-events")])
def test_a_checkpoint_that_is_not_ours(refused: Any, tmp_path: Path, job: str, name: str) -> None:
    leave(tmp_path / "data" / "checkpoints" / name / "metadata", "{}")
    code, words = refused(job, *(["--to-topic", "good"] if job == "route" else []))
    assert (code, "was not made by this pipeline; set another data_dir" in words) == (6, True), words


def test_a_flow_of_several(refused: Any, settings: Any, tmp_path: Path) -> None:
    config = tmp_path / "flows.toml"
    topic = f'bronze_topic = "{settings.bronze_topic}"\n'
    config.write_text(topic + '[flows.one]\njob = "bronze"\n[flows.two]\njob = "bronze"\n')
    leave(tmp_path / "data" / "two" / "bronze" / "part-0.parquet", "")
    code, words = refused("flows", "--config", str(config))
    assert (code, "data/two/bronze holds files that this pipeline did not write" in words) == (6, True), words


@pytest.mark.parametrize("place", ["silver/_pipeline.json", "checkpoints/silver/pipeline.json"])
@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_damaged_note_of_the_owner(refused: Any, tmp_path: Path, place: str, text: str) -> None:
    leave(tmp_path / "data" / place, text)
    code, words = refused("silver")
    assert (code, words) == (6, f"silver: {tmp_path}/data/{place} is damaged\n")
