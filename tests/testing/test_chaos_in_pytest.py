"""The plugin's chaos and recordings, in runs of pytest of their own."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.cli import main
from pykafka_broker.control.traffic.faults import Chaos
from pykafka_broker.protocol.api_keys import ApiKey

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("only_our_plugin")

SHOP = """
    import pytest
    from confluent_kafka import Producer

    made = []

    @pytest.fixture
    def producer({fixture}):
        made.append(1)
        return Producer({{"bootstrap.servers": {fixture}.bootstrap_servers, "client.id": "shop", **{config}}})

    @pytest.mark.kafka_chaos(seeds={seeds}, rate=0.2)
    def test_orders_come_once({fixture}, producer):
        {create}
        for number in range(8):
            producer.produce("orders", str(number), partition=0)
            assert producer.flush(30) == 0
        print("this was run", len(made))
        found = sorted(int(record.value) for record in {fixture}.records("orders"))
        assert found == list(range(8)), found

    def test_next({fixture}):
        assert {fixture}.topics() == []
        assert not {fixture}.faults.all()
"""
BROKER = {"fixture": "kafka_broker", "create": 'kafka_broker.create_topic("orders")'}


@pytest.mark.whole
def test_chaos_finds_a_seed_and_the_fault_that_is_enough(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHOP.format(seeds=20, config={}, **BROKER))
    result = pytester.runpytest()
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.re_match_lines([r"seed \d+ at rate 0.2 failed; 1 of \d+ faults is enough \(\d+ runs\):"])
    (line,) = [line.strip() for line in result.stdout.lines if line.startswith("    kafka_broker.faults.add(")]
    assert 'client_id="shop"' in line
    assert 'drop="after"' in line
    assert len(re.findall(r"this was run \d", result.stdout.str())) == 1  # and nothing of the runs before
    pasted = BROKER | {"create": f"{BROKER['create']}; {line}"}
    program = SHOP.format(seeds=20, config={}, **pasted).replace(
        "    @pytest.mark.kafka_chaos(seeds=20, rate=0.2)\n", ""
    )
    pytester.makepyfile(program)
    pytester.runpytest("-k", "orders").assert_outcomes(failed=1)


@pytest.mark.whole
def test_a_limited_chaos_disturbs_nothing_else(pytester: pytest.Pytester) -> None:
    limited = 'rate=0.2, api="Produce", client_id="shop", topic='
    for topic in ("orders", "letters"):
        program = SHOP.format(seeds=20, config={}, **BROKER).replace("rate=0.2", f'{limited}"{topic}"')
        pytester.makepyfile(program)
        result = pytester.runpytest_subprocess()
        result.assert_outcomes(failed=1, passed=1)
        if topic == "letters":
            limits = 'api="Produce", client_id="shop", topic="letters"'
            result.stdout.fnmatch_lines(
                [f"no request fits the chaos of {limits}, so it disturbs the test under no seed*"]
            )
        if topic == "orders":
            result.stdout.fnmatch_lines(
                ['*faults.add(client_id="shop", api="Produce", topic="orders", nth=*', f'*{limited}"orders")']
            )


def test_a_right_producer_passes_under_every_seed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHOP.format(seeds=20, config={"enable.idempotence": True}, **BROKER))
    pytester.runpytest("--kafka-chaos-seeds=3").assert_outcomes(passed=2)


@pytest.mark.parametrize(("silent", "told"), [(True, {"failed": 1}), (False, {"passed": 1})])
def test_a_test_that_no_chaos_can_disturb_proves_nothing(pytester: pytest.Pytester, silent: bool, told: Any) -> None:
    """Chance may draw nothing for the few requests of a test, but there must be some."""
    pytester.makepyfile(f"""
        import pytest
        from confluent_kafka.admin import AdminClient

        @pytest.mark.kafka_chaos(seeds=[1], rate=1e-9)
        def test_silent(kafka_broker):
            kafka_broker.produce("orders", ["1"])
            if not {silent}:
                AdminClient(kafka_broker.client_config("confluent")).list_topics(timeout=30)

        @pytest.mark.kafka_chaos(seeds=[1], rate=1e-9)
        def test_left_out(kafka_broker):
            pytest.skip("not here")
    """)
    result = pytester.runpytest()
    result.assert_outcomes(skipped=1, **told)
    told_idle = [line for line in result.stdout.lines if line.startswith("no request fits the chaos, so it disturbs")]
    assert len(told_idle) == told.get("failed", 0)


def test_chaos_spares_the_start_of_clients_of_aiokafka(pytester: pytest.Pytester) -> None:
    """aiokafka asks each address once when it starts, and its producers are numbered through the process."""
    client, api = "aiokafka-producer", int(ApiKey.API_VERSIONS)
    lost = next(seed for seed in count(1) if (drawn := Chaos(seed, 0.1).drawn(client, api, 1)) and drawn.drop)
    pytester.makepyfile(f"""
        import pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        @pytest.mark.kafka_chaos(seeds=[{lost}, {lost}], rate=0.1)
        async def test_a_record_is_sent(kafka_broker, kafka_topic, aiokafka_producer):
            await aiokafka_producer.send_and_wait(kafka_topic, b"1")
            assert len(kafka_broker.requests("ApiVersions", client_id="{client}")) > 1
    """)
    pytester.runpytest("-p", "anyio").assert_outcomes(passed=1)


def test_a_failure_that_is_not_of_the_chaos_is_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.kafka_chaos
        def test_quiet(kafka_broker):
            assert kafka_broker.topics() == [1]
    """)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["seed 1 at rate 0.05 failed though no request met a fault: *"])


