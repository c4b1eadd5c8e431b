"""The plugin in runs of pytest of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SHARED = """
    ports = set()
    def test_one(kafka_broker):
        ports.add(kafka_broker.port)
    def test_two(kafka_broker):
        ports.add(kafka_broker.port)
    def test_count():
        assert len(ports) == {count}
"""


@pytest.fixture(autouse=True)
def only_our_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the others that happen to be installed."""
    pytester.plugins = ["pykafka_broker.pytest_plugin"]
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


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
