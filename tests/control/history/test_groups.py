"""Anomalies of groups: each is found in a made-up history, and its harmless neighbour is not."""

from __future__ import annotations

import pytest

from pykafka_broker.control.history.findings import Evidence
from pykafka_broker.control.history.groups import Ranges, group_findings
from tests.control.history.story import Story


@pytest.fixture
def story() -> Story:
    story = Story()
    for _ in range(10):
        story.produced()
    return story


def test_ranges_join_and_tell_what_is_missing() -> None:
    ranges = Ranges()
    for first, end in ((5, 7), (0, 2), (2, 3), (9, 9), (6, 8)):
        ranges.add(first, end)
    assert (ranges.first, ranges.end) == (0, 8)
    assert list(ranges.missing(0, 10)) == [(3, 5), (8, 10)]
    assert list(ranges.missing(1, 3)) == []
    assert list(Ranges().missing(1, 3)) == [(1, 3)]


def test_a_commit_above_everything_fetched_is_ahead(story: Story) -> None:
    story.fetched(0, 5)
    story.committed(8)
    (found,) = story.found()
    assert found.anomaly == "commit ahead of fetch"
    assert found.text == (
        "group billing committed 8 of orders-0 at 00:00:00.011 by reader (reader:1), "
        "and its members had fetched up to 5"
    )
    assert found.way == ["orders-0@5 was produced at 00:00:00.005 by writer (writer:1)"]


def test_a_commit_of_a_member_that_fetched_nothing_is_ahead_in_a_whole_history(story: Story) -> None:
    story.committed(8)
    assert story.kinds() == ["commit ahead of fetch"]
    assert story.kinds(whole=False) == []


def test_a_group_may_begin_at_the_end(story: Story) -> None:
    story.located(10)
    story.committed(10)
    assert story.kinds() == []


@pytest.mark.parametrize("client", ["reader", "second"])
def test_a_group_that_has_begun_may_not_go_to_the_end(story: Story, client: str) -> None:
    story.fetched(0, 2)
    story.committed(2)
    story.located(10, client)
    story.committed(10, client=client)
    assert story.kinds() == ["commit ahead of fetch"]


def test_what_a_group_fetched_before_its_first_commit_counts_where_the_history_has_no_beginning(story: Story) -> None:
    story.fetched(0, 5)
    story.committed(8)
    assert story.kinds(whole=False) == ["commit ahead of fetch"]


def test_a_client_that_reads_may_not_begin_at_the_end(story: Story) -> None:
    story.fetched(0, 2)
    story.located(10)
    story.committed(10)
    assert story.kinds() == ["commit ahead of fetch"]


def test_a_client_without_membership_commits_what_it_has_fetched(story: Story) -> None:
    story.fetched(0, 5)
    story.committed(8, member="")
    assert story.kinds() == ["commit ahead of fetch"]


def test_a_client_of_a_group_with_members_sets_offsets(story: Story) -> None:
    story.joined("other", "member-1")
    story.fetched(0, 5)
    story.committed(8, member="")
    assert story.kinds() == []


def test_a_gap_below_a_commit_is_a_poll_skip(story: Story) -> None:
    story.fetched(0, 3)
    story.fetched(5, 8)
    story.committed(8)
    (found,) = story.found()
    assert found.anomaly == "poll skip"
    assert found.text.endswith("its members never fetched 3 to 4")


def test_a_gap_of_markers_and_aborted_records_is_none() -> None:
    story = Story()
    story.produced()
    story.produced(producer_id=1, epoch=0, sequence=0, outcome="aborted")
    story.store(producer_id=1, epoch=0, outcome="abort")
    story.produced()
    story.fetched(0, 1)
    story.fetched(3, 4)
    story.committed(4)
    assert story.kinds() == []


def test_what_was_deleted_before_it_was_fetched_was_not_skipped(story: Story) -> None:
    story.fetched(0, 2)
    story.committed(2)
    story.starts["orders"] = 6
    story.fetched(6, 10)
    story.committed(10)
    assert story.kinds() == []


