"""Settings: where they come from, which one wins, and what is refused."""

from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.errors import SettingsError
from pipeline.settings import JOBS, Settings, load


def test_defaults() -> None:
    assert load("silver", {}, {}) == Settings()


def test_the_command_line_wins_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        'topic_partitions = 5\nwindow = "1 minute"\nwatermark = "1 hour"\n[silver]\nwatermark = "2 hours"\n'
    )
    environment = {"PIPELINE_TOPIC_PARTITIONS": "6", "PIPELINE_WINDOW": "2 minutes", "PIPELINE_CONFIG": str(file)}
    settings = load("silver", {"topic_partitions": "7", "window": None}, environment)
    assert (settings.topic_partitions, settings.window, settings.watermark) == (7, "2 minutes", "2 hours")
    assert load("aggregate", {"config": str(file)}, {}).watermark == "1 hour"


@pytest.mark.parametrize("job", JOBS)
def test_every_job_may_have_a_table_of_the_file(job: str, tmp_path: Path) -> None:
    """The job `compact` was taken for a setting."""
    file = tmp_path / "settings.toml"
    file.write_text('[flows.a]\njob = "silver"\n' if job == "flows" else f'[{job}]\ndata_dir = "there"\n')
    assert load(job, {"config": str(file)}, {}).data_dir == (Settings().data_dir if job == "flows" else "there")


def test_topics_that_nobody_names_are_called_after_that_of_the_raw_events() -> None:
    assert load("silver", {}, {}).dead_letter_topic == "events.dead-letter"
    settings = load("silver", {"bronze_topic": "orders", "windows_topic": "hours"}, {})
    assert (settings.dead_letter_topic, settings.windows_topic) == ("orders.dead-letter", "hours")


def test_types() -> None:
    given = {"fail_on_data_loss": "no", "late_share": "0.5", "kafka": ["security.protocol=SSL", "a=b=c"]}
    settings = load("silver", given, {"PIPELINE_CLIENT": "x=1, y=2"})
    assert settings.fail_on_data_loss is False
    assert settings.late_share == 0.5
    assert settings.kafka == {"security.protocol": "SSL", "a": "b=c"}
    assert settings.client == {"x": "1", "y": "2"}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("topic_partitions", "many", "--topic-partitions: 'many' is not of the form int"),
        ("create_topics", "perhaps", "'perhaps' is not of the form bool"),
        ("kafka", ["novalue"], "is not of the form KEY=VALUE"),
        ("offsets", "memory", "offsets is 'memory', and can be checkpoint, kafka, store"),
        ("topic_partitions", "0", "topic_partitions has to be above 0"),
        ("late_share", "1.5", "late_share has to be at least 0 and below 1"),
        ("table", 'a"; --', "and can have letters, digits and underscores"),
        ("table", "Windows", "windows, pipeline_offsets, pipeline_progress are the pipeline's own"),
        ("metrics_topic", "events", "bronze_topic and metrics_topic are both events, and have to be different topics"),
        ("dead_letter_topic", "events", "bronze_topic and dead_letter_topic are both events"),
        ("date_column", "day:utc", "date_column is 'day:utc': it names folders, so it can have letters, digits and"),
        ("date_column", "_timestamp", "begins with a letter, and is not batch or replay"),
        ("date_column", "Batch", "is not batch or replay"),
        ("window", "0 days", "window has to be above 0"),
        ("window", "1500 milliseconds", "windows are known by their start, in whole seconds"),
        ("watermark", "3651 days", "watermark has to be at most 3650 days"),
        ("max_ahead", "soon", "max_ahead is 'soon', and can be an interval like '5 minutes'"),
        ("max_offsets_per_trigger", "-1", "max_offsets_per_trigger has to be at least 0"),
    ],
)
def test_what_is_refused(name: str, value: object, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load("store", {name: value}, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour = 1", "there is no setting colour$"),
        ("bootstrap_serverz = 1", "there is no setting bootstrap_serverz; perhaps bootstrap_servers is meant"),
        ("topic_partitions = true", "topic_partitions: True is not of the form int"),
        ("topic_partitions = 2.5", "topic_partitions: 2.5 is not of the form int"),
        ("topic_partitions = inf", "topic_partitions: inf is not of the form int"),
        ("connect_timeout_s = nan", "connect_timeout_s has to be above 0"),
        ("window = [", "is not TOML"),
        ("# für alle", "is not TOML: 'utf-8' codec can't decode"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(SettingsError, match=words):
        load("silver", {"config": str(file)}, {})


@pytest.mark.parametrize("given", ["--bronze-topik", "--topic", "--topic=x"])
def test_a_mistyped_option(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No option is abbreviated: --topic would be --topic-partitions."""
    with pytest.raises(SystemExit) as ended:
        main(["silver", given, "x"])
    assert ended.value.code == 2
    assert f"there is no option {given}; perhaps --bronze-topic is meant\n" in capsys.readouterr().err


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can't be read: No such file"):
        load("silver", {"config": str(tmp_path / "none.toml")}, {})


def test_where_the_sqlite_file_is() -> None:
    assert Settings(data_dir="/data").database_url == "sqlite:////data/pipeline.db"
    assert Settings(data_dir="file:///data/").database_url == "sqlite:////data/pipeline.db"
    assert Settings(data_dir="data").database_url == "sqlite:///data/pipeline.db"
    assert Settings(data_dir="s3a://lake", database="postgresql://h/d").database_url == "postgresql://h/d"
    with pytest.raises(SettingsError, match=r"database is not set, and pipeline\.db can't be in data_dir, s3a://lake"):
        _ = Settings(data_dir="s3a://lake").database_url
