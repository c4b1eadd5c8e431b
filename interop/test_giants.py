"""Large legal requests, and batches that unpack to gigabytes: another client is served meanwhile, and memory stays
bounded. With --slow the requests fill every array of every API.
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

# The broker's own limits are 0.25 s of CPU time and 106 MB; other machines are slower.
OTHERS_WAIT_S = 0.5
PEAK_MB = 150
AFTERWARDS_MB = 400


@pytest.fixture
def broker(new_broker: NewBroker) -> Iterator[Target]:
    """A broker that creates no topics by itself, and where a new group does not wait for further members."""
    running = new_broker(auto_create_topics_enable="false", group_initial_rebalance_delay_ms=0)
    with RawClient(running.bootstrap_servers) as client:
        assert client.call(create(new_topic(TOPIC, PARTITIONS))).topics[0].error_code == 0
    yield running
    assert "Traceback" not in running.log_path.read_text(errors="replace")
    assert resident_mb(process_at(running.bootstrap_servers)) < AFTERWARDS_MB


def too_much(seen: Seen) -> bool:
    return seen.worst_s > OTHERS_WAIT_S or seen.peak_mb > PEAK_MB


def all_that_hold_others_up(where: str, giants: Iterable[Giant]) -> list[str]:
    seen = (send_giant(where, giant) for giant in giants)
    return [str(each) for each in seen if too_much(each)]


@pytest.mark.timeout(3600)
def test_nobody_waits_for_a_giant(broker: Target, slow: bool) -> None:
    maker = GiantMaker(broker.bootstrap_servers)
    giants = chain(maker.all() if slow else maker.biggest(), [many_tags()])
    found = all_that_hold_others_up(broker.bootstrap_servers, giants)
    assert not found, "\n".join([f"{len(found)} hold others up:", *found])


def test_nobody_waits_for_a_bomb(broker: Target) -> None:
    found = all_that_hold_others_up(broker.bootstrap_servers, bombs())
    assert not found, "\n".join([f"{len(found)} hold others up:", *found])
