"""Dead letters of the largest headers that they may have."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pipeline import letters, topics
from pipeline.events import SOURCE_ID

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("letter", ["a", "\u8a9e", "\U0001f600"])
def test_a_reason_of_any_letters_fits(spark: SparkSession, letter: str) -> None:
    limit, topic, offset = 10_000, "t" * 249, 2**63 - 1
    whole = bytearray(20_000)
    row = (topic, 2**31 - 1, offset, whole, whole, [("h", whole)], f"{topic}/{2**31 - 1}/{offset}", 600 * letter)
    columns = "_topic string, _partition int, _offset bigint, _key binary, _value binary"
    schema = f"{columns}, _headers {topics.HEADERS}, {SOURCE_ID} string, _reason string"
    dead = letters.dead_letters(spark.createDataFrame([row], schema), limit)
    found = topics.with_id_header(dead, SOURCE_ID).first()
    assert found is not None
    headers = sum(len(key) + len(value) + letters.HEADER_BYTES for key, value in found["headers"])
    size = letters.BATCH_BYTES + letters.RECORD_BYTES + len(found["key"]) + len(found["value"]) + headers
    assert limit - 4_000 < size <= limit
