"""The plugin in runs of pytest of its own."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from pykafka_broker import testing
from pykafka_broker.pytest_plugin import NOT_AWAITED
from pykafka_broker.testing import KafkaBroker

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("only_our_plugin")

TESTING = Path(testing.__file__).parent
UNRAISABLE = NOT_AWAITED["pytest.PytestUnraisableExceptionWarning"]
SHARED = """
    ports = set()
    def test_one(kafka_broker):
        ports.add(kafka_broker.port)
    def test_two(kafka_broker):
        ports.add(kafka_broker.port)
    def test_count():
        assert len(ports) == {count}
"""


def test_one_broker_for_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHARED.format(count=1))
    pytester.runpytest().assert_outcomes(passed=3)


def test_what_a_run_here_imports_is_not_imported_again(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    program = pytester.makepyfile("import colorsys\ndef test_nothing(): pass")
    pytester.runpytest().assert_outcomes(passed=1)
    assert "colorsys" in sys.modules
    assert program.stem not in sys.modules


def test_no_broker_imports_what_pytest_has_rewritten(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('import pytest; pytest.register_assert_rewrite("pykafka_broker")')  # as for installed plugins
    pytester.makepyfile("""
        import sys
        def test_two_in_process(kafka_broker_factory):
            first, second = [kafka_broker_factory(in_process=True) for _ in range(2)]
            ours = {name: module for name, module in sys.modules.items() if name.startswith("pykafka_broker.")}
            assert len(ours) > 100
            rewritten = {name for name, module in ours.items() if "Rewriting" in type(module.__loader__).__name__}
            before = {"pykafka_broker.pytest_plugin", "pykafka_broker.testing", "pykafka_broker.testing.fixtures"}
            assert rewritten <= before
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_scope_can_be_narrowed_by_option_and_ini(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHARED.format(count=2))
    pytester.runpytest("--kafka-broker-scope=function").assert_outcomes(passed=3)
    pytester.makeini("[pytest]\nkafka_broker_scope = function\n")
    pytester.runpytest().assert_outcomes(passed=3)


def test_configs_come_from_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_broker_config =\n  num.partitions = 3\n  fetch.max.bytes=4096\n")
    pytester.makepyfile("""
        def test_config(kafka_broker):
            assert kafka_broker.config == {"num.partitions": "3", "fetch.max.bytes": "4096"}
    """)
    pytester.runpytest().assert_outcomes(passed=1)


def test_a_mistake_in_the_ini_file_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_unrelated(): pass")
    for setting, complaint in (
        ("kafka_broker_scope = forever", "ERROR: kafka_broker_scope = forever: it must be one of session, package,*"),
        (
            "kafka_broker_config = num.partitions 3",
            "ERROR: kafka_broker_config: num.partitions 3: it must be key=value",
        ),
        ("kafka_broker_config = =3", "ERROR: kafka_broker_config: =3: it must be key=value"),
        ("kafka_client = flink", "ERROR: kafka_client = flink: it must be one of confluent, kafka-python"),
    ):
        pytester.makeini(f"[pytest]\n{setting}\n")
        result = pytester.runpytest()
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([complaint])
        assert "Traceback" not in result.stderr.str()


