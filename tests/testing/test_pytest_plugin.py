"""The plugin in runs of pytest of its own."""

from __future__ import annotations

import pytest

from pykafka_broker.testing import KafkaBroker

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("only_our_plugin")

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
    pytester.runpytest_subprocess().assert_outcomes(passed=3)


def test_scope_can_be_narrowed_by_option_and_ini(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHARED.format(count=2))
    pytester.runpytest_subprocess("--kafka-broker-scope=function").assert_outcomes(passed=3)
    pytester.makeini("[pytest]\nkafka_broker_scope = function\n")
    pytester.runpytest_subprocess().assert_outcomes(passed=3)


def test_configs_come_from_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_broker_config =\n  num.partitions = 3\n  fetch.max.bytes=4096\n")
    pytester.makepyfile("""
        def test_config(kafka_broker):
            assert kafka_broker.config == {"num.partitions": "3", "fetch.max.bytes": "4096"}
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_mistake_in_the_ini_file_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_unrelated(): pass")
    for setting, complaint in (
        ("kafka_broker_scope = forever", "ERROR: kafka_broker_scope = forever: it must be one of session, package,*"),
        (
            "kafka_broker_config = num.partitions 3",
            "ERROR: kafka_broker_config: num.partitions 3: it must be key=value",
        ),
        ("kafka_broker_config = =3", "ERROR: kafka_broker_config: =3: it must be key=value"),
    ):
        pytester.makeini(f"[pytest]\n{setting}\n")
        result = pytester.runpytest_subprocess()
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([complaint])
        assert "Traceback" not in result.stderr.str()


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
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_an_unknown_config_is_warned_of_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        def test_start(kafka_broker_factory):
            kafka_broker_factory({"no.such.key": 1})
    """
    )
    result = pytester.runpytest_subprocess()
    result.stdout.fnmatch_lines(["*test_it.py:2: UserWarning: unknown config no.such.key is ignored by the broker"])


def test_an_unknown_config_of_the_ini_file_is_warned_of_once_with_its_name(pytester: pytest.Pytester) -> None:
    ini = pytester.makeini("[pytest]\nkafka_broker_config =\n  no.such.key = 1\n")
    pytester.makepyfile("def test_config(kafka_broker): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, warnings=1)
    told = f"*PytestConfigWarning: {ini}: kafka_broker_config: unknown config no.such.key is ignored by the broker"
    result.stdout.fnmatch_lines([told])


def test_a_broker_that_does_not_start_is_shown_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        def test_start(kafka_broker_factory):
            kafka_broker_factory({"num.partitions": 0})
    """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_it.py:2:*", "*Invalid value 0 for configuration num.partitions*"])
    assert "process.py" not in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()


def test_failed_test_shows_the_log_of_its_brokers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_fails(kafka_broker, kafka_broker_factory):
            kafka_broker_factory({"no.such.key": 1})
            assert False
    """)
    result = pytester.runpytest_subprocess()
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
    result = pytester.runpytest_subprocess()
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
    pytester.runpytest_subprocess().assert_outcomes(passed=4)
    pytester.runpytest_subprocess("--kafka-broker-isolation=none").assert_outcomes(passed=2, failed=2)
    pytester.runpytest_subprocess("--kafka-broker-scope=module").assert_outcomes(passed=2, failed=2)
    pytester.makeini("[pytest]\nkafka_broker_scope = module\nkafka_broker_isolation = reset\n")
    pytester.runpytest_subprocess().assert_outcomes(passed=4)


