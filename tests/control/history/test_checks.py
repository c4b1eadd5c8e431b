"""Anomalies of writes and reads: each is found in a made-up history, and its harmless neighbour is not."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from pykafka_broker.testing import KafkaBroker
from tests.control.history.story import Story


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_right_history_has_no_anomaly(story: Story) -> None:
    story.produced(records=3)
    story.produced(producer_id=1, epoch=0, sequence=0)
    story.fetched(0, 4)
    story.committed(4)
    assert story.found() == []


# -- lost writes


def test_an_acknowledged_write_above_the_end_is_lost(story: Story) -> None:
    story.produced()
    story.produced(client="app", records=2)
    story.logs["orders"].pop()
    (found,) = story.found()
    assert found.text == (
        "orders-0@1 was produced at 00:00:00.001 by app (app:1) and acknowledged, and the log ends at 1"
    )


def test_a_write_with_another_record_in_its_place_is_lost(story: Story) -> None:
    story.produced(crc=1)
    story.logs["orders"].pop()
    story.store(crc=2)
    (found,) = story.found()
    assert found.text.endswith("another record is there now")


@pytest.mark.parametrize("other", [{"producer_id": 2}, {"epoch": 1}, {"sequence": 5}])
@pytest.mark.parametrize("compacted", [False, True])
def test_another_batch_of_an_idempotent_producer_is_another_record(story: Story, other: Any, compacted: bool) -> None:
    story.produced(producer_id=1, epoch=0, sequence=0)
    story.logs["orders"] = [story.logs["orders"][0]._replace(**other)]
    assert story.kinds(compacted=compacted) == ["lost write"]


@pytest.mark.parametrize(("offset", "kinds"), [(2, ["inconsistent offsets"]), (3, [])])
def test_batches_that_were_told_overlapping_offsets(story: Story, offset: int, kinds: list[str]) -> None:
    story.produced(records=3)
    story.store(records=3)
    story.produced(stored=False, crc=0).offset = offset
    found = story.kinds()
    assert [each for each in found if each == "inconsistent offsets"] == kinds


@pytest.mark.parametrize(("start", "kinds"), [(2, ["lost write"]), (3, [])])
def test_a_write_whose_last_record_alone_is_not_deleted(story: Story, start: int, kinds: list[str]) -> None:
    story.produced(crc=1, records=3)
    story.logs["orders"] = [story.logs["orders"][0]._replace(crc=2)]
    story.starts["orders"] = start
    assert story.kinds() == kinds


def test_a_hole_in_the_log_is_a_lost_write(story: Story) -> None:
    for _ in range(3):
        story.produced()
    del story.logs["orders"][1]
    assert story.kinds() == ["lost write"]
    assert story.kinds(compacted=True) == []


def test_what_was_deleted_is_not_lost(story: Story) -> None:
    for _ in range(3):
        story.produced()
    story.logs["orders"] = story.logs["orders"][2:]
    story.starts["orders"] = 2
    assert story.kinds() == []


def test_what_was_never_acknowledged_is_not_lost(story: Story) -> None:
    story.produced(stored=False, error="NOT_ENOUGH_REPLICAS")
    story.produced(stored=False, answered=False)
    story.produced(acks=0)
    story.logs["orders"].pop()
    assert story.kinds() == []


@pytest.mark.parametrize(("sent", "stored"), [(0, 8), (0, 1), (8, 8)])
def test_a_batch_that_the_broker_wrote_anew_is_not_lost(story: Story, sent: int, stored: int) -> None:
    """With the time of the append, or compressed."""
    story.produced(crc=1).attributes = sent
    story.logs["orders"] = [story.logs["orders"][0]._replace(crc=2, attributes=stored)]
    assert story.kinds() == []


def test_a_batch_that_was_sent_again_in_another_form_is_not_lost(story: Story) -> None:
    """An idempotent producer is told the first attempt's offset, even if the second attempt's batch differs."""
    sent: Any = {"producer_id": 1, "epoch": 0, "sequence": 0}
    story.produced(crc=1, error="REQUEST_TIMED_OUT", **sent)
    story.produced(crc=2, stored=False, **sent).offset = 0
    assert story.kinds() == []
    story.produced(stored=False, producer_id=1, epoch=0, sequence=1).offset = 0
    assert story.kinds() == ["inconsistent offsets"]


def test_an_offset_counts_if_the_writer_was_told_so(story: Story) -> None:
    story.produced(records=3)
    story.produced(stored=False, error="REQUEST_TIMED_OUT").offset = 1
    story.produced(stored=False, acks=0).offset = 1
    assert story.kinds() == []


@pytest.mark.parametrize("sent", [{"crc": 1}, {"producer_id": 1, "epoch": 0, "sequence": 0}])
def test_a_batch_that_was_acknowledged_twice_at_its_offset_is_there(story: Story, sent: Any) -> None:
    story.produced(**sent)
    story.produced(stored=False, **sent).offset = 0
    assert story.kinds() == []


def test_two_batches_that_were_told_one_offset_may_both_be_lost(story: Story) -> None:
    story.produced()
    story.produced(stored=False).offset = 0
    story.logs["orders"].pop()
    assert story.kinds() == ["inconsistent offsets", "lost write", "lost write"]


def test_a_batch_that_was_told_an_offset_inside_of_another_is_lost(story: Story) -> None:
    story.produced(records=2, crc=1)
    story.produced(stored=False, crc=1).offset = 1
    assert story.kinds() == ["lost write"]


def test_a_batch_of_which_the_beginning_was_deleted_may_be_there(story: Story) -> None:
    story.produced(records=3)
    story.logs["orders"] = [story.logs["orders"][0]._replace(base=2)]
    story.starts["orders"] = 2
    assert story.kinds() == []


def test_records_of_a_topic_that_was_deleted_are_not_lost(story: Story) -> None:
    story.produced()
    story.fetched(0, 1)
    story.committed(1)
    story.deleted()
    assert story.kinds() == []


# -- duplicates and order


def test_a_batch_that_was_sent_again_after_an_error_is_a_duplicate(story: Story) -> None:
    story.produced(crc=7, error="REQUEST_TIMED_OUT")
    story.produced(crc=7)
    (found,) = story.found()
    assert found.anomaly == "duplicate"
    assert found.text == "orders-0@1 is orders-0@0 once more"
    assert [line.split(": ")[1] for line in found.way] == ["REQUEST_TIMED_OUT", "acknowledged at 1"]


def test_equal_batches_that_were_both_acknowledged_are_two_records(story: Story) -> None:
    story.produced(crc=7)
    story.produced(crc=7, address="writer:2")
    assert story.kinds() == []


def test_equal_batches_of_others_than_the_one_who_was_refused_are_records(story: Story) -> None:
    story.produced(client="one", crc=5, stored=False, error="NOT_ENOUGH_REPLICAS")
    story.produced(client="two", crc=5)
    story.produced(client="three", crc=5)
    assert story.found() == []
    story.produced(client="two", crc=5, error="REQUEST_TIMED_OUT")
    assert story.found() == []  # nobody has sent it again
    story.produced(client="two", crc=5)
    assert [found.offset for found in story.found()] == [3]


@pytest.mark.parametrize("stored", [{"records": 2}, {"attributes": 8}])
def test_a_batch_of_another_size_or_with_the_time_of_the_append_is_no_copy(story: Story, stored: Any) -> None:
    story.produced(crc=7, error="REQUEST_TIMED_OUT", **stored)
    story.produced(crc=7, attributes=stored.get("attributes", 0))
    assert story.kinds() == []


def test_what_was_sent_without_an_acknowledgement_is_meant_each_time(story: Story) -> None:
    story.produced(client="one", crc=7, acks=0, answered=False)
    story.produced(client="two", crc=7, stored=False, error="NOT_ENOUGH_REPLICAS")
    story.produced(client="two", crc=7)
    assert story.kinds() == []


def test_what_was_sent_without_an_acknowledgement_is_not_sent_again(story: Story) -> None:
    story.produced(client="one", crc=7, acks=0, answered=False)
    story.produced(client="one", crc=7, acks=0, answered=False)
    story.produced(client="two", crc=7, error="REQUEST_TIMED_OUT")
    assert story.kinds() == []


def test_a_sequence_number_that_is_there_twice_is_a_duplicate(story: Story) -> None:
    story.produced(producer_id=1, epoch=0, sequence=0)
    story.produced(producer_id=1, epoch=0, sequence=0)
    assert story.kinds() == ["duplicate"]


def test_a_retry_behind_a_later_batch_is_out_of_order(story: Story) -> None:
    story.produced(crc=1, stored=False, error="NOT_ENOUGH_REPLICAS")
    story.produced(crc=2)
    story.produced(crc=1)
    (found,) = story.found()
    assert found.anomaly == "out of order"
    assert "before orders-0@0, and is behind it: the first attempt met NOT_ENOUGH_REPLICAS" in found.text


def test_a_retry_behind_batches_of_others_is_in_order(story: Story) -> None:
    story.produced(crc=1, stored=False, answered=False)
    story.produced(crc=2, client="other")
    story.produced(crc=1)
    story.produced(crc=3)
    assert story.kinds() == []


def test_a_batch_of_which_the_first_copy_is_in_its_place_is_a_duplicate_alone(story: Story) -> None:
    story.produced(crc=1, error="REQUEST_TIMED_OUT")
    story.produced(crc=2)
    story.produced(crc=1)
    assert story.kinds() == ["duplicate"]


def test_a_batch_is_not_behind_itself(story: Story) -> None:
    story.produced(crc=1, stored=False, error="NOT_ENOUGH_REPLICAS")
    story.produced(crc=1, stored=False).offset = 0
    story.store(crc=2)
    story.store(crc=1)
    assert story.kinds() == ["lost write"]


def test_batches_of_which_no_offset_was_told_have_no_order(story: Story) -> None:
    story.produced(crc=1, stored=False, error="NOT_ENOUGH_REPLICAS")
    story.produced(crc=2, acks=0, stored=False)
    story.produced(crc=1)
    story.produced(crc=3, acks=0, stored=False)
    assert story.kinds() == []


def test_an_idempotent_producer_or_an_old_format_may_be_told_a_former_offset(story: Story) -> None:
    numbers: Any = {"producer_id": 1, "epoch": 0}
    story.produced(crc=1, sequence=0, **numbers)
    story.produced(crc=2, sequence=1, **numbers)
    story.produced(crc=1, sequence=0, **numbers, stored=False).offset = 0
    story.produced()
    old = story.produced(stored=False)
    old.offset, old.count = 0, 0
    assert story.kinds() == []


def test_numbers_of_an_idempotent_producer_rise(story: Story) -> None:
    story.store(producer_id=1, epoch=0, sequence=(1 << 31) - 1)
    story.store(producer_id=1, epoch=0, sequence=4)  # they begin anew
    story.store(producer_id=1, epoch=0, sequence=-1)
    story.store(producer_id=1, epoch=1, sequence=0)
    assert story.kinds() == []
    story.store(producer_id=1, epoch=1, sequence=2)
    story.store(producer_id=1, epoch=1, sequence=1)
    (found,) = story.found()
    assert (found.anomaly, found.offset) == ("out of order", 5)


# -- fenced writers


def test_an_older_epoch_behind_a_newer_one_got_through(story: Story) -> None:
    story.produced(producer_id=1, epoch=1, sequence=0)
    story.produced(producer_id=1, epoch=0, sequence=1, client="zombie")
    (found,) = story.found()
    assert found.anomaly == "fenced writer"
    assert found.way == ["orders-0@1 was produced at 00:00:00.001 by zombie (zombie:1)"]


def test_each_batch_of_an_older_epoch_got_through(story: Story) -> None:
    for sequence, epoch in enumerate((1, 0, 0)):
        story.produced(producer_id=1, epoch=epoch, sequence=sequence)
    assert [(found.anomaly, found.offset) for found in story.found()] == [("fenced writer", 1), ("fenced writer", 2)]


def test_a_takeover_that_was_refused_fences_nobody(story: Story) -> None:
    story.registered(1, 0)
    story.registered(1, 1, client="new")
    story.facts[-1].error = "NOT_COORDINATOR"
    story.produced(transactional_id="id", producer_id=1, epoch=0, sequence=0)
    assert story.kinds() == []


@pytest.mark.parametrize("newer", [(1, 1), (2, 0)])
def test_a_write_after_the_takeover_of_its_id_got_through(story: Story, newer: tuple[int, int]) -> None:
    story.registered(1, 0)
    story.produced(transactional_id="id", producer_id=1, epoch=0, sequence=0)
    story.registered(*newer, client="new")
    story.produced(transactional_id="id", producer_id=1, epoch=0, sequence=1)
    assert story.kinds() == ["fenced writer"]


def test_a_write_while_the_id_is_being_taken_over_is_right(story: Story) -> None:
    story.registered(producer_id=1, epoch=0)
    story.registered(producer_id=1, epoch=1, client="newer")
    story.facts[-1].until = 10  # it waits for the end of the older producer's transaction
    story.produced(client="older", producer_id=1, epoch=0, sequence=0, transactional_id="id")
    assert story.found() == []


def test_a_fenced_write_that_was_refused_is_no_anomaly(story: Story) -> None:
    story.registered(1, 0)
    story.registered(1, 1, client="new")
    story.produced(
        transactional_id="id", producer_id=1, epoch=0, sequence=0, stored=False, error="INVALID_PRODUCER_EPOCH"
    )
    assert story.kinds() == []


# -- dirty reads


def aborted(story: Story) -> None:
    story.produced(producer_id=1, epoch=0, sequence=0, outcome="aborted", records=2)
    story.store(producer_id=1, epoch=0, outcome="abort")
    story.produced()


def test_an_uncommitted_read_of_an_aborted_transaction_is_found_once(story: Story) -> None:
    aborted(story)
    story.fetched(0, 4, committed_only=False)
    story.fetched(0, 4, committed_only=False)
    (found,) = story.found()
    assert found.anomaly == "aborted read"
    assert "orders-0@0 is of an aborted transaction and was fetched" in found.text
    assert found.text.endswith("by reader (reader:1) with read_uncommitted")


def test_a_committed_read_is_told_what_was_aborted(story: Story) -> None:
    aborted(story)
    story.fetched(0, 4, aborted=[[1, 0]])
    assert story.kinds() == []
    story.fetched(0, 4)
    assert story.kinds() == ["aborted read"]


@pytest.mark.parametrize("aborted_told", [[[2, 0]], [[1, 1]]], ids=["another producer", "a later transaction"])
def test_a_committed_read_is_told_which_transaction_was_aborted(story: Story, aborted_told: list[list[int]]) -> None:
    story.produced(producer_id=1, epoch=0, sequence=0, outcome="aborted")
    story.fetched(0, 1, aborted=aborted_told)
    assert story.kinds() == ["aborted read"]


def test_an_uncommitted_read_skips_nothing(story: Story) -> None:
    aborted(story)
    story.fetched(0, 4, committed_only=False, aborted=[[1, 0]])
    assert story.kinds() == ["aborted read"]


def test_a_committed_read_is_told_of_each_transaction_that_was_aborted(story: Story) -> None:
    """A consumer forgets what was aborted with the end of the transaction."""
    for sequence in range(2):
        story.produced(producer_id=1, epoch=0, sequence=sequence, outcome="aborted")
        story.store(producer_id=1, epoch=0, outcome="abort")
    story.fetched(0, 4, aborted=[[1, 0], [1, 2]])
    story.fetched(2, 4, aborted=[[1, 0]])  # whoever begins there has not seen the first one end
    assert story.kinds() == []
    story.fetched(0, 4, aborted=[[1, 0]])
    (found,) = story.found()
    assert (found.anomaly, found.offset) == ("aborted read", 2)


@pytest.mark.parametrize("committed_only", [False, True])
def test_a_read_of_a_transaction_that_is_still_open_is_precommitted(story: Story, committed_only: bool) -> None:
    """Even where the consumer was told that it had ended."""
    story.produced(producer_id=1, epoch=0, sequence=0, outcome="open")
    story.fetched(0, 1, committed_only=committed_only, stable=1 if committed_only else 0)
    assert story.kinds() == ["precommitted read"]


def test_a_read_of_an_open_transaction_is_precommitted(story: Story) -> None:
    story.produced(producer_id=1, epoch=0, sequence=0, outcome="committed")
    story.fetched(0, 1, committed_only=False, stable=0)
    story.store(producer_id=1, epoch=0, outcome="commit")
    story.fetched(0, 2)
    assert story.kinds() == ["precommitted read"]


def test_an_uncommitted_read_of_a_committed_transaction_is_right(story: Story) -> None:
    story.produced(producer_id=1, epoch=0, sequence=0, outcome="committed")
    story.store(producer_id=1, epoch=0, outcome="commit")
    story.fetched(0, 2, committed_only=False)
    story.fetched(0, 2, committed_only=False, stable=-1)  # not told
    assert story.kinds() == []


REFUSED_READS: dict[str, Any] = {"forbid": ["unacknowledged read"]}


@pytest.mark.parametrize("told", [{"error": "REQUEST_TIMED_OUT"}, {"answered": False}], ids=["refused", "not answered"])
def test_a_read_of_what_was_never_acknowledged_is_found_once(story: Story, told: dict[str, Any]) -> None:
    story.produced(records=2, **told)
    story.produced()
    story.fetched(0, 3)
    story.fetched(0, 3)
    (found,) = story.found(**REFUSED_READS)
    assert found.anomaly == "unacknowledged read"
    assert found.lines[0].endswith("by reader (reader:1) and never acknowledged, with the 2 records of its batch")
    assert found.way == [f"sent at 00:00:00.000 by writer (writer:1): {told.get('error', 'not answered')}"]
    assert story.kinds() == []


def test_a_share_group_reads_what_was_never_acknowledged(story: Story) -> None:
    story.produced(answered=False)
    story.acquired(0, 0)
    assert story.kinds(**REFUSED_READS) == ["unacknowledged read"]


def test_what_a_later_attempt_acknowledged_or_nobody_asked_about_is_right(story: Story) -> None:
    story.produced(crc=7, answered=False, producer_id=1, epoch=0, sequence=0)
    story.fetched(0, 1)
    story.produced(crc=7, stored=False, producer_id=1, epoch=0, sequence=0)  # told as done at its offset
    story.produced(acks=0, answered=False)
    story.store()  # before the history
    story.fetched(1, 3)
    assert story.kinds(**REFUSED_READS) == []


def test_a_client_reads_what_another_was_told_had_failed() -> None:
    with KafkaBroker(history=True, in_process=True) as broker:
        broker.create_topic("orders")
        broker.faults.add(api="Produce", error="REQUEST_TIMED_OUT", applied=True, times=1)
        options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
        producer = KafkaProducer(**options, enable_idempotence=False, retries=0)
        with pytest.raises(KafkaError):
            producer.send("orders", b"1").get(30)
        producer.close()
        consumer = KafkaConsumer("orders", **options, auto_offset_reset="earliest")
        assert next(consumer).value == b"1"
        consumer.close()
        assert broker.check(raises=False) == []
        (found,) = broker.check(forbid=["unacknowledged read"], raises=False)
    assert found.anomaly == "unacknowledged read"
    assert found.way[0].endswith(": REQUEST_TIMED_OUT")


@pytest.mark.parametrize(("base", "last"), [(0, 0), (1, 2), (3, 5), (0, 1), (1, 1), (1, 3), (2, 5)])
def test_a_batch_over_offsets_of_another_one_is_no_work_of_the_cleaner(story: Story, base: int, last: int) -> None:
    """Batches share no offset, so the batch that was told offsets 1 and 2 was gone before the other one came."""
    story.store()
    story.produced(records=2)
    story.store(records=3)
    story.produced()
    _, told, _, end = story.logs["orders"]
    story.logs["orders"] = [told._replace(base=base, last=last), end]
    is_another = last >= 1 and base <= 2 and (base, last) != (1, 2)
    assert [each.offset for each in story.found(compacted=True)] == ([1] if is_another else [])


def test_a_compaction_moves_no_end_and_changes_no_producer(story: Story) -> None:
    """Call records lost in a compacted topic where the cleaner can't have removed them."""
    story.produced(producer_id=7, epoch=0, sequence=0)
    story.produced(producer_id=7, epoch=0, sequence=1)
    story.produced(producer_id=7, epoch=0, sequence=2)
    whole = list(story.logs["orders"])
    assert story.kinds(compacted=True) == []
    story.logs["orders"] = [whole[0]._replace(crc=99, size=50), whole[2]]
    assert story.kinds(compacted=True) == []
    story.logs["orders"] = whole[:2]
    (found,) = story.found(compacted=True)
    assert found.text.endswith("acknowledged, and the log ends at 2")
    story.logs["orders"] = [whole[0], whole[1]._replace(producer_id=8), whole[2]]
    (found,) = story.found(compacted=True)
    assert (found.offset, found.text.endswith("another record is there now")) == (1, True)
