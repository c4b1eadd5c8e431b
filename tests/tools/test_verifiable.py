"""The verifiable tools tell what was sent and read."""

from __future__ import annotations

import pytest

from pykafka_broker.testing import KafkaBroker
from tests.tools.asking import Asked


def test_what_was_sent_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker() as broker:
        asked = Asked(broker, capsys)
        sent = asked("verifiable-producer", "--topic", "v", "--max-messages", "4")
        assert [each["name"] for each in sent] == [
            "startup_complete",
            *["producer_send_success"] * 4,
            "shutdown_complete",
            "tool_data",
        ]
        assert [each.get("offset") for each in sent[1:5]] == [0, 1, 2, 3]
        assert (sent[-1]["sent"], sent[-1]["acked"]) == (4, 4)
        for expected in ([0, 1, 2], [3]):
            read = asked("verifiable-consumer", "--topic", "v", "--group-id", "g", "--max-messages", str(len(expected)))
            consumed = [each for each in read if each["name"] == "records_consumed"]
            [partition] = consumed[0]["partitions"]
            assert (partition["minOffset"], partition["maxOffset"]) == (expected[0], expected[-1])
            [committed] = [each for each in read if each["name"] == "offsets_committed"]
            assert committed["offsets"] == [{"topic": "v", "partition": 0, "offset": expected[-1] + 1}]


def test_what_can_not_be_sent_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker() as broker:
        sent = Asked(broker, capsys)("verifiable-producer", "--topic", "a b", "--max-messages", "1")
        assert sent[1]["name"] == "producer_send_error"
        assert sent[1]["exception"] == "class org.apache.kafka.common.errors.InvalidTopicException"
        assert sent[1]["message"] == "Invalid topics: [a b]"
        assert sent[-1]["acked"] == 0
