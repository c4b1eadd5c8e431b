"""The settings of all jobs. Rule: command line over environment over file over default, and every value has a type.

--topic-partitions 6            on the command line
PIPELINE_TOPIC_PARTITIONS=6     in the environment
topic_partitions = 6            in the file of --config: at its top, or in the table of one job ([silver])
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from pipeline import source
from pipeline.errors import SettingsError, perhaps
from pipeline.security import check as check_security
from pipeline.security import java_config, librdkafka_config

ENVIRONMENT_PREFIX = "PIPELINE_"
EVENT_SCHEMA = (
    "event_id STRING, event_time TIMESTAMP, user_id STRING, kind STRING, product STRING, country STRING, amount DOUBLE"
)
JOBS = {  # and what each does
    "generate": "event data, seeded",
    "ingest": "files to a topic, repeatable",
    "bronze": "a topic to a table, every record as it is",
    "silver": "a topic to a table, bad records to a dead-letter topic",
    "aggregate": "windows of event time to a table and a compacted topic",
    "store": "a topic into SQLite or PostgreSQL, exactly once",
    "sessions": "what a user did without a long pause, to a table",
    "route": "good records to another topic, bad ones to dead letters, in real time",
    "replay": "a bounded part of a topic once more",
    "compacted": "the latest value of every key of a topic as a table",
    "compact": "small files of tables, put together",
    "report": "an HTML page with plots of a run",
    "flows": "several jobs at once, as the settings file names them",
    "new": "a project of your own, with tests, in the folder --output",
    "demo": "all of it on a broker of its own, checked against plain Python",
}
RULE_KEYS = ("column", "min", "max", "in", "matches", "not_null")
TABLE_NAME = re.compile(r"\w+")  # it is also part of a path
DATE_COLUMN = re.compile(r"[^\W\d_]\w*")
OWN_PARTITIONS = ("batch", "replay")
OWN_TABLES = ("windows", "pipeline_offsets", "pipeline_progress")
INTERVAL = re.compile(r"(\d+) (millisecond|second|minute|hour|day)s?")
UNITS_S = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
JSON, AVRO, PROTOBUF = "json", "avro", "protobuf"
PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
ABOVE_0 = (
    "shuffle_partitions",
    "topic_partitions",
    "connect_timeout_s",
    "users",
    "max_files_per_trigger",
    "target_file_mb",
)
VARIABLE = re.compile(r"\$\{(\w+)\}")
WITH_SECRETS = ("security", "database", "schema_registry")
REALTIME = "realtime"  # also with the length of its batches: realtime 30 seconds
SHORTEST_REALTIME_S = 5
MOST_WATERMARK_S = 3650 * 86400
WITH_A_STEP = "silver aggregate store"
READERS = "silver aggregate store sessions route"  # the jobs that run a stream of events
STREAMS = f"bronze {READERS} flows"
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def about(help_text: str, jobs: str = "", choices: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what is known of a setting. jobs: those that use it, none meaning all."""
    return {"help": help_text, "jobs": tuple(jobs.split()), "choices": choices}


