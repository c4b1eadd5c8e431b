"""The verifiable tools tell what was sent and read."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.testing import KafkaBroker
from tests.tools.asking import Asked


def test_what_was_sent_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
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
    with KafkaBroker(in_process=True) as broker:
        sent = Asked(broker, capsys)("verifiable-producer", "--topic", "a b", "--max-messages", "1")
        assert sent[1]["name"] == "producer_send_error"
        assert sent[1]["exception"] == "class org.apache.kafka.common.errors.InvalidTopicException"
        assert sent[1]["message"] == "Invalid topics: [a b]"
        assert sent[-1]["acked"] == 0


def test_records_that_are_renewed_or_released_come_again(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"group.share.assignment.interval.ms": "0"}, in_process=True) as broker:
        broker.create_topic("v", 1)
        asked = Asked(broker, capsys)
        asked("verifiable-producer", "--topic", "v", "--max-messages", "3")
        explicit = ("--acknowledgement-mode", "sync", "--ack-pattern", "renew,reject,release,accept")
        from_start = ("--offset-reset-strategy", "earliest")
        read = asked(
            "verifiable-share-consumer",
            "--topic",
            "v",
            "--group-id",
            "g",
            "--max-messages",
            "6",
            *explicit,
            *from_start,
        )
        kinds = [each["ackTypeCounts"] for each in read if each["name"] == "offsets_acknowledged"]
        assert kinds[0] == {"RELEASE": 1, "REJECT": 1, "RENEW": 1}
        again = {offset for each in read[2:] if each["name"] == "records_consumed" for offset in offsets_of(each)}
        assert again == {0, 1, 2}
        assert all(each["success"] for each in read if each["name"] == "offsets_acknowledged")


def offsets_of(event: dict[str, Any]) -> list[int]:
    return [offset for partition in event["partitions"] for offset in partition["offsets"]]
