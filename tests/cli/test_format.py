"""`pykafka-broker format` and related commands."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pykafka_broker.cli.format import main


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=3\nlog.dirs={tmp_path / 'data'}\n")
    return str(path)


def test_what_is_silent_in_the_file_is_as_in_a_start(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "-c", file]) == 1
    assert main(["format", "-c", file, "-t", "c", "--no-initial-controllers"]) == 0
    assert main(["info", "-c", file]) == 0
    assert "cluster.id=c" in capsys.readouterr().out


def test_what_is_wrong_is_one_line_and_exit_code_1(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "-c", file, "-t", "c", "-s"]) == 1
    assert main(["format", "-c", "no/such/file", "-t", "c"]) == 1
    assert main(["info", "-c", "nofile"]) == 1
    Path(file).write_text("node.id=three\n")
    assert main(["info", "-c", file]) == 1
    lines = capsys.readouterr().err.splitlines()
    without_listener = (
        "--standalone needs a listener of controller.listener.names in listeners; a node without one takes "
        "--no-initial-controllers."
    )
    assert lines[:3] + sorted(lines[3:]) == [
        without_listener,
        "cannot read no/such/file: No such file or directory",
        "cannot read nofile: No such file or directory",
        "Invalid value three for configuration broker.id: Not a number of type INT",
        "Invalid value three for configuration node.id: Not a number of type INT",
    ]


@pytest.mark.linux("no folder is made in /proc")
def test_a_disk_that_refuses_is_named(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_text("node.id=3\nlog.dirs=/proc/no/data\n")
    assert main(["format", "-c", file, "-t", "c", "-N"]) == 1
    assert capsys.readouterr().err.startswith("/proc/no")


def test_wrong_options_are_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["format", "--standalone", "--no-initial-controllers"])
    assert end.value.code == 1


@pytest.mark.parametrize("level", [" 25", "+25", "025"])
def test_a_level_is_a_short_of_java(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["feature-dependencies", "-f", f"metadata.version={level}"]) == 0
    assert capsys.readouterr().out == "metadata.version=25 (4.0-IV3) has no dependencies.\n"


@pytest.mark.parametrize("level", ["70000", "25=3", "", "9" * 5000])
def test_what_is_no_short_of_java_is_no_level(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["feature-dependencies", "-f", f"metadata.version={level}"]) == 1
    assert capsys.readouterr().err == f"Invalid version format: {level} for feature metadata.version\n"


def test_ids_and_features(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["random-uuid"]) == 0
    assert len(capsys.readouterr().out.strip()) == 22
    assert main(["version-mapping", "-r", "3.9"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["metadata.version=21 (3.9)", "kraft.version=1"]
    assert main(["feature-dependencies", "-f", "eligible.leader.replicas.version=1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "    metadata.version=23 (4.0-IV1)"


def test_a_reader_that_has_gone_is_no_directory_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("builtins.print", gone)
    with pytest.raises(BrokenPipeError):  # the command ends quietly
        main(["random-uuid"])
