"""Fixtures for tests against a broker: `kafka_broker`, `kafka_broker_factory`, `kafka_cluster`, the first and the last
of them with `async_` in front for tests with an event loop, `kafka_topic`, and clients.

Rule: `kafka_broker` is one broker for the whole run unless a scope says otherwise, and each test finds it empty, as it
is reset before the test (`kafka_broker_isolation`); a broker that a test stopped, killed, paused or closed runs again
for the next one. A factory's brokers belong to one test. The report of a failed test has the log of its brokers, their
last requests, and the fixtures whose topics the reset before the test has deleted. The command line wins over a test's
marker, and that over the ini file.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import unittest
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import pytest

from pykafka_broker.testing.fixtures import (
    LIBRARIES,
    aiokafka_consumer,
    aiokafka_consumer_factory,
    aiokafka_producer,
    aiokafka_producer_factory,
    kafka_admin,
    kafka_admin_factory,
    kafka_client,
    kafka_consumer,
    kafka_consumer_factory,
    kafka_producer,
    kafka_producer_factory,
    kafka_topic,
)

if TYPE_CHECKING:
    from pykafka_broker.testing import AsyncKafkaBroker, AsyncKafkaCluster, AsyncRemoteBroker, KafkaBroker, KafkaCluster
    from pykafka_broker.testing.chaos import ChaosRun, ChaosSpec, Hit
    from pykafka_broker.testing.controlled import Controlled
    from pykafka_broker.testing.remote import RemoteBroker

SCOPES = ("session", "package", "module", "class", "function")
ISOLATIONS = ("reset", "none")
URL_VARIABLE = "PYKAFKA_BROKER_CONTROL_URL"
CONFIG_INI, CONFIG_OPTION = "kafka_broker_config", "--kafka-config"
MARKER = (
    "kafka(config={}, topics=(), emulate=None, releases=(), security=None, users=(), acls=None, mechanisms=None, "
    "client_auth=None, schema_registry=False, history=False, in_process=False, allow_unknown_config=False): the test's "
    "`kafka_broker` has these settings, topics, release, users and schema registry; tests with the same settings share "
    "one. With releases the test is run once for each of these releases of Kafka"
)
CLUSTER_MARKER = (
    "kafka_cluster(brokers=3, racks=None, controllers=1, config=None, configs=None, quick=True, security=None, "
    "users=(), acls=None, schema_registry=False, history=False, in_process=False): what the test's `kafka_cluster` is "
    "made of, by the arguments of `KafkaCluster`"
)
CHAOS_MARKER = (
    "kafka_chaos(seeds=20, rate=0.05, events=False, shrink_runs=60, trouble=(), mean_ms=1000, most_down=1, api=None, "
    "client_id=None, topic=None, group=None): a test is "
    "run under the chaos of each seed, with trouble (kill, stop, pause, partition, fill_disk, break_disk, move_leader, "
    "move_coordinator) for the brokers of a `kafka_cluster`, and the first failure is cut down to the few faults that "
    "are enough for it"
)
OPTIONS = (  # options of the marker, as of `KafkaBroker`
    *("emulate", "security", "users", "acls", "mechanisms", "client_auth"),
    *("schema_registry", "history", "in_process", "allow_unknown_config"),
)
_MOST_AGAIN = 3  # runs with all faults that a failure met, until it comes again
_MOST_REQUESTS = 20  # shown in the report of a failure
_MOST_FILE_NAME = 150  # bytes
_PATIENCE_S = 5.0  # with a broker that may be stopped
TOO_LATE = (
    "@pytest.mark.kafka chooses the broker of a whole test, class or module: for one parameter of a test make a test "
    "of its own or use kafka_broker_factory, for a unittest.TestCase KafkaBrokerTestCase"
)
UNUSED = "@pytest.mark.{marker} has no effect: it is for {fixture}, which the test has not"
_AWAITED = (  # methods of these classes
    "(Async(Broker(Clock|Part)|Checks|Cluster(Clock|Data|Faults?|History|Nodes|Traffic)|Control(Client|led)|Data|Faults?|"
    "Handle|History|Incidents|Kafka(Broker|Cluster)|NodeControl|RemoteBroker|Traffic|Waits|WholeState)|"
    "Simulated(Broker|Cluster))[.]"
)
NOT_AWAITED = {  # warnings that fail a test, by category: a call without `await` does nothing, an assertion can't fail
    "RuntimeWarning": f"coroutine '{_AWAITED}.* was never awaited",
    "pytest.PytestUnraisableExceptionWarning": f".*coroutine object {_AWAITED}",
}
HINT = (
    "fixture {fixture} made topics that were deleted when the broker was reset before this test ({topics}): make the "
    "fixture function-scoped, or set kafka_broker_isolation = none, or take a snapshot in it and restore() that"
)
_OWN = pytest.StashKey[list["KafkaBroker"]]()  # brokers of one test
_SHARED = pytest.StashKey[dict["KafkaBroker", int]]()  # those of many tests, with their log's size before this test
_USED = pytest.StashKey[set["Controlled"]]()  # brokers used by a test
_ASKED = pytest.StashKey["Controlled"]()  # the broker of `kafka_broker` in one test
_FILLED = pytest.StashKey[dict[str, set[str]]]()  # ids of topics made by fixtures of a wider scope
_EMPTIED = pytest.StashKey[dict[str, list[str]]]()  # names of such topics that a reset has deleted
_RECORDED = pytest.StashKey["Controlled"]()  # the broker that records a test
_CHAOS = pytest.StashKey["ChaosRun"]()  # the run of a test under chaos


class _WithoutRewriting(MetaPathFinder):
    """Imports of this package as Python makes them.

    Pytest rewrites the assertions of a package with a plugin, by syntax trees. Brokers in this process import in
    threads, and Python 3.11 may fail where two threads make trees at once ("AST constructor recursion depth mismatch").
    No module here is a test, and imports without trees are quicker.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        ours = fullname.startswith(f"{__package__}.")
        return PathFinder.find_spec(fullname, path, target) if ours else None


