"""Clients with the settings that `client_config` hands out, where their defaults let them hang."""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pykafka_broker.testing import KafkaBroker

WITHIN_S = 30


def restart(broker: KafkaBroker, number: int) -> None:
    if number == 2:
        broker.restart()


def chaos(broker: KafkaBroker, number: int) -> None:
    if number == 0:
        broker.faults.chaos(1, 0.1)


@pytest.mark.ours_only
@pytest.mark.parametrize(("disturb", "count"), [(restart, 5), (chaos, 20)], ids=["restart", "chaos"])
def test_a_transactional_producer_of_confluent_kafka_goes_on(
    disturb: Callable[[KafkaBroker, int], None], count: int
) -> None:
    """A transactional producer with these settings does not hang.

    With its defaults librdkafka gives up its only broker when it bootstraps again, and then waits without a limit.
    """
    with KafkaBroker() as broker:
        broker.create_topic("in")
        broker.create_topic("orders")
        settings = broker.client_config("confluent")

        def copy() -> None:
            producer = Producer({**settings, "transactional.id": "t"})
            producer.init_transactions(WITHIN_S)
            consumer = Consumer({**settings, "group.id": "g"})
            for number in range(count):
                producer.begin_transaction()
                producer.produce("orders", str(number))
                disturb(broker, number)
                offsets = [TopicPartition("in", 0, number + 1)]
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WITHIN_S)
                producer.commit_transaction(WITHIN_S)
            consumer.close()

        copying = threading.Thread(target=copy, daemon=True)  # nothing ends a call that hangs
        copying.start()
        copying.join(3 * WITHIN_S)
        assert not copying.is_alive()
        broker.faults.clear()
        broker.assert_records("orders", list(map(str, range(count))))
        assert broker.group("g")["offsets"][0]["committed"] == count
