"""`delete-records` as JSON."""

import json
from pathlib import Path

import pytest

from pykafka_broker.testing import KafkaBroker
from tests.tools.asking import Asked
from tests.tools.test_get_offsets import send


def test_deletions_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    places = [{"topic": "a", "partition": 0, "offset": 2}, {"topic": "a", "partition": 1, "offset": 7}]
    file.write_text(json.dumps({"partitions": places}))
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("a", 2)
        send(broker, "a", 3)
        first, second = Asked(broker, capsys)("delete-records", "--offset-json-file", str(file))
    assert first == {"topic": "a", "partition": 0, "low_watermark": 2}
    assert second == {
        "topic": "a",
        "partition": 1,
        "error": "The requested offset is not within the range of offsets maintained by the server.",
    }
