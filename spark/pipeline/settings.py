"""The settings of all jobs. Rule: command line over environment over file over default, and every value has a type.

--topic-partitions 6            on the command line
PIPELINE_TOPIC_PARTITIONS=6     in the environment
topic_partitions = 6            in the file of --config: at its top, or in the table of one job ([silver])
"""

from __future__ import annotations

import argparse
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from pipeline.errors import SettingsError

ENVIRONMENT_PREFIX = "PIPELINE_"
EVENT_SCHEMA = (
    "event_id STRING, event_time TIMESTAMP, user_id STRING, kind STRING, product STRING, country STRING, amount DOUBLE"
)
JOBS = ("generate", "ingest", "silver", "aggregate", "store", "replay", "compacted", "report", "demo")
TABLE_NAME = re.compile(r"\w+")  # it is also part of a path
OWN_TABLES = ("windows", "pipeline_offsets", "pipeline_progress")
INTERVAL = re.compile(r"(\d+) (millisecond|second|minute|hour|day)s?")
UNITS_S = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
MOST_WATERMARK_S = 3650 * 86400
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def about(help_text: str, jobs: str = "", choices: tuple[str, ...] = ()) -> dict[str, Any]:
    """What is known of a setting; `jobs` are those that use it, none meaning all."""
    return {"help": help_text, "jobs": tuple(jobs.split()), "choices": choices}


def setting(default: Any, help_text: str, jobs: str = "", choices: tuple[str, ...] = ()) -> Any:
    """A field of `Settings`."""
    return field(default=default, metadata=about(help_text, jobs, choices))


