"""A cluster for tests: what it is made of. What it does is in interop/test_cluster.py."""

from __future__ import annotations

import pytest

from pykafka_broker.testing import KafkaCluster


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"brokers": 0}, "at least one broker"),
        ({"controllers": 3}, "a quorum of several controllers is Apache Kafka's"),
        ({"brokers": 3, "racks": ["a", "b"]}, "2 racks for 3 brokers"),
    ],
)
def test_what_can_t_be_made_is_refused(wish: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        KafkaCluster(**wish)  # type: ignore[arg-type]


def test_a_cluster_that_was_not_started_has_no_node() -> None:
    cluster = KafkaCluster(brokers=2)
    with pytest.raises(ValueError, match="there is no broker 3: 1, 2"):
        cluster.broker(3)
    assert cluster.brokers == []
    cluster.close()
