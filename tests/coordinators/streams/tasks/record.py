"""Compare who gets which task, in a running Apache Kafka and in this broker, and record some of it.

python -m tests.coordinators.streams.tasks.record                    record anew
python -m tests.coordinators.streams.tasks.record FIRST LAST         compare the histories of these seeds
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from interop.raw import RawClient
from interop.real_kafka import RealKafka
from tests.coordinators.streams.tasks.histories import CONFIG, Json, Player, configure, history, make_ready
from tests.scenarios.groups.local import LocalWorld

RECORDED = Path(__file__).with_name("recorded.json")
SEEDS = (*range(1, 31), 1592, 30290)  # processes with a copy are passed by; a static member returns with offsets
NEWS_S = 1.0  # until the group coordinator of Kafka has heard of configs
Told = list[list[str]]


def ours(directory: Path) -> Callable[[Any, int], Any]:
    """Return a way to ask this broker, in this process."""
    wire = LocalWorld(directory, "ours", CONFIG).connect("client")

    def ask(request: Any, version: int) -> Any:
        wire.send(request, version)
        return wire.receive()

    return ask


def play(ask: Callable[[Any, int], Any], histories: Iterable[Json], news_s: float = 0.0) -> list[Told]:
    make_ready(ask)
    for each in histories:
        configure(each, ask)
    time.sleep(news_s)
    return [Player(each, ask).play() for each in histories]


def compare(first: int, last: int) -> int:
    """Print the first difference of each history; return how many differ."""
    histories = [history(seed) for seed in range(first, last)]
    with RealKafka(CONFIG) as kafka, RawClient(kafka.bootstrap_servers) as client:
        theirs = play(client.call, histories, NEWS_S)
    with tempfile.TemporaryDirectory() as directory:
        found = play(ours(Path(directory)), histories)
    differ = 0
    for each, told, expected in zip(histories, found, theirs, strict=True):
        differ += told != expected
        for step, one, other in zip(each["steps"], told, expected, strict=True):
            if one != other:
                print(f"{each['seed']} {step}\n  ours   {one}\n  theirs {other}")
                break
    steps = sum(len(each["steps"]) for each in histories)
    print(f"{len(histories) - differ} of {len(histories)} histories with {steps} steps are alike")
    return differ


def record() -> None:
    histories = [history(seed) for seed in SEEDS]
    with RealKafka(CONFIG) as kafka, RawClient(kafka.bootstrap_servers) as client:
        told = play(client.call, histories, NEWS_S)
    lines = [json.dumps(each | {"told": one}) for each, one in zip(histories, told, strict=True)]
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(bool(compare(*map(int, sys.argv[1:3]))))
    record()
