"""`pykafka-broker check`: lines, exit codes, several brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka_broker.cli import main
from pykafka_broker.cli.addresses import URL_VARIABLE
from pykafka_broker.testing import KafkaBroker, KafkaCluster


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(history=True, in_process=True) as broker:
        broker.produce("in", [("a", "1"), ("b", "2")])
        broker.produce("out", [("a", "1")])
        yield broker


def test_nothing_found_is_no_line(
    broker: KafkaBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL_VARIABLE, broker.control_url)
    assert main(["check"]) == 0
    assert main(["check", "--input", "in", "--output", "out", "--guarantee", "at_most_once"]) == 0
    assert main(["check", "--input", "in", "--output", "out", "--allow", "lost"]) == 0
    assert capsys.readouterr().out == ""


def test_a_finding_is_printed_with_its_way(broker: KafkaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--url", broker.control_url, "--input", "in", "--output", "out", "--key", "value"]) == 1
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "lost: in-0@1 has no output"
    assert second.startswith("  in-0@1 was produced at ")


def test_an_order_is_asked_for(broker: KafkaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.produce("ordered", [("k", "1"), ("k", "2")])
    broker.produce("behind", [("k", "2"), ("k", "1")])
    question = ["check", "--url", broker.control_url, "--input", "ordered", "--output", "behind", "--key", "value"]
    assert main(question) == 0
    assert main([*question, "--order", "key"]) == 1
    assert capsys.readouterr().out.startswith("out of order: behind-0@1 is of ordered-0@0, and is behind behind-0@0")
    assert main(["check", "--url", broker.control_url, "--forbid", "write cycle"]) == 0


BOTH = ["--input", "in", "--output", "out"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["--input", "in"], "--input and --output are given together"),
        (["--order", "key"], "--order is of an application: --input and --output are missing"),
        (["--key", "value"], "--key is of an application: --input and --output are missing"),
        ([*BOTH, "--seen-by", "g"], "--seen-by is of the whole history: leave out --input and --output"),
        ([*BOTH, "--forbid", "write cycle"], "--forbid is of the whole history: leave out --input and --output"),
    ],
)
def test_an_option_that_would_not_be_used_is_refused(
    capsys: pytest.CaptureFixture[str], asked: list[str], says: str
) -> None:
    """The exit code is not that of a finding."""
    with pytest.raises(SystemExit, match="2"):
        main(["check", "--url", "http://127.0.0.1:1", *asked])
    assert capsys.readouterr().err.splitlines()[0] == f"pykafka-broker check: {says}"


def test_what_can_not_be_checked_is_one_line(
    broker: KafkaBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    with pytest.raises(SystemExit, match="2"):
        main(["check"])
    assert main(["check", "--url", "http://127.0.0.1:1"]) == 2
    assert main(["check", "--url", broker.control_url, "--input", "in", "--output", "nowhere"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith("pykafka-broker check: --url or ")
    assert errors[1] == "pykafka-broker check: http://127.0.0.1:1: Connection refused"
    assert "there is no topic nowhere" in errors[2]
    assert len(errors) == 3


def test_the_brokers_of_a_cluster_are_checked_together(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaCluster(2, history=True, in_process=True) as cluster:
        for topic in ("in", "out"):
            cluster.create_topic(topic, 4)
            cluster.produce(topic, [(str(number), "x") for number in range(8)])
        cluster.produce("out", [("3", "x")])
        urls = [word for node in cluster.brokers for word in ("--url", node.control_url)]
        assert main(["check", *urls]) == 0
        assert main(["check", *urls, "--input", "in", "--output", "out"]) == 1
    (line,) = (each for each in capsys.readouterr().out.splitlines() if not each.startswith(" "))
    assert line.startswith("doubled: in-")
