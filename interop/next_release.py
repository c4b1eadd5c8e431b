"""Kafka's part of the talk about the next release: `python -m interop.next_release` records it."""

from __future__ import annotations

import json
import time

from interop.jars import NEXT_VERSION
from interop.raw import RawClient
from interop.real_kafka import RealKafka
from tests.broker.api.next_release import RECORDED, Talk

SETTINGS = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}
SETTLED_S = 3.0


def main() -> None:
    with RealKafka(SETTINGS, release=NEXT_VERSION) as kafka, RawClient(kafka.bootstrap_servers) as client:
        told = Talk(client.call, lambda: time.sleep(SETTLED_S)).play()
    lines = [f"{json.dumps(asked)}: {json.dumps(answer)}" for asked, answer in told.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