def test_a_call_without_await_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = ignore\nkafka_in_process = true\n")
    pytester.makepyfile("""
        import asyncio
        def test_assertion(async_kafka_broker):
            async def main():
                async_kafka_broker.assert_records("no such topic", ["1"])
            asyncio.run(main())
        def test_property(async_kafka_broker):
            async def main():
                assert async_kafka_broker.clock.frozen
            asyncio.run(main())
        def test_others(async_kafka_broker):
            async def mine():
                pass
            mine()
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*coroutine 'AsyncWaits.assert_records' was never awaited"])


def test_every_asynchronous_form_is_one_that_fails_without_await() -> None:
    text = "\n".join(map(Path.read_text, TESTING.rglob("*.py")))
    names = re.findall(r"^class (Async\w+|Simulated(?:Broker|Cluster))\b", text, re.MULTILINE)
    assert {"AsyncKafkaBroker", "AsyncWaits", "SimulatedCluster"} <= {*names}
    for start, pattern in (("coroutine '", NOT_AWAITED["RuntimeWarning"]), ("in: <coroutine object ", UNRAISABLE)):
        assert [each for each in names if not re.match(pattern, f"{start}{each}.x' was never awaited")] == []
        assert re.match(pattern, f"{start}AsyncKafkaShop.x' was never awaited") is None


def test_settings_of_clients_have_names(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        def test_factories(kafka_producer_factory, kafka_admin_factory, kafka_consumer_factory):
            for make, wrong in ((kafka_producer_factory, {"linger.ms": 5}), (kafka_admin_factory, "orders")):
                with pytest.raises(TypeError, match="^settings have names, such as .*'shop'}; not "):
                    make(wrong)
            for wrong in ({"group.id": "billing"}, ["orders"]):
                with pytest.raises(TypeError, match="^settings have names, such as .*, and a topic is a name; not "):
                    kafka_consumer_factory(wrong)
    """)
    pytester.runpytest("--kafka-in-process").assert_outcomes(passed=1)


def test_factory_ends_its_brokers_with_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        brokers = []
        def test_start(kafka_broker_factory):
            brokers.extend([kafka_broker_factory(), kafka_broker_factory({"num.partitions": 2})])
            assert all(broker.running for broker in brokers)
            assert brokers[1].config == {"num.partitions": "2"}
        def test_ended():
            assert not any(broker.running for broker in brokers)
    """)
    pytester.runpytest().assert_outcomes(passed=2)


def test_an_unknown_config_is_an_error_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        def test_start(kafka_broker_factory):
            kafka_broker_factory({"num_partitons": 3})
        @pytest.mark.kafka(config={"num.partitons": 3})
        def test_marked(kafka_broker): pass
        @pytest.mark.kafka(config={"num.partitons": 3}, allow_unknown_config=True)
        def test_allowed(kafka_broker): pass
    """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, failed=1, errors=1)
    says = "ValueError: unknown config {0}; did you mean num.partitions*? (allow_unknown_config=True lets it pass)"
    result.stdout.fnmatch_lines_random([f"*{says.format('num_partitons')}", f"*{says.format('num.partitons')}"])
    assert "process.py" not in result.stdout.str()


def test_an_unknown_config_of_the_ini_file_or_the_command_line_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_config(kafka_broker): pass")
    ini = "[pytest]\nkafka_broker_config =\n  no.such.key = 1\n"
    pytester.makeini(ini)
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    says = "unknown config no.such.key* (kafka_broker_allow_unknown_config = true lets it pass)"
    result.stderr.fnmatch_lines([f"ERROR: kafka_broker_config: {says}"])
    pytester.makeini(ini + "kafka_broker_allow_unknown_config = true\n")
    pytester.runpytest().assert_outcomes(passed=1)
    pytester.makeini("[pytest]\n")
    result = pytester.runpytest("--kafka-config=no.such.key=1")
    result.stderr.fnmatch_lines([f"ERROR: --kafka-config: {says}"])


