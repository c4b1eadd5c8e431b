"""`topics` as JSON, and what a single broker never shows: replicas out of sync, partitions without a leader."""

import pytest

from pykafka_broker.client.topics import PartitionView
from pykafka_broker.protocol.messages.list_partition_reassignments_response import OngoingPartitionReassignment
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main
from pykafka_broker.tools.topics import Part, passing_partitions
from tests.tools.asking import Asked


def test_topics_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        told = Asked(broker, capsys)
        made = told("topics", "--create", "--topic", "a_b", "--partitions", "2", "--config", "retention.ms=5")
        assert made == {"name": "a_b", "created": True}
        again = told("topics", "--create", "--topic", "a_b", "--if-not-exists")
        assert again == {"name": "a_b", "created": False}
        (topic,) = told("topics", "--describe", "--partition-size-limit-per-response", "1")
        assert (topic["name"], topic["partition_count"], topic["configs"]["retention.ms"]) == ("a_b", 2, "5")
        assert [each["partition"] for each in topic["partitions"]] == [0, 1]
        assert told("topics", "--describe", "--unavailable-partitions") == []
        assert told("topics", "--alter", "--topic", ".*", "--partitions", "3") == [
            {"name": "a_b", "partition_count": 3}
        ]
        assert told("topics", "--delete", "--topic", "a_b") == [{"name": "a_b", "deleted": True}]
        assert told("topics", "--list") == []


def test_an_error_is_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        where = ["--bootstrap-server", broker.bootstrap_servers]
        assert main("topics", [*where, "--json", "--delete", "--topic", "none"]) == 1
    assert capsys.readouterr() == (
        "",
        "Error while executing topic command : Topic 'none' does not exist as expected\n",
    )


def test_a_topic_that_is_named_by_its_id_is_described_by_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        where = ["--bootstrap-server", broker.bootstrap_servers, "--describe"]
        assert main("topics", [*where, "--topic", "orders"]) == 0
        told = capsys.readouterr().out
        topic_id = told.partition("TopicId: ")[2].split()[0]
        assert main("topics", [*where, "--topic-id", topic_id]) == 0
        by_id = capsys.readouterr().out
        assert "Elr: N/A\tLastKnownElr: N/A" in by_id
        assert "N/A" not in told


@pytest.mark.parametrize("release", ["0.11", "2.8"])
def test_an_older_broker_is_described_by_its_metadata(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"pykafka.emulate": release}, in_process=True) as broker:
        broker.create_topic("old", 2)
        assert main("topics", ["--bootstrap-server", broker.bootstrap_servers, "--describe", "--topic", "old"]) == 0
    head, *partitions = capsys.readouterr().out.splitlines()
    assert "PartitionCount: 2\tReplicationFactor: 1" in head
    assert len(partitions) == 2
    assert partitions[0].endswith("Isr: 1\tElr: N/A\tLastKnownElr: N/A")


def part(leader: int, replicas: list[int], isr: list[int], adding: list[int] | None = None, minimum: int = 2) -> Part:
    move = None if adding is None else OngoingPartitionReassignment(0, replicas, adding, [1])
    return Part(PartitionView(0, leader, replicas, isr, [], []), move, minimum, frozenset({1, 2}))


IN_SYNC = part(1, [1, 2, 3], [1, 2, 3])
AT_MINIMUM = part(1, [1, 2, 3], [1, 2])
BELOW = part(2, [1, 2, 3], [2])
LEADERLESS = part(-1, [1, 2, 3], [3])
LEADER_GONE = part(3, [3], [3], minimum=1)
GROWING = part(1, [1, 2, 3], [1, 2], adding=[3], minimum=1)


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ([], {"in sync", "at minimum", "below", "leaderless", "leader gone", "growing"}),
        (["topics_with_overrides"], set()),
        (["under_replicated_partitions"], {"at minimum", "below", "leaderless"}),
        (["under_min_isr_partitions"], {"below", "leaderless"}),
        (["at_min_isr_partitions"], {"at minimum", "leader gone"}),
        (["unavailable_partitions"], {"leaderless", "leader gone"}),
        (["under_min_isr_partitions", "at_min_isr_partitions"], {"below", "leaderless", "at minimum", "leader gone"}),
    ],
)
def test_filters_of_partitions(flags: list[str], shown: set[str]) -> None:
    parts = {
        "in sync": IN_SYNC,
        "at minimum": AT_MINIMUM,
        "below": BELOW,
        "leaderless": LEADERLESS,
        "leader gone": LEADER_GONE,
        "growing": GROWING,
    }
    passing = passing_partitions(list(parts.values()), flags)
    assert {name for name, each in parts.items() if each in passing} == shown


def test_the_line_of_a_partition_that_moves() -> None:
    assert GROWING.line("t") == (
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2"
        "\tAdding Replicas: 3\tRemoving Replicas: 1\tElr: \tLastKnownElr: "
    )
    assert "\tLeader: none\t" in LEADERLESS.line("t")
