"""Many flows in one driver, with steps and rules of their own, by the command line.

A shop's: orders are joined with the products that they name (a stream with a static table), visits become sessions.
"""

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import rules, sessions, silver, tables
from pipeline.cli import main
from pipeline.errors import SchemaError, SettingsError
from pipeline.flows import flows_of
from pipeline.settings import Settings, load

pytestmark = pytest.mark.spark
Start = Callable[..., tuple[int, dict[str, Any], str]]
CONFIG = """
bootstrap_servers = "{servers}"
data_dir = "{folder}/data"

[flows.orders]
job = "silver"
bronze_topic = "{topic}.orders"
schema = "id STRING, at TIMESTAMP, product STRING, pieces INT, country STRING"
id_column = "id"
time_column = "at"
transform = "shop_steps:with_prices"
[flows.orders.rules.pieces]
column = "pieces"
min = 1
max = 100
[flows.orders.rules.country]
column = "country"
matches = "[a-z]{{2}}"
[flows.orders.rules."known product"]
column = "price"
not_null = true
[flows.orders.rules.product]
column = "product"
in = ["lamp", "desk", "tent"]

[flows.visits]
job = "sessions"
bronze_topic = "{topic}.visits"
watermark = "10 minutes"
key_column = "user_id"

[flows.stored]
job = "store"
bronze_topic = "{topic}.visits"
[flows.stored.rules.user]
column = "user_id"
not_null = true
"""
STEPS = """
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

def with_prices(orders):
    prices = orders.sparkSession.read.json({prices!r})
    return orders.join(prices, "product", "left").withColumn("total", F.col("pieces") * F.col("price"))

def forgetful(orders):
    return orders.select("id", "at")
"""