_WITHOUT_REWRITING = _WithoutRewriting()


def pytest_addoption(parser: pytest.Parser) -> None:
    sys.meta_path.insert(0, _WITHOUT_REWRITING)  # before pytest's own
    group = parser.getgroup("kafka broker")
    group.addoption("--kafka-broker-scope", choices=SCOPES, help="how long the broker of `kafka_broker` lives")
    group.addoption(
        "--kafka-broker-isolation", choices=ISOLATIONS, help="reset: empty it before each test; none: keep it"
    )
    group.addoption("--kafka-broker-url", metavar="URL", help="use the running broker with this control API")
    group.addoption(
        CONFIG_OPTION,
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a config of `kafka_broker`; may be repeated",
    )
    group.addoption(
        "--kafka-chaos-seeds", metavar="N", type=int, help="run tests marked kafka_chaos with this many seeds"
    )
    group.addoption(
        "--kafka-record",
        metavar="DIR",
        help="save a recording of each failed test with a broker or a cluster in this folder",
    )
    group.addoption("--kafka-emulate", metavar="RELEASE", help="the release of Kafka that `kafka_broker` emulates")
    group.addoption("--kafka-in-process", action="store_true", help="run `kafka_broker` in the process of the tests")
    parser.addini("kafka_broker_scope", "how long the broker of `kafka_broker` lives", default="session")
    parser.addini("kafka_broker_isolation", "reset: empty it before each test; none: keep it", default="")
    parser.addini("kafka_broker_url", "use the running broker with this control API", default="")
    parser.addini(CONFIG_INI, "configs of `kafka_broker`, one key=value a line", type="linelist")
    parser.addini(
        "kafka_broker_allow_unknown_config", "allow broker configs that Kafka does not know", type="bool", default=False
    )
    parser.addini("kafka_in_process", "run `kafka_broker` in the process of the tests", type="bool", default=False)
    parser.addini(
        "kafka_client",
        "the library of kafka_producer, kafka_consumer, kafka_admin: confluent or kafka-python",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Check the ini file: a mistake is told in a line, before any test is collected."""
    config.add_cleanup(lambda: sys.meta_path.remove(_WITHOUT_REWRITING))
    config.stash[_SHARED], config.stash[_USED] = {}, set()
    config.stash[_FILLED], config.stash[_EMPTIED] = {}, {}
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", CLUSTER_MARKER)
    config.addinivalue_line("markers", CHAOS_MARKER)
    for category, text in NOT_AWAITED.items():
        config.addinivalue_line("filterwarnings", f"error:{text}:{category}")
    for name, allowed in (
        ("kafka_broker_scope", SCOPES),
        ("kafka_broker_isolation", ("", *ISOLATIONS)),
        ("kafka_client", ("", *LIBRARIES)),
    ):
        if (value := config.getini(name)) not in allowed:
            raise pytest.UsageError(f"{name} = {value}: it must be one of {', '.join(filter(None, allowed))}")
    if (seeds := config.getoption("--kafka-chaos-seeds")) is not None and seeds < 1:
        raise pytest.UsageError(f"--kafka-chaos-seeds: {seeds}: at least one seed is run")
    if url := _url(config):
        for option in (CONFIG_OPTION, "--kafka-emulate", "--kafka-in-process"):
            if config.getoption(option):
                raise pytest.UsageError(f"{option} can't change the broker at {url}, which runs already")
    workers = getattr(config.option, "tx", None) or ()  # of pytest-xdist
    if len(workers) > 1 and _resets(config) and url:
        raise pytest.UsageError(
            f"{len(workers)} workers would reset the broker at {url} under each other: run them without -n, "
            "or with kafka_broker_isolation = none and topics of their own (kafka_topic)"
        )
    for origin in (CONFIG_INI, CONFIG_OPTION):
        if (configs := _configs(config, origin)) and not config.getini("kafka_broker_allow_unknown_config"):
            from pykafka_broker.testing.arguments import check_known

            try:
                check_known(configs, "kafka_broker_allow_unknown_config = true")
            except ValueError as error:
                raise pytest.UsageError(f"{origin}: {error}") from None


def _configs(config: pytest.Config, origin: str) -> dict[str, str]:
    """Return the configs of the ini file or of the command line. Raises UsageError."""
    configs = {}
    for line in config.getoption(origin) if origin == CONFIG_OPTION else config.getini(origin):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"{origin}: {line}: it must be key=value")
        configs[name.strip()] = value.strip()
    return configs


def _option(config: pytest.Config, name: str) -> str:
    return str(config.getoption(f"--{name.replace('_', '-')}") or config.getini(name))


def _url(config: pytest.Config) -> str:
    """Return the control API of the broker that runs already; empty without one."""
    return _option(config, "kafka_broker_url") or os.environ.get(URL_VARIABLE, "")


def _resets(config: pytest.Config) -> bool:
    """Return whether to reset a broker before each test; by default only the broker of the whole run."""
    isolation = _option(config, "kafka_broker_isolation")
    return isolation == "reset" if isolation else _option(config, "kafka_broker_scope") == "session"


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return _option(config, "kafka_broker_scope")


# -- the broker


class Wish:
    """A marker's demands on the broker. Tests with the same demands share a broker."""

    def __init__(self, marked: Mapping[str, Any]) -> None:
        self.config: dict[str, object] = dict(marked.get("config", {}))
        self.options = {name: marked[name] for name in OPTIONS if marked.get(name) is not None}
        config = sorted((name, str(value)) for name, value in self.config.items())
        self._key = repr((config, sorted(self.options.items())))  # some values have no hash

    def __bool__(self) -> bool:
        return bool(self.config or self.options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wish) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        """Return the text for a test's name, without passwords."""
        told = [f"{name}={value}" for name, value in sorted(self.config.items())]
        return ",".join([*(str(self.options[name]) for name in ("emulate", "security") if name in self.options), *told])


def _marked(item: pytest.Item) -> dict[str, Any]:
    """Return the joined markers of a test, class and module. The nearest marker wins, of configs key by key."""
    marked: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("kafka"))):
        config = marker.kwargs.get("config")
        marked["config"] = marked.get("config", {}) | (config if isinstance(config, dict) else {})
        marked |= {name: value for name, value in marker.kwargs.items() if name != "config"}
    return marked


