"""Markers of the plugin: a broker with the settings, release, users and rights that a test asks for."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("only_our_plugin")


def test_a_marker_asks_for_settings_and_topics(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        seen = {}
        def note(broker):
            seen.setdefault(broker.pid, []).append(broker.config)
        def test_plain(kafka_broker):
            note(kafka_broker)
        @pytest.mark.kafka(config={"num.partitions": 3}, topics=["a", ("b", 2), ("c", 3, {"retention.ms": 5})])
        def test_marked(kafka_broker):
            note(kafka_broker)
            made = [(each["name"], each["partitions"]) for each in kafka_broker.topics()]
            assert made == [("a", 1), ("b", 2), ("c", 3)]
            assert kafka_broker.topic("c")["config"] == {"retention.ms": "5"}
        @pytest.mark.kafka(config={"num.partitions": 3})
        def test_marked_alike(kafka_broker):
            note(kafka_broker)
            kafka_broker.produce("d", ["1"])
            assert kafka_broker.topic("d")["partitions"] == 3
        def test_they_share():
            assert sorted(map(len, seen.values())) == [1, 2]
    """)
    pytester.runpytest("--strict-markers").assert_outcomes(passed=4)


def test_a_marker_an_option_and_the_ini_file_want_it_in_the_process(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.mark.kafka(in_process=True)
        def test_marked(kafka_broker):
            assert kafka_broker.in_process
            kafka_broker.kill()
        @pytest.mark.kafka(in_process=True)
        def test_after_it(kafka_broker):
            assert kafka_broker.topics() == []
        def test_plain(kafka_broker, request):
            assert kafka_broker.in_process == bool(request.config.getoption("--kafka-in-process"))
    """)
    pytester.runpytest().assert_outcomes(passed=3)
    pytester.runpytest("--kafka-in-process").assert_outcomes(passed=3)
    pytester.makepyfile("def test_plain(kafka_broker): assert kafka_broker.in_process")
    pytester.makeini("[pytest]\nkafka_in_process = true\n")
    pytester.runpytest().assert_outcomes(passed=1)


def test_a_marker_asks_for_a_release(pytester: pytest.Pytester) -> None:
    """Tests of one release share a broker; their names stay as they are."""
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
    result = pytester.runpytest("--strict-markers", "-v")
    result.assert_outcomes(passed=5)
    assert ("test_of_2_8[2.8]" in result.stdout.str()) == (not hasattr(pytest, "HIDDEN_PARAM"))


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
            assert kafka_producer.flush(60) == 0
            assert [each.value for each in kafka_broker.records("t")] == ["1"]

        @secured
        def test_two(kafka_broker):
            assert (kafka_broker.records("t"), {kafka_broker.port}) == ([], seen)
    """)
    result = pytester.runpytest("-v")
    result.assert_outcomes(passed=2)
    assert "hunter2" not in result.stdout.str()
    assert ("test_one[sasl_ssl]" in result.stdout.str()) == (not hasattr(pytest, "HIDDEN_PARAM"))


def test_what_the_marker_does_not_know_is_refused(pytester: pytest.Pytester) -> None:
    """Unknown arguments are errors: a mistyped one would else run the test with another broker than it asks for."""
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
        @pytest.mark.kafka(topics=[("orders", {"retention.ms": 5})])
        def test_without_a_number(kafka_broker): pass
        @pytest.mark.kafka_cluster(2, None)
        def test_of_a_cluster(kafka_cluster): pass
        @pytest.mark.kafka_cluster(broker=2)
        def test_of_a_mistyped_cluster(kafka_cluster): pass
        def test_unmarked(kafka_broker): pass
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=7)
    lines = [
        "@pytest.mark.kafka: unknown argument confg; it takes config, topics, *",
        "@pytest.mark.kafka: {'num.partitions': 3} needs a name, such as config={...}",
        '@pytest.mark.kafka: config must be a dict, such as config={"num.partitions": 3}',
        *['@pytest.mark.kafka: topics must be a list of names, or of tuples as ("orders", 3) or *'] * 2,
        "@pytest.mark.kafka_cluster: None needs a name, such as config={...}",
        "@pytest.mark.kafka_cluster: unknown argument broker; it takes brokers, racks, *",
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
            @pytest.mark.kafka(topics=["its-own"], config={"ssl.cipher.suites": ["a", "b"]})
            def test_two(self, kafka_broker):
                assert kafka_broker.config["ssl.cipher.suites"] == "a,b"
                assert kafka_broker.config["num.partitions"] == "3"
                assert [each["name"] for each in kafka_broker.topics()] == ["its-own"]
    """)
    pytester.runpytest().assert_outcomes(passed=2)


def test_a_marker_that_comes_too_late_is_told(pytester: pytest.Pytester) -> None:
    """A marker on a single parameter is an error if it asks for other settings than the test's broker has."""
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
    result = pytester.runpytest()
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["@pytest.mark.kafka chooses the broker of a whole test, class or module: *"] * 2)


def test_a_marker_without_its_fixture_is_told(pytester: pytest.Pytester) -> None:
    """A test's marker without its fixture is an error; a module's marker may be meant for other tests."""
    pytester.makepyfile("""
        import pytest
        pytestmark = [pytest.mark.kafka(topics=["orders"]), pytest.mark.kafka_cluster(brokers=2)]
        @pytest.mark.kafka(config={"num.partitions": 3})
        def test_of_a_cluster(kafka_cluster): pass
        @pytest.mark.kafka_cluster(brokers=2)
        def test_of_a_broker(kafka_broker): pass
        def test_without(): pass
    """)
    result = pytester.runpytest("--kafka-in-process")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.kafka has no effect: it is for kafka_broker, *",
            "@pytest.mark.kafka_cluster has no effect: it is for kafka_cluster, *",
        ]
    )


def test_a_test_may_be_run_against_several_releases(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        seen = []

        @pytest.mark.kafka(releases=["0.11", "2.8", "4.3"], topics=["orders"])
        def test_release(kafka_broker):
            assert [topic["name"] for topic in kafka_broker.topics()] == ["orders"]
            seen.append(kafka_broker.emulate)

        def test_all(): assert seen == ["0.11", "2.8", "4.3"]
    """)
    result = pytester.runpytest("-v")
    result.assert_outcomes(passed=4)
    for release in ("0.11", "2.8", "4.3"):
        result.stdout.fnmatch_lines([f"*::test_release?{release}? PASSED*"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ('releases="2.8"', "releases must be a list of texts"),
        ("releases=[2.8]", "releases must be a list of texts"),
        ('releases=["2.8"], emulate="3.9"', "releases and emulate both choose the release"),
    ],
)
def test_mistakes_in_releases_are_told(pytester: pytest.Pytester, given: str, says: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.kafka({given})\ndef test_it(kafka_broker): pass\n")
    result = pytester.runpytest()
    assert says in result.stdout.str()
    assert result.ret