def test_chaos_in_a_cluster_names_the_broker(pytester: pytest.Pytester) -> None:
    create = 'kafka_cluster.create_topic("orders", 1, replication_factor=1)'
    program = SHOP.format(seeds="[5], shrink_runs=4", config={}, fixture="kafka_cluster", create=create)
    pytester.makepyfile(
        program.replace(
            "    made = []", "    pytestmark = pytest.mark.kafka_cluster(brokers=2, in_process=True)\n    made = []"
        )
    )
    result = pytester.runpytest()
    result.stdout.re_match_lines(
        [r"    kafka_cluster\.faults\.on\([12]\)\.add\(client_id=\"shop\", api=\"Produce\", .*"]
    )
    result.assert_outcomes(failed=1, passed=1)


def test_no_run_meets_the_clients_of_a_failure_before_it_and_no_other_failure_is_taken_for_it(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("""
        import pytest
        import weakref
        from confluent_kafka import Producer

        class Client:
            def __init__(self, servers):
                self.producer = Producer({"bootstrap.servers": servers, "client.id": "shop", "retries": 0})
                self.itself = self

            def send(self):
                told = []
                self.producer.produce("orders", "1", partition=0, on_delivery=lambda error, _: told.append(error))
                assert self.producer.flush(30) == 0
                return told[0]

        clients, runs = weakref.WeakSet(), []

        @pytest.mark.kafka(topics=["orders"])
        @pytest.mark.kafka_chaos(seeds=20, rate=0.2, shrink_runs=20)
        def test_orders(kafka_broker):
            assert not clients  # of a run before
            client = Client(kafka_broker.bootstrap_servers)
            clients.add(client)
            runs.append(1)
            errors = [client.send() for _ in range(6)]
            print("met", [error and error.name() for error in errors])
            assert not errors[0], "the first"
            assert not any(errors), "a later one"
    """)
    result = pytester.runpytest_subprocess()  # that no client of other tests is in
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"seed \d+ at rate 0.2 failed; 1 of \d+ faults is enough \(\d+ runs\):"])


def test_mistakes_in_a_marker_of_chaos_fail_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        import unittest

        @pytest.mark.kafka_chaos(seed=3)
        def test_argument(kafka_broker): pass

        @pytest.mark.kafka_chaos(rate=2)
        def test_rate(kafka_broker): pass

        @pytest.mark.kafka_chaos
        def test_fixture(): pass
    """)
    result = pytester.runpytest()
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "*kafka_chaos: unknown argument seed; it takes seeds, rate, *",
            "*kafka_chaos: rate is a share of all requests*",
            "*kafka_chaos: the test has neither kafka_broker nor kafka_cluster*",
        ]
    )


def test_a_mistake_in_a_fixture_of_a_wider_scope_is_told_after_chaos(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        from confluent_kafka.admin import AdminClient

        @pytest.fixture(scope="module")
        def ended():
            yield
            raise RuntimeError("at the end")

        @pytest.mark.kafka_chaos(seeds=2)
        def test_quiet(ended, kafka_broker):
            AdminClient(kafka_broker.client_config("confluent")).list_topics(timeout=30)
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*RuntimeError: at the end"])


# -- recordings


def test_a_failed_test_leaves_its_recording(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        from confluent_kafka import Producer

        @pytest.mark.kafka(topics=["orders"])
        @pytest.mark.parametrize("right", [True, False])
        def test_it(kafka_broker, right):
            producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
            producer.produce("orders", "paid")
            assert producer.flush(20) == 0
            assert right
    """)
    result = pytester.runpytest("--kafka-record=recorded")
    result.assert_outcomes(passed=1, failed=1)
    (path,) = (pytester.path / "recorded").iterdir()
    result.stdout.re_match_lines([rf"\d+ requests: pykafka-broker replay recorded/{path.name}"])
    assert main(["replay", str(path)]) == 0