@pytest.fixture
def shop(settings: Settings, make_topic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings file of a shop with its topics, its steps and its prices."""
    for name in ("orders", "visits"):
        make_topic(f"{settings.bronze_topic}.{name}", 2)
    monkeypatch.delitem(sys.modules, "shop_steps", raising=False)  # of another test, with its folder
    (tmp_path / "prices.json").write_text('{"product": "lamp", "price": 20.5}\n{"product": "desk", "price": 100.0}\n')
    (tmp_path / "shop_steps.py").write_text(STEPS.format(prices=str(tmp_path / "prices.json")))
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "shop.toml"
    text = CONFIG.format(servers=settings.bootstrap_servers, folder=tmp_path, topic=settings.bronze_topic)
    file.write_text(text)
    return file


@pytest.fixture
def start(capsys: pytest.CaptureFixture[str]) -> Start:
    """Runs the command line; exit code, what it did, what it said."""

    def run(*argv: str) -> tuple[int, dict[str, Any], str]:
        code = main(argv)
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else {}, err

    return run


def order(number: int, **changes: Any) -> bytes:
    order = {"id": f"o{number}", "at": "2024-05-01T10:00:00Z", "product": "lamp", "pieces": 2, "country": "de"}
    return json.dumps(order | changes).encode()


def test_a_shop(
    shop: Path, start: Start, settings: Settings, put: Any, event: Any, spark: SparkSession, tmp_path: Path,
    table_format: str,
) -> None:  # fmt: skip
    shop.write_text(f'table_format = "{table_format}"\n{shop.read_text()}')
    orders = [order(1), order(2, product="desk"), order(3, product="tent"), order(4, pieces=0, country="Germany")]
    put(f"{settings.bronze_topic}.orders", [*orders, order(5, pieces=None), order(6, product="boat"), b"{"])
    visits = [event(n, at=minute) for n, minute in enumerate([0, 20, 45, 100, 110, 300])]
    visits = [visit.replace(f"u{n % 5}".encode(), b"u1") for n, visit in enumerate(visits)]
    put(f"{settings.bronze_topic}.visits", [*visits, visits[0], event(9, at=301, user_id=None)])
    code, done, words = start("flows", "--config", str(shop))
    assert (code, words) == (0, "")
    assert done["flows"]["orders"]["accepted"] == 3
    assert done["flows"]["orders"]["rules"] == {"pieces": 1, "country": 1, "known product": 2, "product": 1}
    assert (done["flows"]["orders"]["quarantined"], done["flows"]["orders"]["rejected"]) == (3, 4)
    data = Settings(data_dir=str(tmp_path / "data" / "orders"))
    rows = tables.read(spark, silver.table_path(data)).select("id", "total").collect()
    assert sorted((row.id, row.total) for row in rows) == [("o1", 41.0), ("o2", 200.0), ("o5", None)]
    kept = tables.read(spark, rules.quarantine_path(data)).select("id", "rules", "value").collect()
    assert {row.id: row.rules for row in kept} == {
        "o3": ["known product"], "o4": ["pieces", "country"], "o6": ["known product", "product"],
    }  # fmt: skip
    assert {row.value.encode() for row in kept} == {orders[2], orders[3], order(6, product="boat")}

    found = tables.read(spark, sessions.table_path(Settings(data_dir=str(tmp_path / "data" / "visits"))))
    times = found.select(*(F.date_format(name, "HH:mm") for name in ("session_start", "last_event")), "events")
    assert sorted(tuple(row) for row in times.collect()) == [("00:00", "00:45", 3), ("01:40", "01:50", 2)]

    with closing(sqlite3.connect(tmp_path / "data" / "stored" / "pipeline.db")) as connection:
        stored = connection.execute("SELECT count(*) FROM stored").fetchone()
        refused = connection.execute("SELECT reason FROM stored_rejected").fetchall()
    assert (stored, refused) == ((7,), [("breaks the rules: user",)])


def test_a_second_run_goes_on(shop: Path, start: Start, settings: Settings, put: Any, event: Any) -> None:
    put(f"{settings.bronze_topic}.orders", [order(1), order(2, pieces=-1)])
    assert start("flows", "--config", str(shop))[1]["flows"]["orders"]["accepted"] == 1
    put(f"{settings.bronze_topic}.orders", [order(1), order(3)])
    code, done, _ = start("flows", "--config", str(shop))
    assert (code, done["flows"]["orders"]["accepted"], done["flows"]["orders"]["duplicates"]) == (0, 1, 1)
    assert done["flows"]["stored"]["rows"] == 0


def test_one_that_fails_ends_all(shop: Path, start: Start, settings: Settings, put: Any) -> None:
    put(f"{settings.bronze_topic}.orders", [order(1)])
    shop.write_text(shop.read_text().replace("shop_steps:with_prices", "shop_steps:forgetful"))
    code, _, words = start("flows", "--config", str(shop), "--trigger", "asap")
    assert code == 5
    assert words.startswith("flows: flow orders: transform shop_steps:forgetful has to keep the columns _key, _value")


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        (
            'job = "sessions"',
            'job = "demo"',
            2,
            "flow visits: job is 'demo', and can be bronze, silver, aggregate, store",
        ),
        ("min = 1", "least = 1", 2, "flow orders: rule pieces: there is no least; there are column, min"),
        ('column = "price"', 'column = "prize"', 5, "flow orders: rule known product: there is no column prize"),
        ('matches = "[a-z]{2}"', 'matches = "["', 2, "flow orders: rule country: matches is no regular expression"),
        ("shop_steps:with_prices", "shop_steps:none", 2, "transform is 'shop_steps:none', and can't be imported"),
        ('watermark = "10 minutes"', "colour = 1", 2, "flow visits: colour: there is no such setting"),
        ('.visits"\nwatermark', '.nowhere"\nwatermark', 4, "nowhere at"),
    ],
)
def test_what_is_refused(shop: Path, start: Start, old: str, new: str, code: int, words: str) -> None:
    assert old in shop.read_text()
    shop.write_text(shop.read_text().replace(old, new))
    result, _, said = start("flows", "--config", str(shop))
    assert (result, words in said) == (code, True), said


@pytest.mark.parametrize(("job", "name"), [("bronze", "rules"), ("sessions", "rules"), ("route", "transform")])
def test_a_step_that_the_job_does_not_take(job: str, name: str, shop: Path, start: Start) -> None:
    """At the top of the file they are for all flows: sessions and route went on as if they were not there."""
    step = '[rules.country]\ncolumn = "country"\nnot_null = true' if name == "rules" else 'transform = "shop_steps:f"'
    shop.write_text(f'{step}\n[flows.one]\njob = "{job}"\nto_topic = "good"\n')
    code, _, words = start("flows", "--config", str(shop))
    assert (code, words) == (2, f"flows: {job} takes no {name}\n")


def test_a_secret_is_no_text_with_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password with `${...}` in it was refused, or changed, where a flow had it from the top of the file."""
    monkeypatch.setenv("SECRET", "a${NOWHERE}b")
    file = tmp_path / "flows.toml"
    file.write_text('database = "postgresql://u:${SECRET}@h/d"\n[flows.one]\njob = "store"\n')
    (flow,) = flows_of(load("flows", {"config": str(file)}))
    assert flow.settings.database == "postgresql://u:a${NOWHERE}b@h/d"


def test_flows_have_brokers_and_metrics_of_their_own(
    shop: Path, start: Start, settings: Settings, make_context: Any
) -> None:
    """The brokers of the file's top were asked for the topics of all flows, and no flow's topic of metrics was made."""
    shop.write_text(
        f'[flows.one]\njob = "bronze"\nbootstrap_servers = "{settings.bootstrap_servers}"\n'
        f'data_dir = "{shop.parent}/data"\nbronze_topic = "{settings.bronze_topic}.visits"\n'
        'metrics_topic = "own-metrics"\n'
    )
    code, done, words = start("flows", "--config", str(shop), "--bootstrap-servers", "127.0.0.1:1")
    assert (code, done["flows"]["one"]["rows"]) == (0, 0), words
    assert make_context(settings).kafka.partitions("own-metrics")


def test_without_a_file(start: Start) -> None:
    assert start("flows")[0::2] == (
        2,
        "flows: there are no flows: the settings file has them as tables, [flows.NAME]\n",
    )


@pytest.mark.parametrize(
    ("rule", "values", "broken"),
    [
        ({"min": 2}, [1, 2, None], [1]),
        ({"min": 1, "max": 2}, [0, 1, 2, 3], [0, 3]),
        ({"in": [1, 3]}, [1, 2, None], [2]),
        ({"not_null": True, "max": 5}, [1, 6, None], [6, None]),
        ({"matches": "1."}, [1, 12, 123], [1, 123]),
    ],
)
def test_rules(spark: SparkSession, rule: dict[str, Any], values: list[Any], broken: list[Any]) -> None:
    frame: DataFrame = spark.createDataFrame([(value,) for value in values], "value INT")
    found = frame.where(rules.is_broken({"column": "value", **rule})).collect()
    assert [row.value for row in found] == broken


@pytest.mark.parametrize(
    ("rule", "kind", "error"),
    [
        ({"min": 5}, "STRING", "rule r: min has 5, which can't be compared with column value, which is string"),
        ({"in": ["a", 1]}, "STRING", "in has 1, which"),
        ({"in": ["1", "a"]}, "INT", "in has 'a', which"),
        ({"in": [1, None]}, "INT", "in has None, which"),
        ({"min": True}, "INT", "min has True, which"),
        ({"max": 2**63}, "BIGINT", "max has 9223372036854775808, which"),
        ({"max": float("nan")}, "DOUBLE", "max has nan, which"),
        ({"max": 1}, "BOOLEAN", "max has 1, which"),
        ({"max": "soon"}, "TIMESTAMP", "max has 'soon', which"),
        ({"max": 3}, "DATE", "max has 3, which"),
        ({"in": ["a"]}, "ARRAY<STRING>", "in has 'a', which"),
        ({"matches": "(?P<name>x)"}, "STRING", "rule r: matches is no regular expression of Java's"),
        ({"matches": "(?x)a # b"}, "STRING", "rule r: matches is no regular expression of Java's"),
        ({"min": "a", "matches": "x+"}, "STRING", ""),
        ({"min": "2024", "max": datetime(2025, 1, 1)}, "TIMESTAMP", ""),
        ({"min": date(2024, 1, 1), "max": "2025-01-01"}, "DATE", ""),
        ({"min": -1.5, "max": "7", "in": [3]}, "DECIMAL(12,2)", ""),
        ({"in": [True]}, "BOOLEAN", ""),
    ],
)
def test_rules_that_no_column_can_be_judged_by(
    spark: SparkSession, rule: dict[str, Any], kind: str, error: str
) -> None:
    """Spark would compare the column with a cast, and end the job at the first record that the cast refuses."""
    frame = spark.createDataFrame([], f"value {kind}")
    named = {"r": {"column": "value", **rule}}
    if not error:
        rules.require(named, frame.schema, spark)
        assert frame.where(rules.is_broken(named["r"])).collect() == []
        return
    with pytest.raises((SchemaError, SettingsError), match=re.escape(error)):
        rules.require(named, frame.schema, spark)


def test_rules_on_the_command_line() -> None:
    rule = '{"column": "amount", "min": 0}'
    assert load("silver", {"rules": [f"amount={rule}"]}, {}).rules == {"amount": json.loads(rule)}
    assert load("silver", {}, {"PIPELINE_RULES": f'{{"amount": {rule}}}'}).rules == {"amount": json.loads(rule)}


@pytest.mark.parametrize("name", ["events", "Session_Start", "batch"])
def test_a_key_with_the_name_of_a_column_of_sessions(name: str, make_settings: Any, make_context: Any) -> None:
    settings = make_settings(key_column=name, schema=f"event_id STRING, event_time TIMESTAMP, {name} STRING")
    with pytest.raises(SchemaError, match=f"a column {name}, a name that the table of sessions has for itself"):
        sessions.run(make_context(settings))
