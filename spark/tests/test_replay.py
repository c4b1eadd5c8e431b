"""Bounded replays, into tables and topics, repeated."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import replay, tables
from pipeline.errors import SettingsError

pytestmark = pytest.mark.spark
START_MS = 1_714_521_600_000


@pytest.fixture
def ten(settings: Any, make_topic: Any, put: Any, event: Any) -> Any:
    """Settings whose topic has events 0-9 in each of two partitions, a second apart, one of them broken."""
    make_topic(settings.bronze_topic, 2)
    for partition in range(2):
        values = [event(10 * partition + n) if n != 4 else b"broken" for n in range(10)]
        put(settings.bronze_topic, [
            {"key": b"k%d" % n, "value": value, "partition": partition, "timestamp": START_MS + 1000 * n,
             "headers": [("own", b"%d" % n)]}
            for n, value in enumerate(values)
        ])  # fmt: skip
    return settings


def ids(spark: SparkSession, path: str) -> list[int]:
    return sorted(int(row.event_id[1:]) for row in tables.read(spark, path).collect())


def test_by_offsets_into_a_table(
    ten: Any, make_context: Any, spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    own = dataclasses.replace(ten, from_offsets='{"0": 2, "1": 8}', to_offsets='{"0": 6}', table_format=table_format)
    done = [replay.run(make_context(own)) for _ in range(2)]
    assert done[0] == done[1]
    assert (done[0]["ranges"], done[0]["written"]) == ({0: [2, 6], 1: [8, 10]}, 5)
    assert (done[0]["rows"], done[0]["rejected"], done[0]["duplicates"]) == (6, 1, 0)
    assert ids(spark, done[0]["to_path"]) == [2, 3, 5, 18, 19]
    other = replay.run(make_context(dataclasses.replace(own, to_offsets='{"0": 4, "1": 8}')))
    assert other["replay"] != done[0]["replay"]
    rows = tables.read(spark, str(tmp_path / "data" / "replay")).collect()
    assert sorted(row.event_id for row in rows if row.replay == other["replay"]) == ["e2", "e3"]
    assert len(rows) == 7


def test_every_record_of_the_range_is_counted(ten: Any, make_context: Any, put: Any, event: Any) -> None:
    put(ten.bronze_topic, [{"key": b"k", "value": value, "partition": 1} for value in (event(18), None, event(20))])
    done = replay.run(make_context(dataclasses.replace(ten, from_offsets='{"0": 3, "1": 8}', to_offsets='{"0": 5}')))
    counts = (done["rows"], done["rejected"], done["duplicates"], done["written"])
    assert counts == (7, 2, 1, 4)


def test_by_time(ten: Any, make_context: Any, spark: SparkSession) -> None:
    own = dataclasses.replace(ten, from_timestamp="2024-05-01T00:00:03", to_timestamp="2024-05-01T02:00:06+02:00")
    done = replay.run(make_context(own))
    assert done["ranges"] == {0: [3, 6], 1: [3, 6]}
    assert ids(spark, done["to_path"]) == [3, 5, 13, 15]
    later = dataclasses.replace(ten, from_timestamp="2030-01-01")
    assert replay.run(make_context(later))["written"] == 0
    for before in ("1969-12-31T23:59:59.999Z", "1969-12-31", "0001-01-01"):
        assert replay.resolve(make_context(dataclasses.replace(ten, from_timestamp=before))) == {0: (0, 10), 1: (0, 10)}


def test_into_a_topic(ten: Any, make_context: Any) -> None:
    target = f"{ten.bronze_topic}-again"
    context = make_context(
        dataclasses.replace(ten, to_topic=target, from_offsets='{"0": 5, "1": 10}', topic_partitions=1)
    )
    assert replay.run(context)["written"] == 5
    wider = dataclasses.replace(
        context, settings=dataclasses.replace(context.settings, from_offsets='{"0": 3, "1": 10}')
    )
    assert [replay.run(wider)["written"] for _ in range(2)] == [2, 0]
    records = context.kafka.read_all(target)
    assert [record.key() for record in records] == [b"k5", b"k6", b"k7", b"k8", b"k9", b"k3", b"k4"]
    assert records[0].headers() == [("own", b"5"), ("pipeline-id", f"{ten.bronze_topic}/0/5".encode())]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"from_offsets": "5"}, "from_offsets is '5', and has to be like"),
        ({"from_offsets": '{"0": 1.7}'}, "from_offsets is .*, and has to be like"),
        ({"from_offsets": '{"0": 1e400}'}, "from_offsets is .*, and has to be like"),
        ({"to_timestamp": "yesterday"}, "to_timestamp is 'yesterday', and has to be like"),
        ({"from_offsets": "{}", "from_timestamp": "2024-05-01"}, "are both set"),
        ({"to_path": "a", "to_topic": "b"}, "a replay goes to one of them"),
    ],
)
def test_what_is_refused(changes: Any, words: str, settings: Any) -> None:
    with pytest.raises(SettingsError, match=words):
        replay.check(dataclasses.replace(settings, **changes))


def test_a_partition_that_is_not_there(ten: Any, make_context: Any) -> None:
    own = dataclasses.replace(ten, from_offsets=json.dumps({"7": 1}))
    with pytest.raises(SettingsError, match="has no partition 7; it has 0, 1"):
        replay.run(make_context(own))
    with pytest.raises(SettingsError, match="would feed itself"):
        replay.check(dataclasses.replace(ten, to_topic=ten.bronze_topic))
