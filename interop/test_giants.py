"""Large requests that are legal, and batches that unpack to gigabytes: whoever sends them, another client is
served meanwhile, and memory stays bounded. With --slow every array of every API.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import pytest

from interop.answers.requests import create, new_topic
from interop.bombs import bombs
from interop.conftest import NewBroker
from interop.giants import PARTITIONS, TOPIC, Giant, GiantMaker, many_tags
from interop.processes import process_at, resident_mb
from interop.raw import RawClient
from interop.targets import Target
from interop.witness import Seen, send_giant

pytestmark = [pytest.mark.ours_only, pytest.mark.one_broker("it weighs the one that leads all")]

# The broker's own limits are 0.1 s and 106 MB; a test on a busy machine has to leave some room.
OTHERS_WAIT_S = 0.5
PEAK_MB = 150
AFTERWARDS_MB = 400
TRIES = 3


@pytest.fixture
def broker(new_broker: NewBroker) -> Iterator[Target]:
    """Names that are made up make no topics, and who joins a group need not wait for others."""
    running = new_broker(auto_create_topics_enable="false", group_initial_rebalance_delay_ms=0)
    with RawClient(running.bootstrap_servers) as client:
        assert client.call(create(new_topic(TOPIC, PARTITIONS))).topics[0].error_code == 0
    yield running
    assert "Traceback" not in running.log_path.read_text(errors="replace")
    assert resident_mb(process_at(running.bootstrap_servers)) < AFTERWARDS_MB


def too_much(seen: Seen) -> bool:
    return seen.worst_s > OTHERS_WAIT_S or seen.peak_mb > PEAK_MB


def all_that_hold_others_up(where: str, giants: Iterable[Giant]) -> list[str]:
    """A busy machine holds somebody up now and then, a broker's fault is there each time."""
    found = []
    for giant in giants:
        for _ in range(TRIES):
            seen = send_giant(where, giant)
            if not too_much(seen):
                break
        else:
            found.append(str(seen))
    return found


@pytest.mark.timeout(3600)
def test_nobody_waits_for_a_giant(broker: Target, slow: bool) -> None:
    maker = GiantMaker(broker.bootstrap_servers)
    giants = chain(maker.all() if slow else maker.biggest(), [many_tags()])
    found = all_that_hold_others_up(broker.bootstrap_servers, giants)
    assert not found, "\n".join([f"{len(found)} hold others up:", *found])


def test_nobody_waits_for_a_bomb(broker: Target) -> None:
    found = all_that_hold_others_up(broker.bootstrap_servers, bombs())
    assert not found, "\n".join([f"{len(found)} hold others up:", *found])
