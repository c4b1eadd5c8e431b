"""The fixtures of the pipeline's tests. Rule: all share one Spark session and one broker; a test's topics, tables and
checkpoints are its own.

PIPELINE_TEST_TARGET=kafka runs them against a real Apache Kafka, or HOST:PORT against a broker that runs.
"""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from interop.java import java_command, kafka_classpath
from interop.real_kafka import free_port
from interop.targets import Target, start
from pipeline import runner, tables
from pipeline.context import Context
from pipeline.kafka import Kafka
from pipeline.session import QUICK, build_session
from pipeline.settings import Settings

NUMBER = count()
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
MakeSettings = Callable[..., Settings]
MakeContext = Callable[[Settings], Context]
Put = Callable[[str, list[Any]], None]


@pytest.fixture(scope="session")
def new_broker() -> Iterator[Callable[[], Target]]:
    """A function that starts a broker of the target's kind, without retention: records of tests are years old."""
    kept = {"log.retention.ms": "-1"}
    with ExitStack() as stack:
        yield lambda: stack.enter_context(start(os.environ.get("PIPELINE_TEST_TARGET", "pykafka"), kept))


@pytest.fixture(scope="session")
def broker(new_broker: Callable[[], Target]) -> Target:
    return new_broker()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("spark")
    own = {"spark.sql.warehouse.dir": str(home / "warehouse"), "spark.local.dir": str(home / "local")}
    # Plans that change as they run take a fifth of a small batch's time. Jobs that are processes have them.
    own["spark.sql.adaptive.enabled"] = "false"
    formats = Settings(master="local[2]", shuffle_partitions=2, spark=QUICK | own, table_format=tables.formats()[-1])
    session = build_session(formats, "tests")
    with pytest.MonkeyPatch.context() as patch:
        # `main` sets its own in the session: by default, all tests after the first such one had twice the tasks.
        patch.setenv("PIPELINE_SHUFFLE_PARTITIONS", str(formats.shuffle_partitions))
        patch.setattr(runner, "TOLD_TIMEOUT_S", 60.0)  # a run counts what Spark has told by then
        yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give Spark more time: on a machine with other work a batch takes twenty times as long."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(params=tables.formats())
def table_format(request: pytest.FixtureRequest) -> str:
    """Each format of tables that the installed PySpark can have."""
    return str(request.param)