def test_the_recording_of_a_test_under_chaos_has_its_faults(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHOP.format(seeds=20, config={}, **BROKER))
    pytester.runpytest("--kafka-record=recorded", "-k", "orders").assert_outcomes(failed=1)
    (path,) = (pytester.path / "recorded").iterdir()
    calls = [line for line in path.read_text().splitlines() if line.startswith('{"call"')]
    assert any('"target": "/faults"' in line and "nth" in line for line in calls)


# -- trouble for a cluster


STALE_LEADER = """
    import time

    import pytest

    from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
    from tests.broker.support import batch
    from tests.control.api.test_faults import Client

    @pytest.mark.kafka_cluster(brokers={brokers})
    {chaos}
    def test_all_orders_are_written(kafka_cluster):
        kafka_cluster.create_topic("orders", 1, {{"min.insync.replicas": 1}})
        kafka_cluster.move_leader("orders", 1)
        {lines}
        leader = Client(kafka_cluster.broker(1), "shop")  # the mistake: it never looks for another leader
        count, until = 0, time.monotonic() + {seconds}
        while time.monotonic() < until:
            order = PartitionProduceData(0, bytes(batch(b"%d" % count)))
            orders = TopicProduceData(name="orders", partition_data=[order])
            try:
                leader.ask(ProduceRequest(None, 1, 30_000, [orders]), 9)
            except OSError:
                pass
            count += 1
            time.sleep(0.01)
        leader.close()
        kafka_cluster.calm()
        assert len(kafka_cluster.records("orders")) == count
"""


@pytest.mark.whole
@pytest.mark.parametrize(
    ("brokers", "seconds", "seeds", "more"),
    [
        pytest.param(1, 2, [75, 38], 'trouble=["kill", "pause"], mean_ms=50', id="one broker"),
        # a pause of two followers and a cut before the kill of the leader
        pytest.param(
            *(3, 5, [263, 567, 1447], 'trouble=["kill", "pause", "partition"], mean_ms=150, most_down=3'),
            id="three brokers",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_trouble_of_a_cluster_is_cut_down_to_lines_that_make_it_fail_again(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    brokers: int,
    seconds: int,
    seeds: list[int],
    more: str,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    given = {"brokers": brokers, "seconds": seconds}
    chaos = f"@pytest.mark.kafka_chaos(seeds={seeds}, rate=0, {more}, shrink_runs=12)"
    pytester.makepyfile(STALE_LEADER.format(chaos=chaos, lines="", **given))
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"seed \d+ with trouble failed; \d+ of \d+ faults (is|are) enough \(\d+ runs\):",
            r'    kafka_cluster\.befall\("kill", 1, after_ms=\d+, for_ms=\d+\)',
            rf"the same chaos: .*\(seeds=\[\d+\], rate=0, {re.escape(more)}\)",
        ]
    )
    result.stdout.no_fnmatch_line("*BrokerError*")
    lines = [line.strip() for line in result.stdout.lines if line.startswith("    kafka_cluster.befall(")]
    assert 1 <= len(lines) <= 3
    pytester.makepyfile(STALE_LEADER.format(chaos="", lines="; ".join(lines), **given))
    pytester.runpytest().assert_outcomes(failed=1)


def test_calm_ends_the_trouble_of_a_mark(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import time

        import pytest
        from confluent_kafka import Producer

        @pytest.mark.kafka_cluster(brokers=1)
        @pytest.mark.kafka_chaos(seeds=1, rate=0, trouble=["kill"], mean_ms=50)
        def test_orders(kafka_cluster):
            producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "log_level": 0})
            producer.produce("orders", b"apples")
            producer.flush(30)
            kafka_cluster.calm()
            until = time.monotonic() + 1
            while time.monotonic() < until:
                assert kafka_cluster.broker(1).running
                time.sleep(0.01)
    """)
    pytester.runpytest().assert_outcomes(passed=1)


def test_trouble_needs_a_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.kafka_chaos(trouble=["kill"])
        def test_broker(kafka_broker): pass

        @pytest.mark.kafka_chaos(trouble=["flood"])
        def test_kind(kafka_cluster): pass
    """)
    result = pytester.runpytest()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["*trouble is for the brokers of a kafka_cluster*", "*there is no trouble flood: there are kill, *"]
    )