def test_the_members_of_a_group_fetch_for_each_other(story: Story) -> None:
    story.committed(0, client="second")
    story.fetched(0, 5)
    story.committed(5)
    story.fetched(5, 10, client="second")
    story.committed(10, client="second")
    assert story.kinds() == []


def test_a_fetch_whose_end_is_unknown_counts_for_everything_there_was(story: Story) -> None:
    fetched = story.fetched(0, 5)
    fetched.size += 1
    story.committed(10)
    assert story.kinds() == []


def test_operators_set_offsets(story: Story) -> None:
    story.committed(8, client="admin", member="")
    assert story.kinds() == []


@pytest.mark.parametrize(("first", "kinds"), [(4, ["nonmonotonic poll"]), (5, [])])
def test_the_last_record_before_the_commit_is_not_to_be_fetched_again(
    story: Story, first: int, kinds: list[str]
) -> None:
    story.fetched(0, 5)
    story.committed(5)
    story.fetched(first, 6)
    assert story.kinds() == kinds


@pytest.mark.parametrize("group", ["billing", "another"])
def test_a_group_whose_offsets_were_set_begins_anew(story: Story, group: str) -> None:
    story.fetched(0, 5)
    story.committed(5)
    story.group_reset(group)
    story.fetched(0, 5)
    assert story.kinds() == ([] if group == "billing" else ["nonmonotonic poll"])


def test_going_back_below_ones_own_commit_is_a_nonmonotonic_poll(story: Story) -> None:
    story.fetched(0, 5)
    story.committed(5)
    story.fetched(2, 6)
    (found,) = story.found()
    assert found.anomaly == "nonmonotonic poll"
    assert found.text == (
        "orders-0@2 was fetched once more at 00:00:00.012 by reader (reader:1), "
        "and group billing had committed 5 at 00:00:00.011"
    )


def test_a_client_that_looked_back_before_its_commit_may_not_after_it(story: Story) -> None:
    story.fetched(0, 8)
    story.fetched(2, 4)
    story.committed(8)
    story.fetched(2, 4)
    assert story.kinds() == ["nonmonotonic poll"]


@pytest.mark.parametrize(("offset", "kinds"), [(4, []), (2, []), (1, ["nonmonotonic commit"])])
def test_a_client_that_has_gone_back_commits_any_offset_from_there_on(
    story: Story, offset: int, kinds: list[str]
) -> None:
    story.fetched(0, 8)
    story.committed(8)
    story.fetched(2, 4)
    story.fetched(5, 8)
    story.committed(offset)
    assert story.kinds() == ["nonmonotonic poll", *kinds]


def test_a_client_of_which_the_session_knows_the_position_may_be_anywhere_in_its_batch() -> None:
    story = Story()
    story.produced(records=10)
    story.fetched(0, 10)
    story.committed(5)
    story.fetched(0, 10).position = -1
    assert story.kinds() == []


def test_going_back_to_the_commit_is_right(story: Story) -> None:
    story.fetched(0, 8)
    story.committed(5)
    story.fetched(5, 8)
    assert story.kinds() == []


def test_going_back_after_an_operator_did_is_right(story: Story) -> None:
    story.fetched(0, 8)
    story.committed(8)
    story.committed(2, client="admin", member="")
    story.fetched(2, 8)
    story.committed(8)
    assert story.kinds() == []


def test_a_replaced_member_that_still_fetches_is_right(story: Story) -> None:
    story.fetched(0, 2)
    story.fetched(0, 8, address="reader:2")
    story.committed(8, address="reader:3")
    story.fetched(2, 8)
    assert story.kinds() == []


def test_a_client_of_two_groups_may_fetch_again_for_the_other(story: Story) -> None:
    story.fetched(0, 5)
    story.committed(5)
    story.committed(5, group="another")
    story.fetched(0, 5)
    assert story.kinds() == []


