"""A topic into a database, by each of the three strategies, interrupted at every step.

Rule: rows are inserted, not upserted (but for the strategy that says so): a record that came twice would end the job.
"""

import dataclasses
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipeline import store
from pipeline.database import Database, open_database
from pipeline.errors import CheckpointError, SchemaError, SettingsError, StoreError
from pipeline.events import NOT_OF_SCHEMA, NOT_TEXT
from pipeline.offsets import JOB, STRATEGIES, store_offsets, stored_offsets
from pipeline.settings import EVENT_SCHEMA, Settings
from tests.plug import Work, nothing, plug_pulled

pytestmark = pytest.mark.spark


@pytest.fixture(params=["checkpoint", "kafka", "store"])
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows(settings: Settings, columns: str = "event_id") -> list[Any]:
    database = open_database(settings.database_url)
    try:
        return sorted(database.execute(f'SELECT {columns} FROM "{settings.table}"'))
    finally:
        database.close()


def rejected(settings: Settings) -> list[Any]:
    return rows(dataclasses.replace(settings, table=store.rejected_table(settings.table)), "source_offset, reason")


def offsets(settings: Settings) -> dict[int, int]:
    database = open_database(settings.database_url)
    try:
        return stored_offsets(database, settings.table, settings.bronze_topic)
    finally:
        database.close()


def places(strategy: str) -> dict[str, tuple[Any, str, Work]]:
    """Return the places where a run ends, by name: an object, its call, and what is done before the end."""
    return {
        "before the transaction": (store.Writer, "_insert", nothing),
        "after the rows": (store.Writer, "_insert", store.Writer._insert),
        "after the offsets": (store, "store_offsets", store_offsets),
        "before the commit": (STRATEGIES[strategy], "in_transaction", STRATEGIES[strategy].in_transaction),
        "after the commit": (STRATEGIES[strategy], "after_commit", nothing),
        "after all": (STRATEGIES[strategy], "after_commit", STRATEGIES[strategy].after_commit),
    }


def test_ended_at_every_step(
    strategy: str, make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any,
) -> None:  # fmt: skip
    settings = make_settings(offsets=strategy, max_offsets_per_trigger=20)
    make_topic(settings.bronze_topic, 2)
    number = 0
    for place in places(strategy).values():
        values = [event(number + n) for n in range(15)]
        put(settings.bronze_topic, [{"value": v, "partition": n % 2} for n, v in enumerate([*values, b"broken"])])
        number += 15
        with plug_pulled(*place):
            store.run(make_context(settings))
    context = make_context(settings)
    store.run(context)
    assert rows(settings) == sorted((f"e{n}",) for n in range(number))
    assert len(rejected(settings)) == len(places(strategy))
    assert offsets(settings) == {0: 48, 1: 48}
    if strategy == "kafka":
        assert context.kafka.committed(f"{JOB}-{settings.table}", settings.bronze_topic) == {0: 48, 1: 48}


def test_postgresql(
    strategy: str, make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any,
    new_postgresql_database: Callable[[], str],
) -> None:  # fmt: skip
    settings = make_settings(offsets=strategy, database=new_postgresql_database())
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n, amount=n / 2) for n in range(10)] + [b"broken"])
    with plug_pulled(*places(strategy)["after the commit"]):
        store.run(make_context(settings))
    put(settings.bronze_topic, [event(10, at=61)])
    store.run(make_context(settings))
    assert rows(settings, "source_offset, event_id, amount") == [
        (n if n < 10 else 11, f"e{n}", n / 2 if n < 10 else None) for n in range(11)
    ]
    assert rows(settings, "event_time")[-1][0].isoformat() == "2024-05-01T01:01:00+00:00"
    assert rejected(settings) == [(10, NOT_OF_SCHEMA)]


