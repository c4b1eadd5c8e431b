"""A recorded run played again, on a broker of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pykafka_broker.control.history.findings import Finding
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.recording import read_recording
from pykafka_broker.testing.replay import Difference, RecordingPlayer
from pykafka_broker.testing.replay_targets import ControlledTarget


def places(found: list[Finding]) -> list[tuple[str, str, int, int]]:
    """Return anomalies with their places; times and addresses are others in another run."""
    return [(each.anomaly, each.topic, each.partition, each.offset) for each in found]


@contextmanager
def replayed(broker: KafkaBroker, path: Path) -> Iterator[tuple[KafkaBroker, list[Difference]]]:
    """Yield a broker on which the recording of `broker` was played, with its history, and the answers that differ."""
    broker.save_recording(path)
    with path.open(encoding="utf-8") as file:
        recording = read_recording(file)
    with KafkaBroker(history=True) as target:
        player = RecordingPlayer(recording, ControlledTarget(target.control, target.host, target.port))
        asyncio.run(player.run())
        yield target, player.differences