def _mistake(marker: pytest.Mark) -> str:
    """Return the mistake in a marker, which would otherwise pass in silence."""
    if marker.args:
        return f"{marker.args[0]!r} needs a name, such as config={{...}}"
    if unknown := _unknown(marker, ("config", "topics", "releases", *OPTIONS)):
        return unknown
    if not isinstance(marker.kwargs.get("config", {}), dict):
        return 'config must be a dict, such as config={"num.partitions": 3}'
    releases = marker.kwargs.get("releases", ())
    if isinstance(releases, str) or not all(isinstance(each, str) for each in releases):
        return 'releases must be a list of texts, such as releases=["2.8", "3.9"]'
    if releases and "emulate" in marker.kwargs:
        return "releases and emulate both choose the release"
    topics = marker.kwargs.get("topics", ())
    if isinstance(topics, (str, dict)) or not all(map(_is_topic, topics)):
        return 'topics must be a list of names, or of tuples as ("orders", 3) or ("orders", 3, {"retention.ms": 1000})'
    return ""


def _unknown(marker: pytest.Mark, known: Collection[str]) -> str:
    """Return the unknown argument of a marker in a sentence, or nothing."""
    unknown = [name for name in marker.kwargs if name not in known]
    return f"unknown argument {unknown[0]}; it takes {', '.join(known)}" if unknown else ""


