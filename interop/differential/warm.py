"""Before the first sequence. Rule: a real Kafka makes its internal topics when it is first asked, and takes a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from interop.differential.making.maker import Versions
from interop.raw import RawClient
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from pykafka_broker.protocol.runtime import uuid_text

WARM_FOR_S = 20
KAFKA_4_FETCHES_FROM = 4
GROUP, TRANSACTION, SHARE = 0, 1, 2
ENOUGH = [f"warm-{i}" for i in range(12)]  # some in each partition of the internal topics


def warm_up(bootstrap_servers: str) -> None:
    with RawClient(bootstrap_servers) as client:
        for kind in (GROUP, TRANSACTION, SHARE):
            _until(partial(_coordinators, client, kind))
        _until(lambda: client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(g) for g in ENOUGH]), 8).groups)
        for name in (*ENOUGH, None):
            _until(partial(_producer_id, client, name))


def _coordinators(client: RawClient, kind: int) -> list[Any]:
    keys = [f"{name}:{uuid_text(b'1' * 16)}:0" for name in ENOUGH] if kind == SHARE else ENOUGH
    return list(client.call(FindCoordinatorRequest("", kind, keys), 6).coordinators)


def _producer_id(client: RawClient, transactional_id: str | None) -> list[Any]:
    return [client.call(InitProducerIdRequest(transactional_id, 1000), 4)]


def _until(ask: Callable[[], list[Any]]) -> None:
    """Until nothing in the answer has an error any more."""
    until = time.monotonic() + WARM_FOR_S
    while any(item.error_code for item in ask()):
        if time.monotonic() > until:
            raise TimeoutError("the coordinators do not come up")
        time.sleep(0.1)


def offered(*addresses: str) -> Versions:
    """The versions that all of them serve."""
    found: dict[str, tuple[int, int]] = {}
    for address in addresses:
        with RawClient(address) as client:
            keys = client.call(ApiVersionsRequest("differential", "1"), 3).api_keys
        one = {SPECS[k.api_key].name: (k.min_version, k.max_version) for k in keys if k.api_key in SPECS}
        found = (
            {n: (max(v[0], found[n][0]), min(v[1], found[n][1])) for n, v in one.items() if n in found}
            if found
            else one
        )
    if found["Fetch"][0] >= KAFKA_4_FETCHES_FROM:  # it says of older produce requests that it serves them, and hangs up
        found["Produce"] = (max(found["Produce"][0], 3), found["Produce"][1])
    return {name: versions for name, versions in found.items() if versions[0] <= versions[1]}