def setting(default: Any, help_text: str, jobs: str = "", choices: tuple[str, ...] = ()) -> Any:
    """Return a field of `Settings`."""
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
    security: dict[str, str] = field(
        default_factory=dict,
        metadata=about("protocol, mechanism, username, password, ca_file, ... of all clients; ${NAME}: a variable"),
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
    bronze_topic: str = setting("events", "the raw events", f"ingest bronze {READERS} replay demo")
    dead_letter_topic: str = setting(
        "", "records that don't parse; none: the topic of the raw events with .dead-letter", "silver route demo"
    )
    windows_topic: str = setting(
        "",
        "results of the aggregation, compacted; none: the topic of the raw events with .windows",
        "aggregate compacted demo",
    )
    metrics_topic: str = setting("", "metrics of every batch; none: not written", f"{STREAMS} report")
    create_topics: bool = setting(True, "whether topics that a job writes to are created", f"ingest {STREAMS} replay")
    topic_partitions: int = setting(3, "partitions of topics that are created", f"ingest {STREAMS} replay")

    # What an event is
    schema: str = setting(EVENT_SCHEMA, "columns of an event as DDL", f"ingest {READERS} replay")
    id_column: str = setting("event_id", "tells events apart: text, whole number or time", f"{READERS} replay")
    time_column: str = setting("event_time", "when an event happened", f"{READERS} replay")
    date_column: str = setting("date", "what tables are partitioned by: the event's date", "silver replay")
    value_format: str = setting("json", "what the values are", f"{READERS} replay", choices=(JSON, AVRO, PROTOBUF))
    schema_registry: str = setting(
        "", "URL of the registry with the writers' schemas; http://${USER}:${PASSWORD}@HOST", f"{READERS} replay"
    )
    schema_registry_ca_file: str = setting(
        "", "PEM file with the authorities that the registry's certificate is judged by", f"{READERS} replay"
    )
    unknown_column: str = setting(
        "",
        "keeps fields that the schema lacks, as a JSON object; none: unknown_fields, and with json dropped",
        f"{READERS} replay",
    )
    max_ahead: str = setting(
        "1 day", "an event further ahead of its record's timestamp is refused", f"{READERS} replay"
    )
    max_behind: str = setting(
        "18250 days", "an event further behind its record's timestamp is refused", f"{READERS} replay"
    )
    key_column: str = setting("user_id", "key of the records; whose sessions they are", "ingest sessions")
    group_column: str = setting("country", "windows are counted per value of this column", "aggregate")
    value_column: str = setting("amount", "the number that windows add up", "aggregate")

    # Tables
    table_format: str = setting(
        PARQUET,
        "delta and iceberg need a PySpark that they work with",
        "bronze silver aggregate sessions replay compacted compact",
        choices=(PARQUET, DELTA, ICEBERG),
    )
    from_bronze: str = setting("", "the folder of a bronze table to read; none: the topic", "silver")
    target_file_mb: int = setting(128, "size of the files that small ones are put together to", "compact")
    max_files_per_trigger: int = setting(100, "files of a bronze table in a batch", "silver")

    # What is done with events on their way
    transform: str = setting(
        "", "a step of your own, package.module:function, DataFrame to DataFrame", f"{WITH_A_STEP} flows"
    )
    rules: dict[str, Any] = field(
        default_factory=dict,
        metadata=about(
            "rules of quality by name: column, and min, max, in, matches or not_null", f"{WITH_A_STEP} route flows"
        ),
    )
    flows: dict[str, Any] = field(
        default_factory=dict, metadata=about("flows by name: job, and settings of the job", "flows")
    )

    # Streams
    trigger: str = setting(
        "available-now", "available-now, asap, an interval: '5 seconds', or for route realtime", STREAMS
    )
    max_offsets_per_trigger: int = setting(100_000, "records of a batch at most, 0: no limit", STREAMS)
    starting_offsets: str = setting(
        "earliest", "where a first run begins", choices=("earliest", "latest"), jobs=STREAMS
    )
    source: dict[str, str] = field(
        default_factory=dict,
        metadata=about("an option of Spark's Kafka source, such as minPartitions=12", f"bronze {READERS} replay"),
    )
    watermark: str = setting(
        "1 day",
        "an event further behind the newest counts as late; ids are looked for as far around",
        "silver aggregate sessions",
    )
    gap: str = setting("30 minutes", "the pause that ends a session", "sessions")
    window: str = setting("5 minutes", "length of a window", "aggregate")
    fail_on_data_loss: bool = setting(True, "end when records are gone before they were read", STREAMS)
    isolation_level: str = setting(
        "read_committed", "of readers", choices=("read_committed", "read_uncommitted"), jobs=STREAMS
    )
    group: str = setting("", "commit the offsets of every finished batch to this group", STREAMS)
    prometheus_file: str = setting("", "metrics for Prometheus' textfile collector", STREAMS)
    stop_timeout_s: float = setting(30.0, "how long a running batch may take after SIGTERM", STREAMS)

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
    to_topic: str = setting("", "replay into this topic; where route's good records go", "replay route")
    to_path: str = setting("", "replay into this table; none: DATA_DIR/replay", "replay")
    output: str = setting("", "the file to write, or the folder of a new project", "generate report new")
    events: int = setting(20_000, "how many events", "generate demo")
    seed: int = setting(7, "same seed, same events", "generate demo")
    users: int = setting(500, "how many users; few of them make most events", "generate demo")
    late_share: float = setting(0.02, "share of events that come hours late", "generate demo")
    broken_share: float = setting(0.01, "share of lines that are no event", "generate demo")
    duplicate_share: float = setting(0.02, "share of events that come twice", "generate demo")

    def __post_init__(self) -> None:
        for name, ending in (("dead_letter_topic", "dead-letter"), ("windows_topic", "windows")):
            if not getattr(self, name):
                object.__setattr__(self, name, f"{self.bronze_topic}.{ending}")

    def path(self, name: str) -> str:
        return f"{self.data_dir.rstrip('/')}/{name}"

    def local_path(self, name: str, instead: str) -> str:
        """Return a file that needs a disk of this machine; `instead` is the setting that can name another place."""
        if not is_local(self.data_dir):
            raise SettingsError(
                f"{instead} is not set, and {name} can't be in data_dir, {self.data_dir}: not a local disk"
            )
        return local(self.path(name))

    @property
    def is_realtime(self) -> bool:
        """Return whether Spark's real-time mode is asked for."""
        return self.trigger.startswith(REALTIME)

    @property
    def unknown_fields(self) -> str:
        """Return the column for fields that the schema lacks; empty where they are dropped."""
        return self.unknown_column or ("" if self.value_format == JSON else "unknown_fields")

    @property
    def java_config(self) -> dict[str, str]:
        """Return the configs of Spark's Kafka clients."""
        return java_config(self.security) | self.kafka

    @property
    def client_config(self) -> dict[str, str]:
        """Return the configs of the driver's own Kafka client."""
        return librdkafka_config(self.security) | self.client

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.local_path('pipeline.db', 'database')}"