def _is_topic(topic: Any) -> bool:
    if isinstance(topic, str):
        return True
    kinds = (str, int, dict)
    return isinstance(topic, tuple) and 2 <= len(topic) <= 3 and all(map(isinstance, topic, kinds))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the fixture of a marked test another parameter, for another broker."""
    if "kafka_broker" not in metafunc.fixturenames:
        return
    marked = _marked(metafunc.definition)
    releases = marked.get("releases")
    if releases and not any(map(_mistake, metafunc.definition.iter_markers("kafka"))):
        wishes = [Wish(marked | {"emulate": release}) for release in releases]
        metafunc.parametrize("kafka_broker", wishes, indirect=True, ids=list(releases))
    elif wish := Wish(marked):
        shown: Any = getattr(pytest, "HIDDEN_PARAM", str(wish) or "its own")  # so a marker changes no test's name
        metafunc.parametrize("kafka_broker", [wish], indirect=True, ids=[shown])


@pytest.fixture(scope=_scope)
def kafka_broker(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[Controlled]:
    """A running broker; `kafka_broker.bootstrap_servers` is the address for clients."""
    __tracebackhide__ = True
    from pykafka_broker.testing import KafkaBroker

    wish: Wish = getattr(request, "param", Wish({}))
    if url := _url(pytestconfig):
        if wish:
            pytest.skip(f"the test needs a broker with its own settings ({wish}), and the run uses the broker at {url}")
        with _remote(url) as remote:
            if _resets(pytestconfig):
                remote.reset()  # an earlier run has left what its last test made
            yield remote
        return
    shared, options = pytestconfig.stash[_SHARED], dict(wish.options)
    if release := pytestconfig.getoption("--kafka-emulate"):
        options["emulate"] = release
    if pytestconfig.getini("kafka_broker_allow_unknown_config"):
        options["allow_unknown_config"] = True
    if pytestconfig.getoption("--kafka-in-process") or pytestconfig.getini("kafka_in_process"):
        options.setdefault("in_process", True)
    of_ini, given = (_configs(pytestconfig, origin) for origin in (CONFIG_INI, CONFIG_OPTION))
    with KafkaBroker(of_ini | wish.config | given, **options) as broker:
        shared[broker] = broker.log_size
        yield broker
        del shared[broker]


def _remote(url: str) -> RemoteBroker:
    """Return the broker that runs already. Fails the test if the broker can't be reached."""
    from pykafka_broker.testing import RemoteBroker

    try:
        remote = RemoteBroker(url)
        remote.clock.now()
    except (OSError, ValueError) as error:
        reason = f"{url}: {error.strerror or error}" if isinstance(error, OSError) else error
        pytest.fail(f"--kafka-broker-url, {URL_VARIABLE} or kafka_broker_url: {reason}", pytrace=False)
    return remote


@pytest.fixture
def async_kafka_broker(kafka_broker: Controlled) -> AsyncKafkaBroker | AsyncRemoteBroker:
    """The broker of `kafka_broker` for a test with an event loop.

    It has no loop of its own, so whatever runs the test on one will do: pytest-asyncio, anyio, `asyncio.run`.
    """
    from pykafka_broker.testing import AsyncKafkaBroker, AsyncRemoteBroker, KafkaBroker

    if isinstance(kafka_broker, KafkaBroker):
        return AsyncKafkaBroker.of(kafka_broker)
    return AsyncRemoteBroker(kafka_broker.control_url)


