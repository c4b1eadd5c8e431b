"""kafka-consumer-groups and the console consumer in a group, as Kafka ships them."""

import re
from collections.abc import Callable

import pytest

from interop.conftest import MakeTopic
from interop.java_tools import JavaTools, Outcome
from interop.waiting import eventually

pytestmark = pytest.mark.java
Tool = Callable[..., Outcome]


@pytest.fixture
def groups(java: JavaTools, bootstrap: str) -> Tool:
    def run(*arguments: str) -> Outcome:
        outcome = java.run("kafka-consumer-groups", "--bootstrap-server", bootstrap, *arguments)
        assert outcome.status == 0, outcome.out + outcome.err
        return outcome

    return run


@pytest.fixture(params=["classic", "consumer"])
def group(
    request: pytest.FixtureRequest, java: JavaTools, groups: Tool, bootstrap: str, make_topic: MakeTopic
) -> tuple[str, str]:
    """A group that a console consumer has joined and left, and its topic with five records."""
    topic, protocol = make_topic(), request.param
    server = ("--bootstrap-server", bootstrap)
    java.run("kafka-console-producer", *server, "--topic", topic, stdin="a\nb\nc\nd\ne\n")
    name = f"console-{topic}"
    read = java.run(
        "kafka-console-consumer", *server, "--topic", topic, "--group", name, "--max-messages", "5",
        "--from-beginning", "--command-property", f"group.protocol={protocol}",
    )  # fmt: skip
    assert read.lines == ["a", "b", "c", "d", "e"]
    eventually(lambda: "Empty" in groups("--describe", "--group", name, "--state").out, True)  # the consumer has left
    return name, topic


def row(outcome: Outcome, start: str) -> list[str]:
    [found] = [line.split() for line in outcome.lines if line.startswith(start)]
    return found


def test_described_and_listed(groups: Tool, group: tuple[str, str]) -> None:
    name, topic = group
    assert name in groups("--list").lines
    assert row(groups("--describe", "--group", name), name)[1:6] == [topic, "0", "5", "5", "0"]
    assert re.search(rf"{name}\s+Consumer", groups("--list", "--type").out) or re.search(
        rf"{name}\s+Classic", groups("--list", "--type").out
    )


def test_reset_and_deleted(groups: Tool, group: tuple[str, str]) -> None:
    name, topic = group
    scope = ("--group", name, "--topic", topic, "--reset-offsets")
    assert row(groups(*scope, "--shift-by", "-2", "--dry-run"), name)[3] == "3"
    groups(*scope, "--to-earliest", "--execute")
    assert row(groups("--describe", "--group", name), name)[3:6] == ["0", "5", "5"]
    groups(*scope, "--to-datetime", "2100-01-01T00:00:00.000", "--execute")
    assert row(groups("--describe", "--group", name), name)[3] == "5"
    groups("--delete-offsets", "--group", name, "--topic", topic)
    groups("--delete", "--group", name)
    assert name not in groups("--list").lines