def test_the_command_line_has_configs_and_a_release(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_broker_config =\n  num.partitions = 2\n  fetch.max.bytes = 4096\n")
    pytester.makepyfile("""
        import pytest
        def test_plain(kafka_broker):
            assert kafka_broker.config == {"num.partitions": "5", "fetch.max.bytes": "4096", "log.cleaner.threads": "2"}
            assert kafka_broker.emulate == "2.8"
        @pytest.mark.kafka(config={"num.partitions": 3}, emulate="1.1")
        def test_marked(kafka_broker):
            assert (kafka_broker.config["num.partitions"], kafka_broker.emulate) == ("5", "2.8")
    """)
    options = [
        "--kafka-config",
        "num.partitions=5",
        "--kafka-config",
        "log.cleaner.threads=2",
        "--kafka-emulate",
        "2.8",
    ]
    pytester.runpytest(*options).assert_outcomes(passed=2)
    for wrong, says in (
        (["--kafka-chaos-seeds=0"], "ERROR: --kafka-chaos-seeds: 0: at least one seed is run"),
        (["--kafka-config=num.partitions"], "ERROR: --kafka-config: num.partitions: it must be key=value"),
    ):
        pytester.runpytest(*wrong).stderr.fnmatch_lines([says])


@pytest.mark.parametrize("option", ["--kafka-config=num.partitions=3", "--kafka-emulate=2.8", "--kafka-in-process"])
def test_a_running_broker_takes_no_settings(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    pytester.makepyfile("def test_one(): pass")
    says = [f"ERROR: {option.partition('=')[0]} can't change the broker at http://h:1, which runs already"]
    pytester.runpytest(option, "--kafka-broker-url=http://h:1").stderr.fnmatch_lines(says)
    monkeypatch.setenv("PYKAFKA_BROKER_CONTROL_URL", "http://h:1")
    pytester.runpytest(option).stderr.fnmatch_lines(says)


LEAVES = [
    *("kafka_broker.kill()", "kafka_broker.stop()", "kafka_broker.close()", "kafka_broker.pause()"),
    "kafka_broker.fill_disk()",
    *(["os.kill(kafka_broker.pid, signal.SIGSTOP)"] if hasattr(signal, "SIGSTOP") else []),
]


@pytest.mark.parametrize("isolation", ["reset", "none"])
def test_what_a_test_does_to_the_broker_does_not_fail_the_next_one(pytester: pytest.Pytester, isolation: str) -> None:
    program = """
        import os, signal, pytest
        from interop.raw import RawClient
        from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
        def topics(broker):
            with RawClient(broker.bootstrap_servers) as client:
                return len(client.call(MetadataRequest(topics=None), 9).topics)
    """
    for number, leave in enumerate(LEAVES):
        expected = "0" if isolation == "reset" else "n" if "close" in leave else "1"
        program += f"""
        def test_leaves_{number}(kafka_broker):
            kafka_broker.produce("t", ["1"])
            {leave}
            assert 1 == 2
        @pytest.mark.parametrize("n", range(2))
        def test_after_{number}(kafka_broker, n):
            assert topics(kafka_broker) == {expected}
            kafka_broker.produce("t", ["1"])
        """
    pytester.makepyfile(program)
    result = pytester.runpytest(f"--kafka-broker-isolation={isolation}")
    result.assert_outcomes(passed=2 * len(LEAVES), failed=len(LEAVES))


@pytest.mark.parametrize(
    "leave", ["kafka_broker.clock.freeze(); kafka_broker.clock.advance(days=9)", "kafka_broker.faults.chaos(1, 1.0)"]
)
def test_time_and_faults_of_a_test_are_not_those_of_the_next_one(pytester: pytest.Pytester, leave: str) -> None:
    pytester.makepyfile(f"""
        import time
        def test_leaves(kafka_broker):
            {leave}
        def test_after(kafka_broker):
            assert abs(kafka_broker.clock.now() - time.time() * 1000) < 60_000
            assert not kafka_broker.clock.frozen
            assert kafka_broker.faults.all() == []
    """)
    pytester.runpytest().assert_outcomes(passed=2)


def test_a_broker_whose_data_is_damaged_begins_anew(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_damages(kafka_broker):
            kafka_broker.kill()
            (kafka_broker.data_dir / "meta.properties").write_text("version=nonsense")
        def test_after(kafka_broker):
            kafka_broker.produce("t", ["1"])
    """)
    pytester.runpytest().assert_outcomes(passed=2)


def test_a_unittest_that_ends_the_broker_does_not_fail_the_next_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from pykafka_broker.testing import KafkaBrokerTestCase
        class Orders(KafkaBrokerTestCase):
            def test_1(self):
                self.broker.kill()
            def test_2(self):
                self.assertEqual(self.broker.topics(), [])
    """)
    pytester.runpytest().assert_outcomes(passed=2)


def test_a_fixture_whose_topics_a_reset_has_deleted_is_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.fixture(scope="module")
        def orders(kafka_broker):
            kafka_broker.produce("orders", ["1"])
        def test_first(kafka_broker, orders):
            assert len(kafka_broker.records("orders")) == 1
        def test_second(kafka_broker, orders):
            assert len(kafka_broker.records("orders")) == 1
        def test_of_its_own(kafka_broker):
            assert False
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, failed=2)
    hint = (
        "fixture orders made topics that were deleted when the broker was reset before this test (orders): make the *"
    )
    result.stdout.fnmatch_lines(["*- hint -*", hint])
    assert result.stdout.str().count("fixture orders made topics") == 1


def test_the_report_of_a_failure_has_the_last_requests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_fails(kafka_broker, kafka_topic, kafka_producer):
            kafka_broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
            kafka_producer.produce(kafka_topic, b"1")
            kafka_producer.flush()
            assert False
    """)
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(
        [
            "*- last requests at the broker at 127.0.0.1:* (its page: http://127.0.0.1:*) -*",
            "Produce v* of rdkafka at 127.0.0.1:*, answered in * ms: NOT_LEADER_OR_FOLLOWER (fault 1)",
            "Produce v* of rdkafka at 127.0.0.1:*, answered in * ms",
        ]
    )


def test_requests_of_other_tests_are_not_in_the_report_of_a_failure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_with_a_broker(kafka_topic, kafka_producer):
            kafka_producer.produce(kafka_topic, b"1")
            kafka_producer.flush()
        def test_without_a_broker():
            assert False
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*last requests*")


def test_an_error_of_the_broker_is_shown_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        def test_refused(kafka_broker):
            kafka_broker.topic("none")
        def test_differs(kafka_broker, kafka_topic):
            kafka_broker.assert_records(kafka_topic, ["1"])
        def test_ended(kafka_broker):
            kafka_broker.stop()
            kafka_broker.topics()
    """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        ["*test_it.py:2: ControlError", "*test_it.py:4: RecordsDiffer", "*test_it.py:7: BrokerError"]
    )
    for ours in ("data.py", "control_client.py", "waits.py", "process.py"):
        assert ours not in result.stdout.str()


