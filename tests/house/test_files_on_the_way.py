"""The number of hand-written files that a request passes in the broker.

Rule: a file counts when one of its functions runs. A request is measured after others of its kind, when imports and
first uses are over. Generated messages do not count, nor do three files of `server/` before the router (`event_loop`,
`channel`, `connection`). The numbers may fall and never grow: a reader follows a request through a handful
of files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pykafka_broker
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.runtime import Message
from tests.broker.api.real_broker import RealBroker
from tests.broker.frames import framed
from tests.broker.replication.replicating import Cluster
from tests.broker.support import batch
from tests.coordinators.steps import garbage_kept

HEARTBEAT, PRODUCE, REPLICATION = 12, 13, 11
PACKAGE = Path(pykafka_broker.__file__).parent
GENERATED = PACKAGE / "protocol" / "messages"


@pytest.fixture(autouse=True)
def without_invariants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the assertions of `tests/invariants.py` from the methods, since they run functions of their own."""
    for owner in (PartitionLog, Partition):
        for name, method in list(vars(owner).items()):
            if hasattr(method, "__wrapped__"):
                monkeypatch.setattr(owner, name, method.__wrapped__)


def files_of(call: Callable[[], object]) -> set[str]:
    """Return the files of the package with a function that runs within the call."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    with garbage_kept():
        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(before)
    paths = [Path(name) for name in seen if name.startswith(str(PACKAGE))]
    return {str(path.relative_to(PACKAGE)) for path in paths if path.parent != GENERATED}


def passed(broker: RealBroker, request: Message, version: int) -> set[str]:
    """Return the files that the request passes, from the router to the encoded answer."""
    frame = framed(request, version)
    broker.broker.clock.set(broker.now)
    return files_of(lambda: broker.broker.router.dispatch(broker.connection, frame))


def test_a_heartbeat_of_a_consumer_group(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path)
    broker.call(FindCoordinatorRequest(key="g"), 2)
    joining = ConsumerGroupHeartbeatRequest(
        "g", "m", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    joined = broker.call(joining, 1)
    beat = ConsumerGroupHeartbeatRequest("g", "m", joined.member_epoch)
    assert broker.call(beat, 1).error_code == 0
    files = passed(broker, beat, 1)
    assert "coordinators/groups/consumer.py" in files
    assert len(files) <= HEARTBEAT, sorted(files)


def test_a_produce_of_one_batch(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path)
    broker.call(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 5)

    def produce() -> ProduceRequest:
        data = PartitionProduceData(0, bytes(batch(b"v")))
        return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData("t", partition_data=[data])])

    broker.call(produce(), 9)
    files = passed(broker, produce(), 9)
    assert "log/segment.py" in files
    assert len(files) <= PRODUCE, sorted(files)


def test_records_that_a_follower_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the files from the leader's answer to the follower's log."""
    cluster = Cluster(tmp_path, 2)
    files: list[set[str]] = []
    step = cluster.network.step

    def measured() -> None:
        sent = cluster.network.sent[0]
        if isinstance(sent.request, FetchRequest):

            def on_reply(answer: Any) -> None:
                files.append(files_of(lambda: sent.on_reply(answer)))

            cluster.network.sent[0] = sent._replace(on_reply=on_reply)
        step()

    monkeypatch.setattr(cluster.network, "step", measured)
    cluster.topic(1, 2)
    for _ in range(2):
        files.clear()
        cluster.produce()
        cluster.settle()
    assert cluster.ends() == [(2, 2)] * 2
    most = max(files, key=len)
    assert "log/segment.py" in most
    assert len(most) <= REPLICATION, sorted(most)