def test_offsets_of_an_aborted_transaction_do_not_count(story: Story) -> None:
    story.fetched(0, 5)
    story.committed(5, producer_id=3)
    story.ended(3, commit=False)
    story.fetched(0, 5)
    story.committed(5, producer_id=3)
    story.ended(3, commit=True)
    assert story.kinds() == []
    story.fetched(0, 5)
    assert story.kinds() == ["nonmonotonic poll"]


def test_offsets_of_a_producer_that_was_replaced_do_not_count_with_its_successors_transaction(story: Story) -> None:
    story.fetched(0, 8)
    story.committed(8, producer_id=3)
    story.registered(3, epoch=1)  # which aborts the transaction
    story.fetched(0, 5)
    story.committed(5, producer_id=3, epoch=1)
    story.ended(3, commit=True, epoch=1)
    assert story.kinds() == []


def test_a_commit_below_the_last_one_is_nonmonotonic(story: Story) -> None:
    story.fetched(0, 8)
    story.committed(8)
    story.committed(5)
    (found,) = story.found()
    assert found.anomaly == "nonmonotonic commit"
    assert found.text.startswith("group billing committed 5 of orders-0")


def test_a_refused_commit_is_none(story: Story) -> None:
    story.fetched(0, 8)
    story.committed(8)
    story.committed(5, error="ILLEGAL_GENERATION")
    assert story.kinds() == []


def test_what_a_group_never_fetched_is_unseen_if_asked_for(story: Story) -> None:
    story.fetched(0, 5)
    story.committed(5)
    assert story.kinds() == []
    (found,) = story.found(seen_by="billing")
    assert found.anomaly == "unseen"
    assert found.text == "orders-0@5 and the rest up to 9 were never fetched by group billing"


def test_a_group_need_not_see_topics_that_it_does_not_read(story: Story) -> None:
    story.produced("others")
    story.fetched(0, 10)
    story.committed(10)
    assert story.kinds(seen_by="billing") == []
    assert story.kinds(seen_by="nobody") == ["unseen", "unseen"]


def test_what_consumers_may_not_read_yet_is_not_unseen(story: Story) -> None:
    story.fetched(0, 5)
    story.committed(5)
    evidence = story.evidence()
    evidence.outlines["orders", 0].high_watermark = 5
    assert group_findings(evidence, "billing") == []


def test_what_could_not_be_read_may_have_been_missed() -> None:
    with pytest.raises(ValueError, match="never had a record"):
        group_findings(Evidence([], [], whole=True), "billing")
    assert group_findings(Evidence([], [], whole=True, unread={("orders", 0): "too long"}), "billing") == []


def test_what_a_compaction_has_left_is_missed_when_it_was_skipped(story: Story) -> None:
    for _ in range(4):
        story.produced()
    story.fetched(0, 1)
    story.fetched(3, 4)
    story.committed(4)
    assert story.kinds(compacted=True) == ["poll skip"]
    del story.logs["orders"][1:3]
    assert story.kinds(compacted=True) == []


def test_a_commit_seems_to_come_before_the_fetch_by_the_clock_of_another_broker(story: Story) -> None:
    story.committed(5)
    story.fetched(0, 5)
    assert story.kinds(in_order=False) == []
    assert story.kinds() == ["commit ahead of fetch"]
    story.committed(8)
    assert story.kinds(in_order=False) == ["commit ahead of fetch"]


def test_facts_of_a_broker_whose_clock_is_behind_keep_their_place(story: Story) -> None:
    """The commits of each broker come later than its fetches, not earlier than those that others told before."""
    story.fetched(0, 8).at = 5_000
    story.committed(8).at = 0
    story.committed(8).at = 5_000
    story.fetched(8, 10).at = 5_000
    story.committed(10).at = 5_000
    assert story.kinds(in_order=False) == []