@dataclass(frozen=True)
class Settings:
    """Every field has its default, its words and its jobs in one place."""

    # Where things are
    bootstrap_servers: str = setting("127.0.0.1:9092", "the brokers, HOST:PORT[,HOST:PORT...]")
    kafka: dict[str, str] = field(
        default_factory=dict, metadata=about("a config of Spark's (Java) Kafka clients, such as security.protocol=SSL")
    )
    client: dict[str, str] = field(
        default_factory=dict, metadata=about("a config of the driver's own (librdkafka) client")
    )
    connect_timeout_s: float = setting(10.0, "how long the brokers may take to answer the first request")
    data_dir: str = setting("pipeline-data", "where tables, checkpoints and the SQLite file go; any path of Hadoop's")
    master: str = setting("", "Spark's master; none: what spark-submit says, otherwise local[*]")
    spark: dict[str, str] = field(
        default_factory=dict, metadata=about("a config of Spark, such as spark.executor.memory=4g")
    )
    jars: str = setting("", "the connector's jars with commas between; none: found or fetched for this pyspark")
    shuffle_partitions: int = setting(4, "partitions of a shuffle")

    # Topics
    bronze_topic: str = setting("events", "the raw events", "ingest silver aggregate store replay demo")
    dead_letter_topic: str = setting("events.dead-letter", "records that don't parse", "silver demo")
    windows_topic: str = setting("events.windows", "results of the aggregation, compacted", "aggregate compacted demo")
    metrics_topic: str = setting("", "metrics of every batch; none: not written", "silver aggregate store report")
    create_topics: bool = setting(True, "whether topics that a job writes to are created", "ingest silver aggregate")
    topic_partitions: int = setting(3, "partitions of topics that are created", "ingest silver aggregate replay")

    # What an event is
    schema: str = setting(EVENT_SCHEMA, "columns of an event as DDL", "ingest silver aggregate store replay")
    id_column: str = setting("event_id", "tells events apart: text, whole number or time", "silver aggregate replay")
    time_column: str = setting("event_time", "when an event happened", "silver aggregate store replay")
    date_column: str = setting("date", "what tables are partitioned by: the event's date", "silver replay")
    max_ahead: str = setting(
        "1 day", "an event further ahead of its record's timestamp is refused", "silver aggregate store replay"
    )
    max_behind: str = setting(
        "18250 days", "an event further behind its record's timestamp is refused", "silver aggregate store replay"
    )
    key_column: str = setting("user_id", "key of the records", "ingest")
    group_column: str = setting("country", "windows are counted per value of this column", "aggregate")
    value_column: str = setting("amount", "the number that windows add up", "aggregate")

    # Streams
    trigger: str = setting(
        "available-now", "available-now, asap, or an interval: '5 seconds'", "silver aggregate store"
    )
    max_offsets_per_trigger: int = setting(100_000, "records of a batch at most, 0: no limit", "silver aggregate store")
    starting_offsets: str = setting(
        "earliest", "where a first run begins", choices=("earliest", "latest"), jobs="silver aggregate store"
    )
    watermark: str = setting(
        "1 day",
        "an event further behind the newest counts as late; ids are looked for as far around",
        "silver aggregate",
    )
    window: str = setting("5 minutes", "length of a window", "aggregate")
    fail_on_data_loss: bool = setting(True, "end when records are gone before they were read", "silver aggregate store")
    isolation_level: str = setting(
        "read_committed", "of readers", choices=("read_committed", "read_uncommitted"), jobs="silver aggregate store"
    )
    group: str = setting("", "commit the offsets of every finished batch to this group", "silver aggregate store")
    prometheus_file: str = setting("", "metrics for Prometheus' textfile collector", "silver aggregate store")
    stop_timeout_s: float = setting(30.0, "how long a running batch may take after SIGTERM", "silver aggregate store")

    # Single jobs
    input: str = setting("", "a file or folder", "ingest")
    input_format: str = setting("", "none: by the file's ending", "ingest", choices=("", "jsonl", "csv", "parquet"))
    input_time_format: str = setting("", "of a CSV file's times, such as yyyy/MM/dd; none: ISO 8601", "ingest")
    database: str = setting(
        "", "sqlite:///PATH or postgresql://...; none: SQLite in data_dir", "store aggregate report"
    )
    table: str = setting("events", "where rows go", "store")
    offsets: str = setting(
        "checkpoint", "who remembers how far the store job is", "store", choices=("checkpoint", "kafka", "store")
    )
    topic: str = setting("", "the topic to read; none: the job's usual one", "replay compacted")
    from_offsets: str = setting("", 'JSON {"PARTITION": OFFSET}; other partitions from their start', "replay")
    to_offsets: str = setting("", "the same for the end, exclusive", "replay")
    from_timestamp: str = setting("", "ISO 8601, by the records' timestamps", "replay")
    to_timestamp: str = setting("", "ISO 8601, exclusive", "replay")
    to_topic: str = setting("", "replay into this topic", "replay")
    to_path: str = setting("", "replay into this table of Parquet files; none: DATA_DIR/replay", "replay")
    output: str = setting("", "the file to write", "generate report")
    events: int = setting(20_000, "how many events", "generate demo")
    seed: int = setting(7, "same seed, same events", "generate demo")
    users: int = setting(500, "how many users; few of them make most events", "generate demo")
    late_share: float = setting(0.02, "share of events that come hours late", "generate demo")
    broken_share: float = setting(0.01, "share of lines that are no event", "generate demo")
    duplicate_share: float = setting(0.02, "share of events that come twice", "generate demo")

    def path(self, name: str) -> str:
        return f"{self.data_dir.rstrip('/')}/{name}"

    def local_path(self, name: str, instead: str) -> str:
        """A file that needs a disk of this machine; `instead` is the setting that can name another place."""
        if not is_local(self.data_dir):
            raise SettingsError(
                f"{instead} is not set, and {name} can't be in data_dir, {self.data_dir}: not a local disk"
            )
        path = self.path(name)
        return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.local_path('pipeline.db', 'database')}"


TYPES = get_type_hints(Settings)


def is_local(path: str) -> bool:
    return ":" not in path or path.startswith("file:")


def fields_of(job: str) -> list[Field[Any]]:
    return [f for f in fields(Settings) if not f.metadata["jobs"] or job in f.metadata["jobs"]]


def add_arguments(parser: argparse.ArgumentParser, job: str) -> None:
    """One option for every setting of the job."""
    parser.add_argument("--config", metavar="FILE", help="settings as TOML")
    for f in fields_of(job):
        option = "--" + f.name.replace("_", "-")
        if TYPES[f.name] == dict[str, str]:
            parser.add_argument(option, dest=f.name, action="append", metavar="KEY=VALUE", help=f.metadata["help"])
        else:
            default = f" [{f.default}]" if f.default not in ("", EVENT_SCHEMA) else ""
            parser.add_argument(option, dest=f.name, metavar="VALUE", help=f.metadata["help"] + default)


