"""Keys go where Kafka's producers send them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from pykafka_broker.client.partitioner import murmur2, partition_of


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


def test_a_key_stays_in_its_partition() -> None:
    assert [partition_of(f"key-{n}".encode(), 6) for n in range(8)] == [
        (kafka_python_murmur2(f"key-{n}".encode()) & 0x7FFFFFFF) % 6 for n in range(8)
    ]
