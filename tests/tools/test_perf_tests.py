"""The tools that measure: what they found, as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main
from pykafka_broker.tools.statistics import Stats, ThroughputThrottler, percentiles
from tests.tools.asking import Asked


def test_what_was_measured_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        asked = Asked(broker, capsys)
        limit = ("--throughput", "-1", "--warmup-records", "10")
        sent = asked("producer-perf-test", "--topic", "t", "--num-records", "50", "--record-size", "20", *limit)
        assert sent["records"] == 50
        assert sent["steady_state"]["records"] == 40
        assert sent["records_per_sec"] > 0
        read = asked("consumer-perf-test", "--topic", "t", "--num-records", "50")
        assert (read["records"], read["bytes"]) == (50, 1000)
        flags = ("--topic", "new", "--num-records", "3", "--producer-acks", "all", "--record-size", "5")
        waited = asked("end-to-end-latency", *flags)
        assert waited["records"] == 3
        assert 0 < waited["avg_latency_ms"] < 10_000
        assert len({record.value_bytes for record in broker.records("new")}) == 3


def test_members_of_a_share_group_share_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"group.share.assignment.interval.ms": "0"}, in_process=True) as broker:
        broker.create_topic("t", 1)
        asked = Asked(broker, capsys)
        limit = ("--throughput", "-1", "--record-size", "20")
        asked("producer-perf-test", "--topic", "t", "--num-records", "50", *limit)
        start = ("--add-config", "share.auto.offset.reset=earliest")
        asked("configs", "--alter", "--entity-type", "groups", "--entity-name", "g", *start)
        read = asked(
            "share-consumer-perf-test", "--topic", "t", "--group", "g", "--num-records", "50", "--threads", "2"
        )
        assert (read["records"], read["bytes"]) == (50, 1000)
        (start_offset,) = asked("share-groups", "--describe", "--group", "g")
        assert start_offset["lag"] == 0


def test_figures_of_records_that_were_sent() -> None:
    stats = Stats(4, 1_000)
    for latency in (1, 2, 3, 10):
        stats.note(latency, 1 << 20)
    assert stats.total_line(3_000) == (
        "4 records sent, 2.000000 records/sec (2.00 MB/sec), 4.00 ms avg latency, 10.00 ms max latency, "
        "3 ms 50th, 10 ms 95th, 10 ms 99th, 10 ms 99.9th."
    )
    assert stats.window(2_000).startswith("4 records sent, 4.0 records/sec (4.00 MB/sec), 4.0 ms avg latency, 10.0 ms")
    assert stats.window(3_000).startswith("0 records sent, 0.0 records/sec")
    assert percentiles([]) == [0, 0, 0, 0]


def test_how_long_to_wait_for_the_next_record() -> None:
    assert ThroughputThrottler(10, 0).pause_ms(5, 100) == 400
    assert ThroughputThrottler(10, 0).pause_ms(5, 900) == 0
    assert ThroughputThrottler(-1, 0).pause_ms(5, 0) == 0
    assert ThroughputThrottler(float("nan"), 0).pause_ms(5, 0) == 0


@pytest.mark.parametrize(
    ("text", "delimiter", "values"),
    [
        (b"\na\r\n\nb", "\\n", {"", "a\r", "b"}),
        (b"a.b", r"\.", {"a", "b"}),
        (b"a1b22c", "([0-9])+", {"a", "b", "c"}),
        (b"ab", "", {"a", "b"}),
        (b"\n\n", "\\n", {""}),
    ],
)
def test_values_between_delimiters_are_those_that_java_finds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, delimiter: str, values: set[str]
) -> None:
    file = tmp_path / "payload"
    file.write_bytes(text)
    with KafkaBroker(in_process=True) as broker:
        asked = Asked(broker, capsys)
        of_file = ("--payload-file", str(file), "--payload-delimiter", delimiter)
        asked("producer-perf-test", "--topic", "t", "--num-records", "60", "--throughput", "-1", *of_file)
        assert {each.value for each in broker.records("t")} == values


def test_a_delimiter_that_is_no_expression_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--topic", "t", "--num-records", "1", "--throughput", "-1", "--payload-file", str(tmp_path)]
    assert main("producer-perf-test", ["--bootstrap-server", "127.0.0.1:1", *words, "--payload-delimiter", "["]) == 1
    assert capsys.readouterr().err.startswith("--payload-delimiter [ makes no sense: ")
