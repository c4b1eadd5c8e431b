"""From a topology and the topics that there are to numbers of partitions and tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from pykafka_broker.coordinators.streams.topology import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    MOST_TASKS,
    ConfiguredTopology,
    as_stored,
    configure,
    is_other,
)
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.coordinators.machine import TopicTable
from tests.coordinators.steps import steps_of
from tests.coordinators.streams.support import word_count


def configured(topics: TopicTable, *subtopologies: Subtopology) -> ConfiguredTopology:
    return configure(as_stored(Topology(0, list(subtopologies))), topics, 1)


def test_repartition_topics_and_changelogs_follow_their_sources() -> None:
    found = configure(as_stored(word_count()), TopicTable(lines=5), 1)
    assert found.problem is not None
    assert (found.problem.status, found.problem.detail) == (
        MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: counts, words",
    )
    assert {topic.name: topic.num_partitions for topic in found.missing} == {"words": 5, "counts": 5}
    assert found.task_counts == {"0": 5, "1": 5}
    assert found.stateful == {"1"}


def test_what_is_there_is_not_created() -> None:
    found = configure(as_stored(word_count()), TopicTable(lines=5, words=5, counts=5), 1)
    assert found.is_ready
    assert not found.missing


def test_a_chain_is_followed_to_its_end() -> None:
    found = configured(
        TopicTable(source=4),
        Subtopology("2", repartition_source_topics=[TopicInfo("b")], state_changelog_topics=[TopicInfo("log")]),
        Subtopology("1", repartition_source_topics=[TopicInfo("a")], repartition_sink_topics=["b"]),
        Subtopology("0", ["source"], repartition_sink_topics=["a"]),
    )
    assert found.partitions == {"a": 4, "b": 4, "log": 4}


def test_the_application_may_say_how_many_partitions_and_how_many_replicas_and_which_configs() -> None:
    found = configured(
        TopicTable(source=4),
        Subtopology("0", ["source"], repartition_sink_topics=["a"]),
        Subtopology("1", repartition_source_topics=[TopicInfo("a", 7, 1, [KeyValue("segment.bytes", "1048576")])]),
    )
    [topic] = found.missing
    assert (topic.num_partitions, topic.replication_factor) == (7, 1)
    assert [(config.name, config.value) for config in topic.configs] == [("segment.bytes", "1048576")]
    assert found.task_counts == {"0": 4, "1": 7}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param(0, 6, id="as wide as the widest"),
        pytest.param(3, 3, id="one that is fixed decides for the others"),
    ],
)
def test_repartition_topics_that_are_joined_are_equally_wide(given: int, found: int) -> None:
    topology = configured(
        TopicTable(narrow=2, wide=6),
        Subtopology("0", ["narrow"], repartition_sink_topics=["a"]),
        Subtopology("1", ["wide"], repartition_sink_topics=["b"]),
        Subtopology(
            "2",
            repartition_source_topics=[TopicInfo("a", given), TopicInfo("b")],
            copartition_groups=[CopartitionGroup([], [], [0, 1])],
        ),
    )
    assert topology.partitions == {"a": found, "b": found}


def test_an_internal_topic_of_another_size_is_a_problem() -> None:
    found = configure(as_stored(word_count()), TopicTable(lines=5, words=5, counts=4), 1)
    assert found.problem is not None
    assert found.problem.__traceback__ is None, "a group that waits for its topics keeps no frames"
    assert found.problem.status == INCORRECTLY_PARTITIONED_TOPICS
    assert not found.missing


def test_of_several_wrong_ones_the_first_in_kafkas_set_is_told() -> None:
    """The error names the wrong topic that a Java hash set has first: of 16 slots, `sticky` has one before `range`."""
    joined = configured(
        TopicTable(source=2),
        Subtopology("0", ["source"], repartition_sink_topics=["range", "sticky"]),
        Subtopology(
            "1",
            ["source"],
            repartition_source_topics=[TopicInfo("range", 3), TopicInfo("sticky", 4)],
            copartition_groups=[CopartitionGroup([0], [], [0, 1])],
        ),
    )
    assert joined.problem is not None
    assert joined.problem.detail.startswith("Number of partitions [4] of repartition topic [sticky] doesn't match")
    found = configured(
        TopicTable(source=2, range=1, sticky=1),
        Subtopology("0", ["source"], state_changelog_topics=[TopicInfo("range"), TopicInfo("sticky")]),
    )
    assert found.problem is not None
    assert found.problem.detail == "Existing topic sticky has different number of partitions: expected 2, found 1"


def test_an_existing_repartition_topic_of_another_size_is_as_wide_as_it_is_for_its_readers() -> None:
    """Only the topic itself is wrong, not the changelog behind it; also where others share its readers' tasks."""
    writer = Subtopology("0", ["source"], repartition_sink_topics=["words", "names"])
    words, names = TopicInfo("words", 3), TopicInfo("names")
    for reader in (
        Subtopology("1", repartition_source_topics=[words], state_changelog_topics=[TopicInfo("log")]),
        Subtopology(
            "1", repartition_source_topics=[words, names], copartition_groups=[CopartitionGroup([], [], [0, 1])]
        ),
    ):
        found = configured(TopicTable(source=2, words=6, log=6), writer, reader)
        assert found.problem is not None
        assert found.problem.detail == "Existing topic words has different number of partitions: expected 3, found 6"


