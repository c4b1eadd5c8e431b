"""Directories are formatted whole or not at all; interop/test_format.py compares them with kafka-storage's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.cluster.bootstrap import bootstrap_records
from pykafka_broker.cluster.format_request import FormatError, FormatRequest
from pykafka_broker.cluster.formatting import Formatter, Node, info, properties_of
from pykafka_broker.log.filesystem import OsFileSystem

FS = OsFileSystem()
NOW = 1_795_000_000_000
USER = "SCRAM-SHA-256=[name=alice,password=hunter2]"


class Case:
    """Two directories of one node."""

    def __init__(self, directory: Path, new_uuid: Callable[[], bytes]) -> None:
        self.paths = [str(directory / "a"), str(directory / "b")]
        self.node = Node(1, self.paths, self.paths[0], True, False, ("CONTROLLER", "localhost", 9093))
        self.new_uuid = new_uuid

    def format(self, request: FormatRequest) -> list[str]:
        formatter = Formatter(FS, self.node, request, now=NOW, new_uuid=self.new_uuid, new_salt=lambda: b"salt")
        return list(formatter.run())


@pytest.fixture
def case(tmp_path: Path) -> Case:
    ids = iter(range(1 << 64, 1 << 65))
    return Case(tmp_path, lambda: next(ids).to_bytes(16, "big"))


def test_both_have_the_cluster_and_the_first_records(case: Case) -> None:
    lines = case.format(FormatRequest("the-cluster", [USER], standalone=True))
    assert [line.split(" with ")[0] for line in lines[1:]] == [
        f"Formatting dynamic metadata voter directory {case.paths[0]}",
        f"Formatting data directory {case.paths[1]}",
    ]
    assert "name='alice'" in lines[0]
    assert "hunter2" not in lines[0]
    found = [properties_of(FS, path) or {} for path in case.paths]
    assert [each["cluster.id"] for each in found] == ["the-cluster"] * 2
    assert len({each["directory.id"] for each in found}) == 2
    for path in case.paths:
        assert [each.message.name for each in bootstrap_records(FS, path, NOW)][-1] == "alice"
    assert info(FS, case.node)[1]


def test_nothing_is_written_when_a_user_is_wrong(case: Case) -> None:
    with pytest.raises(FormatError, match="bogus"):
        case.format(FormatRequest("c", ["bogus"], no_initial_controllers=True))
    assert not any(map(FS.exists, case.paths))


def test_a_directory_that_a_crash_left_is_formatted_again(case: Case) -> None:
    request = FormatRequest("c", no_initial_controllers=True)
    case.format(request)
    FS.remove(f"{case.paths[1]}/meta.properties")
    with pytest.raises(FormatError, match="is already formatted"):
        case.format(request)
    lines = case.format(request._replace(ignore_formatted=True))
    assert len(lines) == 2
    assert case.format(request._replace(ignore_formatted=True)) == ["All of the log directories are already formatted."]


def test_damaged_properties_are_told(case: Case) -> None:
    case.format(FormatRequest("c", no_initial_controllers=True))
    Path(case.paths[0], "meta.properties").write_bytes(b"\xff\xfe")
    lines, well = info(FS, case.node)
    assert not well
    assert f"  {case.paths[0]}/meta.properties can't be read: it is no text" in lines
