"""Thirty thousand damaged requests (a hundred thousand with --slow), and the broker serves on."""

import pytest

from interop.answers.requests import BY_NAME, create, fetch, fetch_topic, new_topic, produce
from interop.batches import batch, records
from interop.conftest import NewBroker
from interop.fuzz import Fuzzer, whole_requests
from interop.processes import process_at, resident_mb
from interop.raw import RawClient, leader_of

SEED = 20_261_121
COUNT, SLOW_COUNT = 30_000, 100_000


@pytest.mark.ours_only
def test_damaged_requests(new_broker: NewBroker, slow: bool) -> None:
    broker, count = new_broker(), SLOW_COUNT if slow else COUNT
    whole = whole_requests(broker.bootstrap_servers, SEED)
    tally = Fuzzer(broker.bootstrap_servers, whole, count, SEED).run()
    assert not tally.stumbled, f"{len(tally.stumbled)} stumbled: {tally.stumbled[:5]}"
    assert "Traceback" not in broker.log_path.read_text(errors="replace")
    assert tally.answered > count / 10
    assert tally.answered + tally.hung_up + tally.silent == count
    assert resident_mb(process_at(broker.bootstrap_servers)) < 500
    with RawClient(broker.bootstrap_servers) as client:
        assert client.call(create(new_topic("afterwards"))).topics[0].error_code == 0
    with RawClient(leader_of(broker.bootstrap_servers, "afterwards")) as client:
        client.call(produce("afterwards", batch(b"still", b"here")), BY_NAME)
        [partition] = client.call(fetch([fetch_topic("afterwards")]), BY_NAME).responses[0].partitions
        assert [r.value for r in records(partition.records)] == [b"still", b"here"]