def test_of_several_writers_the_first_in_kafkas_table_decides() -> None:
    """Follow the table's order: where ids have two digits, the first is not the least id."""
    for ids, found in ((("0", "1"), 2), (("10", "9"), 6)):
        topology = configured(
            TopicTable(narrow=2, wide=6),
            Subtopology(ids[0], ["narrow"], repartition_sink_topics=["words"]),
            Subtopology(ids[1], ["wide"], repartition_sink_topics=["words"]),
            Subtopology("2", repartition_source_topics=[TopicInfo("words")]),
        )
        assert topology.partitions == {"words": found}


def test_a_writer_whose_source_becomes_known_later_has_its_turn_in_the_next_pass() -> None:
    topology = configured(
        TopicTable(narrow=2, wide=6),
        Subtopology("0", repartition_source_topics=[TopicInfo("names")], repartition_sink_topics=["words"]),
        Subtopology("1", ["narrow"], repartition_sink_topics=["names"]),
        Subtopology("2", ["wide"], repartition_sink_topics=["words"]),
        Subtopology("3", repartition_source_topics=[TopicInfo("words")]),
    )
    assert topology.partitions == {"names": 2, "words": 6}


def test_another_topology_has_a_newer_epoch_or_other_parts() -> None:
    known, parts = as_stored(word_count(3)), word_count().subtopologies
    assert not is_other(known, as_stored(Topology(3, parts[::-1])))
    assert is_other(known, as_stored(Topology(3, parts[:1])))
    assert is_other(known, as_stored(word_count(4)))
    assert not is_other(known, as_stored(Topology(2, parts[:1])))  # which is stale


def test_counts_of_the_application_hold_for_repartition_topics_that_are_joined_elsewhere() -> None:
    """Ask all topics with such a count, as Kafka does, not those of the group alone."""
    subtopologies = [
        Subtopology("0", ["narrow"], repartition_sink_topics=["a", "b"]),
        Subtopology("1", ["wide"], repartition_sink_topics=["fixed", "other"]),
        Subtopology(
            "2",
            repartition_source_topics=[TopicInfo("a"), TopicInfo("b")],
            copartition_groups=[CopartitionGroup([], [], [0, 1])],
        ),
        Subtopology("3", repartition_source_topics=[TopicInfo("fixed", 4)]),
    ]
    topics = TopicTable(narrow=2, wide=6)
    assert configured(topics, *subtopologies).partitions == {"a": 4, "b": 4, "fixed": 4, "other": 6}
    subtopologies.append(Subtopology("4", repartition_source_topics=[TopicInfo("other", 5)]))
    problem = configured(topics, *subtopologies).problem
    assert problem is not None
    assert problem.detail == "Following topics do not have the same number of partitions: [{a=2, b=2}]"