def test_aiokafka_has_fixtures(pytester: pytest.Pytester) -> None:
    """Use the fixtures with a plugin that runs coroutines, and without one by the factories."""
    pytester.makepyfile("""
        import asyncio
        import pytest
        @pytest.fixture
        def anyio_backend():
            return "asyncio"
        @pytest.mark.anyio
        async def test_clients(kafka_broker, kafka_topic, aiokafka_producer, aiokafka_consumer):
            await aiokafka_producer.send_and_wait(kafka_topic, b"1")
            record = await asyncio.wait_for(aiokafka_consumer.getone(), 20)
            assert record.value == b"1"
        def test_factories(kafka_broker, aiokafka_producer_factory, aiokafka_consumer_factory):
            async def run():
                async with aiokafka_producer_factory(client_id="mine") as producer:
                    await producer.send_and_wait("orders", b"1")
                async with aiokafka_consumer_factory("orders", group="billing") as consumer:
                    assert (await asyncio.wait_for(consumer.getone(), 20)).value == b"1"
                assert kafka_broker.requests(client_id="mine")
                assert [each["group_id"] for each in kafka_broker.groups()] == ["billing"]
            asyncio.run(run())
    """)
    pytester.runpytest("-p", "anyio").assert_outcomes(passed=2)


def test_a_broker_that_does_not_start_is_shown_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        def test_start(kafka_broker_factory):
            kafka_broker_factory({"num.partitions": 0})
    """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Invalid value 0 for configuration num.partitions*", "test_it.py:2: BrokerError"])
    assert not re.search(r"(process|pytest_plugin|contextlib)\.py", result.stdout.str())


def test_failed_test_shows_the_log_of_its_brokers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_fails(kafka_broker, kafka_broker_factory):
            kafka_broker_factory({"no.such.key": 1}, allow_unknown_config=True)
            assert False
    """)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*log of the broker at 127.0.0.1:*", "*unknown config no.such.key is ignored*"])
    assert result.stdout.str().count("log of the broker at") == 1  # the other one had nothing to say


