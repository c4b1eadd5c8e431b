"""The export of offsets and its reading back; a file that is no plan is refused."""

from pathlib import Path

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.tools.group_commands import export_lines, parse_topics, read_plans

LONG = "a-topic-with-a-rather-long-name"
PLANS = {
    "g\nh": {TopicPartition("a", 1): 2},
    "g": {TopicPartition("a", 0): 5, TopicPartition(LONG, 1): 7},
    'h",i': {TopicPartition("b", 2): 0},
}


def written(tmp_path: Path, *lines: str) -> str:
    file = tmp_path / "plan.csv"
    file.write_text("\n".join(lines))
    return str(file)


def test_several_groups(tmp_path: Path) -> None:
    lines = export_lines(PLANS, with_group=True)
    assert lines == ['"g\nh",a,1,2', "g,a,0,5", f'g,"{LONG}",1,7', '"h"",i",b,2,0']
    assert read_plans(written(tmp_path, *lines), list(PLANS)) == PLANS


def test_one_group(tmp_path: Path) -> None:
    plan = {"g": PLANS["g"]}
    for with_group in (True, False):
        assert read_plans(written(tmp_path, *export_lines(plan, with_group)), ["g"]) == plan


def test_a_topic_that_is_named_in_whole_and_in_part_is_meant_in_whole() -> None:
    assert parse_topics(["a", "a:0"]) == parse_topics(["a:0", "a"]) == {"a": None}
    assert parse_topics(["a:0", "a:1", "b"]) == {"a": [0, 1], "b": None}


@pytest.mark.parametrize("line", ["g,a,x,1", "g,a,0,x", "g,a,0,1,2"])
def test_no_plan(line: str, tmp_path: Path) -> None:
    with pytest.raises(ClientError):
        read_plans(written(tmp_path, line), ["g"])


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="Unable to read file"):
        read_plans(str(tmp_path / "none"), ["g"])
    with pytest.raises(ClientError, match="field larger than field limit"):
        read_plans(written(tmp_path, "a" * 200_000), ["g"])
    with pytest.raises(ClientError, match="No content"):
        read_plans(written(tmp_path), ["g"])