def test_values_and_a_new_column(settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any) -> None:
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1, at=90, amount=2.5, kind="cart")])
    store.run(make_context(settings))
    columns = "source_topic, source_partition, source_offset, event_id, event_time, kind, amount"
    expected = (settings.bronze_topic, 0, 0, "e1", "2024-05-01T01:30:00.000000Z", "cart", 2.5)
    assert rows(settings, columns) == [expected]
    put(settings.bronze_topic, [event(2, score=5)])
    wider = dataclasses.replace(settings, schema=EVENT_SCHEMA + ", score INT")
    store.run(make_context(wider))
    assert rows(wider, "event_id, score") == [("e1", None), ("e2", 5)]
    other = dataclasses.replace(settings, schema=EVENT_SCHEMA + ", score STRING")
    with pytest.raises(SchemaError, match="column score of table events is INTEGER, and the job writes TEXT"):
        store.run(make_context(other))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_kind_of_column(
    kind: str, request: pytest.FixtureRequest, make_settings: Any, make_context: Any, make_topic: Any, put: Any,
    event: Any,
) -> None:  # fmt: skip
    kinds = {
        "price": "DECIMAL(20,4)", "tiny": "DECIMAL(18,12)", "day": "DATE", "seen": "TIMESTAMP", "good": "BOOLEAN",
        "small": "SMALLINT", "many": "BIGINT", "real": "FLOAT",
    }  # fmt: skip
    schema = EVENT_SCHEMA + "".join(f", {name} {column}" for name, column in kinds.items())
    url = request.getfixturevalue("new_postgresql_database")() if kind == "postgresql" else ""
    settings = make_settings(schema=schema, database=url)
    make_topic(settings.bronze_topic)
    fields = {"day": "2024-02-29", "seen": "2024-02-29T12:00:00Z", "good": True, "small": 3, "many": 2**53 + 1}
    numbers = [("9007199254740993.0001", "0.000000000001"), ("-12.5", "0"), ("null", "null")]
    for number, (price, tiny) in enumerate(numbers):  # as text: a float of Python's would not be exact
        text = event(number, price="PRICE", tiny="TINY", real=0.5, **fields).decode()
        put(settings.bronze_topic, [text.replace('"PRICE"', price).replace('"TINY"', tiny).encode()])
    put(settings.bronze_topic, [event(9, price="dear")])
    for _ in range(2):  # the second finds the table as it made it
        store.run(make_context(settings))
    found = rows(settings, f"event_id, {', '.join(kinds)}")
    assert [[None if value is None else f"{Decimal(value):f}" for value in row[1:3]] for row in found] == [
        ["9007199254740993.0001", "0.000000000001"], ["-12.5000", "0.000000000000"], [None, None],
    ]  # fmt: skip
    for row in found:
        assert str(row[3]) == "2024-02-29"
        assert str(row[4]).replace(" ", "T")[:19] == "2024-02-29T12:00:00"
        assert row[5:] == (True, 3, 2**53 + 1, 0.5)
    assert rejected(settings) == [(3, NOT_OF_SCHEMA)]


def test_what_no_text_can_hold(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any,
    new_postgresql_database: Callable[[], str],
) -> None:  # fmt: skip
    """An event with a NUL and records that are no text do not stop their batch, though PostgreSQL refuses both."""
    settings = make_settings(database=new_postgresql_database())
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1, kind="a\0b"), b"\0\xff\xfe", event(2)])
    store.run(make_context(settings))
    assert rows(settings, "event_id, kind") == [("e1", "a\ufffdb"), ("e2", None)]
    assert rejected(settings) == [(1, NOT_TEXT)]
    table = dataclasses.replace(settings, table=store.rejected_table(settings.table))
    assert rows(table, "source_offset, value") == [(1, "\\x00fffe")]


def test_what_latest_means_is_settled_once(
    strategy: str, make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any
) -> None:
    """With `latest` the first run settles where each partition begins: later records are stored, no earlier ones."""
    settings = make_settings(offsets=strategy, starting_offsets="latest")
    make_topic(settings.bronze_topic, 2)
    put(settings.bronze_topic, [{"value": event(n), "partition": n % 2} for n in range(4)])
    context = make_context(settings)
    assert store.run(context)["rows"] == 0
    put(settings.bronze_topic, [{"value": event(10), "partition": 1}])
    assert store.run(context)["rows"] == 1
    put(settings.bronze_topic, [{"value": event(n), "partition": 0} for n in (11, 12)])
    assert store.run(context)["rows"] == 2
    assert rows(settings) == [("e10",), ("e11",), ("e12",)]
    assert offsets(settings) == {0: 4, 1: 3}


