"""The mistakes that a person can make. Rule: the words say what is wrong and how to mend it, the exit code tells
scripts the kind, and nothing is half-written.
"""

import dataclasses
import socket
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pipeline import letters
from pipeline.cli import main
from pipeline.errors import BrokerUnreachable, JobFailed, PipelineError, SettingsError
from pipeline.kafka import Kafka, in_words
from pipeline.runner import in_words as of_spark
from pipeline.settings import Settings


@pytest.fixture
def start(settings: Settings, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """A function that runs the command line and returns the exit code and the words on standard error."""

    def run(*argv: str) -> tuple[int, str]:
        own = ["--bootstrap-servers", settings.bootstrap_servers, "--data-dir", str(tmp_path / "data")]
        code = main([argv[0], *own, *argv[1:]])
        return code, capsys.readouterr().err

    return run


def written(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "data").rglob("*") if path.is_file())


@pytest.mark.parametrize("job", ["silver", "aggregate", "store", "replay"])
def test_an_unknown_topic(job: str, start: Any, tmp_path: Path) -> None:
    code, words = start(job, "--bronze-topic", "nowhere")
    assert (code, words) == (4, f"{job}: there is no topic nowhere at {words.split(' at ')[1]}")
    assert written(tmp_path) == []


@pytest.mark.parametrize("job", ["ingest", "silver", "compacted"])
def test_an_unreachable_broker(job: str, start: Any, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").touch()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        extra = ["--input", str(tmp_path / "x.jsonl")] if job == "ingest" else []
        code, words = start(job, "--bootstrap-servers", address, "--connect-timeout-s", "0.5", *extra)
    assert code == 3
    assert f"no broker answers at {address} within 0.5 s" in words
    assert written(tmp_path) == []


def test_brokers_that_go_away(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that answer the first request and none after it end the job with exit code 3, and nothing is written."""
    monkeypatch.setattr(Kafka, "check_reachable", lambda _: None)
    monkeypatch.setattr("pipeline.kafka.PATIENCE_S", 2.0)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        code, words = start("silver", "--bootstrap-servers", address, "--connect-timeout-s", "0.5")
    assert (code, words.split("(")[0]) == (3, "silver: the brokers stopped answering ")
    assert written(tmp_path) == []


def test_a_busy_machine_gets_more_time(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """A question whose answer takes longer than the first tries gets longer tries until the answer comes."""
    monkeypatch.setattr("pipeline.kafka.READ_STEP_S", 0.0)
    kafka, tries = Kafka(settings), []

    def ask() -> str:
        tries.append(kafka._try_s)
        if kafka._try_s < 12:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return "told"

    assert [kafka._retried(ask), kafka._retried(ask)] == ["told", "told"]
    assert tries == [5.0, 10.0, 20.0] * 2


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("java.util.concurrent.TimeoutException: Stream Execution thread failed to stop within 300000 ms", JobFailed),
        ("java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]", JobFailed),
        (
            "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out",
            BrokerUnreachable,
        ),
    ],
)
def test_whose_time_is_over(text: str, kind: type[PipelineError]) -> None:
    assert type(of_spark(RuntimeError(text))) is kind


def test_brokers_that_refuse() -> None:
    found = in_words(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    assert (found.exit_code, "TOPIC_AUTHORIZATION_FAILED" in str(found)) == (9, True)


def test_a_mistake_in_python_is_told() -> None:
    """An error of a user's step stands at the end of a trace, in the middle of Spark's words."""
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    1 / 0\n    ~~^~~\n'
    text = f"[STREAM_FAILED] Query terminated: {trace}ZeroDivisionError: division by zero\n\tat x.Y\nCaused by: Z: z"
    assert str(of_spark(RuntimeError(text))).splitlines()[-1] == "  because: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["store", "--offsets", "memory"], 2, "offsets is 'memory', and can be checkpoint, kafka, store"),
        (["ingest"], 2, "input is not set"),
        (["report"], 2, "metrics_topic is not set"),
        (["generate"], 2, "output is not set"),
        (["replay", "--from-timestamp", "soon"], 2, "from_timestamp is 'soon'"),
        (
            ["silver", "--trigger", "at times"],
            2,
            "trigger is 'at times', and can be available-now, asap, realtime, or an interval",
        ),
        (["silver", "--watermark", "late"], 2, "watermark is 'late', and can be an interval like '5 minutes'"),
        (["store", "--starting-offsets", "middle"], 2, "starting_offsets is 'middle', and can be earliest, latest"),
    ],
)
def test_settings(argv: list[str], code: int, words: str, start: Any, tmp_path: Path) -> None:
    found = start(*argv)
    assert found[0] == code
    assert words in found[1]
    assert written(tmp_path) == []


def test_a_job_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["fly"])
    assert "invalid choice: 'fly'" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["--schema", "event_id STRING, event_time"], 5, "schema is no list of columns as DDL"),
        (["--schema", "event_id STRING"], 5, "schema has no column event_time, which time_column names"),
        (
            ["--schema", "event_id DOUBLE, event_time TIMESTAMP"],
            5,
            "id_column event_id is double, and has to be a STRING",
        ),
        (
            ["--create-topics", "no", "--dead-letter-topic", "none"],
            4,
            "no topic none to write to, and create_topics is off",
        ),
    ],
)
def test_before_the_stream(
    argv: list[str], code: int, words: str, spark: Any, settings: Settings, make_topic: Any, put: Any, start: Any,
    event: Any, tmp_path: Path,
) -> None:  # fmt: skip
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1)])
    found = start("silver", "--bronze-topic", settings.bronze_topic, *argv)
    assert found[0] == code, found[1]
    assert words in found[1]
    assert written(tmp_path) == []


@pytest.mark.spark
def test_a_good_run_says_so_in_json(
    spark: Any, settings: Settings, make_topic: Any, put: Any, event: Any, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1)])
    own = ["--bootstrap-servers", settings.bootstrap_servers, "--data-dir", str(tmp_path / "data")]
    assert main(["store", *own, "--bronze-topic", settings.bronze_topic]) == 0
    out = capsys.readouterr().out.splitlines()
    assert '"job": "store", "batches": 1, "rows": 1' in out[-1]


def test_a_size_that_is_no_number(settings: Settings, make_topic: Any) -> None:
    make_topic(settings.dead_letter_topic)
    own = dataclasses.replace(settings, kafka={"max.request.size": "1m"})
    with pytest.raises(SettingsError, match=r"kafka max\.request\.size is '1m', and has to be a number of bytes"):
        letters.limit(own, Kafka(own))


@pytest.mark.spark
def test_a_checkpoint_of_another_job(
    spark: Any, settings: Settings, make_topic: Any, put: Any, event: Any, start: Any, tmp_path: Path
) -> None:
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1)])
    own = ["--bronze-topic", settings.bronze_topic]
    assert start("silver", *own)[0] == 0
    checkpoints = tmp_path / "data" / "checkpoints"
    (checkpoints / "silver").rename(checkpoints / "aggregate")
    code, words = start("aggregate", *own)
    assert code == 6
    assert "is of job 'silver', and this is job 'aggregate'" in words
    assert not (tmp_path / "data" / "pipeline.db").exists()