@pytest.fixture
def kafka_broker_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., KafkaBroker]]:
    """A starter of brokers for the test's time: `kafka_broker_factory({"num.partitions": 3})`, with arguments of
    `KafkaBroker`.
    """
    from pykafka_broker.testing import KafkaBroker

    own = request.node.stash.setdefault(_OWN, [])
    with ExitStack() as stack:

        def start(*args: Any, **kwargs: Any) -> KafkaBroker:
            __tracebackhide__ = True
            broker = KafkaBroker(*args, **kwargs).start()
            own.append(stack.push(broker))
            return broker

        yield start


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three brokers for the test alone; `@pytest.mark.kafka_cluster(...)` takes the arguments of `KafkaCluster`."""
    __tracebackhide__ = True
    from pykafka_broker.testing import KafkaCluster

    marker = request.node.get_closest_marker("kafka_cluster") or pytest.mark.kafka_cluster.mark
    wrong = f"{marker.args[1]!r} needs a name, such as config={{...}}" if len(marker.args) > 1 else ""
    if wrong := wrong or _unknown(marker, list(signature(KafkaCluster).parameters)):
        pytest.fail(f"@pytest.mark.kafka_cluster: {wrong}", pytrace=False)
    own = request.node.stash.setdefault(_OWN, [])
    with KafkaCluster(*marker.args, **marker.kwargs) as cluster:
        own.extend(cluster.nodes.values())
        _record(request, cluster)
        if (run := request.node.stash.get(_CHAOS, None)) is not None:
            run.begin("kafka_cluster", cluster.faults, cluster)
        yield cluster


def _record(request: pytest.FixtureRequest, running: Controlled) -> None:
    """Record what comes to a test's broker or cluster, if the command line asks for recordings."""
    if request.config.getoption("--kafka-record"):
        running.start_recording()
        request.node.stash[_RECORDED] = running


@pytest.fixture
def async_kafka_cluster(kafka_cluster: KafkaCluster) -> AsyncKafkaCluster:
    """The cluster of `kafka_cluster` for a test with an event loop."""
    from pykafka_broker.testing import AsyncKafkaCluster

    return AsyncKafkaCluster.of(kafka_cluster)


@pytest.fixture(autouse=True)
def _kafka_broker_as_wished(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> None:
    """Empty a test's broker, and create the topics of the marker."""
    __tracebackhide__ = True
    for marker, fixture in (("kafka", "kafka_broker"), ("kafka_cluster", "kafka_cluster")):
        if fixture not in request.fixturenames and any(each.name == marker for each in request.node.own_markers):
            pytest.fail(UNUSED.format(marker=marker, fixture=fixture), pytrace=False)
    if "kafka_broker" not in request.fixturenames:
        return
    from pykafka_broker.testing.controlled import Controlled

    broker, used = request.getfixturevalue("kafka_broker"), pytestconfig.stash[_USED]
    if not isinstance(broker, Controlled):
        return  # a suite may have another fixture of this name
    for wrong in filter(None, map(_mistake, request.node.iter_markers("kafka"))):
        pytest.fail(f"@pytest.mark.kafka: {wrong}", pytrace=False)
    marked, callspec = _marked(request.node), getattr(request.node, "callspec", None)
    had = Wish({}) if callspec is None else callspec.params.get("kafka_broker", Wish({}))
    wishes = [Wish(marked | {"emulate": each}) for each in marked.get("releases", ())] or [Wish(marked)]
    if had not in wishes:
        pytest.fail(TOO_LATE, pytrace=False)
    if broker in used:
        _make_usable(broker, pytestconfig)
    used.add(broker)
    request.node.stash[_ASKED] = broker
    for topic in marked.get("topics", ()):
        broker.create_topic(*((topic,) if isinstance(topic, str) else topic))
    _record(request, broker)
    if (run := request.node.stash.get(_CHAOS, None)) is not None:
        run.begin("kafka_broker", broker.faults)


def _make_usable(broker: Controlled, config: pytest.Config) -> None:
    """Undo the effects of earlier tests on the broker."""
    from pykafka_broker.testing import KafkaBroker

    empty = _resets(config)
    if empty and config.stash[_FILLED]:
        there = _topics(broker)
        for fixture, ids in config.stash[_FILLED].items():
            if deleted := sorted(name for id_, name in there.items() if id_ in ids):
                config.stash[_EMPTIED][fixture] = deleted
    if isinstance(broker, KafkaBroker):
        broker._make_usable(empty=empty)
    elif empty:
        broker.reset()


# -- fixtures that fill the broker


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, None]:
    """Note the topics made by a fixture of wider scope: later tests miss them after a reset."""
    wider = fixturedef.scope != "function"
    before = [(broker, _topics(broker)) for broker in request.config.stash[_SHARED] if wider]
    yield
    made = {id_ for broker, topics in before for id_ in _topics(broker).keys() - topics.keys()}
    if made:
        request.config.stash[_FILLED][fixturedef.argname] = made
        request.config.stash[_EMPTIED].pop(fixturedef.argname, None)