def test_a_time_to_begin_with_is_settled_once(
    strategy: str, make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any
) -> None:
    """A partition without records after the time begins at its end, in later runs, too."""
    settings = make_settings(offsets=strategy, source={"startingTimestamp": "2000000"}, max_ahead="36500 days")
    make_topic(settings.bronze_topic, 2)
    records = [{"value": event(n), "partition": n % 2, "timestamp": 1_000_000 * (1 + n)} for n in range(2)]
    put(settings.bronze_topic, [*records, {"value": event(3), "partition": 1, "timestamp": 1_500_000}])
    assert store.run(make_context(settings))["rows"] == 2
    put(settings.bronze_topic, [{"value": event(4), "partition": 0, "timestamp": 5_000_000}])
    assert store.run(make_context(settings))["rows"] == 1
    assert rows(settings) == [("e1",), ("e3",), ("e4",)]


@pytest.mark.parametrize("name", ["subscribePattern", "startingOffsets"])
def test_sources_that_it_can_not_take(name: str) -> None:
    with pytest.raises(SettingsError, match=f"store knows its offsets by topic and partition, and can't take {name}"):
        store.check(Settings(source={name: "x"}))


def test_tasks_write_and_not_the_driver(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any,
    new_postgresql_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """PostgreSQL: each task copies its rows, here twice, as after an executor's death; nothing else is left there."""
    inserted = []

    def insert(self: Database, table: str, *arguments: Any) -> None:
        inserted.append(table)
        original(self, table, *arguments)

    def twice(url: str, table: str) -> Callable[[Any], None]:
        copy_rows = copying(url, table)

        def copy_twice(rows: Any) -> None:
            kept = list(rows)
            copy_rows(kept)
            copy_rows(kept)

        return copy_twice

    original, copying = Database.insert, store.copying
    monkeypatch.setattr(Database, "insert", insert)
    monkeypatch.setattr(store, "copying", twice)
    settings = make_settings(database=new_postgresql_database(), max_offsets_per_trigger=20)
    make_topic(settings.bronze_topic, 2)
    put(settings.bronze_topic, [{"value": event(n), "partition": n % 2} for n in range(50)] + [{"value": b"{"}])
    with plug_pulled(store.Staging, "drop"):  # so a table is left
        store.run(make_context(settings))
    store.run(make_context(settings))
    assert (len(rows(settings)), len(rejected(settings))) == (50, 1)
    assert not set(inserted) & {settings.table, store.rejected_table(settings.table)}
    database = open_database(settings.database_url)
    assert database.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'pipeline_staging%'") == []
    database.close()


def test_what_a_task_is_refused(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any,
    new_postgresql_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings = make_settings(database=new_postgresql_database())
    put(make_topic(settings.bronze_topic), [event(1)])
    copying = store.copying
    monkeypatch.setattr(store, "copying", lambda url, _: copying(url, "nowhere"))
    with pytest.raises(StoreError, match="the database refused what a task copied"):
        store.run(make_context(settings))
    assert rows(settings) == []


def test_a_refused_run_leaves_nothing(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, tmp_path: Path
) -> None:
    settings = make_settings()
    put(make_topic(settings.bronze_topic), [event(1)])
    wrong = dataclasses.replace(settings, schema=f"{EVENT_SCHEMA}, Source_Offset INT")
    with pytest.raises(SchemaError, match="a column Source_Offset, a name that the table has for the record's place"):
        store.run(make_context(wrong))
    unreachable = dataclasses.replace(settings, database="postgresql://127.0.0.1:1/nothing")
    with pytest.raises(StoreError, match="can't be reached"):
        store.run(make_context(unreachable))
    assert not (tmp_path / "data").exists()
    foreign = tmp_path / "data" / "checkpoints" / "store-events"
    foreign.mkdir(parents=True)
    (foreign / "metadata").write_text("{}")
    with pytest.raises(CheckpointError, match="was not made by this pipeline"):
        store.run(make_context(settings))
    assert not (tmp_path / "data" / "pipeline.db").exists()


def test_the_group_can_be_set_back(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, consumer_groups: Any
) -> None:
    """Records that the job reads again after `kafka-consumer-groups --reset-offsets` are not stored again."""
    settings = make_settings(offsets="kafka", group="set-back")
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n) for n in range(10)])
    context = make_context(settings)
    store.run(context)
    own = ["--group", "set-back", "--topic", settings.bronze_topic]
    consumer_groups(*own, "--reset-offsets", "--to-offset", "4", "--execute")
    put(settings.bronze_topic, [event(10)])
    assert store.run(context)["rows"] == 7
    assert len(rows(settings)) == 11