def test_a_marker_asks_for_settings_and_topics(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        seen = {}
        def note(broker):
            seen.setdefault(broker.pid, []).append(broker.config)
        def test_plain(kafka_broker):
            note(kafka_broker)
        @pytest.mark.kafka(config={"num.partitions": 3}, topics=["a", ("b", 2)])
        def test_marked(kafka_broker):
            note(kafka_broker)
            assert [(each["name"], each["partitions"]) for each in kafka_broker.topics()] == [("a", 1), ("b", 2)]
        @pytest.mark.kafka(config={"num.partitions": 3})
        def test_marked_alike(kafka_broker):
            note(kafka_broker)
            kafka_broker.produce("c", ["1"])
            assert kafka_broker.topic("c")["partitions"] == 3
        def test_they_share():
            assert sorted(map(len, seen.values())) == [1, 2]
    """)
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=4)


def test_a_marker_asks_for_a_release(pytester: pytest.Pytester) -> None:
    """Tests of one release share a broker, and its name stands in theirs."""
    pytester.makepyfile("""
        import pytest
        from interop.raw import RawClient
        from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest

        seen = {}

        def newest_produce(broker):
            with RawClient(broker.bootstrap_servers) as client:
                keys = client.call(ApiVersionsRequest(), 0).api_keys
            seen.setdefault(broker.pid, 0)
            return next(key.max_version for key in keys if key.api_key == 0)

        def test_of_today(kafka_broker):
            assert newest_produce(kafka_broker) == 13
        @pytest.mark.kafka(emulate="2.8", topics=["t"])
        def test_of_2_8(kafka_broker):
            assert newest_produce(kafka_broker) == 9
            assert [each["name"] for each in kafka_broker.topics()] == ["t"]
        @pytest.mark.kafka(emulate="2.8")
        def test_of_2_8_again(kafka_broker):
            assert newest_produce(kafka_broker) == 9
            assert kafka_broker.topics() == []
        @pytest.mark.kafka(emulate="1.1")
        def test_of_1_1(kafka_broker):
            assert newest_produce(kafka_broker) == 5
        def test_each_release_has_one():
            assert len(seen) == 3
    """)
    result = pytester.runpytest_subprocess("--strict-markers", "-v")
    result.assert_outcomes(passed=5)
    assert "test_of_2_8[2.8]" in result.stdout.str()


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
                record = kafka_consumer.poll(10)
                assert (record.topic(), record.value()) == (kafka_topic, b"1")
                assert kafka_topic in kafka_admin.list_topics(timeout=10).topics
            else:
                record = next(iter(kafka_consumer))
                assert (record.topic, record.value) == (kafka_topic, b"1")
                assert kafka_topic in kafka_admin.list_topics()

        def test_factories(kafka_broker, kafka_client, kafka_consumer_factory, kafka_topic):
            for group in ("one", "two"):
                consumer = kafka_consumer_factory(kafka_topic, group=group)
                consumer.poll(0.5) if kafka_client == "confluent" else consumer.poll(500)
            assert {each["group_id"] for each in kafka_broker.groups()} == {"one", "two"}
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_client_that_is_not_known_is_told(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_client = flink\n")
    pytester.makepyfile("def test_one(kafka_client): pass")
    result = pytester.runpytest_subprocess()
    result.stdout.fnmatch_lines(["*kafka_client = flink: it must be one of confluent, kafka-python*"])


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
        pytester.runpytest_subprocess(f"--kafka-broker-url={broker.control_url}").assert_outcomes(passed=1, skipped=1)
        pytester.makeini(f"[pytest]\nkafka_broker_url = {broker.control_url}\n")
        pytester.runpytest_subprocess().assert_outcomes(passed=1, skipped=1)


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
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_marker_makes_a_broker_with_users_and_rights(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        secured = pytest.mark.kafka(
            security="sasl_ssl", users={"alice": "hunter2"}, acls=["alice may all topic *"], topics=["t"]
        )
        seen = set()

        @secured
        def test_one(kafka_broker, kafka_producer):
            seen.add(kafka_broker.port)
            kafka_producer.produce("t", b"1")
            assert kafka_producer.flush(10) == 0
            assert [each.value for each in kafka_broker.records("t")] == ["1"]

        @secured
        def test_two(kafka_broker):
            assert (kafka_broker.records("t"), {kafka_broker.port}) == ([], seen)
    """)
    result = pytester.runpytest_subprocess("-v")
    result.assert_outcomes(passed=2)
    assert "hunter2" not in result.stdout.str()
    assert "test_one[sasl_ssl]" in result.stdout.str()