def test_a_fixture_that_fails_shows_what_the_shared_broker_said_meanwhile(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import socket
        import pytest
        @pytest.fixture
        def nonsense(kafka_broker):
            with socket.create_connection((kafka_broker.host, kafka_broker.port)) as connection:
                connection.sendall(b"GET / HTTP/1.1")
                connection.recv(1)
            raise ValueError("no such thing")
        def test_one(nonsense): pass
        def test_two(kafka_broker):
            assert False
        def test_three(request):
            request.getfixturevalue("nonsense")
    """)
    result = pytester.runpytest()
    result.assert_outcomes(errors=1, failed=2)
    assert result.stdout.str().count("log of the broker at") == 2  # test_two's broker had nothing to say
    assert result.stdout.str().count("the client speaks HTTP") == 2


def test_each_test_finds_the_shared_broker_empty(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        brokers = set()
        @pytest.mark.parametrize("n", range(3))
        def test_one(kafka_broker, n):
            brokers.add(kafka_broker.pid)
            assert kafka_broker.topics() == []
            kafka_broker.produce("t", ["1"])
        def test_count():
            assert len(brokers) == 1
    """)
    pytester.runpytest().assert_outcomes(passed=4)
    pytester.runpytest("--kafka-broker-isolation=none").assert_outcomes(passed=2, failed=2)
    pytester.runpytest("--kafka-broker-scope=module").assert_outcomes(passed=2, failed=2)
    pytester.makeini("[pytest]\nkafka_broker_scope = module\nkafka_broker_isolation = reset\n")
    pytester.runpytest().assert_outcomes(passed=4)


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_clients_of_a_library_that_is_installed(pytester: pytest.Pytester, client: str) -> None:
    pytester.makeini(f"[pytest]\nkafka_client = {client}\n")
    pytester.makepyfile("""
        def test_clients(kafka_broker, kafka_client, kafka_topic, kafka_producer, kafka_consumer, kafka_admin):
            assert kafka_topic.startswith("test_clients-")
            kafka_producer.flush() if kafka_client == "confluent" else None
            value = "1" if kafka_client == "confluent" else b"1"
            getattr(kafka_producer, "produce" if kafka_client == "confluent" else "send")(kafka_topic, value)
            kafka_producer.flush()
            if kafka_client == "confluent":
                record = kafka_consumer.poll(60)
                assert (record.topic(), record.value()) == (kafka_topic, b"1")
                assert kafka_topic in kafka_admin.list_topics(timeout=60).topics
            else:
                record = next(iter(kafka_consumer))
                assert (record.topic, record.value) == (kafka_topic, b"1")
                assert kafka_topic in kafka_admin.list_topics()

        def test_factories(kafka_broker, kafka_client, kafka_consumer_factory, kafka_topic):
            for group in ("one", "two"):
                consumer = kafka_consumer_factory(kafka_topic, group=group)
                while group not in {each["group_id"] for each in kafka_broker.groups()}:
                    consumer.poll(0.1) if kafka_client == "confluent" else consumer.poll(100)
    """)
    pytester.runpytest().assert_outcomes(passed=2)


