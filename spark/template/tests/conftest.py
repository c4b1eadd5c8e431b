"""Fixtures of the tests: one Spark session, and jobs as the command line runs them."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.cli import main
from pipeline.session import QUICK, build_session
from pipeline.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
# Spark hands what is collected to the first who connects to a port that it opens. A client that looks for a stopped
# broker may be that one; a socket of the file system is the session's alone.
os.environ.setdefault("PYSPARK_UDS_MODE", "true")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("spark")
    own = {"spark.sql.warehouse.dir": str(home / "warehouse"), "spark.local.dir": str(home / "local")}
    own["spark.sql.adaptive.enabled"] = "false"  # plans that change as they run take a fifth of a small batch's time
    session = build_session(Settings(master="local[2]", shuffle_partitions=1, spark=QUICK | own), "tests")
    yield session
    session.stop()


@pytest.fixture
def run(spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs a job on the project's settings; gives its summary, or its exit code and its words."""

    def start(job: str, bootstrap_servers: str, *options: str) -> dict[str, Any]:
        given = [f"--config={ROOT / 'pipeline.toml'}", f"--bootstrap-servers={bootstrap_servers}"]
        code = main([job, *given, f"--data-dir={tmp_path}/data", "--shuffle-partitions=1", *options])
        out, words = capsys.readouterr()
        return json.loads(out) if code == 0 else {"code": code, "words": words}

    return start
