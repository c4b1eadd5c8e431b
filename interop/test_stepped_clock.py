"""The wall clock is set under a running broker, forward and back: records get the new time, and waits still end."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.answers.requests import BY_NAME, create, fetch, fetch_topic, new_topic, produce
from interop.batches import batch
from interop.raw import RawClient
from interop.stepped_broker import SteppedBroker

pytestmark = pytest.mark.ours_only

STEPS_MINUTES = [25, -25, 0]
SLACK_S = 100
WAIT_S = 1


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SteppedBroker]:
    with SteppedBroker({}, tmp_path / "data", tmp_path / "clock-step") as running:
        yield running


def test_the_broker_tells_the_time_that_was_set(broker: SteppedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        stamped = new_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
        assert client.call(create(stamped)).topics[0].error_code == 0
        for minutes in STEPS_MINUTES:
            broker.set_clock(minutes)
            [told] = client.call(produce("stamped", batch(b"now")), BY_NAME).responses[0].partition_responses
            assert told.log_append_time_ms / 1_000 == pytest.approx(time.time() + minutes * 60, abs=SLACK_S)


@pytest.mark.parametrize("minutes", [25, -25])
def test_a_fetch_waits_as_long_as_it_asked_to(broker: SteppedBroker, minutes: int) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        assert client.call(create(new_topic("empty"))).topics[0].error_code == 0
        begin = time.monotonic()
        client.send(fetch([fetch_topic("empty")], max_wait_ms=WAIT_S * 1_000, min_bytes=1), BY_NAME)
        time.sleep(WAIT_S / 2)
        broker.set_clock(minutes)
        client.receive()
        assert WAIT_S * 0.9 < time.monotonic() - begin < WAIT_S + SLACK_S
