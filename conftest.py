"""What holds for all suites, and how they share the workers when several run at once (`make test`, pytest-xdist).

Rule: the tests of a file stay together, in their order, in one worker, so a fixture of a file or a session is made as
seldom as can be; files that share something costly (`TOGETHER`) are one group. Long groups start first: short ones fill
up the end.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import logging
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import integers

from pykafka_broker.platform import MEMORY_DISK
from tests import invariants

invariants.install()  # of logs, in all tests

ROOM_FOR_TESTS = 6 << 30  # bytes


def directory_of_files() -> str:
    """Return where tests write: in memory, where nothing waits for a disk, if there is room and programs may run."""
    if "TMPDIR" not in os.environ and os.path.isdir(MEMORY_DISK):
        may_run = not os.statvfs(MEMORY_DISK).f_flag & getattr(os, "ST_NOEXEC", 0)
        if may_run and shutil.disk_usage(MEMORY_DISK).free >= ROOM_FOR_TESTS:
            return MEMORY_DISK
    return tempfile.gettempdir()


# What a machine's own environment says must not decide how a test ends: unbuffered output has hidden a wrong exit code.
# Nor are options given to this pytest meant for those that tests start.
FOREIGN = "PYTHONUNBUFFERED PYTHONWARNINGS PYTEST_ADDOPTS PYKAFKA_BROKER_CONTROL_URL PYKAFKA_BROKER_BOOTSTRAP_SERVER"
for name in FOREIGN.split():
    os.environ.pop(name, None)
# Nor how long it takes: without bytecode every broker compiles the package anew, and every worker all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if sys.platform != "win32":  # what tests of logs have open waits for the collector, and macOS allows 256 files
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        enough = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))
else:  # tests run parts of a broker on a loop of their own, which has to have readers of sockets
    with warnings.catch_warnings(action="ignore"):  # policies go with Python 3.16
        asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())
# Spark hands what is collected to the first who connects to a port that it opens: with other tests about, that may be a
# client that still looks for a broker which had this port. A socket of the file system is the session's alone.
os.environ.setdefault("PYSPARK_UDS_MODE", "true")
# And its JVM takes the classes from their archive, if `python -m interop.class_archive` has made one.
_pyspark = importlib.util.find_spec("pyspark")
if _pyspark is not None and _pyspark.origin and (_archive := Path(_pyspark.origin).with_name("jars.jsa")).exists():
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:SharedArchiveFile={_archive}")
# The folders above a test's own match what tests look for in paths, as the `pytest-0` of a new machine does.
_OWNER = os.getuid() if hasattr(os, "getuid") else 0
_ROOT = Path(directory_of_files(), f"t-0.log-{_OWNER}", "a")
_ROOT.mkdir(parents=True, exist_ok=True)
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_ROOT))
# To collect tests makes 900,000 objects and no garbage: none is looked for meanwhile, and later not among these.
gc.disable()
# A busy machine is no defect: generated examples have no deadline of their own, pytest's time-out ends what hangs.
settings.register_profile("everywhere", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("slow", settings.get_profile("everywhere"), max_examples=200)
settings.load_profile("everywhere")

TOGETHER = {
    "tests/house/": "tests/house/",  # all go through the parsed package
    # Spark sessions, each some 700 MB and five seconds of two cores: as few as leave no worker alone at the end.
    "spark/tests/test_million.py": "a Spark session",
    "spark/tests/test_submit.py": "a Spark session",
    "interop/spark/": "a Spark session",
    "spark/tests/test_crash.py": "spark/tests/test_crash.py",  # its jobs are processes with sessions of their own
    **dict.fromkeys(
        (f"spark/tests/test_{name}.py" for name in ("aggregate", "compact", "ingest", "ledger", "new")),
        "a third Spark session",
    ),
    "spark/tests/": "another Spark session",
}
# Three quarters of a minute and more, the longest first: one that began last would be waited for.
LONG = (
    "another Spark session",
    "a third Spark session",
    "a Spark session",
    "spark/tests/test_crash.py",
    "interop/test_cluster_mixed.py",
    "tests/simulation/test_one_node.py",
    "interop/test_log_exchange.py",
    "tests/simulation/test_caught.py",
    "interop/test_tools.py",
    "interop/test_security_sasl.py",
    "interop/test_cluster_failover.py",
    "interop/test_security_oauth.py",
    "interop/test_groups_churn.py",
    "tests/docs/test_snippets.py",
    "interop/test_language_packages.py",
    "interop/test_cluster_our_controller.py",
    "tests/simulation/test_cluster.py",
    "tests/simulation/test_combined.py",
    "interop/test_cluster_trimmed.py",
    "interop/test_install.py",
    "interop/test_differential.py",
    "interop/test_security_quotas.py",
    "tests/testing/test_cluster_dialect.py",
    "tests/simulation/test_keeping.py",
    "interop/test_fault_table.py",
    "interop/test_supervised_applications.py",
    "tests/testing/test_chaos_in_pytest.py",
    "tests/testing/test_pytest_plugin.py",
    "tests/testing/test_pytest_markers.py",
    "interop/test_cluster_chaos.py",
    "interop/test_security_acls.py",
    "interop/test_cluster_their_controller.py",
    "interop/test_cluster_three_controllers.py",
    "tests/simulation/test_groups.py",
    "tests/simulation/test_power_cuts.py",
    "tests/simulation/test_changes.py",
    "tests/testing/test_cluster_state.py",
    "interop/test_cluster_metadata.py",
    "interop/test_streams_groups.py",
    "tests/protocol/test_golden.py",
    "interop/test_cluster.py",
    "interop/test_groups_exchange.py",
)


def group_of(nodeid: str) -> str:
    """What is run by one worker, by the id of one of its tests."""
    file = nodeid.partition("::")[0]
    return next((group for start, group in TOGETHER.items() if file.startswith(start)), file)


def place_of(item: pytest.Item) -> int:
    group = group_of(item.nodeid)
    return LONG.index(group) if group in LONG else len(LONG) + group.startswith("tests/")  # the shortest come last


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="the long forms of tests that soak")
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="files, and the tests of each, in an order drawn from it"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--slow"):
        settings.load_profile("slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for name, is_here in (("posix", sys.platform != "win32"), ("linux", sys.platform == "linux")):
        for item in items if not is_here else ():
            if marker := item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=f"{name}: {marker.args[0]}"))
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="only with --slow"))
    seed = config.getoption("--shuffle")
    if seed is not None:
        dice = random.Random(seed)
        places = {file: dice.random() for file in sorted({item.path for item in items})}
        dice.shuffle(items)
        items.sort(key=lambda item: places[item.path])
    elif "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=place_of)


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly:
        read_constants()
    gc.freeze()
    gc.enable()


@settings(max_examples=100, database=None, derandomize=True)
@given(integers())
def read_constants(_: int) -> None:
    """Draw, as Hypothesis then reads the constants of all modules and keeps them in files: once for all workers."""


@pytest.hookimpl(optionalhook=True)  # without xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist's own `loadgroup` writes groups into the ids of tests, which pytest 9.2 no longer takes."""
    from xdist.scheduler import LoadScopeScheduling

    class InGroups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False  # it would put the groups with the most tests first, and those are quick
    return InGroups(config, log)


def threads() -> int:
    """Return how many threads this process has, with those of C libraries; 0 where nothing lists them."""
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Collect garbage where a test leaves threads: a client to which the traceback of an expected error refers, say.

    Such a client goes on to knock at its broker's port, where the broker of a later test may listen.
    """
    before = threads()
    result = yield
    if threads() > before:
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):  # of a test that a test has run
            vars(sys).pop(name, None)
        gc.collect()
    return result


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The broker's log: clients of earlier tests may still run in this process, and theirs is left out."""

    def is_ours(record: logging.LogRecord) -> bool:
        return record.name == "kafka.authorizer.logger" or record.name.split(".")[0] not in ("kafka", "aiokafka")

    caplog.handler.addFilter(is_ours)
    yield caplog
    caplog.handler.removeFilter(is_ours)


@pytest.fixture(scope="session")
def slow(request: pytest.FixtureRequest) -> bool:
    """Whether a test that soaks has all the time that it wants."""
    return bool(request.config.getoption("--slow"))
