"""Kafka's part of the talk about the newest release: `python -m interop.newest_release` records it."""

from __future__ import annotations

import json
import time

from interop.raw import RawClient
from interop.real_kafka import RealKafka
from tests.broker.api.newest_release import RECORDED, Talk
from tests.releases.other import NEWEST_VERSION

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.consumer.max.size": "1",
}
SETTLED_S = 3.0


def main() -> None:
    with RealKafka(SETTINGS, release=NEWEST_VERSION) as kafka, RawClient(kafka.bootstrap_servers) as client:
        told = Talk(client.call, lambda: time.sleep(SETTLED_S)).play()
    lines = [f"{json.dumps(asked)}: {json.dumps(answer)}" for asked, answer in told.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
