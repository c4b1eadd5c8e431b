"""Evidence: facts of several nodes in one order, and a history that is full."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pykafka_broker.control.history.checks import findings
from pykafka_broker.control.history.facts import Deleted, row_of
from pykafka_broker.control.history.findings import HistoryFull, clock, evidence_of, place
from pykafka_broker.control.history.outlines import Outline, row_of_outline
from tests.control.history.story import Story

HEAD: dict[str, Any] = {"kind": "history", "whole": True, "full": False, "size_bytes": 5}


def rows(story: Story, *times: int) -> list[dict[str, Any]]:
    for fact, at in zip(story.facts, times, strict=True):
        fact.at = at
    return [HEAD, *map(row_of, story.facts)]


def test_facts_of_several_nodes_are_in_the_order_of_time() -> None:
    first, second = Story(), Story()
    for _ in range(3):
        first.produced(client="a")
        second.produced(client="b")
    evidence = evidence_of([rows(first, 1, 4, 5), rows(second, 2, 3, 9)])
    assert "".join(each.client for each in evidence.facts) == "abbaab"
    assert evidence.whole


def test_a_clock_that_was_set_back_changes_no_order() -> None:
    story = Story()
    for client in "abc":
        story.produced(client=client)
    assert [each.client for each in evidence_of([rows(story, 9, 2, 3)]).facts] == ["a", "b", "c"]


def test_outlines_are_read_from_rows() -> None:
    story = Story()
    story.produced(records=2)
    (outline,) = story.evidence().outlines.values()
    evidence = evidence_of([[{**HEAD, "whole": False}, row_of_outline(outline)]])
    assert evidence.outlines["orders", 0] == outline
    assert not evidence.whole


def test_a_full_history_is_refused() -> None:
    with pytest.raises(HistoryFull, match="the history is full with 5 bytes"):
        evidence_of([[{**HEAD, "full": True}]])


def led_since(outline: Outline, epoch: int) -> dict[str, Any]:
    return row_of_outline(replace(outline, leader_epoch=epoch))


def test_a_partition_whose_leader_moves_meanwhile_is_as_the_last_one_has_it() -> None:
    story = Story()
    story.produced()
    (before,) = story.evidence().outlines.values()
    story.produced()
    (now,) = story.evidence().outlines.values()
    history = rows(story, 1, 2)
    for logs in ([led_since(before, 3), led_since(now, 4)], [led_since(now, 4), led_since(before, 3)]):
        assert findings(evidence_of([[*history, *logs]])) == []
    unread = {"kind": "unread", "topic": "orders", "partition": 0, "why": "it has no leader"}
    assert findings(evidence_of([[*history, unread, led_since(now, 4)]])) == []
    (found,) = findings(evidence_of([[*history, unread]]))
    assert found.lines == ["not checked: orders-0 could not be checked: it has no leader"]
    assert findings(evidence_of([[HEAD, unread]]), empty_ok=True) == []  # nobody has used it


def test_a_topic_that_is_made_anew_meanwhile_is_not_checked() -> None:
    def topics(topic_id: str) -> dict[str, Any]:
        return {"kind": "topics", "topics": {"orders": {"id": topic_id, "leaders": [1]}}}

    story = Story()
    story.produced()
    anew = row_of_outline(Outline("orders", 0, 0, 0))
    deleted = row_of(Deleted(topic="orders", at=5, order=5, client="admin", address="admin:1"))
    rows_before = [*rows(story, 1), topics("a")]
    (found,) = findings(evidence_of([[*rows_before, anew, topics("b")]]))
    assert found.text == "orders-0 could not be checked: the topic was made anew meanwhile"
    assert findings(evidence_of([[*rows(story, 1), deleted, topics("a"), anew, topics("b")]])) == []
    assert findings(evidence_of([[*rows_before, {"kind": "topics", "topics": {}}]])) == []  # deleted meanwhile


def test_a_topic_that_is_gone_without_a_deletion_is_not_checked() -> None:
    """Records may be lost with their topic."""
    gone = {"kind": "topics", "topics": {}}
    story = Story()
    story.produced()
    (found,) = findings(evidence_of([[*rows(story, 1), gone, gone]]))
    assert found.text == "orders-0 could not be checked: the topic is gone, and nobody has deleted it"
    admin: dict[str, Any] = {"at": 5, "order": 5, "client": "admin", "address": "admin:1"}
    for told in ({}, {"answered": False}, {"error": "REQUEST_TIMED_OUT"}, {"topic": "", "answered": False}):
        deleted = row_of(Deleted(**{"topic": "orders", **admin, **told}))
        assert findings(evidence_of([[*rows(story, 1), deleted, gone, gone]])) == []


def test_deleted_topics_that_are_known_by_their_ids_alone_are_not_one() -> None:
    story = Story()
    for _ in range(2):
        story.produced("", stored=False).offset = 0
    gone = {"kind": "topics", "topics": {}}
    assert findings(evidence_of([[*rows(story, 1, 2), gone, gone]])) == []


def test_a_deletion_that_failed_deletes_nothing() -> None:
    story = Story()
    story.produced(stored=False).offset = 0
    failed = Deleted(topic="orders", at=5, order=5, client="a", address="a:1", error="TOPIC_AUTHORIZATION_FAILED")
    log = row_of_outline(Outline("orders", 0, 0, 0))
    (found,) = findings(evidence_of([[*rows(story, 1), row_of(failed), log]]))
    assert found.anomaly == "lost write"


def test_times_and_places_are_short() -> None:
    assert clock(1_700_000_000_042) == "22:13:20.042"
    assert (place("t", 1), place("t", 1, 7)) == ("t-1", "t-1@7")