TYPES = get_type_hints(Settings)


def is_local(path: str) -> bool:
    return ":" not in path or path.startswith("file:")


def local(path: str) -> str:
    """Return a path on this machine's disk without its scheme."""
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path


def fields_of(job: str) -> list[Field[Any]]:
    return [f for f in fields(Settings) if not f.metadata["jobs"] or job in f.metadata["jobs"]]


def add_arguments(parser: argparse.ArgumentParser, job: str) -> None:
    """Add an option for every setting of the job."""
    parser.add_argument("--config", metavar="FILE", help="settings as TOML")
    for f in fields_of(job):
        option = "--" + f.name.replace("_", "-")
        if get_origin(TYPES[f.name]) is dict:
            words = "NAME=JSON" if TYPES[f.name] == dict[str, Any] else "KEY=VALUE"
            parser.add_argument(option, dest=f.name, action="append", metavar=words, help=f.metadata["help"])
        else:
            default = f" [{f.default}]" if f.default not in ("", EVENT_SCHEMA) else ""
            parser.add_argument(option, dest=f.name, metavar="VALUE", help=f.metadata["help"] + default)


def load(
    job: str, arguments: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings of one run, from all four places."""
    environment = os.environ if environment is None else environment
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    file_name = given.pop("config", None) or environment.get(ENVIRONMENT_PREFIX + "CONFIG")
    values: dict[str, Any] = {}
    if file_name:
        values.update(_from_file(Path(file_name), job))
    values.update(_from_environment(environment))
    values.update({name: converted(name, value, "--" + name.replace("_", "-")) for name, value in given.items()})
    settings = Settings(**with_secrets(values, environment))
    check(settings)
    require_trigger(job, settings)
    return settings


def require_trigger(job: str, settings: Settings) -> None:
    if settings.is_realtime and job not in ("route", "flows"):
        raise SettingsError(f"trigger is {settings.trigger!r}: real-time mode is for the job route alone")


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for f in fields(Settings):
        name = ENVIRONMENT_PREFIX + f.name.upper()
        if name in environment:
            found[f.name] = converted(f.name, environment[name], name)
    return found


def _from_file(path: Path, job: str) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the settings in {path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    tables = {
        name: value for name, value in content.items() if name in JOBS and name not in TYPES and isinstance(value, dict)
    }
    common = {name: value for name, value in content.items() if name not in tables}
    values = {}
    for given in (common, tables.get(job, {})):
        for name, value in given.items():
            if name not in TYPES:
                raise SettingsError(f"{path}: there is no setting {name}{perhaps(name, TYPES)}")
            values[name] = converted(name, value, f"{path}: {name}")
    return values


def converted(name: str, value: Any, where: str) -> Any:
    """Return text or a value of TOML as the type of the setting; `where` is for the message."""
    if name not in TYPES:
        raise SettingsError(f"{where}: there is no such setting")
    wanted = TYPES[name]
    try:
        if wanted == dict[str, Any]:
            return _tables(value)
        if get_origin(wanted) is dict:
            return _pairs(value)
        if wanted is bool:
            return _truth(value)
        if isinstance(value, (dict, list)) or (isinstance(value, bool | float) and wanted not in (str, type(value))):
            raise ValueError(f"not {wanted.__name__}")
        return wanted(value)
    except ValueError as error:
        kind = "NAME={...}" if wanted == dict[str, Any] else "KEY=VALUE" if get_args(wanted) else wanted.__name__
        raise SettingsError(f"{where}: {value!r} is not of the form {kind}") from error


def _tables(value: Any) -> dict[str, Any]:
    """Return tables by name; on the command line and in the environment they are JSON."""
    found = json.loads(value) if isinstance(value, str) else value
    if isinstance(value, list):
        found = {name: json.loads(text) for name, _, text in (item.partition("=") for item in value)}
    if not isinstance(found, dict) or not all(isinstance(item, dict) for item in found.values()):
        raise ValueError(value)
    return found


def _truth(value: Any) -> bool:
    text = str(value).lower()
    if text not in TRUE + FALSE:
        raise ValueError(value)
    return text in TRUE


def _pairs(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {key: str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}
    texts = [text.strip() for text in value.split(",")] if isinstance(value, str) else value
    if not all("=" in text for text in texts):
        raise ValueError(value)
    return dict(text.split("=", 1) for text in texts)


def with_secrets(values: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings with `${NAME}` replaced by the variable: secrets stand in no file and on no command line."""
    return {
        name: _with_variables(value, name, environment) if name in WITH_SECRETS else value
        for name, value in values.items()
    }


def _with_variables(value: Any, where: str, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _with_variables(item, f"{where}: {key}", environment) for key, item in value.items()}

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise SettingsError(f"{where} needs the variable {match[1]}, and the environment has none")
        return environment[match[1]]

    return VARIABLE.sub(value_of, value)


def check(settings: Settings) -> None:
    """Refuse settings that no job could use.

    Raises:
        SettingsError: a value is out of its range, or two values do not go together.
    """
    check_security(settings.security)
    written = (settings.dead_letter_topic, settings.windows_topic, settings.metrics_topic)
    source.check(settings.source, settings.bronze_topic, written)
    for f in fields(Settings):
        choices, value = f.metadata["choices"], getattr(settings, f.name)
        if choices and value not in choices:
            raise SettingsError(f"{f.name} is {value!r}, and can be {', '.join(c for c in choices if c)}")
    if settings.value_format != JSON and not settings.schema_registry.startswith(("http://", "https://")):
        raise SettingsError(f"value_format {settings.value_format} needs schema_registry, an http:// or https:// URL")
    if settings.schema_registry_ca_file and not Path(settings.schema_registry_ca_file).is_file():
        raise SettingsError(f"there is no file {settings.schema_registry_ca_file}, which schema_registry_ca_file names")
    if not TABLE_NAME.fullmatch(settings.table):
        raise SettingsError(f"table is {settings.table!r}, and can have letters, digits and underscores")
    if not DATE_COLUMN.fullmatch(settings.date_column) or settings.date_column.lower() in OWN_PARTITIONS:
        raise SettingsError(
            f"date_column is {settings.date_column!r}: it names folders, so it can have letters, digits and "
            f"underscores, begins with a letter, and is not {' or '.join(OWN_PARTITIONS)}"
        )
    if settings.table.lower() in OWN_TABLES:
        raise SettingsError(f"table is {settings.table!r}, and {', '.join(OWN_TABLES)} are the pipeline's own")
    _check_numbers(settings)
    _check_intervals(settings)
    _require_different_topics(settings)
    for name, rule in settings.rules.items():
        _check_rule(name, rule)


def _check_numbers(settings: Settings) -> None:
    for name in ABOVE_0:
        if not getattr(settings, name) > 0:
            raise SettingsError(f"{name} has to be above 0")
    for name in ("late_share", "broken_share", "duplicate_share"):
        if not 0 <= getattr(settings, name) < 1:
            raise SettingsError(f"{name} has to be at least 0 and below 1")
    if settings.max_offsets_per_trigger < 0:
        raise SettingsError("max_offsets_per_trigger has to be at least 0")


def _check_intervals(settings: Settings) -> None:
    if settings.trigger not in ("available-now", "asap", REALTIME):
        length = settings.trigger.removeprefix(f"{REALTIME} ")
        _require_interval(length, "trigger", "available-now, asap, realtime, or an interval like '5 seconds'")
        if settings.is_realtime and seconds_of(length) < SHORTEST_REALTIME_S:
            raise SettingsError(
                f"trigger is {settings.trigger!r}, and a batch of real-time mode takes 5 seconds at least"
            )
    for name in ("watermark", "window", "gap", "max_ahead", "max_behind"):
        _require_interval(getattr(settings, name), name, "an interval like '5 minutes'")
    for name in ("window", "gap"):
        if seconds_of(getattr(settings, name)) <= 0:
            raise SettingsError(f"{name} has to be above 0")
    if seconds_of(settings.window) % 1:
        raise SettingsError(f"window is {settings.window!r}: windows are known by their start, in whole seconds")
    if seconds_of(settings.watermark) > MOST_WATERMARK_S:
        raise SettingsError("watermark has to be at most 3650 days: ids are looked for as far around")


def _check_rule(name: str, rule: Mapping[str, Any]) -> None:
    for key in rule:
        if key not in RULE_KEYS:
            raise SettingsError(f"rule {name}: there is no {key}; there are {', '.join(RULE_KEYS)}")
    if not isinstance(rule.get("column"), str) or len(rule) < 2:
        raise SettingsError(f"rule {name} needs a column, and one at least of {', '.join(RULE_KEYS[1:])}")
    if not isinstance(rule.get("in", []), list):
        raise SettingsError(f"rule {name}: in has to be a list")
    if not isinstance(rule.get("not_null", True), bool):
        raise SettingsError(f"rule {name}: not_null has to be true or false")
    try:
        re.compile(rule.get("matches", ""))
    except (re.error, TypeError) as error:
        raise SettingsError(f"rule {name}: matches is no regular expression: {error}") from error


def _require_different_topics(settings: Settings) -> None:
    """Refuse a topic in two roles: a job that wrote to the topic that it reads would feed itself."""
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
