"""Crashes that come before the folders of new partitions are made, which is done beside the loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.log.uncreated_logs import CreateFoldersJob
from tests.broker.test_directories import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A broker whose threads don't get round to making folders."""
    node = Node(tmp_path)

    def submit(job: Job) -> None:
        if not isinstance(job, CreateFoldersJob):
            run_inline(job)

    node.broker.logs.submit = submit
    return node


def test_the_next_start_makes_them_where_the_metadata_says(node: Node) -> None:
    node.create()
    homes = node.homes()
    assert sorted(homes) == ["a", "a", "b", "b"]
    assert not list(node.path.glob("?/t-*"))
    node.start()
    assert node.homes() == node.places() == homes
    for number in range(4):
        node.write(number)
    node.restart()
    assert [node.read_end(number) for number in range(4)] == [3] * 4


def test_what_was_written_is_there_all_the_same(node: Node) -> None:
    node.create()
    node.write(2)
    homes = node.homes()
    assert [path.name for path in node.path.glob("?/t-*")] == ["t-2"]
    node.start()
    assert [node.read_end(number) for number in range(4)] == [0, 0, 3, 0]
    assert node.places() == homes


def test_a_directory_that_is_away_then_is_waited_for(node: Node) -> None:
    node.create()
    homes = node.homes()
    node.take_away("b")
    node.start()
    away = [number for number, home in enumerate(homes) if home == "b"]
    assert [node.metadata()[number].leader_id for number in away] == [-1, -1]
    node.stop()
    node.give_back("b")
    node.start()
    assert node.homes() == node.places() == homes
    assert {each.leader_id for each in node.metadata()} == {1}
