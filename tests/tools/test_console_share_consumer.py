"""`console-share-consumer` as JSON, and what it leaves to others."""

import pytest

from pykafka_broker.testing import KafkaBroker
from tests.tools.asking import Asked
from tests.tools.test_get_offsets import send

RESET = "share.auto.offset.reset=earliest"
FROM_START = ("--alter", "--entity-type", "groups", "--entity-name", "g", "--add-config", RESET)


def test_what_is_not_printed_is_released(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"group.share.assignment.interval.ms": "0"}, in_process=True) as broker:
        broker.create_topic("a", 1)
        send(broker, "a", 3)
        asked = Asked(broker, capsys)
        asked("configs", *FROM_START)
        read = ("console-share-consumer", "--topic", "a", "--group", "g", "--timeout-ms", "60000", "--max-messages")
        (first,) = asked(*read, "1", "--reject")
        assert (first["offset"], first["delivery_count"]) == (0, 1)
        assert [each["offset"] for each in asked(*read, "2", "--release")] == [1, 2]
        again = asked(*read, "2")
        assert [(each["offset"], each["delivery_count"]) for each in again] == [(1, 3), (2, 3)]
        (start,) = asked("share-groups", "--describe", "--group", "g")
        assert start["lag"] == 0