def test_a_partition_that_the_group_has_forgotten(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, consumer_groups: Any
) -> None:
    """A forgotten partition begins where the table ends, as after a group that is forgotten whole."""
    settings = make_settings(offsets="kafka", group="half-forgotten", starting_offsets="latest")
    make_topic(settings.bronze_topic, 2)
    put(settings.bronze_topic, [{"value": event(n), "partition": n % 2} for n in range(4)])
    context = make_context(settings)
    store.run(context)
    consumer_groups("--group", "half-forgotten", "--delete-offsets", "--topic", f"{settings.bronze_topic}:1")
    assert context.kafka.committed("half-forgotten", settings.bronze_topic) == {0: 2}
    put(settings.bronze_topic, [{"value": event(n), "partition": n % 2} for n in range(4, 6)])
    assert store.run(context)["rows"] == 2
    assert rows(settings, "event_id") == [("e4",), ("e5",)]


def test_the_store_decides_alone(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, tmp_path: Path
) -> None:
    """After a table and its offsets come back from a backup, the job goes on from the backup's offsets."""
    settings = make_settings(offsets="store")
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n) for n in range(10)])
    store.run(make_context(settings))
    database = open_database(settings.database_url)
    with database.transaction():
        database.execute('DELETE FROM "events" WHERE source_offset >= 6')
        database.execute("UPDATE pipeline_offsets SET next_offset = 6")
    database.close()
    assert store.run(make_context(settings))["rows"] == 4
    assert len(rows(settings)) == 10


def test_strategies_do_not_mix_unnoticed(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, tmp_path: Path
) -> None:
    settings = make_settings()
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1)])
    store.run(make_context(settings))
    by_store = dataclasses.replace(settings, offsets="store")
    put(settings.bronze_topic, [event(2)])
    store.run(make_context(by_store))  # knows what the other one wrote
    assert len(rows(settings)) == 2
    with pytest.raises(CheckpointError, match="was written with another checkpoint"):
        store.run(make_context(settings))
    assert len(rows(settings)) == 2
    by_group = dataclasses.replace(settings, offsets="kafka", starting_offsets="latest")
    put(settings.bronze_topic, [event(3)])
    assert store.run(make_context(by_group))["rows"] == 1  # a group without offsets goes on where the table ends
    assert len(rows(settings)) == 3


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_years_that_no_database_has(
    kind: str, request: pytest.FixtureRequest, make_settings: Any, make_context: Any, make_topic: Any, put: Any,
    event: Any,
) -> None:  # fmt: skip
    url = request.getfixturevalue("new_postgresql_database")() if kind == "postgresql" else ""
    settings = make_settings(schema=EVENT_SCHEMA + ", day DATE, seen TIMESTAMP", database=url)
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [
        event(0, day="0001-01-01", seen="0001-01-01T00:00:00Z"),
        event(1, day="9999-12-31", seen="9999-12-31T23:59:59.999999Z"),
        event(2, day="20224-02-29"),
        event(3, seen="20224-02-29T00:00:00Z"),
        event(4, day="-0044-03-15"),
        event(5, seen="-0044-03-15T00:00:00Z"),
    ])  # fmt: skip
    assert store.run(make_context(settings))["rejected"] == 4
    found = [(row[0], str(row[1]), str(row[2]).replace(" ", "T")[:19]) for row in rows(settings, "event_id, day, seen")]
    assert found == [("e0", "0001-01-01", "0001-01-01T00:00:00"), ("e1", "9999-12-31", "9999-12-31T23:59:59")]
    words = "{} is outside the years 1 to 9999"
    assert rejected(settings) == [(n, words.format("seen" if n % 2 else "day")) for n in range(2, 6)]


def test_columns_with_the_names_of_the_refused_ones(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any,
    new_postgresql_database: Callable[[], str],
) -> None:  # fmt: skip
    """An event may have columns that the table of refused records has, too: the copied rows have both."""
    schema = "value DOUBLE, event_id STRING, event_time TIMESTAMP, reason STRING"
    settings = make_settings(database=new_postgresql_database(), schema=schema)
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1, value=1.5, reason="r"), b"broken"])
    store.run(make_context(settings))
    assert rows(settings, "event_id, value, reason") == [("e1", 1.5, "r")]
    assert rejected(settings) == [(1, NOT_OF_SCHEMA)]
    table = dataclasses.replace(settings, table=store.rejected_table(settings.table))
    assert rows(table, "value") == [("broken",)]