@pytest.fixture
def make_settings(request: pytest.FixtureRequest, broker: Target, tmp_path: Path) -> MakeSettings:
    """Settings with topics named after the test, and everything else in the test's folder."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{request.path.stem}-{request.node.name}".replace("test_", ""))
    own = f"{name}-{next(NUMBER)}"

    def make(**changes: Any) -> Settings:
        defaults = Settings(
            bootstrap_servers=broker.bootstrap_servers,
            data_dir=str(tmp_path / "data"),
            bronze_topic=own,
            dead_letter_topic=f"{own}.dead-letter",
            windows_topic=f"{own}.windows",
            shuffle_partitions=2,
            stop_timeout_s=240,
        )
        return dataclasses.replace(defaults, **changes)

    return make


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    return make_settings()


@pytest.fixture
def make_context(spark: SparkSession) -> Iterator[MakeContext]:
    """Make the context of a job.

    Py4J keeps what a batch calls as long as the session, and with it the job's clients: they go after the test.
    """
    made: list[Kafka] = []

    def make(settings: Settings) -> Context:
        made.append(Kafka(settings))
        return Context(spark, settings, made[-1])

    yield make
    for kafka in made:
        vars(kafka).clear()


@pytest.fixture
def admin(broker: Target) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


@pytest.fixture
def make_topic(admin: AdminClient) -> Callable[..., str]:
    def make(name: str, partitions: int = 1, **configs: str) -> str:
        config = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, config=config)])[name].result(30)
        return name

    return make


@pytest.fixture
def put(broker: Target) -> Put:
    """A function that writes values, or keyword arguments of `produce`, and waits for their acknowledgements."""

    def put_all(topic: str, records: list[Any]) -> None:
        errors: list[Any] = []
        own = {"linger.ms": 5, "log_level": 0, "on_delivery": lambda error, _: errors.append(error) if error else None}
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **own})
        for record in records:
            producer.produce(topic, **(record if isinstance(record, dict) else {"value": record}))
            producer.poll(0)
        assert (producer.flush(120), errors) == (0, [])

    return put_all


@pytest.fixture
def consumer_groups(broker: Target) -> Callable[..., list[list[str]]]:
    """A function that runs Kafka's `kafka-consumer-groups` and returns the words of each line that it prints."""

    def run(*arguments: str) -> list[list[str]]:
        command = java_command("-XX:TieredStopAtLevel=1", "-cp", kafka_classpath(), CONSUMER_GROUPS)
        command += ["--bootstrap-server", broker.bootstrap_servers, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return [line.split() for line in done.stdout.splitlines() if line.strip()]

    return run


@pytest.fixture
def event() -> Callable[..., bytes]:
    """A function that makes an event as JSON; `at` are minutes after midnight."""

    def make(number: int, at: float = 0, **fields: Any) -> bytes:
        time = f"2024-05-01T{int(at) // 60:02}:{int(at) % 60:02}:{int(at * 60) % 60:02}Z"
        given = {"event_id": f"e{number}", "event_time": time, "user_id": f"u{number % 5}", "country": "de"}
        return json.dumps({**given, **fields}).encode()

    return make


def postgresql_programs() -> Path:
    """Return the folder of PostgreSQL's server programs."""
    found = shutil.which("initdb")
    candidates = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not candidates:
        pytest.skip("PostgreSQL's server (initdb, postgres) is not installed")
    return candidates[-1].resolve()


def accepts_connections(port: int) -> bool:
    try:
        psycopg.connect(f"postgresql://test@127.0.0.1:{port}/postgres", connect_timeout=5).close()
    except psycopg.OperationalError:  # nobody listens yet, or it is still starting up
        return False
    return True


@pytest.fixture(scope="session")
def postgresql() -> Iterator[int]:
    """The port of a PostgreSQL of its own; it refuses to run as root, so root hands it to `nobody`."""
    programs = postgresql_programs()
    user = {"user": "nobody", "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    home = Path(tempfile.mkdtemp(prefix="pipeline-postgresql-"))
    if user:
        shutil.chown(home, "nobody")
    port = free_port()
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/", **user}
    subprocess.run([programs / "initdb", "-D", home / "data", "-U", "test", "-A", "trust", "-N"], check=True, **quiet)
    options = ["-c", f"port={port}", "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={home}"]
    server = subprocess.Popen([programs / "postgres", "-D", home / "data", *options], **quiet)
    try:
        wait_for(lambda: accepts_connections(port))
        yield port
    finally:
        server.send_signal(signal.SIGINT)  # SIGTERM would wait for clients whose connections the collector closes later
        server.wait(60)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def new_postgresql_database(postgresql: int) -> Callable[[], str]:
    """A function that makes an empty database and returns its URL."""

    def make() -> str:
        name, server = f"test{next(NUMBER)}", f"postgresql://test@127.0.0.1:{postgresql}"
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"{server}/{name}"

    return make


def wait_for(condition: Callable[[], Any], timeout_s: float = 300) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    return wait_for


class Running:
    """A job on a thread of its own, as `main` would run it."""

    def __init__(self, run: Callable[[Context], dict[str, Any]], context: Context) -> None:
        self.context = context
        self.result: Future[dict[str, Any]] = Future()
        self._thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()

    def _run(self, run: Callable[[Context], dict[str, Any]]) -> None:
        try:
            self.result.set_result(run(self.context))
        except BaseException as error:
            self.result.set_exception(error)

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait for the condition while the job runs; raise what ended the job."""
        wait_for(lambda: condition() or self.result.done())
        assert condition(), f"the job ended: {self.result.result()}"

    def stop(self) -> dict[str, Any]:
        self.context.stop.set()
        return self.result.result(300)


@pytest.fixture
def start_job() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(run: Callable[[Context], dict[str, Any]], context: Context) -> Running:
        started.append(Running(run, context))
        return started[-1]

    yield begin
    for job in started:
        job.context.stop.set()
        with suppress(Exception):
            job.result.result(300)