def test_a_broker_that_runs_already_is_used(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        def test_one(kafka_broker):
            assert [each["name"] for each in kafka_broker.topics()] == ["there"]
            assert kafka_broker.bootstrap_servers
        @pytest.mark.kafka(config={"num.partitions": 3})
        def test_of_its_own(kafka_broker):
            assert False
    """)
    with KafkaBroker() as broker:
        broker.create_topic("there")
        kept = "--kafka-broker-isolation=none"
        given = f"--kafka-broker-url={broker.control_url}"
        pytester.runpytest(given, kept).assert_outcomes(passed=1, skipped=1)
        pytester.makeini(f"[pytest]\nkafka_broker_url = {broker.control_url}\n")
        pytester.runpytest(kept).assert_outcomes(passed=1, skipped=1)


def test_a_second_run_finds_the_running_broker_empty(pytester: pytest.Pytester) -> None:
    """Lose what the first run's last test made, and keep what a wider fixture makes."""
    pytester.makepyfile("""
        import pytest
        @pytest.fixture(scope="session", autouse=True)
        def filled(kafka_broker):
            kafka_broker.create_topic("filled")
        def test_one(kafka_broker):
            assert [each["name"] for each in kafka_broker.topics()] == ["filled"]
            kafka_broker.create_topic("made")
    """)
    with KafkaBroker(in_process=True) as broker:
        for _ in range(2):
            run = pytester.runpytest(f"--kafka-broker-url={broker.control_url}")
            run.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("127.0.0.1:9644", "127.0.0.1:9644 is no URL of a control API: it must be http://HOST:PORT"),
        (
            "http://127.0.0.1:1/topics",
            "http://127.0.0.1:1/topics is no URL of a control API: it must be http://HOST:PORT",
        ),
    ],
)
def test_a_running_broker_that_is_not_there_is_a_line(pytester: pytest.Pytester, url: str, reason: str) -> None:
    pytester.makepyfile("def test_one(kafka_broker): pass")
    run = pytester.runpytest(f"--kafka-broker-url={url}")
    run.assert_outcomes(errors=1)
    run.stdout.fnmatch_lines([f"--kafka-broker-url, PYKAFKA_BROKER_CONTROL_URL or kafka_broker_url: *{reason}"])
    run.stdout.no_fnmatch_line("*http/client.py*")


def test_workers_do_not_empty_one_broker_under_each_other(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(): pass")
    given = ("-p", "xdist.plugin", "-n", "2", "--kafka-broker-url=http://127.0.0.1:1")
    refused = pytester.runpytest(*given)
    refused.stderr.fnmatch_lines(["ERROR: 2 workers would reset the broker at http://127.0.0.1:1 under each other: *"])
    pytester.runpytest(*given, "--kafka-broker-isolation=none").assert_outcomes(passed=1)


def test_recordings_of_tests_with_other_letters_have_their_names(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_заказ(kafka_broker):
            assert False
        def test_счёт(kafka_broker):
            assert False
    """)
    pytester.runpytest("--kafka-record=recordings", "--kafka-in-process").assert_outcomes(failed=2)
    names = sorted(each.name for each in (pytester.path / "recordings").iterdir())
    assert [name.partition("-test_")[2] for name in names] == ["заказ.jsonl", "счёт.jsonl"]


def test_a_fixture_of_that_name_that_is_the_suites_own_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.fixture(scope="session")
        def kafka_broker():
            return {"host": "elsewhere"}
        @pytest.mark.kafka(topics=["t"])
        def test_one(kafka_broker):
            assert kafka_broker["host"] == "elsewhere"
        def test_two(kafka_broker):
            assert kafka_broker["host"] == "elsewhere"
    """)
    pytester.runpytest().assert_outcomes(passed=2)


def test_the_number_of_brokers_needs_no_name(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.mark.kafka_cluster(1, controllers=0)
        def test_it(kafka_cluster):
            assert len(kafka_cluster.nodes) == 1
    """)
    pytester.runpytest().assert_outcomes(passed=1)


def test_an_asynchronous_broker_for_whatever_runs_the_loop(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import asyncio
        import pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        @pytest.mark.kafka(topics=["orders"])
        async def test_by_a_plugin(async_kafka_broker, kafka_broker):
            await async_kafka_broker.produce("orders", ["1"])
            assert [each["name"] for each in await async_kafka_broker.topics()] == ["orders"]
            assert async_kafka_broker.bootstrap_servers == kafka_broker.bootstrap_servers

        def test_by_hand(async_kafka_broker):
            assert asyncio.run(async_kafka_broker.topics()) == []
            assert asyncio.run(async_kafka_broker.topics()) == []
    """)
    plugin = ("-p", "anyio", "-W", "error")
    pytester.runpytest(*plugin).assert_outcomes(passed=2)
    with KafkaBroker() as broker:
        pytester.runpytest_subprocess(*plugin, f"--kafka-broker-url={broker.control_url}").assert_outcomes(passed=2)