def _topics(broker: Controlled) -> dict[str, str]:
    """Return the names of topics by id; none of an unreachable broker."""
    with suppress(*_unreachable()):
        return {each["topic_id"]: each["name"] for each in broker.topics()}
    return {}


def _unreachable() -> tuple[type[Exception], ...]:
    """Return the errors of a broker that has ended, or was stopped by the test."""
    from pykafka_broker.testing import BrokerError, ControlError

    return BrokerError, ControlError, OSError


# -- chaos


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test marked `kafka_chaos` under each seed, until it fails; then cut the failure down."""
    spec = _chaos_of(item)
    if spec is None or isinstance(spec, str):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = _ChaosRuns(cast("pytest.Function", item), spec).reports()
    ended = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown")
    if ended.excinfo is not None:
        reports.append(item.ihook.pytest_runtest_makereport(item=item, call=ended))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _chaos_of(item: pytest.Item) -> ChaosSpec | str | None:
    """Return the chaos of a test, or the mistake in its marker; None without a marker."""
    marker = item.get_closest_marker("kafka_chaos")
    if marker is None:
        return None
    from pykafka_broker.testing.chaos import ChaosSpec

    if not isinstance(item, pytest.Function) or (item.cls is not None and issubclass(item.cls, unittest.TestCase)):
        return "a unittest.TestCase can't be run again by pytest: make it a function"
    if not {"kafka_broker", "kafka_cluster"}.intersection(item.fixturenames):
        return "the test has neither kafka_broker nor kafka_cluster"
    if unknown := _unknown(marker, list(signature(ChaosSpec).parameters)):
        return unknown
    try:
        spec = ChaosSpec(*marker.args, **marker.kwargs)
    except (TypeError, ValueError) as error:
        return str(error)
    if spec.trouble and "kafka_cluster" not in item.fixturenames:
        return "trouble is for the brokers of a kafka_cluster"
    count = item.config.getoption("--kafka-chaos-seeds")
    if count:
        spec.seeds = range(1, count + 1)
    return spec


class _Between(pytest.Item):
    """A stand-in for the next test, which pytest asks for, so that fixtures of a wider scope stay."""

    def runtest(self) -> None:
        """Do nothing: no session has the item."""


class _ChaosRuns:
    """The runs of a test under chaos."""

    def __init__(self, item: pytest.Function, spec: ChaosSpec) -> None:
        self._item = item
        self._spec = spec
        self._between = _Between.from_parent(cast("pytest.Collector", item.parent), name=f"{item.name} again")

    def reports(self) -> list[pytest.TestReport]:
        """Run the test; return the reports of its smallest failure, without a failure those of the last run."""
        from pykafka_broker.testing.chaos import ChaosRun, nothing_fits

        reports: list[pytest.TestReport] = []
        is_idle = True
        for seed in self._spec.seeds:
            run = ChaosRun(self._spec, seed)
            reports = self._run(run)
            if _place_of_failure(reports) is not None:
                return self._cut_down(run, reports)
            is_idle = is_idle and run.is_idle
        for report in reports:
            if is_idle and report.when == "call" and report.passed:
                report.outcome, report.longrepr = "failed", nothing_fits(self._spec)
        return reports

    def _cut_down(self, run: ChaosRun, reports: list[pytest.TestReport]) -> list[pytest.TestReport]:
        """Run a failed test again with ever fewer faults; return the reports of its smallest failure."""
        from pykafka_broker.testing.chaos import ChaosRun, Verdict, shrunk

        place, runs = _place_of_failure(reports), 0

        def fails(faults: Sequence[Hit]) -> bool:
            nonlocal runs, reports
            runs += 1
            again = self._run(ChaosRun(self._spec, run.seed, faults))
            if _place_of_failure(again) != place:
                return False
            reports = again
            return True

        enough: list[Hit] | None = None
        if (met := run.met) and self._spec.shrink_runs and any(fails(met) for _ in range(_MOST_AGAIN)):
            enough = [] if fails([]) else shrunk(met, fails, self._spec.shrink_runs)
        failed = next(report for report in reports if report.failed)
        failed.sections.append(("kafka chaos", Verdict(run, runs, enough).text()))
        return reports

    def _run(self, run: ChaosRun) -> list[pytest.TestReport]:
        """Run the test once; return the reports."""
        from _pytest.runner import runtestprotocol

        _forget_last_failure()
        self._item.stash[_CHAOS] = run
        self._item._report_sections.clear()  # what the run before it has printed
        self._item._initrequest()  # the fixtures of the test's own scope are made anew
        return runtestprotocol(self._item, log=False, nextitem=self._between)


def _forget_last_failure() -> None:
    """Let go of the frames of the last failure: the clients in them would go on asking the broker in the next run."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()