def test_nothing_is_asked_of_an_empty_set_of_joined_topics() -> None:
    found = configured(
        TopicTable(source=2),
        Subtopology("0", ["source"], repartition_sink_topics=["a", "b"]),
        Subtopology(
            "1",
            repartition_source_topics=[TopicInfo("a", 4), TopicInfo("b", 5)],
            copartition_groups=[CopartitionGroup()],
        ),
    )
    assert found.partitions == {"a": 4, "b": 5}


def test_missing_sources_are_named_in_order_up_to_three() -> None:
    found = configured(TopicTable(), Subtopology("0", ["e", "d", "c", "b"]))
    assert found.problem is not None
    assert found.problem.status == MISSING_SOURCE_TOPICS
    assert found.problem.detail == "Source topics b, c, d and 1 additional topics are missing."


@pytest.mark.parametrize(
    "subtopology",
    [
        Subtopology("0", []),
        Subtopology("0", ["source"], repartition_source_topics=[TopicInfo("nobodys")]),
        Subtopology("0", [], repartition_sink_topics=["loop"], repartition_source_topics=[TopicInfo("loop")]),
        Subtopology("0", ["source"], state_changelog_topics=[TopicInfo("log"), TopicInfo("log")]),
        Subtopology(
            "0", ["source"], state_changelog_topics=[TopicInfo("log", 0, 0, [KeyValue("retention.ms", "1")] * 2)]
        ),
    ],
)
def test_a_topology_that_can_never_run_is_refused(subtopology: Subtopology) -> None:
    with pytest.raises(ApiError) as refused:
        configured(TopicTable(source=2), subtopology)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def parts_of_their_own(count: int) -> list[Subtopology]:
    return [Subtopology(f"{n}", ["t"], copartition_groups=[CopartitionGroup([0])]) for n in range(count)]


def one_part_of_joined_topics(count: int) -> list[Subtopology]:
    names = [f"r{n}" for n in range(count)]
    groups = [CopartitionGroup(repartition_source_topics=[n]) for n in range(count)]
    read = [TopicInfo(name) for name in names]
    return [
        Subtopology(
            "0", ["t"], repartition_sink_topics=names, repartition_source_topics=read, copartition_groups=groups
        )
    ]


def one_part_after_the_other(count: int) -> list[Subtopology]:
    """Return a chain whose last parts have the first names."""
    following = [
        Subtopology(
            f"{count - n:04}", repartition_source_topics=[TopicInfo(f"r{n - 1}")], repartition_sink_topics=[f"r{n}"]
        )
        for n in range(1, count)
    ]
    end = Subtopology("end", repartition_source_topics=[TopicInfo(f"r{count - 1}")])
    return [Subtopology("begin", ["t"], repartition_sink_topics=["r0"]), *following, end]


@pytest.mark.parametrize("parts", [parts_of_their_own, one_part_of_joined_topics, one_part_after_the_other])
def test_nothing_is_done_for_each_pair_of_parts(parts: Callable[[int], list[Subtopology]]) -> None:
    """Thousands of each fit into one request; all pairs of them took from seconds to hours."""
    steps = []
    for count in (100, 400):
        stored, topics = as_stored(Topology(0, parts(count))), TopicTable(t=3)
        found, taken = steps_of(partial(configure, stored, topics, 1))
        assert set(found.task_counts.values()) == {3}
        steps.append(taken)
    assert steps[1] < 6 * steps[0]


def test_a_topology_has_a_bounded_number_of_tasks() -> None:
    wide = [Subtopology(str(number), ["wide"]) for number in range(MOST_TASKS // 1000)]
    assert sum(configured(TopicTable(wide=1000), *wide).task_counts.values()) == MOST_TASKS
    with pytest.raises(ApiError) as refused:
        configured(TopicTable(wide=1001), *wide)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