def test_what_the_marker_does_not_know_is_refused(pytester: pytest.Pytester) -> None:
    """A mistyped word would otherwise be a test with another broker than it says."""
    pytester.makepyfile("""
        import pytest
        @pytest.mark.kafka(confg={"num.partitions": 3})
        def test_mistyped(kafka_broker): pass
        @pytest.mark.kafka({"num.partitions": 3})
        def test_without_a_name(kafka_broker): pass
        @pytest.mark.kafka(config=["num.partitions=3"])
        def test_a_list_of_settings(kafka_broker): pass
        @pytest.mark.kafka(topics="orders")
        def test_one_text(kafka_broker): pass
        @pytest.mark.kafka(topics=[("orders", 3, {"retention.ms": 5})])
        def test_three_things(kafka_broker): pass
        @pytest.mark.kafka_cluster(2, None)
        def test_of_a_cluster(kafka_cluster): pass
        def test_unmarked(kafka_broker): pass
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, errors=6)
    lines = [
        "@pytest.mark.kafka: there is no confg; it takes config, topics, *",
        "@pytest.mark.kafka: {'num.partitions': 3} needs a name, such as config={...}",
        '@pytest.mark.kafka: config must be a dict, such as config={"num.partitions": 3}',
        *['@pytest.mark.kafka: topics must be a list of names, or of pairs as ("orders", 3)'] * 2,
        "@pytest.mark.kafka_cluster: None needs a name, such as config={...}",
    ]
    result.stdout.fnmatch_lines(lines)
    assert "Traceback" not in result.stdout.str()


def test_markers_of_a_test_its_class_and_its_module_add_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        pytestmark = pytest.mark.kafka(config={"num.partitions": 3, "log.cleaner.threads": 2})
        @pytest.mark.kafka(topics=["of-the-class"])
        class TestOrders:
            @pytest.mark.kafka(config={"num.partitions": 4})
            def test_one(self, kafka_broker):
                assert kafka_broker.config == {"num.partitions": "4", "log.cleaner.threads": "2"}
                assert [each["name"] for each in kafka_broker.topics()] == ["of-the-class"]
            @pytest.mark.kafka(topics=["its-own"], config={"log.dirs.are.unknown": ["a", "b"]})
            def test_two(self, kafka_broker):
                assert kafka_broker.config["log.dirs.are.unknown"] == "a,b"
                assert kafka_broker.config["num.partitions"] == "3"
                assert [each["name"] for each in kafka_broker.topics()] == ["its-own"]
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_marker_that_comes_too_late_is_told(pytester: pytest.Pytester) -> None:
    """The broker of a parameter would have other settings than it says."""
    pytester.makepyfile("""
        import unittest
        import pytest
        @pytest.mark.parametrize("n", [1, pytest.param(3, marks=pytest.mark.kafka(config={"num.partitions": 3}))])
        def test_parameters(kafka_broker, n): pass
        @pytest.mark.kafka(emulate="2.8")
        @pytest.mark.usefixtures("kafka_broker")
        class TestOrders(unittest.TestCase):
            def test_it(self): pass
        @pytest.mark.parametrize("n", [pytest.param(3, marks=pytest.mark.kafka(topics=["of-a-parameter"]))])
        def test_topics(kafka_broker, n):
            assert [each["name"] for each in kafka_broker.topics()] == ["of-a-parameter"]
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["@pytest.mark.kafka chooses the broker of a whole test, class or module: *"] * 2)


def test_the_number_of_brokers_needs_no_name(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.mark.kafka_cluster(1, controllers=0)
        def test_it(kafka_cluster):
            assert len(kafka_cluster.nodes) == 1
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


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
    plugin = ("-p", "anyio")
    pytester.runpytest_subprocess(*plugin).assert_outcomes(passed=2)
    with KafkaBroker() as broker:
        pytester.runpytest_subprocess(*plugin, f"--kafka-broker-url={broker.control_url}").assert_outcomes(passed=2)