def _place_of_failure(reports: Sequence[pytest.TestReport]) -> object:
    """Return where a test failed, so that another failure is not taken for the same; None if it passed."""
    for report in reports:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            return report.when, getattr(crash, "path", None), getattr(crash, "lineno", None)
    return None


# -- the report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if isinstance(wrong := _chaos_of(item), str):
        pytest.fail(f"@pytest.mark.kafka_chaos: {wrong}", pytrace=False)
    shared = item.config.stash[_SHARED]
    shared.update({broker: broker.log_size for broker in shared})


@pytest.hookimpl(hookwrapper=True)  # the older form: whoever has pytest 7 with an early pluggy has this plugin as well
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    run = item.stash.get(_CHAOS, None)
    if run is not None and (report.when == "call" or report.failed):
        with suppress(*_unreachable()):
            run.end()
    if report.failed and report.when == "call" and (recorded := item.stash.get(_RECORDED, None)) is not None:
        report.sections.append(("recording", _save_recording(recorded, item)))
    if report.failed:
        own: list[KafkaBroker] = item.stash.get(_OWN, [])
        for broker, logged_before in (item.config.stash[_SHARED] | dict.fromkeys(own, 0)).items():
            if logged := broker.log_since(logged_before):
                report.sections.append((f"log of the broker at {broker._address}", logged))
            elif broker not in own and broker is not item.stash.get(_ASKED, None):
                continue  # its requests are those of other tests
            if lines := "\n".join(map(_request_line, _requests(broker))):
                title = f"last requests at the broker at {broker._address} (its page: {broker.control_url})"
                report.sections.append((title, lines))
        for fixture, topics in item.config.stash[_EMPTIED].items():
            if fixture in getattr(item, "fixturenames", ()):
                report.sections.append(("hint", HINT.format(fixture=fixture, topics=", ".join(topics))))


def _save_recording(broker: Controlled, item: pytest.Item) -> str:
    """Save the recording of a failed test; return what to read about it."""
    name = re.sub(r"[^\w.-]+", "-", item.nodeid).encode()[-_MOST_FILE_NAME:].decode(errors="ignore")
    path = Path(item.config.getoption("--kafka-record")) / f"{name}.jsonl"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        state = broker.save_recording(path)
    except _unreachable() as error:
        return f"it could not be saved: {error}"
    return f"{state['exchanges']} requests: pykafka-broker replay {path}"


def _requests(broker: KafkaBroker) -> list[dict[str, Any]]:
    """Return the last requests, lost at a reset; none of an unreachable broker."""
    with suppress(*_unreachable()):
        query = {"limit": _MOST_REQUESTS, "waiting": False}
        asked: list[dict[str, Any]] = broker.control.call("GET", "/requests", query=query, timeout_s=_PATIENCE_S)
        return asked
    return []


def _request_line(request: Mapping[str, Any]) -> str:
    told = " ".join([*request["errors"], *([f"(fault {request['fault']})"] if request["fault"] is not None else [])])
    return (
        f"{request['api']} v{request['version']} of {request['client_id'] or '-'} at {request['client']}, answered in "
        f"{request['duration_ms']:.1f} ms{f': {told}' if told else ''}"
    )


__all__ = [
    "aiokafka_consumer",
    "aiokafka_consumer_factory",
    "aiokafka_producer",
    "aiokafka_producer_factory",
    "async_kafka_broker",
    "async_kafka_cluster",
    "kafka_admin",
    "kafka_admin_factory",
    "kafka_broker",
    "kafka_broker_factory",
    "kafka_client",
    "kafka_cluster",
    "kafka_consumer",
    "kafka_consumer_factory",
    "kafka_producer",
    "kafka_producer_factory",
    "kafka_topic",
]