def load(
    job: str, arguments: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """The settings of one run, from all four places."""
    environment = os.environ if environment is None else environment
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    file_name = given.pop("config", None) or environment.get(ENVIRONMENT_PREFIX + "CONFIG")
    values: dict[str, Any] = {}
    if file_name:
        values.update(_from_file(Path(file_name), job))
    values.update(_from_environment(environment))
    values.update({name: _convert(name, value, "--" + name.replace("_", "-")) for name, value in given.items()})
    return _checked(Settings(**values))


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for f in fields(Settings):
        name = ENVIRONMENT_PREFIX + f.name.upper()
        if name in environment:
            found[f.name] = _convert(f.name, environment[name], name)
    return found


def _from_file(path: Path, job: str) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"the settings in {path} can't be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    tables = {name: value for name, value in content.items() if name in JOBS and isinstance(value, dict)}
    common = {name: value for name, value in content.items() if name not in tables}
    values = {}
    for source in (common, tables.get(job, {})):
        for name, value in source.items():
            if name not in TYPES:
                raise SettingsError(f"{path}: there is no setting {name}")
            values[name] = _convert(name, value, f"{path}: {name}")
    return values


def _convert(name: str, value: Any, where: str) -> Any:
    """Text or a value of TOML as the type of the setting; `where` is for the message."""
    wanted = TYPES[name]
    try:
        if get_origin(wanted) is dict:
            return _pairs(value)
        if wanted is bool:
            return _truth(value)
        if isinstance(value, (dict, list)) or (isinstance(value, bool) and wanted is not str):
            raise ValueError(f"not {wanted.__name__}")
        return wanted(value)
    except ValueError as error:
        kind = "KEY=VALUE" if get_args(wanted) else wanted.__name__
        raise SettingsError(f"{where}: {value!r} is not of the form {kind}") from error


def _truth(value: Any) -> bool:
    text = str(value).lower()
    if text not in TRUE + FALSE:
        raise ValueError(value)
    return text in TRUE


def _pairs(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {key: str(item) for key, item in value.items()}
    texts = [text.strip() for text in value.split(",")] if isinstance(value, str) else value
    if not all("=" in text for text in texts):
        raise ValueError(value)
    return dict(text.split("=", 1) for text in texts)


def _checked(settings: Settings) -> Settings:
    for f in fields(Settings):
        choices, value = f.metadata["choices"], getattr(settings, f.name)
        if choices and value not in choices:
            raise SettingsError(f"{f.name} is {value!r}, and can be {', '.join(c for c in choices if c)}")
    for name in ("shuffle_partitions", "topic_partitions", "connect_timeout_s", "users"):
        if getattr(settings, name) <= 0:
            raise SettingsError(f"{name} has to be above 0")
    for name in ("late_share", "broken_share", "duplicate_share"):
        if not 0 <= getattr(settings, name) < 1:
            raise SettingsError(f"{name} has to be at least 0 and below 1")
    if settings.trigger not in ("available-now", "asap"):
        _require_interval(settings.trigger, "trigger", "available-now, asap, or an interval like '5 seconds'")
    for name in ("watermark", "window", "max_ahead", "max_behind"):
        _require_interval(getattr(settings, name), name, "an interval like '5 minutes'")
    if seconds_of(settings.watermark) > MOST_WATERMARK_S:
        raise SettingsError("watermark has to be at most 3650 days: ids are looked for as far around")
    if not TABLE_NAME.fullmatch(settings.table):
        raise SettingsError(f"table is {settings.table!r}, and can have letters, digits and underscores")
    if settings.table.lower() in OWN_TABLES:
        raise SettingsError(f"table is {settings.table!r}, and {', '.join(OWN_TABLES)} are the pipeline's own")
    _require_different_topics(settings)
    if settings.max_offsets_per_trigger < 0:
        raise SettingsError("max_offsets_per_trigger has to be at least 0")
    return settings


def _require_different_topics(settings: Settings) -> None:
    """A job that wrote to the topic that it reads would feed itself."""
    found: dict[str, str] = {}
    for name in ("bronze_topic", "dead_letter_topic", "windows_topic", "metrics_topic"):
        topic = getattr(settings, name)
        if topic and topic in found:
            raise SettingsError(f"{found[topic]} and {name} are both {topic}, and have to be different topics")
        found[topic] = name


def _require_interval(text: str, name: str, words: str) -> None:
    if not INTERVAL.fullmatch(text):
        raise SettingsError(f"{name} is {text!r}, and can be {words}")


def seconds_of(interval: str) -> float:
    """Return `10 minutes` in seconds."""
    match = INTERVAL.fullmatch(interval)
    if match is None:
        raise SettingsError(f"{interval!r} is no interval")
    return int(match[1]) * UNITS_S[match[2]]
