"""`log-dirs` as JSON, and which brokers it asks."""

import pytest

from pykafka_broker.testing import KafkaBroker
from tests.tools.asking import Asked


@pytest.mark.parametrize("release", ["", "1.0", "2.8"])
def test_directories_as_json(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"pykafka.emulate": release} if release else {}, in_process=True) as broker:
        broker.create_topic("a", 2)
        broker.create_topic("b", 1)
        (told,) = Asked(broker, capsys)("log-dirs", "--describe", "--topic-list", "a", "--broker-list", "1")
    assert told.pop("log_dir").startswith("/")
    partition = {"topic": "a", "size": 0, "offset_lag": 0, "is_future": False}
    assert told == {
        "broker": 1,
        "error": None,
        "partitions": [partition | {"partition": 0}, partition | {"partition": 1}],
    }
