"""`leader-election` as JSON, and what it refuses before it asks anybody."""

from pathlib import Path

import pytest

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main
from tests.tools.asking import Asked

NOBODY = ["--bootstrap-server", "127.0.0.1:1", "--election-type", "preferred"]


def test_elections_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "elect.json"
    file.write_text('{"partitions": [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 7}]}')
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("a")
        asked = Asked(broker, capsys)
        there, unknown = asked("leader-election", *NOBODY[2:], "--path-to-json-file", str(file), status=1)
    assert there == {"topic": "a", "partition": 0, "elected": False, "error": "ELECTION_NOT_NEEDED"}
    assert unknown == {"topic": "a", "partition": 7, "elected": False, "error": "UNKNOWN_TOPIC_OR_PARTITION"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "Expected JSON object"),
        ('{"partitions": [{"topic": "a"}]}', "No such field exists: `partition`"),
        (
            '{"partitions": [{"topic": "a", "partition": 1}, {"topic": "a", "partition": 1}]}',
            "duplicate partitions: [a-1]",
        ),
    ],
)
def test_a_malformed_file_is_named_before_anybody_is_asked(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "elect.json"
    file.write_text(text)
    assert main("leader-election", [*NOBODY, "--path-to-json-file", str(file)]) == 1
    assert says in capsys.readouterr().err


def test_one_way_to_say_which_partitions(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in ([], ["--topic", "a", "--all-topic-partitions"], ["--topic", "a"], ["--partition", "1"]):
        assert main("leader-election", [*NOBODY, *flags]) == 1
        assert "equired" in capsys.readouterr().err
